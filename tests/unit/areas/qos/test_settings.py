# SPDX-License-Identifier: GPL-3.0-or-later
"""What sets a NIC from scratch, and by which tool. The command lines are written from the documented forms of dcb and mlnx_qos."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.settings import (
    PARTS,
    NicWish,
    Setting,
    ets_argv,
    settings,
    settings_of,
    tools_of,
)
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES

PROFILE = QOS_PROFILES[0]
SHARES = PROFILE._replace(ets=(20, 0, 0, 80, 0, 0, 0, 0))
BUFFERS = ((130944, 130944, 0, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0, 0, 0))
NIC = NicWish("eth1", "b8:ce:f6:00:30:01", "mlx5_0", 1, "rail0 (eth1)", "mlx5_core", "0000:31:00.0", True, SHARES, True, BUFFERS, True)
DCB = dict.fromkeys(PARTS[:6], "dcb") | {"ecn": "sysfs", "cnp": "sysfs", "rdma_cm": "configfs", "forced_tc": "sysfs"}
CM = "/sys/kernel/config/rdma_cm/mlx5_0"


def lines(found: tuple[Setting, ...]) -> list[str]:
    return [" ".join(item.argv) or f"{item.kind} {item.path} {item.content}".strip() for item in found]


def test_everything_by_dcb_and_sysfs_in_order() -> None:
    assert lines(settings(NIC, DCB)) == [
        "dcb dcbx set dev eth1 host ieee",
        "dcb apptrust set dev eth1 order dscp",
        "dcb pfc set dev eth1 prio-pfc all:off 3:on",
        "dcb app replace dev eth1 dscp-prio 26:3 48:6",
        ("dcb ets set dev eth1 prio-tc 0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7 "
         "tc-tsa 0:ets 1:strict 2:strict 3:ets 4:strict 5:strict 6:strict 7:strict tc-bw 0:20 1:0 2:0 3:80 4:0 5:0 6:0 7:0"),
        ("dcb buffer set dev eth1 prio-buffer 0:0 1:0 2:0 3:1 4:0 5:0 6:0 7:0 "
         "buffer-size 0:130944 1:130944 2:0 3:0 4:0 5:0 6:0 7:0"),
        "value /sys/class/net/eth1/ecn/roce_np/enable/3 1",
        "value /sys/class/net/eth1/ecn/roce_rp/enable/3 1",
        "value /sys/class/net/eth1/ecn/roce_np/cnp_dscp 48",
        "value /sys/class/net/eth1/ecn/roce_np/cnp_802p_prio 6",
        "modprobe rdma_cm",
        "systemctl start sys-kernel-config.mount",
        f"mkdir {CM}",
        f"value {CM}/ports/1/default_roce_mode RoCE v2",
        f"value {CM}/ports/1/default_roce_tos 106",
        "value /sys/class/infiniband/mlx5_0/tc/1/traffic_class 106",
    ]  # fmt: skip


def test_the_same_by_mlnx_qos() -> None:
    found = lines(settings(NIC, DCB | dict.fromkeys(PARTS[:6], "mlnx_qos")))
    assert found[:6] == [
        "mlnx_qos -i eth1 -d os",
        "mlnx_qos -i eth1 --trust dscp",
        "mlnx_qos -i eth1 --pfc 0,0,0,1,0,0,0,0",
        "mlnx_qos -i eth1 --dscp2prio set,26,3 --dscp2prio set,48,6",
        "mlnx_qos -i eth1 -p 0,1,2,3,4,5,6,7 -s ets,strict,strict,ets,strict,strict,strict,strict -t 20,0,0,80,0,0,0,0",
        "mlnx_qos -i eth1 --prio2buffer 0,0,0,1,0,0,0,0 --buffer_size 130944,130944,0,0,0,0,0,0",
    ]


def test_what_the_inventory_leaves_alone_is_not_set() -> None:
    plain = NIC._replace(profile=PROFILE, dcbx_host=False, buffers=((), ()), force_tc=False)
    assert [part for part in PARTS if not settings_of(part, plain, DCB)] == ["dcbx", "ets", "buffers", "forced_tc"]


@pytest.mark.parametrize("profile", QOS_PROFILES, ids=lambda profile: profile.name)
def test_every_profile_of_the_catalogue_has_its_own_numbers(profile: Any) -> None:
    found = lines(settings(NIC._replace(profile=profile), DCB))
    assert f"dcb app replace dev eth1 dscp-prio {profile.tc >> 2}:{profile.tc >> 5} 48:6" in found
    assert f"dcb pfc set dev eth1 prio-pfc all:off {profile.tc >> 5}:on" in found
    assert f"value {CM}/ports/1/default_roce_tos {profile.tc}" in found


def test_the_kernels_own_mlx5_has_its_cnp_marking_in_debugfs() -> None:
    assert lines(settings_of("cnp", NIC, {"cnp": "debugfs"})) == [
        "value /sys/kernel/debug/mlx5/0000:31:00.0/cc_params/np_cnp_dscp 48",
        "value /sys/kernel/debug/mlx5/0000:31:00.0/cc_params/np_cnp_prio 6",
    ]


def told(**sources: str) -> dict[str, Any]:
    return {"sources": sources, "trust": "dscp"}


@pytest.mark.parametrize(
    ("sources", "backend", "present", "expected"),
    [
        ({"pfc": "dcb"}, "auto", ("dcb", "mlnx_qos"), {"pfc": "dcb"}),
        ({"pfc": "dcb"}, "mlnx_qos", ("dcb", "mlnx_qos"), {"pfc": "mlnx_qos"}),
        ({"pfc": "dcb"}, "mlnx_qos", ("dcb",), {}),
        ({"pfc": "mlnx_qos"}, "auto", ("dcb", "mlnx_qos"), {"pfc": "mlnx_qos"}),
        ({"pfc": "mlnx_qos"}, "dcb", ("dcb", "mlnx_qos"), {}),
        ({"trust": "dcb app"}, "auto", ("dcb",), {"trust": "dcb app"}),
        ({"trust": "dcb app"}, "auto", ("dcb", "mlnx_qos"), {"trust": "mlnx_qos"}),
        ({"trust": "dcb app"}, "dcb", ("dcb", "mlnx_qos"), {"trust": "dcb app"}),
        ({"dcbx": "dcb"}, "auto", ("dcb", "mlnx_qos"), {"dcbx": "mlnx_qos"}),
        ({"dcbx": "dcb"}, "auto", ("dcb",), {"dcbx": "dcb"}),
        ({"forced_tc": "the driver has no override"}, "auto", (), {}),
        ({"forced_tc": "sysfs"}, "auto", (), {"forced_tc": "sysfs"}),
        ({}, "auto", ("dcb", "mlnx_qos"), {}),
    ],
)
def test_who_sets_a_part(sources: dict[str, str], backend: str, present: tuple[str, ...], expected: dict[str, str]) -> None:
    assert tools_of(NIC, told(**sources), backend, present) == expected | {"rdma_cm": "configfs"}


def test_a_map_that_mlnx_qos_hides_while_it_trusts_pcp_is_set_by_it() -> None:
    found = tools_of(NIC, {"sources": {"trust": "mlnx_qos"}, "trust": "pcp"}, "auto", ("mlnx_qos",))
    assert found["dscp_priority"] == "mlnx_qos"


def test_ecn_and_cnp_by_what_was_read() -> None:
    read = {"sources": {"ecn": "sysfs", "cnp": "debugfs"}, "ecn": {"np": [], "rp": []}, "cnp": {"dscp": 4, "priority": 0}}
    found = tools_of(NIC, read, "auto", ())
    assert (found["ecn"], found["cnp"]) == ("sysfs", "debugfs")


@pytest.mark.parametrize(
    ("tool", "percents", "expected"),
    [
        ("dcb", [60, 40, 0, 0, 0, 0, 0, 0], "0:60 1:40 2:0"),  # it takes them, so an undo brings them back
        ("dcb", [100] * 8, "0:0 1:0 2:0"),  # as mlx5 prints them; dcb refuses the sum
        ("mlnx_qos", [60, 40, 0, 0, 0, 0, 0, 0], "0,0,0,0,0,0,0,0"),
    ],
)
def test_percents_of_strict_classes_are_restored_as_far_as_the_tool_can(tool: str, percents: list[int], expected: str) -> None:
    argv = ets_argv("eth1", tool, list(range(8)), ["strict"] * 8, percents)
    assert expected in " ".join(argv)
