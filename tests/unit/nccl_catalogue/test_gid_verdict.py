# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdict nccl.gid on captured nodes (trees written from documented formats): what NCCL takes with the settings that are there."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl.gid_index import judge_nccl_gid
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.rules.nccl_gids import automatic
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from profile_trees import Tree

MakeTree = Callable[[str], Tree]
MAPPED, LINK_LOCAL = "0000:0000:0000:0000:0000:ffff:%s", "fe80:0000:0000:0000:bace:f6ff:fe00:3000"
V6 = "fd00:0010:0000:0000:0000:0000:0000:000b"
HERE, OTHER = MAPPED % "0a0a:000b", MAPPED % "c0a8:0001"


def judged(node: Tree, **values: Any) -> list[Verdict]:
    spec, identity = node.spec(**values), observe_identity(node.host)
    return judge_nccl_gid(inspection_of("node1", spec, identity, node.facts()))


def statuses(node: Tree, **values: Any) -> set[str]:
    return {item.status for item in judged(node, **values)}


def said(node: Tree, hca: str, **values: Any) -> tuple[str, str]:
    (found,) = [item for item in judged(node, **values) if item.hca == hca]
    return found.status, found.message


def test_after_an_apply_every_hca_passes(tree: MakeTree) -> None:
    for name, first in (("doca8", "index 3"), ("erdma2", "index 2"), ("rxe", "index 1")):
        node = tree(name)
        node.apply()
        verdicts = judged(node)
        assert {item.status for item in verdicts} == {"pass"}
        assert verdicts[0].found == first
        assert verdicts[0].check == "nccl.gid"


def test_a_number_in_the_file_is_judged_whoever_wrote_it(tree: MakeTree) -> None:
    node = tree("doca8")
    node.put("/etc/nccl.conf", "NCCL_IB_GID_INDEX=3\n")
    assert statuses(node) == {"pass"}
    node.put("/etc/nccl.conf", "NCCL_IB_GID_INDEX=2\n")
    status, text = said(node, "mlx5_4")
    assert status == "fail"
    assert text.startswith("NCCL_IB_GID_INDEX=2: index 2 of mlx5_4 port 1 holds 10.10.4.11 (IB/RoCE v1), not a RoCE v2 GID with 10.10")
    assert text.endswith("; that is index 3")
    node.gid("mlx5_4", 2, MAPPED % "0a0a:040b", "")
    assert said(node, "mlx5_4")[0] == "unknown"


@pytest.mark.parametrize("line", ["NCCL_IB_GID_INDEX=(hidden)", "NCCL_IB_ADDR_RANGE=(hidden)", "NCCL_IB_GID_INDEX=3 (hidden)"])
def test_what_a_bundle_hides_is_not_judged(tree: MakeTree, line: str) -> None:
    node = tree("doca8")
    node.put("/etc/nccl.conf", f"{line}\n")
    assert statuses(node) == {"unknown"}


def test_different_indexes_and_one_number(tree: MakeTree) -> None:
    node = tree("erdma2")
    node.put("/etc/nccl.conf", "NCCL_IB_GID_INDEX=1\nNCCL_IB_HCA==erdma_0:1,erdma_1:1\n")  # PAI's preset
    assert said(node, "erdma_0") == (
        "fail", "NCCL_IB_GID_INDEX=1: index 1 of erdma_0 port 1 is empty, not a RoCE v2 GID with 172.16.0.11; that is index 2")
    assert said(node, "erdma_1")[0] == "pass"
    node.put("/etc/nccl.conf", "NCCL_IB_GID_INDEX=1\nNCCL_IB_HCA==erdma_1:1\n")
    assert statuses(node) == {"pass"}, "the other HCA is not in NCCL's list"


def test_an_older_nccl_takes_index_0(tree: MakeTree) -> None:
    node = tree("doca8")
    node.apply()
    node.library("2.20.5")
    status, text = said(node, "mlx5_0")
    assert status == "fail"
    assert "finds no GID by itself: it takes index 0, which holds a link-local GID (IB/RoCE v1) on mlx5_0 port 1" in text
    node.apply()  # now with the index that all share
    assert statuses(node) == {"pass"}
    newer = {"nccl_install": "wheel", "nccl_wheel_index": "https://mirror.example.com/pypi"}
    node.apply(**newer)
    assert statuses(node, **newer) == {"warn"}, "a leftover beside the NCCL that the inventory installs"


def test_minus_one_is_no_index_to_an_older_nccl(tree: MakeTree) -> None:
    node = tree("erdma2")
    node.library("2.21.5")
    node.apply()
    assert statuses(node) == {"pass"}
    node.library("2.20.5")
    status, text = said(node, "erdma_0")
    assert (status, "takes -1 for an index, which none is" in text) == ("fail", True)


def test_nccl_takes_another_address_of_the_interface(tree: MakeTree) -> None:
    """Two addresses: NCCL takes the first of its family in the table, and the rail's only by its range."""
    node = tree("erdma2")
    node.put("/etc/nccl.conf", "NCCL_IB_GID_INDEX=-1\n")
    node.gid("erdma_0", 1, OTHER, "RoCE v2")
    status, text = said(node, "erdma_0")
    assert status == "fail"
    assert text.startswith("NCCL takes index 1 of erdma_0 port 1, which holds 192.168.0.1 (RoCE v2); the right one is index 2: set")
    node.apply()
    assert statuses(node) == {"pass"}


def test_ipv6_rails_need_their_family(tree: MakeTree) -> None:
    node = tree("rxe")
    node.gid("rxe0", 2, V6, "RoCE v2")
    rails = {"rails": [{"name": "rail0", "match": {"mac": "52:54:00:bb:00:01"}, "address": "fd00:10::b/64"}]}
    node.put("/etc/nccl.conf", "NCCL_DEBUG=WARN\n")
    assert statuses(node, **rails) == {"fail"}
    node.apply(**rails)
    assert statuses(node, **rails) == {"pass"}


def test_link_local_gids_only_are_rail_gids_to_say(tree: MakeTree) -> None:
    node = tree("doca8")
    node.without_gid("mlx5_1", 2, 3)
    assert [item for item in judged(node) if item.hca == "mlx5_1"] == []
    node.put("/etc/nccl.conf", "NCCL_IB_GID_INDEX=1\n")
    status, text = said(node, "mlx5_1")
    assert status == "fail"
    assert text.startswith("NCCL_IB_GID_INDEX=1: index 1 of mlx5_1 port 1 holds a link-local GID (RoCE v2), not a RoCE v2 GID with 10.")
    assert text.endswith("; no index has one")


def test_only_rails_are_judged_where_there_are_rails(tree: MakeTree) -> None:
    """Without a file NCCL takes every HCA; what is no rail has no address that would be right."""
    rails = [{"name": "rail0", "match": {"pci": "0000:13:00.0"}, "address": "10.10.0.11/24"}]
    assert [(item.hca, item.status) for item in judged(tree("doca8"), rails=rails)] == [("mlx5_0", "pass")]
    node = tree("rxe")
    node.put("/etc/nccl.conf", "NCCL_IB_GID_INDEX=0\n")
    assert [(item.hca, item.status) for item in judged(node, rails=[])] == [("rxe0", "fail")], "a number is, on all"


def test_where_there_is_nothing_to_judge(tree: MakeTree) -> None:
    assert judged(tree("ib8")) == []
    (item,) = judged(tree("erdma2"), nccl_profile="erdma-aiacc")
    assert (item.status, item.message) == ("skipped", "aiacc-nccl-plugin is the transport, and finds GIDs by itself")
    (item,) = judged(tree("doca8"), nccl_overrides={"NCCL_IB_GID_INDEX": None})
    assert (item.status, "leaves NCCL_IB_GID_INDEX to the jobs" in item.message) == ("skipped", True)


def table(*rows: tuple[int, str, str]) -> list[dict[str, Any]]:
    return [{"index": index, "gid": gid, "type": kind} for index, gid, kind in rows]


@pytest.mark.parametrize(("gids", "variables", "expected"), [
    (table((0, LINK_LOCAL, "IB/RoCE v1"), (1, LINK_LOCAL, "RoCE v2"), (2, HERE, "IB/RoCE v1"), (3, HERE, "RoCE v2")), {}, 3),
    (table((0, LINK_LOCAL, "IB/RoCE v1"), (1, LINK_LOCAL, "RoCE v2"), (2, HERE, "IB/RoCE v1"), (3, HERE, "RoCE v2")),
     {"NCCL_IB_ROCE_VERSION_NUM": "1"}, 2),
    (table((0, LINK_LOCAL, "IB/RoCE v1"), (3, HERE, "IB/RoCE v1")), {}, 3),  # its family is reason enough, and the type is wrong
    (table((0, HERE, "RoCE v2"), (1, OTHER, "RoCE v2")), {}, 0),
    (table((0, HERE, "IB/RoCE v1"), (1, OTHER, "RoCE v2")), {}, 1),
    (table((0, LINK_LOCAL, "RoCE v2"), (1, OTHER, "RoCE v2"), (2, HERE, "RoCE v2")), {}, 1),
    (table((0, LINK_LOCAL, "RoCE v2"), (1, OTHER, "RoCE v2"), (2, HERE, "RoCE v2")), {"NCCL_IB_ADDR_RANGE": "10.10.0.0/16"}, 2),
    (table((0, LINK_LOCAL, "RoCE v2"), (1, OTHER, "RoCE v2"), (2, HERE, "RoCE v2")), {"NCCL_IB_ADDR_RANGE": "fd00::/16"}, 1),
    (table((0, LINK_LOCAL, "IB/RoCE v1"), (1, LINK_LOCAL, "RoCE v2"), (4, V6, "IB/RoCE v1"), (5, V6, "RoCE v2")),
     {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, 5),
    (table((0, LINK_LOCAL, "IB/RoCE v1"), (1, LINK_LOCAL, "RoCE v2")), {}, 0),
    (table((1, HERE, "RoCE v2")), {}, 1),
    ([], {}, None),
])  # fmt: skip
def test_the_choice_of_nccl_2_21_as_its_source_makes_it(
    gids: list[dict[str, Any]], variables: dict[str, str], expected: int | None
) -> None:
    """Each expectation was worked out by hand from ncclUpdateGidIndex and ncclIbGetGidIndex of NCCL 2.30.7."""
    assert automatic(gids, variables) == expected
