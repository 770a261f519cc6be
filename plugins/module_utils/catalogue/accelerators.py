# SPDX-License-Identifier: GPL-3.0-or-later
"""Accelerators that railwright names and does not judge as it judges NVIDIA's GPUs: by PCI vendor and device.

Ids: the PCI ID Repository (pci-ids.ucw.cz, 2025-10), and the tables of the drivers amdgpu (amdgpu_drv.c), habanalabs
(habanalabs_drv.c), xe and aws-neuronx (neuron_pci.c). A device of class 0x12 (processing accelerator) that has no row is named by its ids.
"""

from typing import NamedTuple, Optional, Tuple

AMD, INTEL, HABANA, AMAZON, GOOGLE, HUAWEI = "0x1002", "0x8086", "0x1da3", "0x1d0f", "0x1ae0", "0x19e5"
NVIDIA = "0x10de"
PROCESSING = "0x12"  # the base class of processing accelerators


class Accelerator(NamedTuple):
    """``model``: as people call it. ``kind``: GPU or accelerator. ``driver``: the kernel's, whose absence on one device is a fault.

    ``ras``: whether reading the driver's error counts leaves them as they are. ``xgmi``: links to the other seven GPUs of a platform
    of eight; None: another number, or none.
    """

    vendor: str
    devices: Tuple[str, ...]
    model: str
    kind: str
    driver: str
    ras: bool = False
    xgmi: Optional[int] = None


GPU, ACCELERATOR = "GPU", "accelerator"
# xgmi: AMD, data sheets of the Instinct MI300X, MI325X, MI350X and MI355X platforms (2023 to 2025): eight OAM modules, each with seven
# Infinity Fabric links. ras: of MI200 (Aldebaran) each read of a count resets it (amdgpu_ras_sysfs_read, Linux 5.13 to 6.17), which would
# take it from the operator's own monitoring; virtual functions have no counts.
ACCELERATORS: Tuple[Accelerator, ...] = (
    Accelerator(AMD, ("0x738c", "0x738e"), "AMD MI100", GPU, "amdgpu", ras=True),
    Accelerator(AMD, ("0x7408", "0x740c"), "AMD MI250X", GPU, "amdgpu"),
    Accelerator(AMD, ("0x740f", "0x7410"), "AMD MI210", GPU, "amdgpu"),
    Accelerator(AMD, ("0x74a0",), "AMD MI300A", GPU, "amdgpu", ras=True),
    Accelerator(AMD, ("0x74a1", "0x74a9", "0x74bd"), "AMD MI300X", GPU, "amdgpu", ras=True, xgmi=7),
    Accelerator(AMD, ("0x74b5",), "AMD MI300X VF", GPU, "amdgpu"),
    Accelerator(AMD, ("0x74a2",), "AMD MI308X", GPU, "amdgpu", ras=True, xgmi=7),
    Accelerator(AMD, ("0x74a5",), "AMD MI325X", GPU, "amdgpu", ras=True, xgmi=7),
    Accelerator(AMD, ("0x74b9",), "AMD MI325X VF", GPU, "amdgpu"),
    Accelerator(AMD, ("0x75a0",), "AMD MI350X", GPU, "amdgpu", ras=True, xgmi=7),
    Accelerator(AMD, ("0x75a3",), "AMD MI355X", GPU, "amdgpu", ras=True, xgmi=7),
    Accelerator(AMD, ("0x75b0", "0x75b3"), "AMD MI350 VF", GPU, "amdgpu"),
    Accelerator(INTEL, ("0x0bd5", "0x0bd6", "0x0bd9", "0x0bda", "0x0bdb"), "Intel Data Center GPU Max", GPU, "xe or i915"),
    Accelerator(HABANA, ("0x1000", "0x1010"), "Intel Gaudi", ACCELERATOR, "habanalabs"),
    Accelerator(HABANA, ("0x1020",), "Intel Gaudi 2", ACCELERATOR, "habanalabs"),
    Accelerator(HABANA, ("0x1060",), "Intel Gaudi 3", ACCELERATOR, "habanalabs"),
    Accelerator(AMAZON, ("0x7064", "0x7065", "0x7066", "0x7067"), "AWS Inferentia", ACCELERATOR, "neuron"),
    Accelerator(AMAZON, ("0x7164",), "AWS Trainium", ACCELERATOR, "neuron"),
    Accelerator(AMAZON, ("0x7264",), "AWS Inferentia 2", ACCELERATOR, "neuron"),
    Accelerator(AMAZON, ("0x7364",), "AWS Trainium 2", ACCELERATOR, "neuron"),
)
MAKERS = {AMD: "AMD", INTEL: "Intel", HABANA: "Intel Habana", AMAZON: "AWS", GOOGLE: "Google", HUAWEI: "Huawei Ascend"}


def accelerator_of(vendor: str, device: str, device_class: str) -> Optional[Accelerator]:
    """Return the row of a PCI function; None for one that is no accelerator, or that NVIDIA made (its GPUs are judged)."""
    if vendor == NVIDIA:
        return None
    row = next((row for row in ACCELERATORS if row.vendor == vendor and device in row.devices), None)
    if row is not None or device_class[:4] != PROCESSING:
        return row
    return Accelerator(vendor, (device,), "%s %s:%s" % (MAKERS.get(vendor, "unknown"), vendor, device), ACCELERATOR, "")
