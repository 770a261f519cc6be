# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/install.md as a new user follows it: the lines of each way, and no others, from nothing to bare machines that `site` has proven.

Each way begins in an empty home, with this machine's git, make, python3 and podman. All have one clone of the last commit: what is not
committed is not tried. Only the lab's disks stay, so that it starts from its snapshot. No image can be pulled where the tests run:
`debian:12` is one of mmdebstrap, whose pip looks into a directory of wheels.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
import repo
from install_page import ways
from lab_machine import Machine
from railwright import lab

HOME = repo.ROOT / "build" / "lab" / "test_three_ways"
LAB = HOME / ".local/state/railwright/lab"
NODES = ["node1", "node2"]
WAYS = ways()
BASE, IMAGE = "debian:12", "railwright-ee:lab"
PYTHON = "3.11"  # of Debian 12
# What ansible-builder itself installs in an image.
BUILDERS = ("bindep", "dumb-init==1.2.5", "packaging", "pyyaml")
CONTAINERFILE = """FROM {bare}
COPY wheels /srv/wheels
RUN printf '[global]\\nno-index = true\\nfind-links = /srv/wheels\\n' > /etc/pip.conf
"""
PASSED_ON = ("PIP_", "SSL_", "http", "no_proxy", "XDG_RUNTIME_DIR")  # how this machine reaches its index, and podman its sockets
SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SECONDS = 1500
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
RECAP = re.compile(r"^(\S+) +: ok=\d+ +changed=(\d+) +unreachable=(\d+) +failed=(\d+) ", re.MULTILINE)


def environment() -> dict[str, str]:
    """Of a user whose home is HOME. What is downloaded or built is looked for where this machine has it."""
    ours = harness.environment()
    places = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
              "XDG_DATA_HOME": os.environ.get("XDG_DATA_HOME", str(Path.home() / ".local/share")),
              "CONTAINERS_CONF": ours["CONTAINERS_CONF"], "PIP_CONSTRAINT": str(repo.ROOT / "constraints/dev.txt")}  # fmt: skip
    passed_on = {name: value for name, value in ours.items() if name.startswith(PASSED_ON)}
    return {**passed_on, **places, "HOME": str(HOME), "LANG": "C.UTF-8", "PATH": SEARCHED}


class Recap:
    """What a run of site printed, and its recap by node."""

    def __init__(self, printed: str) -> None:
        self.text = COLOUR.sub("", printed)
        rows = RECAP.findall(self.text)
        self.nodes = [name for name, *_ in rows]
        self.changed = [int(changed) for _, changed, *_ in rows]
        self.lost = [int(unreachable) + int(failed) for *_, unreachable, failed in rows]

    def proven(self) -> bool:
        """Of both nodes every verdict and every ping: nothing failed, nothing unknown."""
        (verdicts,) = re.findall(r"^verdicts: (.*)$", self.text, re.MULTILINE)
        assert re.fullmatch(r"[0-9]{2,} pass(, \d+ (warn|skipped))*", verdicts), verdicts
        return self.nodes == NODES and self.lost == [0, 0] and "rail0: 2 of 2 pings between nodes came back at full MTU" in self.text


def emptied_home() -> None:
    """HOME with nothing in it but the lab, which is stopped."""
    lab.down(state_dir=LAB)
    kept = HOME.with_name(f"{HOME.name}_lab")
    if LAB.is_dir():
        LAB.rename(kept)
    shutil.rmtree(HOME, ignore_errors=True)
    LAB.parent.mkdir(parents=True)
    if kept.is_dir():
        kept.rename(LAB)


class Place:
    """An empty home, and the checkout in which the lines are typed."""

    def __init__(self, checkout: Path) -> None:
        emptied_home()
        self.checkout = checkout

    def type(self, *lines: str) -> str:
        """One after the other, in one shell that ends at the first that fails; what they printed."""
        argv = ("bash", "-euxc", "\n".join(lines))
        done = subprocess.run(argv, cwd=self.checkout, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS)  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("clone") / "railwright"
    subprocess.run(("git", "clone", "--quiet", str(repo.ROOT), str(place)), check=True)
    return place


@pytest.fixture
def place(checkout: Path) -> Iterator[Place]:
    try:
        yield Place(checkout)
    finally:
        lab.down(state_dir=LAB)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[None]:
    """What `debian:12` is for podman while the test runs, where nobody has pulled the real one."""
    wheels = tmp_path / "base/wheels"
    needed = tomllib.loads(repo.text("pyproject.toml"))["project"]["dependencies"]
    argv = (sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--python-version", PYTHON,
            "--constraint", "constraints/dev.txt", "--dest", str(wheels))  # fmt: skip
    subprocess.run((*argv, *needed, *BUILDERS), cwd=repo.ROOT, check=True)
    (wheels.parent / "Containerfile").write_text(CONTAINERFILE.format(bare=harness.build(("ca-certificates",), base=())))
    harness.podman("build", "--quiet", "--tag", BASE, str(wheels.parent), timeout=SECONDS)
    # ansible-navigator asks for the directory, which a container that is a whole machine may lack.
    Path("/dev/mqueue").mkdir(exist_ok=True)
    try:
        yield
    finally:
        harness.podman("rmi", "--force", f"localhost/{IMAGE}", f"localhost/{BASE}", check=False)


@pytest.mark.parametrize("way", ["wheel", "collection"])
def test_its_lines_end_in_proven_machines(way: str, place: Place) -> None:
    lines = WAYS[way]
    first = Recap(place.type(*lines))
    assert first.proven()
    assert min(first.changed) > 0, "the machines were bare"
    assert "rxe" in Machine(LAB).run("rdma", "link", "show")
    again = Recap(place.type(lines[-1]))
    assert again.proven()
    assert again.changed == [0, 0]


def test_the_execution_environments_lines_do_too(place: Place, base: None) -> None:
    """By ansible-navigator, and then the second time by ansible-runner."""
    first = Recap(place.type(*WAYS["execution environment"]))
    assert first.proven()
    assert min(first.changed) > 0, "the machines were bare"
    again = Recap(place.type(*WAYS["ansible-runner"]))
    assert again.proven()
    assert again.changed == [0, 0]
    said = harness.podman("run", "--rm", IMAGE, "sh", "-c", "railwright --version; ansible-galaxy collection list").stdout
    assert re.search(r"^railwright\.rdma +[0-9.]+", said, re.MULTILINE), said
    assert "railwright 0" in said
