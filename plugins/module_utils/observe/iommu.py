# SPDX-License-Identifier: GPL-3.0-or-later
"""What the IOMMU does with DMA, and the PCI part of a node's facts.

``type`` of an IOMMU group (Documentation/ABI/testing/sysfs-kernel-iommu_groups): ``identity`` passes DMA through,
``DMA`` and ``DMA-FQ`` translate it. The tables of the firmware say whether there is an IOMMU at all: DMAR (Intel),
IVRS (AMD), IORT (Arm).
"""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import is_digits
from ..host.host import Host
from .devices import PCI_DEVICES
from .pci import acs_facts

GROUPS = "/sys/kernel/iommu_groups"
TABLES = "/sys/firmware/acpi/tables"
_KINDS = (("DMAR", "intel"), ("IVRS", "amd"), ("IORT", "arm"))
_WORDS = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict")
PASSTHROUGH, TRANSLATED, OFF = "passthrough", "translated", "off"
LOCKDOWN = "/sys/kernel/security/lockdown"


def command_line(host: Host) -> Tuple[str, ...]:
    """The running kernel's arguments."""
    return tuple((host.read("/proc/cmdline", 65536) or "").split())


def pci_locked(host: Host) -> Optional[bool]:
    """Kernel lockdown (on with Secure Boot) forbids writing configuration space; setpci then fails silently. None: no such file."""
    text = host.read(LOCKDOWN, 4096)
    return None if text is None else "[integrity]" in text or "[confidentiality]" in text


def pci_facts(host: Host, functions: Sequence[str]) -> Dict[str, Any]:
    """The ``pci`` part of the facts. ``functions``: the PCI addresses of GPUs and HCAs."""
    return {
        "iommu": iommu_facts(host, functions),
        "acs": acs_facts(host, functions),
        "numa_nodes": numa_nodes(host),
        "config_locked": pci_locked(host),
    }


def iommu_facts(host: Host, functions: Sequence[str]) -> Dict[str, Any]:
    words = command_line(host)
    arguments = [word for word in words if word.partition("=")[0] in _WORDS]
    return {
        "hardware": next((kind for table, kind in _KINDS if host.exists("%s/%s" % (TABLES, table))), None),
        "mode": _mode(host, functions, arguments),
        "groups": len([name for name in host.listdir(GROUPS) if is_digits(name)]),
        "arguments": arguments,
    }


def _mode(host: Host, functions: Sequence[str], arguments: Sequence[str]) -> Optional[str]:
    """What holds for GPUs and HCAs, else for the node: translated if any of them is."""
    groups = [name for name in host.listdir(GROUPS) if is_digits(name)]
    if not groups:
        return OFF if host.live or host.exists(GROUPS) else None
    types = _types(host, ["%s/%s/iommu_group/type" % (PCI_DEVICES, address) for address in functions])
    types = types or _types(host, ["%s/%s/type" % (GROUPS, name) for name in groups])
    if not types:  # kernels before 4.19 have no such file
        return PASSTHROUGH if "iommu=pt" in arguments or "iommu.passthrough=1" in arguments else None
    return TRANSLATED if any(kind.startswith("DMA") for kind in types) else PASSTHROUGH


def _types(host: Host, paths: Sequence[str]) -> List[str]:
    found = [sysfs_values.name(host.line(path)) for path in paths]
    return [kind for kind in found if kind is not None]


def numa_nodes(host: Host) -> Optional[int]:
    names = [name for name in host.listdir("/sys/devices/system/node") if name[:4] == "node" and is_digits(name[4:])]
    return len(names) or None
