# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit that the role started manages a fabric of ibsim's.

Python sees no port: the simulation answers to programs that have libumad2sim alone. So nothing here judges what railwright reads of ports.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from cluster import Cluster

LOG = "/var/log/opensm.0x0000000000100001.log"
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
    """Its log says SUBNET UP too, but lies in opensm's own buffer until there is more of it (seen)."""
    until(lambda: master(manager) == "0x100001")
    assert "Entering MASTER state" in manager.out("cat", LOG)


def test_every_port_is_active_and_has_a_lid(manager: Any) -> None:
    links = re.findall(r"^ +(?:0x\w+ +)?(\d+) +\d+\[.*?\] ==\( .*?(Active/ +LinkUp|Initialize/ +LinkUp).*?\)==> +(\d+)",
                       simulated(manager, "iblinkinfo"), re.MULTILINE)
    assert len(links) == 16, "eight cables, seen from both ends"
    assert {state.split("/")[0] for _lid, state, _peer in links} == {"Active"}
    assert {lid for lid, _state, _peer in links} == {str(lid) for lid in range(1, 9)}, "eight nodes, each with a LID of its own"
    assert "State: Active" in simulated(manager, "ibstat")
    # The simulation carries no answer of several datagrams: the first record is all that comes.
    assert "node_guid...............0x0000000000100000" in simulated(manager, "saquery", "NR")
