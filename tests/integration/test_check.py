# SPDX-License-Identifier: GPL-3.0-or-later
"""`check` and `bundle` as a stranger tries them: on this machine, on hosts of ssh's configuration, as one file for any Python.

The sshds are real and of our own. What OpenSSH reads for a user is at home by the user list, so a wrapper names the configuration.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ssh_world import World, address

pytestmark = pytest.mark.xdist_group("check")
LIMIT = 300  # a net, not a measure
CPU_SECONDS, WALL_SECONDS = 2.0, 15.0
# Every Python that may be at hand here; the oldest is the floor.
PYENV = Path("~/.pyenv/versions").expanduser()
PYTHONS = sorted({sys.executable, *(str(path) for path in PYENV.glob("3.*/bin/python3")),
                  *(found for found in map(shutil.which, ("python3", "python3.6", "python3.8", "python3.10", "python3.12"))
                    if found and "shims" not in found)})  # pyenv's wrappers need its environment
ROOT_ALONE = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a mount namespace of its own")


def railwright(*argv: str, path: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "SSH_AUTH_SOCK": "", **environment}
    variables["PATH"] = path + variables["PATH"]
    return subprocess.run([sys.executable, "-m", "railwright", *argv], env=variables, capture_output=True, text=True, timeout=LIMIT,
                          check=False)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    """Two hosts, and the directory that comes first in PATH."""
    directory = tmp_path_factory.mktemp("check")
    with World(directory) as found:
        hosts = [address(1), address(2)]
        found.serve(hosts)
        found.wait(hosts)
        names = "".join(f"Host gpu{number}\n  HostName {host}\n" for number, host in enumerate(hosts))
        names += f"Host gone\n  HostName {address(3)}\nHost *\n  Port {found.port}\n  User nobody-of-that-name\n"
        names += f"  IdentityFile {directory}/client\n  IdentitiesOnly yes\n  UserKnownHostsFile {found.known_hosts}\n"
        (directory / "config").write_text(f"Host gpu1\n  User root\n{names}")
        (directory / "bin").mkdir()
        (directory / "bin/ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {directory}/config "$@"\n')
        (directory / "bin/ssh").chmod(0o755)
        yield found, f"{directory}/bin:"


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("emitted") / "check.pyz"
    done = railwright("check", "--emit", str(place))
    assert done.returncode == 0, done.stderr
    return place


def alone(python: str, file: Path, place: Path, *argv: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """In a directory with nothing in it, and nothing of ours in the environment."""
    variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(place), **environment}
    return subprocess.run([python, str(file), *argv], cwd=place, env=variables, capture_output=True, timeout=LIMIT, check=False)


def without_cursor(text: str) -> list[str]:
    assert text.replace("\n", "").isprintable()
    return text.splitlines()


def test_this_machine_in_one_screen_and_as_a_document() -> None:
    shown, document = railwright("check"), railwright("check", "--format", "json")
    assert shown.returncode == document.returncode, shown.stderr
    assert shown.stderr == ""
    lines = without_cursor(shown.stdout)
    found = json.loads(document.stdout)
    (name,) = found["nodes"]
    assert lines[0].startswith(f"{name}: ")
    assert len(lines) < 24
    assert max(map(len, lines)) < 80
    assert found["nodes"][name]["status"] == "ok"
    assert found["summary"]["exit_code"] == document.returncode


def test_hosts_of_ssh_configuration(world: tuple[World, str]) -> None:
    """A user before the host counts more than the configuration; who is gone, and who lets nobody in, have a word of their own."""
    _world, path = world
    done = railwright("check", "root@gpu0", "gpu1", "gone", "gpu0", "--format", "json", path=path)
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == found["summary"]["exit_code"] == 3
    assert list(found["nodes"]) == ["root@gpu0", "gpu1", "gone", "gpu0"]
    assert {name: node["status"] for name, node in found["nodes"].items()} == {
        "root@gpu0": "ok", "gpu1": "ok", "gone": "unreachable", "gpu0": "unreachable"}
    assert "refused; is sshd running there?" in found["nodes"]["gone"]["message"]
    assert "login as nobody-of-that-name" in found["nodes"]["gpu0"]["message"]
    here = json.loads(railwright("check", "--format", "json").stdout)
    (mine,) = here["nodes"].values()
    assert found["nodes"]["gpu1"]["overview"]["HCAs"] == mine["overview"]["HCAs"]

    def codes(document: dict[str, Any], name: str) -> list[tuple[str, str]]:
        return [(item["check"], item["status"]) for item in document["verdicts"] if item["node"] == name]

    assert codes(found, "gpu1") == codes(found, "root@gpu0") == codes(here, next(iter(here["nodes"])))


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: "_".join(Path(path).parts[-3:]))
def test_one_file_for_any_python(python: str, one_file: Path, tmp_path: Path) -> None:
    """No railwright there, no site-packages of ours; the same text and the same document as of the command line."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = alone(python, one_file, tmp_path, LC_ALL="C")
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert b"Traceback" not in done.stderr
    document = json.loads(alone(python, one_file, tmp_path, "--json").stdout)
    expected = json.loads(railwright("check", "--format", "json").stdout)
    assert [list(part) for part in (document, document["summary"])] == [list(part) for part in (expected, expected["summary"])]
    assert [(item["check"], item["status"]) for item in document["verdicts"]] == [
        (item["check"], item["status"]) for item in expected["verdicts"]]
    assert [node["overview"]["HCAs"] for node in document["nodes"].values()] == [
        node["overview"]["HCAs"] for node in expected["nodes"].values()]
    assert done.returncode == document["summary"]["exit_code"]
    assert len(without_cursor(done.stdout.decode())) < 24
    assert cpu < 2 * CPU_SECONDS, f"{python}: {cpu:.2f} s of CPU"  # other tests run beside this one
    assert wall < WALL_SECONDS + 10, f"{python}: {wall:.1f} s"
    assert list(tmp_path.iterdir()) == []


def test_the_file_says_how_it_is_called(one_file: Path, tmp_path: Path) -> None:
    usage = alone(sys.executable, one_file, tmp_path, "--help")
    wrong = alone(sys.executable, one_file, tmp_path, "--frobnicate")
    assert (usage.returncode, wrong.returncode) == (0, 64)
    assert usage.stdout == wrong.stdout
    assert b"--json" in usage.stdout


def test_a_bundle_of_a_host_is_judged_as_the_host(world: tuple[World, str], tmp_path: Path) -> None:
    _world, path = world
    target = tmp_path / "gpu1.tar.gz"
    done = railwright("bundle", "gpu1", "-o", str(target), path=path)
    assert done.returncode == 0, done.stderr
    assert target.stat().st_mode & 0o777 == 0o600
    with tarfile.open(target) as tar:
        assert {member.name.split("/")[0] for member in tar.getmembers()} == {"gpu1"}
    subprocess.run(("tar", "-xzf", str(target)), cwd=tmp_path, check=True)
    first = json.loads(railwright("check", "gpu1", "--format", "json", path=path).stdout)
    then = json.loads(railwright("check", "--sysroot", str(tmp_path / "gpu1"), "--format", "json").stdout)
    judged = [[(item["check"], item["hca"], item["subject"], item["status"], item["message"]) for item in document["verdicts"]]
              for document in (first, then)]
    assert judged[0] == judged[1]


def test_an_inventory_of_hosts_of_ssh_configuration(world: tuple[World, str], tmp_path: Path) -> None:
    """All of them or nothing; this machine's hardware is whatever it is, and lint takes it."""
    site = str(tmp_path / "site")
    done = railwright("init", site, "--from-facts", "gpu1", "gone", path=world[1])
    assert (done.returncode, done.stdout) == (3, "")
    assert "gone: unreachable: " in done.stderr
    assert done.stderr.endswith("nothing was written\n")
    assert list(tmp_path.iterdir()) == []
    done = railwright("init", site, "--from-facts", "gpu1", "root@gpu0", path=world[1])
    assert (done.returncode, done.stdout) == (0, f"{site}/hosts.yml\n{site}/group_vars/all/site.yml\n"), done.stderr
    assert "gpu0:\n          ansible_user: root  # jobs never run as root" in Path(site, "hosts.yml").read_text()
    done = railwright("lint", "-i", site)
    assert done.returncode == 0, done.stdout


def test_slurm_of_a_limit_is_asked_over_ssh(world: tuple[World, str], tmp_path: Path) -> None:
    """On the host that the inventory names, which has none here."""
    wishes = "rdma_fabric: infiniband, rdma_mtu: 4092, upgrade_scheduler_host: gpu1"
    (tmp_path / "hosts.yml").write_text(f"rdma: {{hosts: {{gpu1: }}, vars: {{{wishes}}}}}")
    for limit, said in (("slurm:job=4711", "squeue is not on this host"), ("slurm:state=drain", "sinfo is not on this host")):
        done = railwright("lint", "-i", str(tmp_path / "hosts.yml"), "--limit", limit, path=world[1])
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1)
        assert f"--limit {limit}: gpu1, where the scheduler is asked (upgrade_scheduler_host): {said}" in done.stderr


def test_a_bundle_of_a_host_that_is_gone(world: tuple[World, str], tmp_path: Path) -> None:
    done = railwright("bundle", "gone", "-o", str(tmp_path / "x.tar.gz"), path=world[1])
    assert done.returncode == 3
    assert "unreachable" in done.stderr
    assert list(tmp_path.iterdir()) == []


def in_place_of_ip(program: str, one_file: Path, place: Path) -> tuple[list[dict[str, Any]], float]:
    """What hangs where this machine's `ip` is another program, in a mount namespace of its own; and the seconds that it took."""
    (place / "ip").write_text(program)
    (place / "ip").chmod(0o755)
    tool = shutil.which("ip")
    assert tool is not None
    script = f"mount --bind {place}/ip $(readlink -f {tool}) && exec {sys.executable} {one_file} --json"
    begin = time.monotonic()
    done = subprocess.run(("unshare", "--mount", "sh", "-c", script), capture_output=True, timeout=LIMIT, check=False)
    return [item for item in json.loads(done.stdout)["verdicts"] if item["check"] == "node.hangs"], time.monotonic() - begin


@ROOT_ALONE
def test_a_command_that_hangs_is_the_finding_in_time(one_file: Path, tmp_path: Path) -> None:
    (found,), wall = in_place_of_ip("#!/bin/sh\nexec sleep 600\n", one_file, tmp_path)
    assert (found["status"], found["subject"]) == ("warn", "ip")
    assert "no answer in 5 s; it was ended" in found["message"]
    assert found["next"].startswith("ps ")
    assert wall < WALL_SECONDS + 10


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Path]:
    """A file system that is frozen: whoever writes to it waits in the kernel, and no signal reaches him (state D)."""
    image, place = tmp_path / "image", tmp_path / "frozen"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(("mkfs.ext4", "-q", str(image)), check=True)
    if subprocess.run(("mount", "-o", "loop", str(image), str(place)), capture_output=True, check=False).returncode != 0:
        pytest.skip("no loop device here")
    try:
        subprocess.run(("fsfreeze", "-f", str(place)), check=True)
        yield place
    finally:
        subprocess.run(("fsfreeze", "-u", str(place)), check=False)
        subprocess.run(("umount", "--lazy", str(place)), check=True)


@ROOT_ALONE
def test_a_child_that_nothing_ends_is_left_alone_and_named(one_file: Path, tmp_path: Path, frozen: Path) -> None:
    """As nvidia-smi on a lost GPU: SIGKILL waits until the device answers."""
    (found,), wall = in_place_of_ip(f"#!/bin/sh\nexec touch {frozen}/x\n", one_file, tmp_path)
    assert (found["status"], found["subject"]) == ("fail", "ip")
    named = re.search(r"SIGKILL does not end it: process ([0-9]+) is in state D \([a-z_0-9]+\)", found["message"])
    assert named is not None, found["message"]
    assert Path(f"/proc/{named[1]}/stat").read_text().split(") ")[1].startswith("D")
    assert wall < WALL_SECONDS + 10
