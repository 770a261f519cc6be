# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of the kernel and of os-release, turned into values: what has not the documented form is None.

Pure. A value is taken only when the whole of it has the form that the kernel prints, so a
truncated or overwritten file gives None, not half a value that a check could believe.
"""

import re
from functools import partial
from typing import Dict, List, Optional, Pattern, Set, Tuple, Union

from .outside import is_digits, lines_in

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,63}\Z")
_TOKEN = re.compile(r"[ -~]{1,256}\Z")
_ENUM = re.compile(r"[0-9]{1,3}: ?([A-Za-z<][A-Za-z0-9_<> -]{0,40})\Z")
_RATE = re.compile(r"([0-9]{1,6})(\.[0-9]{1,3})? Gb/sec(?: \(.*\))?\Z")
_LANES = re.compile(r"(?!0 )[0-9]{1,6}(?:\.[0-9]{1,3})? Gb/sec \(([0-9]{1,2})X [A-Z0-9]{1,8}\)\Z")
_GUID = re.compile(r"[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){3}\Z")
_GID = re.compile(r"[0-9a-fA-F]{4}(?::[0-9a-fA-F]{4}){7}\Z")
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}\Z")
_DECIMAL = re.compile(r"-?[0-9]{1,20}\Z")
_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\Z")
_MAC = re.compile(r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5,19}\Z")
_CPUS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?\Z")
_DIGITS = re.compile(r"([0-9]+)")

MOST_CPUS = 8192  # NR_CPUS at most
ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"


def natural_key(name: str) -> List[Tuple[int, int, str]]:
    """Sort key that puts mlx5_2 before mlx5_10."""
    return [(0, int(part), part) if is_digits(part) else (1, 0, part) for part in _DIGITS.split(name) if part]


def is_name(text: str) -> bool:
    """Whether a directory entry or a file's text may name a device: it becomes part of a path."""
    return _NAME.match(text) is not None and ".." not in text


def name(text: Optional[str]) -> Optional[str]:
    stripped = (text or "").strip()
    return stripped if is_name(stripped) else None


def _of_form(pattern: Pattern[str], text: Optional[str]) -> Optional[str]:
    stripped = (text or "").strip()
    return stripped if pattern.match(stripped) else None


token = partial(_of_form, _TOKEN)  # one line of printable ASCII (fw_ver, board_id, hca_type …)
guid, gid = partial(_of_form, _GUID), partial(_of_form, _GID)
hex_text = partial(_of_form, _HEX)  # a hexadecimal number as the kernel prints it (cap_mask, vendor, device)


def enum_text(text: Optional[str]) -> Optional[str]:
    """``4: ACTIVE`` -> ``ACTIVE``, ``5: LinkUp`` -> ``LinkUp``."""
    found = _ENUM.match((text or "").strip())
    return found.group(1).strip() if found else None


def rate_gbps(text: Optional[str]) -> Optional[Union[int, float]]:
    """``400 Gb/sec (4X NDR)`` -> 400, ``2.5 Gb/sec (1X SDR)`` -> 2.5."""
    found = _RATE.match((text or "").strip())
    if not found:
        return None
    return int(found.group(1)) if found.group(2) is None else float(found.group(1) + found.group(2))


def lanes(text: Optional[str]) -> Optional[int]:
    """The number of lanes of a port's link: ``100 Gb/sec (1X NDR)`` -> 1. The kernel knows 1, 2, 4, 8 and 12 (rdma/ib_verbs.h)."""
    found = _LANES.match((text or "").strip())
    return int(found.group(1)) if found and found.group(1) in ("1", "2", "4", "8", "12") else None


def integer(text: Optional[str]) -> Optional[int]:
    """Decimal, or hexadecimal with 0x: the kernel prints LIDs one way or the other."""
    stripped = (text or "").strip()
    if _HEX.match(stripped):
        return int(stripped, 16)
    return int(stripped) if _DECIMAL.match(stripped) else None


def pci_address(text: Optional[str]) -> Optional[str]:
    return (_of_form(_PCI, text) or "").lower() or None


def last_pci_address(path: Optional[str]) -> Optional[str]:
    """The innermost PCI function of a sysfs path (a virtio device lies below its function)."""
    return next(filter(None, map(pci_address, reversed((path or "").split("/")))), None)


def mac_address(text: Optional[str]) -> Optional[str]:
    """Lower case; six bytes for Ethernet, twenty for IPoIB."""
    return (_of_form(_MAC, text) or "").lower() or None


def mac_of_guid(text: Optional[str]) -> Optional[str]:
    """The MAC in an EUI-64 GUID (eRDMA, rxe, irdma make theirs so), None for a GUID of another kind."""
    digits = (guid(text) or "").replace(":", "").lower()
    if digits[6:10] != "fffe":
        return None
    octets = [int(digits[at:at + 2], 16) for at in (0, 2, 4, 10, 12, 14)]
    octets[0] ^= 0x02
    return ":".join("%02x" % octet for octet in octets)


def key_values(text: Optional[str]) -> Dict[str, str]:
    """``KEY=value`` lines (uevent, os-release): quotes taken off, everything else left out."""
    values: Dict[str, str] = {}
    for line in lines_in(text or ""):
        key, separator, value = line.strip().partition("=")
        if not separator or not is_name(key):
            continue
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        if value == "" or _TOKEN.match(value):
            values[key] = value
    return values


def cpu_list(text: Optional[str]) -> Optional[Set[int]]:
    """``0-3,8`` as its CPUs; None for what is no such list, has a range that runs downwards, or a CPU beyond the most that Linux
    can be built for. Of no CPU the kernel prints (null)."""
    found: Set[int] = set()
    parts = (text or "").strip().replace("(null)", "")
    for part in parts.split(",") if parts else []:
        ends = _CPUS.match(part)
        first, last = (int(ends.group(1)), int(ends.group(2) or ends.group(1))) if ends is not None else (1, 0)
        if first > last or last >= MOST_CPUS:
            return None
        found.update(range(first, last + 1))
    return found
