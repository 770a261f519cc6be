# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI configuration space: bytes in, registers out. Pure, and never raises whatever the bytes are.

Layout as in the PCI Express Base Specification, chapter 7 (the kernel's include/uapi/linux/pci_regs.h has the same
numbers): a list of capabilities in the first 256 bytes, a list of extended ones from byte 256 on. An ordinary user is
given the first 64 bytes only, without any capability: that is None (unknown), not "has none".
"""

from typing import NamedTuple, Optional, Tuple

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
SPEEDS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}  # GT/s by the speed code of LnkCap and LnkSta
WIDTHS = (1, 2, 4, 8, 12, 16, 32)


class Express(NamedTuple):
    """The PCI Express capability. Sizes in bytes, speeds in GT/s; None where a field holds a reserved code."""

    kind: int  # device/port type: 0 endpoint, 4 root port, 5 upstream, 6 downstream port of a switch
    control: int  # DevCtl as it is, for who wants to put it back
    max_payload: Optional[int]
    max_payload_supported: Optional[int]
    max_read_request: Optional[int]
    relaxed_ordering: bool
    link_max_speed: Optional[float]
    link_max_width: Optional[int]
    link_speed: Optional[float]
    link_width: Optional[int]


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
    if at is None:
        return None
    flags, can, control = _word(data, at + 2), _double(data, at + 4), _word(data, at + 8)
    link_can, link = _double(data, at + 0x0C), _word(data, at + 0x12)
    if flags is None or can is None or control is None or link_can is None or link is None:
        return None
    return Express(
        flags >> 4 & 0xF, control, _size(control >> 5), _size(can), _size(control >> 12), bool(control & DEVCTL_RELAXED),
        SPEEDS.get(link_can & 0xF), _width(link_can), SPEEDS.get(link & 0xF), _width(link))


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


def _width(register: int) -> Optional[int]:
    width = register >> 4 & 0x3F
    return width if width in WIDTHS else None
