# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches that are Linux, read over a real sshd each. In place of their programs `show` and `nv` are stand-ins, which know the one command
that reads, refuse any other, and write down what they were asked. The EOS way is in tests/containers/test_switch_collections.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import switch_exports
from ssh_world import World, address

pytestmark = [pytest.mark.xdist_group("switches"), pytest.mark.slow]

HASH = "$6$saltOfASwitch"
SITE = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": []}
SONIC, NVUE = "show runningconfiguration all", "nv config show -o json"
STANDIN = """#!/bin/sh
echo "${{0##*/}} $*" >> {log}
[ "${{0##*/}} $*" = "{command}" ] || {{ echo "Error: No such command" >&2; exit 2; }}
[ ! -t 1 ] || {{ echo "the terminal's pager"; exit 1; }}
{answers}
"""
# What a switch answers its command with, by name.
ANSWERS = {
    "leaf1": (SONIC, "cat {export}"), "leaf2": (NVUE, "cat {export}"), "leaf3": (SONIC, "echo permission denied >&2; exit 1"),
    "silent": (SONIC, "exit 0"), "endless": (SONIC, "exec yes '{\"a\": 1}'"), "talkative": (SONIC, "cat {export} >&2; exit 1"),
}


class Site(NamedTuple):
    directory: Path
    inventory: Path
    log: Path

    def read(self, output: str, *options: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        argv = (sys.executable, "-m", "railwright", "switch", "read", "-i", str(self.inventory), "-o", str(self.directory / output))
        environment = {**os.environ, "XDG_STATE_HOME": str(self.directory / "state"), "TMPDIR": str(self.directory / "tmp")}
        return subprocess.run((*argv, *options), env=environment, capture_output=True, text=True, timeout=300, check=False)

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()

    def written(self, output: str) -> dict[str, int]:
        return {path.name: path.stat().st_mode & 0o777 for path in sorted((self.directory / output).iterdir())}


def exports() -> dict[str, Any]:
    """sonic-utilities adds the routing daemon's own configuration as ``bgpraw``."""
    sonic, nvue = switch_exports.sonic(), switch_exports.nvue()["list"]
    sonic |= {"TACPLUS": {"global": {"passkey": HASH}}, "bgpraw": f"router bgp 65001\n neighbor x password {HASH}\n"}
    return {"leaf1": sonic, "leaf2": nvue, "talkative": sonic}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("switches")
    (directory / "tmp").mkdir()
    found = Site(directory, directory / "hosts.yml", directory / "asked")
    hosts: dict[str, dict[str, str]] = {}
    with World(directory) as world:
        for number, (name, (command, answers)) in enumerate(ANSWERS.items(), 1):
            export, programs = directory / f"{name}.export", directory / f"bin-{name}"
            export.write_text(json.dumps(exports().get(name)))
            programs.mkdir()
            program = programs / command.partition(" ")[0]
            program.write_text(STANDIN.format(log=found.log, command=command, answers=answers.replace("{export}", str(export))))
            program.chmod(0o755)
            shell = directory / f"shell-{name}"
            shell.write_text(f'#!/bin/sh\nPATH={programs}:/usr/bin:/bin exec sh -c "$SSH_ORIGINAL_COMMAND"\n')
            shell.chmod(0o755)
            world.serve([address(number)], f"ForceCommand {shell}")
            hosts[name] = {"ansible_host": address(number), "ansible_network_os": "sonic" if command == SONIC else "nvidia.nvue.httpapi"}
        world.wait(host["ansible_host"] for host in hosts.values())
        hosts["gone"] = {"ansible_host": address(99), "ansible_network_os": "sonic"}
        ways = {"ansible_port": world.port, "ansible_user": "root", "ansible_ssh_private_key_file": str(directory / "client"),
                "ansible_ssh_common_args": f"-F none -o UserKnownHostsFile={world.known_hosts} -o IdentitiesOnly=yes",
                "ansible_connection": "ssh"}  # fmt: skip
        switches = {"hosts": hosts, "vars": ways}
        rdma = {"hosts": {"n1": {"ansible_host": address(98)}}, "vars": SITE}
        found.inventory.write_text(yaml.safe_dump({"all": {"children": {"rdma": rdma, "rdma_switches": switches}}}))
        yield found


@pytest.fixture(scope="module")
def first(site: Site) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    return site.read("exports", "--format", "json", "--debug"), site.asked()


def test_each_is_read_whatever_becomes_of_the_others(site: Site, first: tuple[subprocess.CompletedProcess[str], list[str]]) -> None:
    done, asked = first
    assert done.returncode == 3, done.stderr
    rows = json.loads(done.stdout)["switches"]
    assert {name: row["status"] for name, row in rows.items()} == {
        "leaf1": "ok", "leaf2": "ok", "leaf3": "failed", "silent": "failed", "endless": "failed", "talkative": "failed",
        "gone": "unreachable"}  # fmt: skip
    assert rows["leaf3"]["message"] == f"{SONIC}: permission denied"
    assert rows["silent"]["message"] == f"{SONIC}: it answered nothing"
    assert "more than 32 MiB" in rows["endless"]["message"]
    assert site.written("exports") == {"leaf1.json": 0o600, "leaf2.json": 0o600}
    assert (site.directory / "exports").stat().st_mode & 0o777 == 0o700
    assert json.loads((site.directory / "exports" / "leaf1.json").read_text()) == exports()["leaf1"]
    assert sorted(asked) == [NVUE, *[SONIC] * (len(ANSWERS) - 1)], "nothing else was asked of anybody"


def test_no_secret_is_anywhere_but_in_its_file(site: Site, first: tuple[subprocess.CompletedProcess[str], list[str]]) -> None:
    done, _asked = first
    assert HASH not in done.stdout + done.stderr
    assert "hold secrets" in json.loads(done.stdout)["switches"]["talkative"]["message"]
    places = [path for name in ("state", "tmp", "exports") for path in (site.directory / name).rglob("*") if path.is_file()]
    assert [path.name for path in places if HASH in path.read_text(errors="replace")] == ["leaf1.json"]


def test_what_is_there_stays_unless_told(site: Site) -> None:
    (site.directory / "kept").mkdir()
    (site.directory / "kept" / "leaf1.json").write_text("mine")
    done = site.read("kept", "--limit", "leaf1")
    assert (done.returncode, site.asked(), (site.directory / "kept" / "leaf1.json").read_text()) == (64, [], "mine")
    assert "leaf1.json exists already; allowed: --overwrite" in done.stderr
    done = site.read("kept", "--limit", "leaf1,leaf2", "--overwrite")
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["leaf1", "ok"])
    assert site.written("kept") == {"leaf1.json": 0o600, "leaf2.json": 0o600}
    for os_name, leaf in (("sonic", "leaf1"), ("nvue", "leaf2")):
        argv = ("switch", "check", "-i", str(site.inventory), "--os", os_name, str(site.directory / "kept" / f"{leaf}.json"))
        checked = subprocess.run((sys.executable, "-m", "railwright", *argv), capture_output=True, text=True, check=False)
        assert (checked.returncode, "is broken on 0" in checked.stdout) == (0, True), checked.stdout + checked.stderr
