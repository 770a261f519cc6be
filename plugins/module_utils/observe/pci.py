# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI functions as sysfs shows them: where they hang, how their links run, their BARs, their configuration space, the IOMMU's mode.

The links of a path go in pairs: a device and the port above it (root port or a switch's downstream port) have one link,
a switch's upstream port and the port above that one the next. sysfs gives speed and width of a link at both of its ends.
``type`` of an IOMMU group (Documentation/ABI/testing/sysfs-kernel-iommu_groups): ``identity`` passes DMA through,
``DMA`` and ``DMA-FQ`` translate it. The tables of the firmware say whether there is an IOMMU at all.
"""

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import is_digits, lines_in
from ..formats.text import grouped
from ..host.host import Host
from .devices import PCI_DEVICES, linked_name, pci_attribute, pci_functions

# Configuration space: bytes in, registers out; never raises, whatever the bytes are.
#
# Layout as in the PCI Express Base Specification, chapter 7 (the kernel's include/uapi/linux/pci_regs.h has the same
# numbers): a list of capabilities in the first 256 bytes, a list of extended ones from byte 256 on. An ordinary user is
# given the first 64 bytes only, without any capability: that is None (unknown), not "has none".
HEADER_BYTES = 64
EXTENDED_AT = 0x100
SPACE_BYTES = 4096
_STATUS, _STATUS_CAPABILITIES = 0x06, 0x10
_FIRST_CAPABILITY = 0x34
CAPABILITY_EXPRESS = 0x10
EXTENDED_ACS = 0x000D
DEVCTL_RELAXED = 0x0010
DEVCTL_READ_REQUEST = 0x7000
# Bits of the ACS control register by the names that lspci gives them.
ACS_BITS = ((0x01, "SrcValid"), (0x02, "TransBlk"), (0x04, "ReqRedir"), (0x08, "CmpltRedir"), (0x10, "UpstreamFwd"), (0x20, "EgressCtrl"),
            (0x40, "DirectTrans"))


class Express(NamedTuple):
    """The PCI Express capability. Sizes in bytes; None where a field holds a reserved code."""

    control: int  # DevCtl as it is, so that it can be restored
    max_payload: Optional[int]
    max_read_request: Optional[int]
    relaxed_ordering: bool


class Acs(NamedTuple):
    capability: int
    control: int


class ConfigSpace(NamedTuple):
    """What a function's configuration space says. ``complete`` is False for the 64 bytes that who is not root gets."""

    vendor: int
    device: int
    bridge: bool
    complete: bool  # the capability list could be read
    extended: bool  # the extended one too
    express: Optional[Express]
    acs: Optional[Acs]


def parse_config(data: Optional[bytes]) -> Optional[ConfigSpace]:
    """None where there is no header, or the function does not answer (every byte 0xff: powered off, or fallen off the bus)."""
    if data is None or len(data) < HEADER_BYTES or _word(data, 0) in (None, 0xFFFF):
        return None
    complete = len(data) > HEADER_BYTES
    extended = len(data) > EXTENDED_AT
    return ConfigSpace(
        _word(data, 0) or 0, _word(data, 2) or 0, (data[0x0E] & 0x7F) == 1, complete, extended,
        _express(data) if complete else None, _acs(data) if extended else None)


def acs_names(control: int) -> Tuple[str, ...]:
    return tuple(name for bit, name in ACS_BITS if control & bit)


def read_request_code(size: int) -> int:
    """MaxReadReq in bytes as the bits of DevCtl: 4096 -> 0x5000."""
    return (size // 128).bit_length() - 1 << 12


def _word(data: bytes, at: int) -> Optional[int]:
    return data[at] | data[at + 1] << 8 if at >= 0 and at + 2 <= len(data) else None


def _double(data: bytes, at: int) -> Optional[int]:
    low, high = _word(data, at), _word(data, at + 2)
    return None if low is None or high is None else low | high << 16


def _find_capability(data: bytes, wanted: int) -> Optional[int]:
    if not data[_STATUS] & _STATUS_CAPABILITIES:
        return None
    at, seen = data[_FIRST_CAPABILITY] & 0xFC, set()
    while at >= HEADER_BYTES and at + 2 <= min(len(data), EXTENDED_AT) and at not in seen:
        if data[at] == wanted:
            return at
        seen.add(at)
        at = data[at + 1] & 0xFC
    return None


def _find_extended(data: bytes, wanted: int) -> Optional[int]:
    at, seen = EXTENDED_AT, set()
    while at >= EXTENDED_AT and at not in seen:
        header = _double(data, at)
        if header is None or header in (0, 0xFFFFFFFF):
            return None
        if header & 0xFFFF == wanted:
            return at
        seen.add(at)
        at = header >> 20 & 0xFFC
    return None


def _express(data: bytes) -> Optional[Express]:
    at = _find_capability(data, CAPABILITY_EXPRESS)
    control = _word(data, at + 8) if at is not None else None
    if control is None:
        return None
    return Express(control, _size(control >> 5), _size(control >> 12), bool(control & DEVCTL_RELAXED))


def _acs(data: bytes) -> Optional[Acs]:
    at = _find_extended(data, EXTENDED_ACS)
    if at is None:
        return None
    capability, control = _word(data, at + 4), _word(data, at + 6)
    return Acs(capability, control) if capability is not None and control is not None else None


def _size(code: int) -> Optional[int]:
    """Three bits: 128 bytes doubled that often; 6 and 7 are reserved."""
    code &= 7
    return 128 << code if code <= 5 else None


MAX_DEPTH = 16  # buses between a device and its root port; a captured tree may hold a loop
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?GT/s(?: PCIe)?\Z")
_NO_WIDTH = (0, 63, 255)  # what kernels print for "no link" and "unknown"
_BARS = 6
_FLAG_MEMORY, _FLAG_64 = 0x200, 0x100000  # include/linux/ioport.h


def config_of(host: Host, address: str) -> Optional[ConfigSpace]:
    return parse_config(host.read_bytes("%s/%s/config" % (PCI_DEVICES, address), SPACE_BYTES))


def path_above(host: Host, address: str) -> Tuple[str, ...]:
    """The bridges between a function and its root complex, the nearest first, root port last."""
    parts = map(sysfs_values.pci_address, (host.readlink("%s/%s" % (PCI_DEVICES, address)) or "").split("/"))
    return tuple([function for function in parts if function is not None and function != address][::-1][:MAX_DEPTH])


def links_of(host: Host, address: str) -> List[Dict[str, Any]]:
    """What each link runs at and what its two ends can do; the device's own first, then those of the switches above it."""
    chain = (address,) + path_above(host, address)
    return [_link(host, chain[at], chain[at + 1] if at + 1 < len(chain) else None) for at in range(0, len(chain), 2)]


def _link(host: Host, device: str, port: Optional[str]) -> Dict[str, Any]:
    """Speeds in GT/s. None: not known."""
    speeds = [_speed(host, end, "max_link_speed") if end is not None else None for end in (device, port)]
    widths = [_width(host, end, "max_link_width") if end is not None else None for end in (device, port)]
    return {
        "device": device, "port": port,
        "speed_gts": _speed(host, device, "current_link_speed"), "width": _width(host, device, "current_link_width"),
        "best_speed_gts": min((speed for speed in speeds if speed is not None), default=None),
        "best_width": min((width for width in widths if width is not None), default=None),
        "device_speed_gts": speeds[0], "device_width": widths[0], "port_speed_gts": speeds[1], "port_width": widths[1],
    }


def _speed(host: Host, address: str, name: str) -> Optional[float]:
    """``32.0 GT/s PCIe`` (``16 GT/s`` up to Linux 5.4); ``Unknown`` where the port has no link."""
    found = _SPEED.match((pci_attribute(host, address, name) or "").strip())
    return float(found.group(1)) if found else None


def _width(host: Host, address: str, name: str) -> Optional[int]:
    width = sysfs_values.integer(pci_attribute(host, address, name))
    return width if width is not None and width not in _NO_WIDTH and 0 < width <= 32 else None


def passed_through(host: Host) -> Tuple[str, ...]:
    """Functions that belong to a virtual machine (bound to vfio-pci): ACS above them is what keeps that machine in."""
    return tuple(address for address in pci_functions(host) if linked_name(host, "%s/%s/driver" % (PCI_DEVICES, address)) == "vfio-pci")


def is_virtual_function(host: Host, address: str) -> bool:
    return host.readlink("%s/%s/physfn" % (PCI_DEVICES, address)) is not None


def bars_of(host: Host, address: str) -> Optional[List[Dict[str, Any]]]:
    """The memory BARs: ``{index, address, size, bits}``; an address of 0 is one that the firmware found no room for."""
    text = pci_attribute(host, address, "resource")
    if text is None:
        return None
    lines = [[sysfs_values.integer(field) for field in line.split()] for line in lines_in(text)[:_BARS]]
    rows = [(index, [field for field in fields if field is not None]) for index, fields in enumerate(lines) if len(fields) == 3]
    return [{"index": index, "address": "0x%x" % row[0], "size": row[1] - row[0] + 1, "bits": 64 if row[2] & _FLAG_64 else 32}
            for index, row in rows if len(row) == 3 and row[2] & _FLAG_MEMORY and row[1] > row[0]]


def link_facts(host: Host, address: str) -> Dict[str, Any]:
    config = config_of(host, address)
    express = config.express if config is not None else None
    return {
        "path": list(path_above(host, address)),
        "links": links_of(host, address),
        **{name: getattr(express, name, None) for name in ("max_payload", "max_read_request", "relaxed_ordering")},
        "bars": bars_of(host, address),
        "sriov": _sriov(host, address),
        "iommu": sysfs_values.name(pci_attribute(host, address, "iommu_group/type")),
        "virtual_function": is_virtual_function(host, address),
    }


def _sriov(host: Host, address: str) -> Optional[Dict[str, Optional[int]]]:
    """None where the function has no SR-IOV capability (or none that the firmware enables)."""
    total = sysfs_values.integer(pci_attribute(host, address, "sriov_totalvfs"))
    if total is None:
        return None
    return {"total": total, "enabled": sysfs_values.integer(pci_attribute(host, address, "sriov_numvfs"))}


def bridges_above(host: Host, addresses: Iterable[str]) -> Dict[str, List[str]]:
    """Every bridge above these functions, with those of them that are below it."""
    return grouped((bridge, address) for address in dict.fromkeys(addresses) for bridge in path_above(host, address))


def acs_facts(host: Host, addresses: Iterable[str]) -> List[Dict[str, Any]]:
    """Access Control Services of every bridge above GPUs and HCAs that has them; ``enabled`` None: not readable (needs root)."""
    found: List[Dict[str, Any]] = []
    for bridge, below in sorted(bridges_above(host, addresses).items()):
        config = config_of(host, bridge)
        if config is not None and config.extended and config.acs is None:
            continue  # read whole, and there is none
        if config is not None and config.complete and not config.extended:
            continue  # 256 bytes: conventional PCI
        acs = config.acs if config is not None else None
        found.append({"bridge": bridge, "enabled": list(acs_names(acs.control)) if acs is not None else None, "below": below})
    return found


GROUPS = "/sys/kernel/iommu_groups"
UNTRANSLATED = ("identity", "unmanaged", "blocked", "unknown")  # drivers/iommu/iommu.c, iommu_group_show_type, beside DMA and DMA-FQ
CPUS = "/sys/devices/system/cpu"
TABLES = "/sys/firmware/acpi/tables"
_KINDS = (("DMAR", "intel"), ("IVRS", "amd"), ("IORT", "arm"))
_WORDS = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict")
PASSTHROUGH, TRANSLATED, OFF = "passthrough", "translated", "off"
LOCKDOWN = "/sys/kernel/security/lockdown"


def command_line(host: Host) -> Tuple[str, ...]:
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
        "cpus": {name: _cpus(host, name) for name in ("present", "isolated", "nohz_full")},
        "config_locked": pci_locked(host),
    }


def _cpus(host: Host, name: str) -> Optional[str]:
    """The kernel's list of that name as it prints it, empty for none."""
    text = host.read("%s/%s" % (CPUS, name), 4096)
    return None if text is None else sysfs_values.token(text.strip()) or ""


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
    if any(kind.startswith("DMA") for kind in types):
        return TRANSLATED
    return PASSTHROUGH if set(types) <= set(UNTRANSLATED) else None


def _types(host: Host, paths: Sequence[str]) -> List[str]:
    """Return the type of each group that has one; '' for one that cannot be read."""
    return [sysfs_values.name(host.line(path)) or "" for path in paths if host.exists(path)]


def numa_nodes(host: Host) -> Optional[int]:
    names = [name for name in host.listdir("/sys/devices/system/node") if name[:4] == "node" and is_digits(name[4:])]
    return len(names) or None
