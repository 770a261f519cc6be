# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as links, and what they carry: by hand for small machines."""

import re
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.boards import BOARDS, RACKS
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.floors import BETWEEN, BETWEEN_TWO, WITHIN, WITHIN_ALL_REDUCE
from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.ceilings import (
    COLLECTIVES,
    ceiling,
    explain_speed,
    over_host_memory,
    perftest_gbps,
)
from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.machine import CAN, RUNS, Link, Machine, machine_of, max_flow, pcie_gbs

H100 = "NVIDIA H100 80GB HBM3"


def link(device: str, speed: float | None = 32.0, lanes: int | None = 16, **now: Any) -> dict[str, Any]:
    return {"device": device, "port": None, "speed_gts": speed, "width": lanes, "best_speed_gts": speed, "best_width": lanes, **now}


def gpu(at: int, name: str = H100, *, above: tuple[dict[str, Any], ...] = (), numa: int = 0, **more: Any) -> dict[str, Any]:
    return {"pci": f"gpu{at}", "name": name, "numa_node": numa, "link": {"links": [link(f"gpu{at}"), *above]}, **more}


def nic(at: int, rate: float | None = 400.0, *, own: dict[str, Any] | None = None, above: tuple[dict[str, Any], ...] = (), numa: int = 0,
        **more: Any) -> dict[str, Any]:
    port = {"number": 1, "state": "ACTIVE", "rate_gbps": rate, "netdev": f"eth{at}"}
    return {"name": f"mlx5_{at}", "pci_address": f"nic{at}", "numa_node": numa, "ports": [port],
            "link": {"links": [own or link(f"nic{at}"), *above]}, **more}


def node(gpus: list[dict[str, Any]], nics: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"gpus": gpus, "hcas": nics, "netdevs": [], **more}


def hgx(**more: Any) -> dict[str, Any]:
    return node([gpu(at) for at in range(8)], [nic(at) for at in range(8)], **more)


def gbs(machine: Machine, collective: str, nodes: int = 1, algorithm: str | None = None) -> float | None:
    return ceiling(machine, collective, nodes, algorithm).gbs


@pytest.mark.parametrize(
    ("speed", "width", "expected"), [(8.0, 16, 14.4), (16.0, 16, 28.8), (32.0, 16, 57.6), (16.0, 8, 14.4), (7.0, 16, None)])
def test_payload_of_a_pcie_link(speed: float, width: int, expected: float | None) -> None:
    found = pcie_gbs(speed, width)
    assert found == pytest.approx(expected, abs=0.05) if expected is not None else found is None


def test_a_flow_takes_every_way_and_names_what_is_full() -> None:
    links = [Link("in", "a", 10, "a"), Link("in", "b", 10, "b"), Link("a", "out", 4, "narrow"), Link("a", "b", 3, "between"),
             Link("b", "out", 20, "wide")]
    found, limits = max_flow(links, "in", "out")
    assert found == 17
    assert {item.what for item in limits} == {"narrow", "between", "b"}
    assert max_flow([Link("in", "out", float("inf"))], "in", "out") == (float("inf"), ())


@pytest.mark.parametrize(
    ("collective", "nodes", "algorithm", "expected", "limit"),
    [
        ("all_reduce", 1, None, 490.28, "NVLink (18 links a GPU), added up in the switches"),
        ("all_reduce", 1, "Ring", 370.8, "NVLink (18 links a GPU)"),
        ("all_reduce", 2, "Ring", 400.0, "8 NICs of 400 Gb/s"),
        ("all_reduce", 2, None, 525.3, "added up in the switches"),
        ("all_reduce", 3, None, 511.11, "8 NICs of 400 Gb/s"),
        ("all_reduce", 4, None, 400.0, "8 NICs of 400 Gb/s"),
        ("all_gather", 1, None, 370.8, "NVLink"),
        ("alltoall", 2, None, 93.75, "8 NICs of 400 Gb/s"),
        ("sendrecv", 2, None, 50.0, "1 NIC of a GPU"),
    ],
)
def test_a_node_of_eight_h100(collective: str, nodes: int, algorithm: str | None, expected: float, limit: str) -> None:
    found = ceiling(machine_of(hgx()), collective, nodes, algorithm)
    assert found.gbs == pytest.approx(expected, abs=0.01)
    assert limit in found.limit


def test_a_nic_in_half_a_slot_is_what_limits() -> None:
    facts = hgx()
    facts["hcas"][2] = nic(2, own=link("nic2", 32.0, 16, width=8, speed_gts=16.0))
    assert gbs(machine_of(facts, CAN), "all_reduce", 4) == 400.0
    runs = ceiling(machine_of(facts, RUNS), "all_reduce", 4)
    assert runs.gbs == pytest.approx(7 * 50 + 14.4, abs=0.1)
    assert "PCIe 4.0 x8 of mlx5_2" in runs.limit
    (row,) = [row for row in explain_speed(facts, 4)["rows"] if (row["collective"], row["nodes"]) == ("all_reduce", 4)]
    assert (row["gbs"], row["runs"]["gbs"]) == (400.0, runs.gbs)


def test_a_gpu_that_idles_is_no_slow_gpu() -> None:
    facts = hgx()
    facts["gpus"] = [gpu(at) | {"link": {"links": [link(f"gpu{at}", speed_gts=2.5)]}} for at in range(8)]
    assert gbs(machine_of(facts, RUNS), "all_reduce", 4) == 400.0


def test_nvlinks_that_are_down_slow_what_runs_and_not_what_can() -> None:
    facts = hgx()
    for at, row in enumerate(facts["gpus"]):
        row["nvlinks"] = [26.562] * (18 if at else 9)
    assert gbs(machine_of(facts, CAN), "all_gather") == 370.8
    found = ceiling(machine_of(facts, RUNS), "all_gather")
    assert found.gbs == 185.4
    assert "fewer are up" in found.limit


def test_without_gpudirect_a_shared_uplink_carries_every_block_twice() -> None:
    up = (link("switch0", 16.0, 16),)
    facts = node([gpu(0, above=up), gpu(1, above=up)], [nic(0, 200.0, above=up)])
    assert gbs(machine_of(facts), "all_gather", 2) == 25.0
    found = ceiling(machine_of(facts, gpudirect=False), "all_gather", 2)
    assert found.gbs == pytest.approx(14.4, abs=0.05)
    assert found.limit.endswith("twice through host memory (no GPUDirect RDMA)")


def test_boards_without_nvlink_go_over_pcie() -> None:
    up = [(link(f"switch{at // 2}", 16.0, 16),) for at in range(4)]
    facts = node([gpu(at, "NVIDIA L40S", above=up[at]) | {"link": {"links": [link(f"gpu{at}", 16.0), *up[at]]}} for at in range(4)], [])
    machine = machine_of(facts)
    assert gbs(machine, "all_reduce") == pytest.approx(24.8, abs=0.1)
    assert gbs(machine, "alltoall") == pytest.approx(28.8 * 3 / 4, abs=0.1), "two GPUs send to two others over each uplink"


def test_over_host_memory_gpus_share_their_uplink() -> None:
    pair = over_host_memory(machine_of(node([gpu(0), gpu(1)], [])))
    assert (pair.gbs, pair.limit) == (pytest.approx(49.6, abs=0.1), "PCIe 5.0 x16 of GPU gpu0")
    shared = over_host_memory(machine_of(node([gpu(at, above=(link("switch0"),)) for at in range(2)], [])))
    assert (shared.gbs, shared.limit) == (pytest.approx(24.8, abs=0.1), "PCIe 5.0 x16 of the switch above GPU gpu0")
    assert over_host_memory(machine_of(node([gpu(0)], []))).gbs is None
    assert explain_speed(node([gpu(0), gpu(1)], []), 4)["over_host_memory"]["gbs"] == pair.gbs


def partitioned(*sliced: int) -> dict[str, Any]:
    rows = [{"pci": f"gpu{at}", "mig": "Enabled" if at in sliced else "Disabled"} for at in range(8)]
    return hgx() | {"health": {"gpu": {"gpus": rows}}}


def test_gpus_with_mig_on_have_no_ceiling_of_nvlink() -> None:
    """NVIDIA, MIG User Guide: slices have no peer access."""
    assert gbs(machine_of(partitioned()), "all_reduce") == pytest.approx(490.28)
    for sliced in ((0,), tuple(range(8))):
        found = explain_speed(partitioned(*sliced), 2)
        assert {row["gbs"] for row in found["rows"]} == {None}
        assert found["nvlink_gbs"] is None
        assert all("how slices of GPU gpu0" in row["limit"] and "MIG is on" in row["limit"] for row in found["rows"])


@pytest.mark.parametrize(("name", "count", "expected"), [
    ("NVIDIA H800", 8, 217.9), ("NVIDIA GB200", 4, 736.2), ("NVIDIA GB300", 4, 736.2), ("NVIDIA GH200 480GB", 4, 370.8),
    ("NVIDIA L20", 4, 48.0), ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 4, 49.6),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 4, 49.6),
])  # fmt: skip
def test_boards_have_a_ceiling_within_a_node(name: str, count: int, expected: float) -> None:
    facts = node([gpu(at, name) for at in range(count)], [nic(at) for at in range(count)])
    found = gbs(machine_of(facts), "all_reduce")
    assert found is not None
    assert found >= expected * 0.99
    if "L20" not in name:
        assert found == pytest.approx(expected, rel=0.01)


def test_racks_have_no_ceiling_between_nodes_and_c2c_limits_no_gpu() -> None:
    rack = machine_of(node([gpu(at, "NVIDIA GB200") for at in range(4)], [nic(at) for at in range(4)]))
    found = ceiling(rack, "all_reduce", 2)
    assert (found.gbs, found.limit) == (None, "unread: which nodes of the rack it reaches over NVLink")
    narrow = [gpu(at, "NVIDIA GH200 480GB") | {"link": {"links": [link(f"gpu{at}", 2.5, 1)]}} for at in range(4)]
    assert gbs(machine_of(node(narrow, [nic(at, 200.0) for at in range(4)])), "all_gather", 2) == 100.0


def test_every_board_and_every_share_has_its_source_with_a_year() -> None:
    shares = [*WITHIN_ALL_REDUCE.values(), WITHIN, BETWEEN, *BETWEEN_TWO.values()]
    texts = [*(board.source for board in BOARDS + RACKS), *(share.lowest for share in shares)]
    assert [text for text in texts if not re.search(r"\b20[12][0-9]\b", text)] == []
    assert all(0 < share.of_ceiling < float(share.lowest.split()[0].rstrip(":")) + 0.005 for share in shares)


@pytest.mark.parametrize("facts", [
    node([], []), node([gpu(0)], []), hgx() | {"hcas": []}, node([gpu(0, "NVIDIA Made Up"), gpu(1, "NVIDIA Made Up")], [nic(0)]),
    node([gpu(0), gpu(1, "NVIDIA H200")], [nic(0)]), hgx() | {"hcas": [nic(0, driver="erdma")]},
])
def test_what_cannot_be_known_is_unknown_and_says_why(facts: dict[str, Any]) -> None:
    found = ceiling(machine_of(facts), "all_reduce", 1 if len(facts["gpus"]) == 1 else 2)
    assert found.gbs is None
    assert found.limit


@pytest.mark.parametrize("lie", [
    {}, {"gpus": None, "hcas": 3}, {"gpus": [{}], "hcas": [{}]},
    {"gpus": [{"pci": None, "name": None, "numa_node": -1, "link": None, "nvlinks": []}] * 2, "hcas": [{"name": None, "ports": None}]},
    {"gpus": [gpu(0), gpu(0)], "hcas": [nic(0, 0.0), nic(0, -5.0)]},
    {"gpus": [gpu(0, numa=10**12), gpu(1)], "hcas": [nic(0, numa=7)]},
    {"gpus": [gpu(at) for at in range(500)], "hcas": [nic(at) for at in range(500)]},
])
def test_no_facts_break_it(lie: dict[str, Any]) -> None:
    found = explain_speed(lie, 4)
    assert {row["collective"] for row in found["rows"]} == set(COLLECTIVES)
    assert all(row["gbs"] is None or row["gbs"] > 0 for row in found["rows"])


def test_ports_that_are_down_or_manage_the_node_carry_no_rail() -> None:
    facts = hgx(netdevs=[{"name": "eth0", "management": True}])
    facts["hcas"][1]["ports"][0]["state"] = "DOWN"
    assert len(machine_of(facts).ports) == 6


def test_perftest_from_either_memory() -> None:
    facts = node([gpu(0, "NVIDIA A100-SXM4-80GB") | {"link": {"links": [link("gpu0", 16.0, 16, width=8)]}}], [nic(0)])
    machine = machine_of(facts, RUNS)
    assert perftest_gbps(machine, "mlx5_0", gpu=False) == (400.0, "mlx5_0 of 400 Gb/s")
    gbps, limit = perftest_gbps(machine, "mlx5_0", gpu=True)
    assert gbps == pytest.approx(115.2, abs=0.2)
    assert limit == "PCIe 4.0 x8 of GPU gpu0"
    assert perftest_gbps(machine, "mlx5_9", gpu=True)[0] is None
