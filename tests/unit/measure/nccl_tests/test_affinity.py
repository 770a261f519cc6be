# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether each GPU used an HCA that is near it. Log lines as the sources of NCCL 2.8 to 2.30.7 format them, written from these."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.affinity import gpus_of_ranks, judge_near, judge_topology
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.transport import parse_log, summary
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

GPUS = ("0000:1b:00.0", "0000:3b:00.0")
HCAS = ("mlx5_0", "mlx5_1")


def rows(classes: Mapping[tuple[int, int], str], port: int = 1) -> list[dict[str, Any]]:
    """(number of the GPU, number of the HCA) -> class."""
    best = {gpu: min((path for (at, _hca), path in classes.items() if at == gpu), key=["PIX", "PXB", "PHB", "NODE", "SYS"].index)
            for gpu, _hca in classes}
    return [{"gpu": GPUS[gpu], "hca": HCAS[hca], "port": port, "path": path, "near": path == best[gpu]}
            for (gpu, hca), path in classes.items()]


RAILS = rows({(0, 0): "PIX", (0, 1): "SYS", (1, 0): "SYS", (1, 1): "PIX"})
NEAR = {"node1": RAILS, "node2": RAILS}


def using(host: str, *names: str) -> str:
    listed = " ".join(f"[{at}]{name}:1/RoCE" for at, name in enumerate(names or HCAS))
    return f"{host}:12:34 [0] NCCL INFO NET/IB : Using {listed} [RO]; OOB eth0:10.0.0.1<0>\n"


def start(host: str, rank: int, gpu: int) -> str:
    number = GPUS[gpu].replace("0000:", "").replace(":", "").replace(".", "")
    return (f"{host}:12:34 [0] NCCL INFO ncclCommInitRankConfig comm 0x55e0 rank {rank} nranks 4 cudaDev {gpu} nvmlDev {gpu} "
            f"busId {number} commId 0x1c9e - Init COMPLETE\n")


def send(host: str, ranks: str, via: str, way: str = "send") -> str:
    return f"{host}:12:34 [0] NCCL INFO Channel 00/0 : {ranks} [{way}] via NET/IB/{via}/GDRDMA\n"


# two nodes with two GPUs and two HCAs each; ranks 0 and 1 on the first
HEAD = using("node1") + using("node2") + start("node1", 0, 0) + start("node1", 1, 1) + start("node2", 2, 0) + start("node2", 3, 1)
SECOND = send("node2", "0[0] -> 2[0]", "0", "receive") + send("node2", "3[1] -> 1[1]", "1")


def judged(text: str, near: Mapping[str, Sequence[Mapping[str, Any]]] | None = None) -> dict[str, Verdict]:
    return {item.node: item for item in judge_near(parse_log(text), NEAR if near is None else near, gpus_of_ranks(text))}


def test_every_rank_over_its_own_hca_passes_with_expected_and_found() -> None:
    found = judged(HEAD + send("node1", "0[0] -> 2[0]", "0") + send("node1", "3[1] -> 1[1]", "1", "receive") + SECOND)
    expected = {GPUS[0]: ["mlx5_0:1"], GPUS[1]: ["mlx5_1:1"]}
    assert [(name, item.check, item.status, item.expected, item.found) for name, item in found.items()] == [
        (name, "nccl.near", "pass", expected, expected) for name in ("node1", "node2")]


def test_a_far_hca_only_fails_and_is_named() -> None:
    found = judged(HEAD + send("node1", "0[0] -> 2[0]", "1") + SECOND)
    assert (found["node1"].status, found["node2"].status) == ("fail", "pass")
    assert found["node1"].message == "0000:1b:00.0 uses mlx5_1:1 (SYS), mlx5_0:1 is nearer (PIX)"
    assert (found["node1"].expected, found["node1"].found) == ({GPUS[0]: ["mlx5_0:1"]}, {GPUS[0]: ["mlx5_1:1"]})


def test_one_gpu_with_far_hcas_only_fails_though_the_others_are_near() -> None:
    found = judged(HEAD + send("node1", "0[0] -> 2[0]", "1") + send("node1", "1[1] -> 3[1]", "1") + SECOND)
    assert (found["node1"].status, found["node1"].found) == ("fail", {GPUS[0]: ["mlx5_1:1"], GPUS[1]: ["mlx5_1:1"]})


def test_one_connection_that_cannot_be_told_makes_the_whole_unknown() -> None:
    found = judged(HEAD + send("node1", "0[0] -> 2[0]", "0") + send("node1", "1[1] -> 3[1]", "7") + SECOND)
    assert (found["node1"].status, found["node1"].message[:20]) == ("unknown", "1 of 2 connections: ")


def test_near_and_far_ones_warn() -> None:
    found = judged(HEAD + send("node1", "0[0] -> 2[0]", "0") + send("node1", "2[0] -> 0[0]", "1", "receive") + SECOND)
    assert found["node1"].status == "warn"


def test_a_far_hca_through_the_gpu_beside_it_is_sound() -> None:
    """PXN: NET/IB/1(1) is the second HCA, handed to it by rank 1."""
    found = judged(HEAD + send("node1", "0[0] -> 3[1]", "1(1)") + SECOND)
    assert (found["node1"].status, found["node1"].found) == ("pass", {GPUS[0]: ["mlx5_1:1 by 0000:3b:00.0"]})
    wrong = judged(HEAD + send("node1", "0[0] -> 3[1]", "0(1)") + SECOND)
    assert (wrong["node1"].status, wrong["node1"].message) == (
        "fail", "0000:1b:00.0 uses mlx5_0:1 by 0000:3b:00.0 (SYS), mlx5_1:1 is nearer (PIX)")


def test_the_nearest_of_those_that_nccl_lists_counts() -> None:
    """NCCL_IB_HCA leaves one out, or its port is down: the other one is the near one then."""
    text = using("node1", "mlx5_1") + HEAD.partition("\n")[2] + send("node1", "0[0] -> 2[0]", "0") + SECOND
    assert (judged(text)["node1"].status, judged(text)["node1"].expected) == ("pass", {GPUS[0]: ["mlx5_1:1"]})


def test_several_equally_near_hcas_are_all_near() -> None:
    both = {name: rows({(0, 0): "PXB", (0, 1): "PXB", (1, 0): "NODE", (1, 1): "NODE"}) for name in ("node1", "node2")}
    text = HEAD + send("node1", "0[0] -> 2[0]", "0") + send("node1", "1[1] -> 3[1]", "0") + send("node1", "0[0] -> 2[0]", "1") + SECOND
    assert {item.status for item in judged(text, both).values()} == {"pass"}


def test_merged_hcas_are_near_when_one_of_them_is() -> None:
    made = "node1:12:34 [0] NCCL INFO NET/IB : Made virtual device [2] name=mlx5_0+mlx5_1 speed=800000 ndevs=2 rail=-1 plane=3\n"
    text = made + HEAD + send("node1", "0[0] -> 2[0]", "2") + SECOND
    assert (judged(text)["node1"].status, judged(text)["node1"].found) == ("pass", {GPUS[0]: ["mlx5_0:1+mlx5_1:1"]})
    assert summary(parse_log(text))["hcas"][0] == ["node1 mlx5_0+mlx5_1:1"]


@pytest.mark.parametrize(("text", "status"), [
    ("", "skipped"),
    ("node1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n", "skipped"),
    ("node1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 2[0] [send] via NET/Socket/0\n", "skipped"),
    (send("node1", "0[0] -> 2[0]", "0"), "unknown"),
    (using("node1") + send("node1", "0[0] -> 2[0]", "0"), "unknown"),
    (start("node1", 0, 0) + send("node1", "0[0] -> 2[0]", "0"), "unknown"),
    (HEAD + send("node1", "0[0] -> 2[0]", "7"), "unknown"),
    (using("node1", "mlx5_9") + start("node1", 0, 0) + send("node1", "0[0] -> 2[0]", "0"), "unknown"),
    (HEAD + start("node1", 0, 1) + send("node1", "0[0] -> 2[0]", "0"), "unknown"),
], ids=["no-log", "one-node", "sockets", "no-devices", "no-gpus", "no-list", "no-such-device", "not-in-the-tree", "two-communicators"])
def test_what_the_log_does_not_tell_is_never_a_pass(text: str, status: str) -> None:
    assert judged(text, {"node1": RAILS})["node1"].status == status


def test_nccl_cuts_the_hosts_name_at_the_first_dot() -> None:
    text = HEAD + send("node1", "0[0] -> 2[0]", "0")
    assert judged(text, {"node1.example.com": RAILS})["node1.example.com"].status == "pass"


@pytest.mark.parametrize("line", [
    "node1:1:2 [0] NCCL INFO comm 0x7f10 rank 3 nranks 8 cudaDev 3 busId 10001b000 - Init COMPLETE",
    "node1:1:2 NCCL INFO comm 0x7f10 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 10001b000 commId 0x1c - Init START",
    "node1:1:2 [3] NCCL INFO [Rank 3] ncclCommInitRank comm 0x7f rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 10001b000 commId 0x1",
    "#  Rank  3 Group  0 Pid  12345 on      node1 device  3 [1000:1b:00] NVIDIA H200",
], ids=["2.8", "2.20", "2.30", "nccl-tests-2.19"])
def test_gpus_of_ranks_from_each_form(line: str) -> None:
    assert gpus_of_ranks(line + "\n") == {3: ("node1", "1000:1b:00.0")}


def test_gpus_of_ranks_of_nccl_tests_2_0_have_a_bus_only() -> None:
    assert gpus_of_ranks("#   Rank  1 Pid   4711 on      node1 device  1 [0x3b] Tesla V100-SXM2-32GB\n") == {1: ("node1", "0000:3b:00.0")}


def test_the_drivers_tool_against_sysfs() -> None:
    same = {(0, "mlx5_0"): "PIX", (0, "mlx5_1"): "SYS", (1, "mlx5_0"): "SYS", (1, "mlx5_1"): "PIX"}
    assert judge_topology("node1", RAILS, None) == []
    assert [(item.check, item.status) for item in judge_topology("node1", RAILS, same)] == [("topology.agrees", "pass")]
    (other,) = judge_topology("node1", RAILS, {**same, (0, "mlx5_1"): "NODE"})
    assert (other.status, other.message) == ("warn", "0000:1b:00.0 to mlx5_1 is SYS, nvidia-smi says NODE")
    assert [item.status for item in judge_topology("node1", RAILS, {(0, "eth9"): "PIX"})] == ["unknown"]
