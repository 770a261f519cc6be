# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command line reads on the machines. That nothing is left to do, and real traffic, are in test_3 and test_4."""

from __future__ import annotations

from typing import Any


def test_facts_see_the_fabric(railwright: Any) -> None:
    run = railwright("facts")
    assert run.code == 0
    for node, octet in (("node1", 11), ("node2", 12)):
        (hca,) = run.document[node]["hcas"]
        (port,) = hca["ports"]
        assert (hca["name"], port["state"], port["phys_state"], port["link_layer"]) == ("rxe0", "ACTIVE", "LinkUp", "Ethernet")
        assert (port["active_mtu"], port["netdev"], port["netdev_mtu"]) == (4096, "eth1", 9000)
        wanted = f"0000:0000:0000:0000:0000:ffff:0a4d:00{octet:02x}"
        assert any(gid["gid"] == wanted and gid["type"] == "RoCE v2" for gid in port["gids"]), port["gids"]
