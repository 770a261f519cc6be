# SPDX-License-Identifier: GPL-3.0-or-later
"""Peer ports: what they judge beside an inventory, which ports are rails, and how the overview names the others. Constructed trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_node
from ansible_collections.railwright.rdma.plugins.module_utils.checks.overview import overview
from ansible_collections.railwright.rdma.plugins.module_utils.checks.peers import roce_families
from ansible_collections.railwright.rdma.plugins.module_utils.checks.rails import FAR, MANAGEMENT, RAIL, VIRTUAL, roles_of
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree, observe_facts, stack_summary
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from profile_trees import Tree

GID = {"index": 3, "type": "RoCE v2"}


@pytest.fixture
def slow(tmp_path: Path) -> Tree:
    """Eight rails, one of them at a quarter of the rate and with an older firmware."""
    tree = Tree("doca8", tmp_path)
    tree.put("/sys/class/infiniband/mlx5_2/ports/1/rate", "100 Gb/sec (1X NDR)\n")
    tree.put("/sys/class/infiniband/mlx5_2/fw_ver", "28.39.1002\n")
    return tree


def validated(tree: Tree, **values: Any) -> list[Verdict]:
    """The verdicts of `validate` on a node with an inventory, of the odd port."""
    identity = observe_identity(tree.host)
    seen = inspection_of("n1", tree.spec(**values), identity, observe_facts(tree.host, identity))
    return [item for _area, item in judge_node(seen) if item.hca == "mlx5_2"]


def test_validate_judges_by_peers_what_the_inventory_does_not_expect(slow: Tree) -> None:
    found = {item.check: (item.status, item.expected) for item in validated(slow)}
    assert found["port.rate"] == ("fail", 400)
    assert found["port.width"] == ("fail", 4)
    assert found["hca.fw_ver"] == ("warn", "28.47.1080")


def test_an_inventory_comes_before_peers(slow: Tree) -> None:
    found = {item.check: (item.status, item.expected) for item in validated(slow, expect={"rate_gbps": 100, "fw_ver": "28.39.1002"})}
    assert found["port.rate"] == ("pass", 100)
    assert found["hca.fw_ver"] == ("pass", "28.39.1002")


@pytest.mark.parametrize(("gids", "families"), [
    ([], {}),
    ([{**GID, "gid": "fe80:0000:0000:0000:0000:0000:0000:0001"}], {}),
    ([{**GID, "gid": "fd00:0000:0000:0000:0000:0000:0000:0001"}], {"IPv6": 3}),
    ([{**GID, "gid": "0000:0000:0000:0000:0000:ffff:0a0a:000b"}, {**GID, "index": 5, "gid": "fd00:0000:0000:0000:0000:0000:0000:0001"}],
     {"IPv4": 3, "IPv6": 5}),
    ([{**GID, "type": "IB/RoCE v1", "gid": "0000:0000:0000:0000:0000:ffff:0a0a:000b"}], {}),
    ([{**GID, "gid": "no gid"}], {}),
    (None, None),
])
def test_families_of_a_gid_table(gids: Any, families: Any) -> None:
    assert roce_families({"gids": gids}) == families


@pytest.fixture
def facts(nodes: Path) -> dict[str, Any]:
    return facts_of_tree(str(nodes / "doca8"))


def lines(facts: dict[str, Any]) -> dict[str, str]:
    return overview(facts, stack_summary(facts), [], True)


def ipv6(port: dict[str, Any]) -> None:
    for gid in port["gids"]:
        if ":ffff:" in gid["gid"]:
            gid["gid"] = "fd00:0000:0000:0000:0000:0000:0000:0011"


def test_the_overview_of_an_ipv6_only_node(facts: dict[str, Any]) -> None:
    for hca in facts["hcas"]:
        ipv6(hca["ports"][0])
    assert lines(facts)["GIDs"] == "RoCE v2 with an IPv6 address: index 3 on 8"


def test_the_overview_of_mixed_gid_tables(facts: dict[str, Any]) -> None:
    first, second, third = (hca["ports"][0] for hca in facts["hcas"][:3])
    ipv6(first)
    second["gids"] = []
    third["gids"] = None
    assert lines(facts)["GIDs"].split("; ") == [
        "RoCE v2 with an IPv4 address: index 3 on 5", "RoCE v2 with an IPv6 address: index 3 on 1", "none on mlx5_1/1",
        "unreadable on mlx5_2/1"]


def far(facts: dict[str, Any], *hcas: str) -> None:
    for row in facts["affinity"]:
        if row["hca"] in hcas:
            row["path"] = "NODE"


def test_the_overview_names_ports_that_are_no_rails(facts: dict[str, Any]) -> None:
    far(facts, "mlx5_0", "mlx5_1")
    for netdev in facts["netdevs"]:
        netdev["management"] = netdev["name"] == "ens10np0"
    assert lines(facts)["ports"] == "8 ACTIVE 400 Gb/s Ethernet MTU 4096; management: mlx5_0/1; far from every GPU: mlx5_1/1"


def test_rails_are_the_ports_near_gpus(facts: dict[str, Any]) -> None:
    far(facts, "mlx5_0", "mlx5_1")
    assert sorted(roles_of(facts).values()) == [FAR, FAR] + [RAIL] * 6


def test_one_near_port_among_eight_of_a_kind_makes_no_storage_of_seven(facts: dict[str, Any]) -> None:
    far(facts, *(f"mlx5_{rail}" for rail in range(1, 8)))
    assert set(roles_of(facts).values()) == {RAIL}


def test_the_only_nic_of_a_node_is_its_rail(facts: dict[str, Any]) -> None:
    """Also where it carries the default route."""
    facts["affinity"], facts["hcas"] = [], facts["hcas"][:1]
    for netdev in facts["netdevs"]:
        netdev["management"] = netdev["name"] == "ens10np0"
    assert set(roles_of(facts).values()) == {RAIL}
    facts["hcas"] += facts_with_virtual(facts)
    assert sorted(roles_of(facts).values()) == [RAIL, VIRTUAL]


def facts_with_virtual(facts: dict[str, Any]) -> list[dict[str, Any]]:
    hca = facts["hcas"][0]
    return [{**hca, "name": "mlx5_9", "link": {**hca["link"], "virtual_function": True}}]


def test_a_management_nic_beside_rails_is_none(facts: dict[str, Any]) -> None:
    facts["affinity"] = []
    for netdev in facts["netdevs"]:
        netdev["management"] = netdev["name"] == "ens10np0"
    assert sorted(roles_of(facts).values()) == [MANAGEMENT] + [RAIL] * 7
