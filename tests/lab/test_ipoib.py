# SPDX-License-Identifier: GPL-3.0-or-later
"""IPoIB as far as a kernel without an InfiniBand port goes: the module loads, and makes no interface. More only real hardware shows.

The RDMA device is a real Soft-RoCE one: its ports are Ethernet, and ib_ipoib passes them over.
"""

from __future__ import annotations

import pytest
import yaml

from lab_images import GRUB
from lab_machine import Machine
from railwright import lab

RECIPE = GRUB
HARDWARE = lab.Hardware()
INFINIBAND = "32"  # ARPHRD_INFINIBAND
GUID = "b8ce:f603:00ab:cdef"


@pytest.fixture(scope="module")
def node(machine: Machine) -> Machine:
    machine.sh("modprobe rdma_rxe; ip link set eth1 up; rdma link add rxe0 type rxe netdev eth1; modprobe ib_ipoib")
    machine.site({"rdma_fabric": "infiniband", "rdma_stack": "inbox", "rdma_mtu": 2044})
    file = machine.inventory / "hosts.yml"
    hosts = yaml.safe_load(file.read_text(encoding="utf-8"))
    hosts["all"]["children"]["rdma"]["hosts"]["node1"]["rdma_rails"] = [
        {"name": "rail0", "match": {"guid": GUID}, "address": "198.18.0.11/24"}]
    file.write_text(yaml.safe_dump(hosts), encoding="utf-8")
    return machine


def test_the_module_loads_and_makes_no_interface(node: Machine) -> None:
    assert "ib_ipoib" in node.run("lsmod")
    assert node.run("rdma", "link", "show").startswith("link rxe0/1 state ACTIVE")
    types = node.sh("cat /sys/class/net/*/type").split()
    assert len(types) >= 3
    assert INFINIBAND not in types


def test_enhanced_ipoib_is_another_modules(node: Machine) -> None:
    """``ipoib_enhanced``, which the facts tell, is a parameter of MLNX_OFED's and DOCA's module; the kernel's has none."""
    parameters = node.run("ls", "/sys/module/ib_ipoib/parameters").split()
    assert "send_queue_size" in parameters
    assert "ipoib_enhanced" not in parameters


def test_plan_and_verdict_say_that_the_rails_port_is_not_there(node: Machine) -> None:
    text = f"no device with guid {GUID} on this node"
    plan = node.railwright("plan")
    assert plan.code == 1
    assert plan.document["nodes"]["node1"]["message"].startswith(f"network: rail0: {text}; it has ")
    found = {item["check"]: (item["status"], item["message"]) for item in node.railwright("validate").verdicts("rail.device")}
    assert found == {"rail.device": ("fail", text)}
