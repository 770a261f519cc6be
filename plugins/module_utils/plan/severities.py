# SPDX-License-Identifier: GPL-3.0-or-later
"""How much a drift hurts: as its area's row says, but what is only for the next boot (a file, an enabled unit) is never critical."""

from typing import Tuple

from ..types import AT_BOOT, CRITICAL, MAJOR, MINOR, Change
from .areas import BY_NAME

# The area that a check is about, by the start of its name; the rest keeps its own first word.
AREA_OF_CHECK: Tuple[Tuple[str, str], ...] = (
    ("rail.", "hca"), ("port.", "hca"), ("hca.", "hca"), ("node.hcas", "hca"), ("node.memlock", "limits"), ("gpu.", "gpu_driver"),
    ("kernel.pinned", "kernel"), ("kernel.", "stack"), ("stack.", "stack"), ("pci.", "pci_tuning"), ("firmware.", "nic_firmware"),
    ("gpudirect.", "gpudirect"), ("qos.", "roce_qos"), ("firewall.", "firewall"), ("erdma.", "erdma"), ("aiacc.", "aiacc"),
    ("nccl.", "nccl"),
)
# These say with other words what a change of the plan says: once is enough.
DOUBLES = {
    "rail.mtu": "network", "rail.address": "network", "rail.device": "rxe", "node.memlock": "limits", "qos.chain": "roce_qos",
    "qos.boot": "roce_qos", "firewall.tcp": "firewall", "firewall.roce": "firewall", "pci.acs": "pci_tuning",
    "pci.max_read_request": "pci_tuning", "pci.iommu": "pci_tuning", "firmware.version": "nic_firmware", "firmware.config": "nic_firmware",
    "gpu.persistence": "gpu_driver", "gpu.driver": "gpu_driver", "gpu.driver_loaded": "gpu_driver", "gpu.fabricmanager": "gpu_driver",
    "gpudirect.path": "gpudirect", "gpudirect.peermem": "gpudirect", "stack.dkms": "dkms", "stack.modules": "stack",
    "stack.packages": "packages", "kernel.pinned": "kernel", "erdma.mode": "erdma", "aiacc.plugin": "aiacc", "nccl.gid": "nccl",
}


def of_change(change: Change) -> str:
    severity = BY_NAME[change.area].severity if change.area in BY_NAME else MAJOR
    return MAJOR if change.when == AT_BOOT and severity == CRITICAL else severity


def of_check(check: str, status: str) -> str:
    """A verdict that warns is minor whatever it is about."""
    if status == "warn":
        return MINOR
    area = area_of_check(check)
    return BY_NAME[area].severity if area in BY_NAME else CRITICAL


def area_of_check(check: str) -> str:
    return next((area for start, area in AREA_OF_CHECK if check.startswith(start)), check.partition(".")[0])
