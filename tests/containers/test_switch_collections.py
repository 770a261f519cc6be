# SPDX-License-Identifier: GPL-3.0-or-later
"""``switch read`` through the real collections ansible.netcommon and arista.eos, which PyPI's `ansible` brings (50 MB), and a real ssh
library. The switches are doubles (tests/lib/eos_double.py): a CLI behind a real sshd, and an eAPI. Skipped where pip finds no such package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import pytest
import yaml

import switch_exports
from repo import ROOT
from ssh_world import WITH_US, World, address, free_port

BUNDLE = "ansible>=12,<13"  # of ansible-core 2.19
COLLECTIONS = ("ansible/netcommon", "ansible/utils", "arista/eos")
DOUBLE = ROOT / "tests" / "lib" / "eos_double.py"
HASH = "$6$saltOfASwitch"
# The collection takes such a line for an error, and then tells the whole configuration as its message.
BANNER = "banner login\n% Error: this is no error\nEOF\n"


class Site(NamedTuple):
    directory: Path
    inventory: Path
    environment: dict[str, str]

    def read(self, *options: str) -> subprocess.CompletedProcess[str]:
        argv = (sys.executable, "-m", "railwright", *options)
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=300, check=False)


def pip(*words: str) -> None:
    done = subprocess.run((sys.executable, "-m", "pip", *words), capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words[0], done.stderr[-2000:])


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the collections, and one with the library: no part of the environment that railwright runs in."""
    directory = tmp_path_factory.mktemp("packages")
    pip("download", "-q", "--no-deps", "-d", str(directory), BUNDLE)
    pip("install", "-q", "--only-binary", ":all:", "--target", str(directory / "library"), "ansible-pylibssh")
    [wheel] = directory.glob("ansible-*.whl")
    with ZipFile(wheel) as archive:
        wanted = tuple(f"ansible_collections/{name}/" for name in COLLECTIONS)
        archive.extractall(directory, [name for name in archive.namelist() if name.startswith(wanted)])
    return directory


@pytest.fixture(scope="module")
def site(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("switches")
    good = f"enable password sha512 {HASH}\n{switch_exports.eos()}"
    texts = {"leaf1": good, "banner": BANNER + good, "api": good}
    for name, text in texts.items():
        (directory / f"{name}.txt").write_text(text)
    port = free_port()
    with World(directory) as world:
        hosts: dict[str, dict[str, Any]] = {"gone": {"ansible_host": address(90)}}
        for number, name in enumerate(("leaf1", "banner"), 1):
            world.serve([address(number)], f"ForceCommand {sys.executable} {DOUBLE} {directory / name}.txt")
            hosts[name] = {"ansible_host": address(number)}
        world.wait(hosts[name]["ansible_host"] for name in ("leaf1", "banner"))
        over_api = {"ansible_connection": "ansible.netcommon.httpapi", "ansible_password": "by-password", "ansible_httpapi_port": port}
        hosts |= {"api": {"ansible_host": address(80), **over_api}}
        hosts |= {"deaf": {"ansible_host": address(81), **over_api}}
        ways = {"ansible_port": world.port, "ansible_user": "root", "ansible_connection": "ansible.netcommon.network_cli",
                "ansible_network_os": "arista.eos.eos", "ansible_ssh_private_key_file": str(directory / "client")}  # fmt: skip
        inventory = directory / "hosts.yml"
        rdma = {"hosts": {"n1": {}}, "vars": {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": []}}
        switches = {"hosts": hosts, "vars": ways}
        inventory.write_text(yaml.safe_dump({"all": {"children": {"rdma": rdma, "rdma_switches": switches}}}))
        # libssh of ansible.netcommon looks into the user's own known_hosts alone.
        environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(packages), "PYTHONPATH": str(packages / "library"),
                       "ANSIBLE_LIBSSH_HOST_KEY_AUTO_ADD": "True", "XDG_STATE_HOME": str(directory / "state"),
                       "HOME": str(directory)}  # fmt: skip
        with subprocess.Popen((*WITH_US, sys.executable, str(DOUBLE), str(directory / "api.txt"), address(80), str(port))) as api:
            yield Site(directory, inventory, environment)
            api.terminate()


def test_eos_is_read_over_its_cli_and_its_api(site: Site) -> None:
    output = site.directory / "exports"
    done = site.read("--debug", "switch", "read", "-i", str(site.inventory), "-o", str(output), "--format", "json", "-vvvv")
    rows = json.loads(done.stdout)["switches"]
    assert {name: row["status"] for name, row in rows.items()} == {
        "leaf1": "ok", "api": "ok", "banner": "failed", "gone": "unreachable", "deaf": "unreachable"}, rows  # fmt: skip
    assert done.returncode == 3
    assert "it may hold secrets" in rows["banner"]["message"]
    assert HASH not in done.stdout + done.stderr
    assert not [path for path in site.directory.rglob("*") if path.is_file() and path.parent not in (site.directory, output)
                and HASH in path.read_text(errors="replace")]  # fmt: skip
    for name in ("leaf1", "api"):
        assert (output / f"{name}.txt").read_text().strip() == (site.directory / f"{name}.txt").read_text().strip()
        asked = set((site.directory / f"{name}.asked").read_text().split("\n"))
        assert "show running-config" in asked
        assert not [command for command in asked if command and not command.startswith(("show ", "terminal "))], asked
    checked = site.read("switch", "check", "-i", str(site.inventory), "--os", "eos", str(output / "leaf1.txt"))
    assert (checked.returncode, "is broken on 0" in checked.stdout) == (0, True), checked.stdout + checked.stderr


def test_without_the_ssh_library_nobody_is_asked(site: Site) -> None:
    before = (site.directory / "leaf1.asked").read_text()
    bare = site._replace(environment={**site.environment, "PYTHONPATH": ""})
    done = bare.read("switch", "read", "-i", str(site.inventory), "-o", str(site.directory / "other"))
    assert (done.returncode, "pip install ansible-pylibssh" in done.stderr) == (64, True)
    assert (site.directory / "leaf1.asked").read_text() == before
