# SPDX-License-Identifier: GPL-3.0-or-later
"""Another stack's udev rules give RDMA devices other names. Rails match by MAC or PCI address, so every setting stays; what names the
device (NCCL's list) follows.

The device is a real Soft-RoCE one, made by a unit of this test as a driver would at boot: to railwright it is the distribution's stack.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab_images import FABRIC
from lab_machine import Machine
from railwright import lab

RECIPE = FABRIC
HARDWARE = lab.Hardware()
OLD, NEW = "mlx5_0", "rocep0s4"  # NAME_KERNEL's and NAME_FALLBACK's kinds of name
UNIT = """[Unit]
Requires=sys-subsystem-net-devices-eth1.device
After=systemd-modules-load.service sys-subsystem-net-devices-eth1.device
Before=multi-user.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'rdma link show | grep -q eth1 || rdma link add {name} type rxe netdev eth1'
[Install]
WantedBy=multi-user.target
"""


def device_named(machine: Machine, name: str) -> None:
    """The device has this name at every boot from now on."""
    machine.sh(f"cat > /etc/systemd/system/lab-device.service <<'UNIT'\n{UNIT.format(name=name)}UNIT\nsystemctl daemon-reload")
    machine.sh("modprobe rdma_rxe; systemctl enable --now lab-device.service")


def changes(run: Any) -> list[dict[str, Any]]:
    return list(run.document["nodes"]["node1"]["changes"])


@pytest.fixture(scope="module")
def node(machine: Machine) -> Machine:
    machine.sh("echo rdma_rxe > /etc/modules-load.d/lab.conf")
    device_named(machine, OLD)
    machine.site({
        "rdma_fabric": "roce", "rdma_stack": "inbox", "rdma_mtu": 9000, "rdma_consent": ["link", "restart"], "validate_perftest": False,
    })  # fmt: skip
    run = machine.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    return machine


def test_everything_is_set_under_the_first_name(node: Machine) -> None:
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
    assert OLD in node.run("cat", "/etc/nccl.conf")


def test_the_dma_buf_probe_asks_the_device(node: Machine) -> None:
    """Soft-RoCE answers EOPNOTSUPP to ibv_reg_dmabuf_mr: a kernel that is new enough is no proof."""
    facts = node.railwright("facts").document["node1"]
    assert facts["gpudirect"]["dmabuf"]["hcas"] == {OLD: False}, facts["gpudirect"]


def test_a_rename_changes_only_what_names_the_device(node: Machine) -> None:
    node.run("rdma", "dev", "set", OLD, "name", NEW)
    device_named(node, NEW)
    plan = node.railwright("plan")
    # RDMA-CM's defaults lie in a directory of the device's name.
    assert {change["area"] for change in changes(plan)} == {"nccl", "roce_qos"}, changes(plan)
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    written = node.run("cat", "/etc/nccl.conf")
    assert NEW in written
    assert OLD not in written


def test_the_rail_is_the_same_after_a_reboot(node: Machine) -> None:
    node.reboot()
    assert NEW in node.run("rdma", "link", "show")
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), changes(plan)
