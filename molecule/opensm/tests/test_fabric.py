# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit that the role started manages a fabric of ibsim's, beside another subnet manager, and after it died.

Python sees no port: the simulation answers to programs that have libumad2sim alone. So nothing here judges what railwright reads of ports.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from cluster import Cluster
from playbook import Playbook

INSTANCE = "opensm@0x0000000000100001.service"
LOG = "/var/log/opensm.0x0000000000100001.log"
PRELOAD = "--setenv=LD_PRELOAD=/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
SECOND = ("systemd-run", "--unit=second", PRELOAD, "--setenv=SIM_HOST=node4", "--property=TimeoutStopSec=5",
          "opensm", "--priority", "15", "--log_file", "/var/log/second.log")
Until = Callable[[Callable[[], bool]], None]


@pytest.fixture(scope="module")
def manager(scenario: str) -> Any:
    return Cluster(scenario).container("node3")


def simulated(manager: Any, *argv: str) -> str:
    return str(manager.run("env", "SIM_HOST=node1", "timeout", "20", "ibsim-run", *argv, check=False).stdout)


def master(manager: Any) -> str:
    """The port GUID of the master, as a port asks for it."""
    found = re.search(r"sm guid (0x[0-9a-f]+), .* SMINFO_MASTER", simulated(manager, "sminfo"))
    return found[1] if found else ""


def test_the_role_brought_the_subnet_up(manager: Any, until: Until) -> None:
    until(lambda: "SUBNET UP" in manager.out("cat", LOG))
    assert "Entering MASTER state" in manager.out("cat", LOG)
    assert master(manager) == "0x100001"


def test_every_port_is_active_and_has_a_lid(manager: Any) -> None:
    links = re.findall(r"^ +(?:0x\w+ +)?(\d+) +\d+\[.*?\] ==\( .*?(Active/ +LinkUp|Initialize/ +LinkUp).*?\)==> +(\d+)",
                       simulated(manager, "iblinkinfo"), re.MULTILINE)
    assert len(links) == 16, "eight cables, seen from both ends"
    assert {state.split("/")[0] for _lid, state, _peer in links} == {"Active"}
    assert {lid for lid, _state, _peer in links} == {str(lid) for lid in range(1, 9)}, "eight nodes, each with a LID of its own"
    assert "State: Active" in simulated(manager, "ibstat")
    # The simulation carries no answer of several datagrams: the first record is all that comes.
    assert "node_guid...............0x0000000000100000" in simulated(manager, "saquery", "NR")


def test_one_with_a_higher_priority_takes_over_and_gives_back(manager: Any, until: Until) -> None:
    manager.run(*SECOND)
    try:
        until(lambda: master(manager) == "0x100007")
        until(lambda: "Entering STANDBY state" in manager.out("cat", LOG))
        assert manager.out("systemctl", "is-active", INSTANCE).strip() == "active", "it stands by"
    finally:
        manager.run("systemctl", "stop", "second.service")
    for _turn in range(2):  # it asks the master every 10 s, and believes the fifth silence
        if master(manager) != "0x100001":
            manager.run("sleep", "30")
    until(lambda: master(manager) == "0x100001")


def test_one_that_died_is_found_and_started_again(manager: Any, scenario: str, until: Until) -> None:
    manager.run("systemctl", "kill", "--signal=KILL", INSTANCE)
    until(lambda: bool(manager.run("systemctl", "is-active", INSTANCE, check=False).stdout.strip() == "failed"))
    assert manager.out("systemctl", "is-active", "opensm.service").strip() == "active", "Debian's unit does not notice"
    run = Playbook(scenario).run()
    assert {name: host.failed for name, host in run.items()} == {"node1": [], "node2": [], "node3": []}
    assert {name for name, host in run.items() if host.changed} == {"node3"}
    until(lambda: master(manager) == "0x100001")
    assert not any(host.changed for host in Playbook(scenario).run().values())
