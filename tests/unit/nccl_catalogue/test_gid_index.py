# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL_IB_GID_INDEX on captured nodes (trees written from documented formats): one index, several, none, the wrong one."""

from collections.abc import Callable

import pytest

from profile_trees import Tree

MakeTree = Callable[[str], Tree]
INDEX = "NCCL_IB_GID_INDEX"
RAIL1 = "0000:0000:0000:0000:0000:ffff:0a0a:010b"  # 10.10.1.11


def test_nccl_that_finds_it_gets_none(tree: MakeTree) -> None:
    node = tree("doca8")
    assert INDEX not in node.conf(), "no NCCL of the system: a container brings its own"
    node.library("2.21.5")
    assert INDEX not in node.conf()
    assert node.notes() == []


def test_an_older_nccl_gets_the_index_that_all_share(tree: MakeTree) -> None:
    node = tree("doca8")
    node.library("2.20.5")
    assert node.conf()[INDEX] == "3"
    node.apply()
    assert f"\n{INDEX}=3\n" in node.host.read("/etc/nccl.conf")
    assert node.conf(nccl_overrides={INDEX: None}).get(INDEX) is None


def test_the_inventorys_nccl_decides_before_what_lies_there(tree: MakeTree) -> None:
    node = tree("doca8")
    node.library("2.20.5")
    wheel = {"nccl_install": "wheel", "nccl_wheel_index": "https://mirror.example.com/pypi"}
    assert INDEX not in node.conf(**wheel)
    old = {"nccl_install": "distribution", "nccl_version": "2.20.5"}
    assert tree("erdma2").conf(nccl_install="distribution", nccl_version="2.22.3")[INDEX] == "-1"
    assert node.conf(**old)[INDEX] == "3"


def test_different_indexes_name_every_hca_and_the_way_out(tree: MakeTree) -> None:
    node = tree("erdma2")
    node.library("2.20.5")
    (problem,) = node.problems()
    assert problem.startswith("NCCL_IB_GID_INDEX: NCCL 2.20.5 (/opt/railwright/nccl/2.20.5/lib/libnccl.so.2) finds no GID by itself")
    assert "takes one index for all HCAs, and theirs differ" in problem
    assert "(RoCE v2 with the rail's address: erdma_0 port 1: 2, erdma_1 port 1: 1)" in problem
    assert "NCCL 2.21 and later finds each one, by NCCL_IB_ADDR_RANGE too" in problem
    assert node.problems(nccl_overrides={INDEX: None}) == []


def test_erdma_with_nccl_2_21_keeps_the_automatic_choice(tree: MakeTree) -> None:
    node = tree("erdma2")
    node.library("2.21.5")
    conf = node.conf()
    assert (conf[INDEX], conf["NCCL_IB_ADDR_RANGE"]) == ("-1", "172.16.0.0/16")
    assert node.problems() == []


def test_minus_one_is_no_index_for_an_older_nccl(tree: MakeTree) -> None:
    """erdma-native says -1, which NCCL 2.20 would take for an index."""
    node = tree("erdma2")
    node.library("2.20.5")
    node.without_gid("erdma_0", 2)
    node.gid("erdma_0", 1, "0000:0000:0000:0000:0000:ffff:ac10:000b", "RoCE v2")
    assert node.problems() == []
    assert node.conf()[INDEX] == "1"


@pytest.mark.parametrize(("index", "said"), [
    ("3", None),
    ("2", "index 2 of mlx5_0 port 1 holds 10.10.0.11 (IB/RoCE v1), not a RoCE v2 GID with 10.10.0.11; that is index 3"),
    ("1", "index 1 of mlx5_0 port 1 holds a link-local GID (RoCE v2), not a RoCE v2 GID with 10.10.0.11; that is index 3"),
    ("7", "index 7 of mlx5_0 port 1 is empty, not a RoCE v2 GID with 10.10.0.11; that is index 3"),
])  # fmt: skip
def test_a_number_is_checked_on_every_hca(index: str, said: str | None, tree: MakeTree) -> None:
    node = tree("doca8")
    problems = node.problems(nccl_gid_index=index)
    assert node.conf(nccl_gid_index=index)[INDEX] == index
    assert len(problems) == (8 if said else 0)
    assert problems[:1] == ([f"{INDEX}: {said}"] if said else [])


@pytest.mark.parametrize("given", [{"nccl_gid_index": 3}, {"nccl_overrides": {INDEX: 3}}], ids=["key", "override"])
def test_scnets_three_is_checked_and_not_trusted(given: dict[str, object], tree: MakeTree) -> None:
    node = tree("doca8")
    scnet = {"nccl_profile": "scnet", "qos_profile": "scnet-dscp34-prio4", **given}
    assert node.problems(**scnet) == []
    node.gid("mlx5_1", 3, "0000:0000:0000:0000:0000:ffff:c0a8:0001", "RoCE v2")  # another address was there first
    node.gid("mlx5_1", 5, RAIL1, "RoCE v2")
    assert node.problems(**scnet) == [
        f"{INDEX}: index 3 of mlx5_1 port 1 holds 192.168.0.1 (RoCE v2), not a RoCE v2 GID with 10.10.1.11; that is index 5"]


def test_a_gid_of_ipv6_is_found_by_its_address(tree: MakeTree) -> None:
    node = tree("rxe")
    node.gid("rxe0", 2, "fd00:0010:0000:0000:0000:0000:0000:000b", "RoCE v2")
    node.library("2.20.5")
    assert node.conf()[INDEX] == "1", "the rail's IPv4 address"
    rails = [{"name": "rail0", "match": {"mac": "52:54:00:bb:00:01"}, "address": "fd00:10::b/64"}]
    conf = node.conf(rails=rails)
    assert (conf[INDEX], conf["NCCL_IB_ADDR_FAMILY"]) == ("2", "AF_INET6")
    assert node.problems(rails=rails, nccl_gid_index=1) == [
        f"{INDEX}: index 1 of rxe0 port 1 holds 10.10.0.11 (RoCE v2), not a RoCE v2 GID with fd00:10::b; that is index 2"]


def test_link_local_gids_only(tree: MakeTree) -> None:
    """The address is on the interface and in no GID: nothing that waits would fix that."""
    node = tree("doca8")
    node.library("2.20.5")
    node.without_gid("mlx5_1", 2, 3)
    (problem,) = node.problems()
    assert "no RoCE v2 GID holds the address of every rail" in problem
    assert "mlx5_1 port 1: none" in problem
    (problem,) = node.problems(nccl_gid_index=3)
    assert problem == f"{INDEX}: index 3 of mlx5_1 port 1 is empty, not a RoCE v2 GID with 10.10.1.11; no index has one"
    (problem,) = node.problems(nccl_gid_index=3, network_manage_addresses=False)
    assert "no index has one" in problem


def test_an_address_that_the_same_plan_brings_is_no_problem_yet(tree: MakeTree) -> None:
    node = tree("doca8")
    node.library("2.20.5")
    node.without_gid("mlx5_1", 2, 3)
    text = node.host.read("/cmd/ip_-j_addr")
    assert "10.10.1.11" in text
    node.put("/cmd/ip_-j_addr", text.replace("10.10.1.11", "10.99.1.11"))
    assert node.problems() == []
    assert node.problems(nccl_gid_index=3) == []
    assert INDEX not in node.conf()
    assert [note for note in node.notes() if "stays as it is: the address of mlx5_1 port 1 is not there yet" in note]
    assert [note for note in node.notes(nccl_gid_index=3) if "is not checked on mlx5_1 port 1 yet" in note]
    assert node.problems(nccl_gid_index=3, network_manage_addresses=False) != [], "nobody is going to set it"


def test_an_index_that_comes_to_light_in_an_apply_is_a_change_of_its_own(tree: MakeTree) -> None:
    """Else the apply that set the address would wait for its file to hold what the plan could not know, and be rolled back."""
    node = tree("doca8")
    node.library("2.20.5")
    here = node.host.read("/cmd/ip_-j_addr")
    gids = {index: node.host.read(f"/sys/class/infiniband/mlx5_1/ports/1/gids/{index}") for index in (2, 3)}
    node.put("/cmd/ip_-j_addr", here.replace("10.10.1.11", "10.99.1.11"))
    node.without_gid("mlx5_1", 2, 3)
    assert node.plan() == ["file /etc/nccl.conf", "file /etc/profile.d/railwright-nccl.sh"]
    node.apply()
    node.put("/cmd/ip_-j_addr", here)
    node.gid("mlx5_1", 2, gids[2].strip(), "IB/RoCE v1")
    node.gid("mlx5_1", 3, gids[3].strip(), "RoCE v2")
    assert node.plan() == [f"file /etc/nccl.conf ({INDEX})", f"file /etc/profile.d/railwright-nccl.sh ({INDEX})"]
    node.apply()
    node.without_gid("mlx5_1", 2, 3)
    node.put("/cmd/ip_-j_addr", here.replace("10.10.1.11", "10.99.1.11"))
    assert node.plan() == [], "a rail that lost its address does not take the index with it"


def test_a_rail_without_a_device_is_said_to_be_unchecked(tree: MakeTree) -> None:
    rails = [{"name": "rail0", "match": {"pci": "0000:13:00.0"}, "address": "10.10.0.11/24"},
             {"name": "rail1", "match": {"mac": "3c:ec:ef:00:00:01"}, "address": "10.0.0.11/24"}]  # an interface without an HCA
    node = tree("doca8")
    assert node.problems(rails=rails, nccl_gid_index=3) == []
    assert "nccl: NCCL_IB_GID_INDEX=3 is not checked on rail1: it has no RDMA device at the moment" in node.notes(
        rails=rails, nccl_gid_index=3)


def test_an_hca_that_comes_to_light_in_an_apply_is_a_change_of_its_own(tree: MakeTree) -> None:
    """A driver that the same apply loads makes it: the apply that did so must not be reverted for a list that its plan could not know."""
    node = tree("erdma2")
    device = node.root / "sys/class/infiniband/erdma_1"
    away = node.root / "away"
    device.rename(away)
    assert node.plan() == ["file /etc/nccl.conf", "file /etc/profile.d/railwright-nccl.sh"]
    node.apply()
    assert "NCCL_IB_HCA" not in node.host.read("/etc/nccl.conf")
    away.rename(device)
    assert node.plan() == ["file /etc/nccl.conf (NCCL_IB_HCA)", "file /etc/profile.d/railwright-nccl.sh (NCCL_IB_HCA)"]
    node.library("2.20.5")
    node.without_gid("erdma_0", 2)
    node.gid("erdma_0", 1, "0000:0000:0000:0000:0000:ffff:ac10:000b", "RoCE v2")
    assert node.plan()[0] == "file /etc/nccl.conf (NCCL_IB_GID_INDEX and NCCL_IB_HCA)"
    assert node.plan(nccl_overrides={"NCCL_DEBUG": "WARN"})[0] == "file /etc/nccl.conf"


def test_infiniband_and_plugins_are_left_alone(tree: MakeTree) -> None:
    node = tree("ib8")
    node.library("2.20.5")
    assert INDEX not in node.conf()
    assert node.problems() == []
    node = tree("erdma2")
    node.library("2.16.5")
    assert node.conf(nccl_profile="erdma-aiacc") == {"NCCL_SOCKET_IFNAME": "=eth0"}
    assert node.problems(nccl_profile="erdma-aiacc") == []


@pytest.mark.parametrize(("value", "ports"), [
    ("=mlx5_0:1,mlx5_3", [0, 3]), ("mlx5_1", [1]), ("^mlx5_0,mlx5_1", [2, 3, 4, 5, 6, 7]), ("^=mlx5_7", list(range(7))),
    ("=mlx5_2:2", []), ("mlx5", list(range(8))),
])  # fmt: skip
def test_only_the_selected_hcas_are_asked(value: str, ports: list[int], tree: MakeTree) -> None:
    node = tree("doca8")
    problems = node.problems(nccl_gid_index=2, nccl_overrides={"NCCL_IB_HCA": value})
    assert [text.split(" ")[4] for text in problems] == [f"mlx5_{number}" for number in ports]
