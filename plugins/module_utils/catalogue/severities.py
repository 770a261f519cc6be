# SPDX-License-Identifier: GPL-3.0-or-later
"""How much a drift hurts. One rule: what breaks jobs now is critical, what slows them or breaks at the next boot is major.

Read as: area -> severity of a live setting. What is only for the next boot (a file, an enabled unit) is never critical.
"""

from typing import Dict, Tuple

from ..types import Change

SEVERITIES = ("critical", "major", "minor")
CRITICAL, MAJOR, MINOR = SEVERITIES
AREA: Dict[str, str] = {
    "repositories": MINOR,  # the next installation may be another one
    "kernel": MAJOR,  # jobs run; what is built for the pinned one does not fit
    "packages": MAJOR,
    "dkms": CRITICAL,  # modules for the running kernel
    "stack": CRITICAL,
    "erdma": CRITICAL,
    "kernel_modules": CRITICAL,
    "gpu_driver": CRITICAL,
    "cuda": MAJOR,
    "nccl_library": MAJOR,
    "aiacc": MAJOR,
    "mpi": MAJOR,
    "gpudirect": CRITICAL,  # copies through host memory, or jobs that fail
    "nic_firmware": MAJOR,
    "pci_tuning": MAJOR,
    "network": CRITICAL,
    "firewall": CRITICAL,  # a bootstrap that hangs
    "rxe": CRITICAL,
    "ipoib": CRITICAL,
    "roce_qos": CRITICAL,  # drops in a lossless class
    "limits": MAJOR,
    "sysctl": MAJOR,
    "cpu": MAJOR,
    "nccl": MAJOR,
    "containers": MINOR,
    "opensm": CRITICAL,  # no fabric without one
}
AT_BOOT = ("file ", "version locks ")
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
    severity = AREA.get(change.area, MAJOR)
    later = change.what.startswith(AT_BOOT) or (change.what.startswith("unit ") and change.what.endswith(" enabled"))
    return MAJOR if later and severity == CRITICAL else severity


def of_check(check: str, status: str) -> str:
    """A verdict that warns is minor whatever it is about."""
    return MINOR if status == "warn" else AREA.get(area_of_check(check), CRITICAL)


def area_of_check(check: str) -> str:
    return next((area for start, area in AREA_OF_CHECK if check.startswith(start)), check.partition(".")[0])
