# SPDX-License-Identifier: GPL-3.0-or-later
"""Accelerators of other makers than NVIDIA on the PCI bus, with error counts and links of AMD's from amdgpu's sysfs files.

Formats: Documentation/gpu/amdgpu/ras.rst (``ue: 0``, ``ce: 1`` in ras/BLOCK_err_count; ``0x01 : 0x1000 : R`` in ras/gpu_vram_bad_pages),
drivers/gpu/drm/amd/include/kgd_pp_interface.h (gpu_metrics v1.7 and v1.8, Linux 6.14 and later: states of the xGMI links at offset 264).
xgmi_error is left alone: reading it resets it (amdgpu_xgmi.c).
"""

import re
import struct
from typing import Any, Dict, List, Optional

from ..catalogue.accelerators import AMD, Accelerator, accelerator_of
from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from .devices import PCI_DEVICES, attribute, linked_name, pci_attribute, pci_functions
from .pci import SPACE_BYTES, link_facts

MOST, BLOCKS, PAGES = 64, 64, 64 * 1024
COUNTS = "_err_count"
_COUNT = re.compile(r"^(ue|ce|de): ([0-9]{1,18})$", re.MULTILINE)
_PAGE = re.compile(r"0x[0-9a-f]{1,16} : 0x[0-9a-f]{1,16} : ([RPF])\Z")
_STATES = struct.Struct("<8H")
METRICS, METRICS_BYTES, LINKS_AT, VERSIONS = "gpu_metrics", 4096, 264, ((1, 7), (1, 8))


def observe_accelerators(host: Host) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = []
    for address in sorted(pci_functions(host)):
        vendor, device, kind = [(pci_attribute(host, address, name) or "").strip() for name in ("vendor", "device", "class")]
        row = accelerator_of(vendor, device, kind)
        given_away = host.readlink("%s/%s/physfn" % (PCI_DEVICES, address)) is not None
        if row is not None and not given_away and sysfs_values.hex_text(vendor) and sysfs_values.hex_text(device) and len(found) < MOST:
            found.append(_facts(host, address, row, device))
    return found


def _facts(host: Host, address: str, row: Accelerator, device: str) -> Dict[str, Any]:
    path = "%s/%s" % (PCI_DEVICES, address)
    driver = linked_name(host, path + "/driver")
    answers = responds(host, address)
    amd = row.vendor == AMD and driver == "amdgpu" and answers is not False  # the driver would wait for a lost GPU's firmware
    return {
        "pci": address, "vendor_id": row.vendor, "device_id": device, "model": row.model, "kind": row.kind, "driver": driver,
        "driver_version": sysfs_values.token(host.line("/sys/module/%s/version" % driver)) if driver else None,
        "numa_node": sysfs_values.integer(pci_attribute(host, address, "numa_node")), "responds": answers,
        "ras": error_counts(host, path) if amd and row.ras else None, "bad_pages": bad_pages(host, path) if amd else None,
        "xgmi": xgmi_links(host, path) if amd else None, "link": link_facts(host, address),
    }


def responds(host: Host, address: str) -> Optional[bool]:
    """False for a function that is powered off or fell off the bus: its configuration space reads all ones. Else it begins with the vendor
    that the kernel found."""
    header = (host.read_bytes("%s/%s/config" % (PCI_DEVICES, address), SPACE_BYTES) or b"")[:4]
    if header == b"\xff\xff\xff\xff":
        return False
    vendor = sysfs_values.integer(pci_attribute(host, address, "vendor"))
    return True if len(header) == 4 and int.from_bytes(header[:2], "little") == vendor else None


def error_counts(host: Host, path: str) -> Optional[Dict[str, Dict[str, int]]]:
    """Return errors since the driver was loaded by block (umc, gfx, xgmi_wafl …): ``ue`` uncorrected, ``ce`` corrected, ``de`` deferred.
    A block without counts in a file that is there (a sentence while a GPU resets) is {}."""
    names = [name for name in host.listdir(path + "/ras") if name.endswith(COUNTS) and sysfs_values.is_name(name)][:BLOCKS]
    found = {name[:-len(COUNTS)]: _counts(attribute(host, "%s/ras/%s" % (path, name)) or "") for name in names}
    return found if any(found.values()) else None


def _counts(text: str) -> Dict[str, int]:
    """Return {} unless each line is a count, but that an error beside a broken line is still an error."""
    counts = {kind: int(count) for kind, count in _COUNT.findall(text)}
    whole = "ue" in counts and len(counts) == len(text.strip().split("\n"))
    return counts if whole or counts.get("ue") or counts.get("de") else {}


def bad_pages(host: Host, path: str) -> Optional[Dict[str, Optional[int]]]:
    """Count pages of memory that were taken out of use (R), that wait for it (P), and that could not be taken out (F). None for each
    count where a line is no page, and for all where the driver has no such file."""
    text = host.read(path + "/ras/gpu_vram_bad_pages", PAGES)
    if text is None:
        return None
    lines = [_PAGE.match(line) for line in lines_in(text) if line.strip()]
    flags = [match.group(1) for match in lines if match is not None]
    return {name: flags.count(flag) or (0 if len(flags) == len(lines) else None)
            for name, flag in (("retired", "R"), ("pending", "P"), ("failed", "F"))}


def xgmi_links(host: Host, path: str) -> Optional[Dict[str, int]]:
    """Count the xGMI links that are up and down; links that the GPU does not use are neither. None: an older or newer table."""
    data = host.read_bytes("%s/%s" % (path, METRICS), METRICS_BYTES) or b""
    if len(data) < LINKS_AT + _STATES.size or tuple(data[2:4]) not in VERSIONS:
        return None
    states = _STATES.unpack_from(data, LINKS_AT)
    return {"up": states.count(1), "down": states.count(0)}
