# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails with IPv6 addresses: the GID is the address itself, and pings, perftest, NCCL and the mesh follow the family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import Options, arguments, plan_tests
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import command, payload, probes
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cluster import judge_cluster
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import nccl_variables

OPTIONS = Options(10, 1000, 1048576, 2, 60)


def six(node: Any, number: int = 1) -> Any:
    """The node's rails with IPv6 addresses, and what the kernel makes of them: a RoCE v1 and a RoCE v2 GID each."""
    for index, rail in enumerate(node.values["rails"]):
        rail["address"] = f"fd00:10:{index}::{number:x}/64"
        gid = f"fd00:0010:{index:04x}:0000:0000:0000:0000:{number:04x}"
        node.facts["netdevs"][index]["addresses"] = [f"fd00:10:{index}::{number:x}/64", "fe80::1/64"]
        node.port(index)["gids"] = [
            {"index": 0, "gid": "fe80:0000:0000:0000:5054:00ff:fe00:0001", "type": "IB/RoCE v1", "netdev": f"eth{index + 1}"},
            {"index": 1, "gid": "fe80:0000:0000:0000:5054:00ff:fe00:0001", "type": "RoCE v2", "netdev": f"eth{index + 1}"},
            {"index": 4, "gid": gid, "type": "IB/RoCE v1", "netdev": f"eth{index + 1}"},
            {"index": 5, "gid": gid, "type": "RoCE v2", "netdev": f"eth{index + 1}"},
        ]
    return node


def of(node: Any, check: str) -> list[str]:
    return [item.status for item in node.verdicts() if item.check == check]


def test_address_and_gid_are_there(node: Any) -> None:
    six(node)
    assert (of(node, "rail.address"), of(node, "rail.gid")) == (["pass", "pass"], ["pass", "pass"])
    assert [view["gid_index"] for view in node.view()["rails"]] == [5, 5]
    assert [view["address"] for view in node.view()["rails"]] == ["fd00:10::1", "fd00:10:1::1"]


def test_a_link_local_gid_or_another_address_is_not_the_rails(node: Any) -> None:
    six(node).port(0)["gids"] = node.port(0)["gids"][:2]
    node.port(1)["gids"][3]["gid"] = "fd00:0010:0001:0000:0000:0000:0000:0002"
    assert of(node, "rail.gid") == ["fail", "fail"]
    assert node.view()["rails"][0]["gid_index"] is None


def test_pings_and_perftest_go_over_ipv6(make_node: Callable[[int], Any]) -> None:
    here, there = six(make_node(1)), six(make_node(2), 2)
    views = [node.view()["rails"] for node in (here, there)]
    probe = probes(views[0], {"node2": views[1]})[1]
    size = payload(probe["mtu"], probe["address"])
    assert command("ping", probe, size, 1, 2) == (
        "ping", "-6", "-n", "-M", "do", "-s", "8952", "-c", "1", "-W", "2", "-i", "0.2", "-I", "eth2", "-I", "fd00:10:1::1", "fd00:10:1::2")
    serving, asking, left = plan_tests(views[0], views[1], 18515)
    assert left == []
    assert {test.address for test in serving + asking} == {"fd00:10::2", "fd00:10:1::2"}
    argv = arguments(asking[0], OPTIONS, "ib_write_bw", asking[0].address)
    assert argv[argv.index("-x") + 1] == "5"
    assert "--ipv6-addr" in argv
    assert argv[-1] == "fd00:10::2"


def test_perftest_meets_over_the_management_address_where_it_is_ipv4(make_node: Callable[[int], Any]) -> None:
    """Only the set-up goes there; the GID says where the traffic goes. perftest 4.5+0.17 of Debian 12 has no --ipv6-addr (seen)."""
    views = [[{**view, "exchange": "192.0.2.7"} for view in six(make_node(number), number).view()["rails"]] for number in (1, 2)]
    _serving, asking, _left = plan_tests(views[0], views[1], 18515)
    assert {(test.address, test.gid_index) for test in asking} == {("192.0.2.7", 5)}
    assert "--ipv6-addr" not in arguments(asking[0], OPTIONS, "ib_write_bw", asking[0].address)
    four = [[{**view, "exchange": "192.0.2.7"} for view in make_node(number).view()["rails"]] for number in (1, 2)]
    assert {test.address for test in plan_tests(four[0], four[1], 18515)[1]} == {"10.10.0.2", "10.10.1.2"}


def test_an_address_on_two_nodes_is_found(make_node: Callable[[int], Any]) -> None:
    nodes = {"node1": six(make_node(1)).view(), "node2": six(make_node(2), 1).view()}
    found = [item for item in judge_cluster(nodes, []) if item.check == "cluster.address" and item.status == "fail"]
    assert {item.subject for item in found} == {"fd00:10::1", "fd00:10:1::1"}


@pytest.mark.parametrize(("fabric", "mtu", "wanted"), [("roce", 9000, "AF_INET6"), ("infiniband", 4092, None)])
def test_nccl_is_told_the_family_where_gids_hold_addresses(node: Any, fabric: str, mtu: int, wanted: str | None) -> None:
    assert "NCCL_IB_ADDR_FAMILY" not in nccl_variables(node.spec)
    six(node).values.update(fabric=fabric, mtu=mtu, expect={})
    for index, rail in enumerate(node.values["rails"]):
        rail["match"] = {"pci": f"0000:{index + 1:02x}:00.0"}
    assert nccl_variables(node.spec).get("NCCL_IB_ADDR_FAMILY") == wanted
    node.values["nccl_overrides"] = {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}
    assert nccl_variables(node.spec)["NCCL_IB_ADDR_FAMILY"] == "AF_INET6"
