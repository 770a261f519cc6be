# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the role pci_tuning that its types do not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .findings import Findings

READ_REQUESTS = (0, 128, 256, 512, 1024, 2048, 4096)
IOMMU_NAMES = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough")


def check_pci_tuning(checked: Mapping[str, Any], findings: Findings) -> None:
    size = checked.get("pci_tuning_max_read_request")
    if isinstance(size, int) and size not in READ_REQUESTS:
        findings.error("pci_tuning_max_read_request", size, "is no MaxReadReq", ", ".join(str(value) for value in READ_REQUESTS))
    arguments = checked.get("pci_tuning_kernel_args")
    if not isinstance(arguments, list):
        return
    for at, argument in enumerate(arguments):
        if argument in arguments[:at]:
            findings.error(f"pci_tuning_kernel_args[{at}]", argument, "is there twice", "every argument once")
        if argument.partition("=")[0] in IOMMU_NAMES and checked.get("pci_tuning_iommu") == "passthrough":
            findings.error(f"pci_tuning_kernel_args[{at}]", argument, "is set by pci_tuning_iommu already",
                           "one of both: pci_tuning_iommu: keep, or no argument of that name")
