# SPDX-License-Identifier: GPL-3.0-or-later
"""A QoS profile on a NIC with DCB: set, kept over a reboot and a reload of the driver, missed when somebody clears it, set again.

The NIC is stood in for (modules/README.md); dcb, dcbnl, rdma_cm and lldpad are the distribution's. What is asserted was printed by
`dcb -j` or read from the kernel's files, not by railwright. The tests are one story and run in this order.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from lab_images import QOS
from lab_machine import Machine, plain_playbook
from railwright import lab

RECIPE = QOS
HARDWARE = lab.Hardware()
NETDEV, HCA, MAC = "roce0", "mlx5_0", "52:54:00:4d:fe:01"
SITE = {
    "rdma_fabric": "roce",
    "rdma_stack": "inbox",
    "rdma_mtu": 9000,
    "rdma_qos_profile": "dscp26-prio3",
    "rdma_consent": ["link", "restart"],
    "validate_perftest": False,
}
SHARES = [10, 10, 10, 10, 30, 10, 10, 10]
CUSTOM = {
    **SITE,
    "rdma_qos_profile": "custom",
    "rdma_qos_custom": {"tc": 138, "priority": 4, "lossless": [4], "cnp_dscp": 46, "cnp_priority": 5, "ets": SHARES},
    "roce_qos_buffers": {"bytes": [131072, 262144, 0, 0, 0, 0, 0, 0], "priorities": [0, 0, 0, 0, 1, 0, 0, 0]},
}
EMPTY: dict[str, Any] = {"pfc": [], "dscp": [], "host": False, "np": [], "rp": [], "cnp": [0, 0], "cm": None}
# dscp26-prio3 as NVIDIA's doroce sets it: ToS 106 is DSCP 26 with ECT(0).
WANTED = {
    "pfc": [3], "dscp": [[26, 3], [48, 6]], "host": True, "np": [3], "rp": [3], "cnp": [48, 6], "cm": ["RoCE v2", 106],
}  # fmt: skip
LABEL = f"rail0 ({NETDEV})"


def dcb(machine: Machine, part: str) -> dict[str, Any]:
    """What the tool prints of one part."""
    found = json.loads(machine.run("dcb", "-j", part, "show", "dev", NETDEV))
    assert isinstance(found, dict), found
    return found


def numbers(machine: Machine, pattern: str) -> list[int]:
    return [int(text) for text in machine.sh(f"cat {pattern}").split()]


def settings(machine: Machine) -> dict[str, Any]:
    """The NIC's side of the chain, and RDMA-CM's default for its device."""
    ecn = f"/sys/class/net/{NETDEV}/ecn"
    lines = machine.sh(f"cat /sys/kernel/config/rdma_cm/{HCA}/ports/1/default_roce_* 2>/dev/null || true").splitlines()
    return {
        "pfc": [priority for priority, paused in enumerate(dcb(machine, "pfc")["prio_pfc"]) if paused],
        "dscp": dcb(machine, "app").get("dscp_prio", []),
        "host": dcb(machine, "dcbx").get("host", False),
        "np": [at for at, flag in enumerate(numbers(machine, f"{ecn}/roce_np/enable/*")) if flag],
        "rp": [at for at, flag in enumerate(numbers(machine, f"{ecn}/roce_rp/enable/*")) if flag],
        "cnp": numbers(machine, f"{ecn}/roce_np/cnp_dscp {ecn}/roce_np/cnp_802p_prio"),
        "cm": [lines[0], int(lines[1])] if lines else None,
    }


def clear(machine: Machine) -> None:
    """What somebody does who looks for another cause of bad performance."""
    machine.run("dcb", "app", "flush", "dev", NETDEV)
    machine.run("dcb", "pfc", "set", "dev", NETDEV, "prio-pfc", "all:off")
    machine.write(f"/sys/kernel/config/rdma_cm/{HCA}/ports/1/default_roce_tos", "0")


def planned(machine: Machine) -> set[str]:
    run = machine.railwright("plan")
    return {change["what"] for change in run.document["nodes"]["node1"]["changes"]}


def chain(machine: Machine) -> dict[str, Any]:
    (judged,) = machine.railwright("validate").verdicts("qos.chain")
    return judged


def soon(machine: Machine, wanted: dict[str, Any], seconds: float = 60) -> dict[str, Any]:
    """The settings, as soon as they are these or the time is over."""
    deadline = time.monotonic() + seconds
    while (found := settings(machine)) != wanted and time.monotonic() < deadline:
        time.sleep(2)
    return found


@pytest.fixture(scope="module")
def node(machine: Machine) -> Machine:
    """The NIC is there from every boot on, under the names of mlx5's driver."""
    machine.write("/etc/modprobe.d/lab.conf", f"options lab_dcb driver_name=mlx5_core rdma_name={HCA}\n")
    machine.write("/etc/modules-load.d/lab.conf", "lab_dcb\n")
    machine.run("modprobe", "lab_dcb")
    machine.rails({"name": "rail0", "match": {"mac": MAC}, "address": "10.77.0.11/24"})
    machine.site(SITE)
    return machine


def test_the_nic_is_as_it_was_shipped(node: Machine) -> None:
    assert settings(node) == EMPTY
    judged = chain(node)
    assert (judged["status"], judged["message"].partition(" is the first link that breaks")[0]) == ("fail", "NCCL_IB_TC"), judged


def test_apply_sets_the_profile(node: Machine) -> None:
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    assert settings(node) == WANTED
    assert chain(node)["status"] == "pass"


def test_a_second_apply_changes_nothing(node: Machine) -> None:
    run = node.railwright("apply")
    assert (run.code, run.document["summary"]["changes"]) == (0, 0), run.document
    assert settings(node) == WANTED


def test_a_reboot_keeps_it(node: Machine) -> None:
    node.reboot()
    assert soon(node, WANTED) == WANTED
    assert planned(node) == set()


def test_a_reload_of_the_driver_brings_it_back(node: Machine) -> None:
    """Interface and RDMA device go and come anew, with nothing set, as in a restart of openibd."""
    node.run("modprobe", "-r", "lab_dcb")
    node.run("modprobe", "lab_dcb")
    assert soon(node, WANTED) == WANTED
    assert planned(node) == set()


def test_what_somebody_cleared_is_planned_and_named(node: Machine) -> None:
    clear(node)
    assert planned(node) == {f"DSCP map of {LABEL}", f"PFC of {LABEL}", f"RDMA-CM default of {LABEL}"}
    judged = chain(node)
    assert (judged["status"], judged["found"]) == ("fail", "trust: trust pcp"), judged
    assert "PFC on none, not PFC on 3" in judged["message"]


def test_apply_repairs_it(node: Machine) -> None:
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    assert settings(node) == WANTED
    assert chain(node)["status"] == "pass"


def test_a_wrong_value_is_named_by_itself(node: Machine) -> None:
    node.run("dcb", "app", "replace", "dev", NETDEV, "dscp-prio", "26:1")
    assert planned(node) == {f"DSCP map of {LABEL}"}
    assert chain(node)["found"].startswith("priority: ")


def test_plain_ansible_sets_it_too(node: Machine, tmp_path: Path) -> None:
    clear(node)
    first, again = (plain_playbook(node, tmp_path, "roce_qos") for _ in range(2))
    assert first > 0
    assert settings(node) == WANTED
    assert again == 0


def test_lldpad_loses_the_nic(node: Machine) -> None:
    node.run("systemctl", "enable", "--now", "lldpad.service", "lldpad.socket")
    assert "lldpad stopped" in planned(node)
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    for unit in ("lldpad.service", "lldpad.socket"):
        assert node.fails("systemctl", "is-active", unit).strip() == "inactive"
        assert node.fails("systemctl", "is-enabled", unit).strip() in ("disabled", "masked")
    assert soon(node, WANTED) == WANTED


def test_another_profile_takes_the_place_of_the_first(node: Machine) -> None:
    """A site's own, with shares of the bandwidth and receive buffers. What the first set and this one does not ask for stays: the map
    of 62 other DSCPs and ECN on seven other priorities may be anybody's. A reload, which sets this one from scratch, shows that."""
    node.site(CUSTOM)
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    wanted = {"pfc": [4], "dscp": [[34, 4], [46, 5]], "host": True, "np": [4], "rp": [4], "cnp": [46, 5], "cm": ["RoCE v2", 138]}
    both = {**wanted, "dscp": [[26, 3], [34, 4], [46, 5], [48, 6]], "np": [3, 4], "rp": [3, 4]}
    for expected in (both, wanted):
        assert soon(node, expected) == expected
        ets = dcb(node, "ets")
        assert [ets["tc_bw"][tc] for tc in ets["prio_tc"]] == SHARES
        assert ets["tc_tsa"] == ["ets"] * 8
        buffers = dcb(node, "buffer")
        assert (buffers["prio_buffer"], buffers["buffer_size"]) == ([0, 0, 0, 0, 1, 0, 0, 0], [131072, 262144, 0, 0, 0, 0, 0, 0])
        assert planned(node) == set()
        node.run("modprobe", "-r", "lab_dcb")
        node.run("modprobe", "lab_dcb")
