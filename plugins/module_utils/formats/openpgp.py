# SPDX-License-Identifier: GPL-3.0-or-later
"""Fingerprints of the keys in an OpenPGP keyring, and one key out of it in ASCII armour.

A signing key is only as good as the check that it is the expected one, and nodes need not have gpg: so the packets are read here (RFC 4880,
RFC 9580). Only primary keys count, since a keyring with the expected key *and another one* would accept the other one's signatures. Garbage
has no fingerprints; it never raises.
"""

import base64
import binascii
import re
from typing import Iterator, List, Optional, Tuple

PRIMARY = 6  # packet tag of a public key that is not a subkey
# By version of the key: digest, first byte and width of the length, as the RFCs define a fingerprint.
_FORMS = {4: ("sha1", b"\x99", 2), 6: ("sha256", b"\x9b", 4)}
_BEGIN = re.compile(rb"-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t]*\r?\n")
_END = b"-----END PGP PUBLIC KEY BLOCK-----"
_BODY = re.compile(rb"(?:\A|\n)[ \t]*\r?\n(.*)\Z", re.DOTALL)  # after the headers stands an empty line
_WHITE = re.compile(rb"\s+")
_CRC = re.compile(rb"\n=[A-Za-z0-9+/]{4}\s*\Z")


def fingerprints(data: bytes) -> Tuple[str, ...]:
    """Of every primary key, in order, upper case, each once."""
    values = [_fingerprint(body) for tag, body in packets(data) if tag == PRIMARY]
    return tuple(dict.fromkeys(value for value in values if value is not None))


def packets(data: bytes) -> List[Tuple[int, bytes]]:
    """Tag and content of every packet, from armour (one block or several) or from the binary form; up to the first that is broken."""
    return [(tag, binary[start:end]) for binary in _dearmoured(data) for tag, start, end in _walk(binary)]


def extract(data: bytes, fingerprint: str) -> Optional[str]:
    """The key with this fingerprint and what belongs to it (user ids, signatures, subkeys) as one armoured block; None: not there.

    Vendors publish keyrings with several keys; only the pinned one is given to the package manager.
    """
    found: List[Tuple[int, bytes]] = []
    inside = False
    for tag, body in packets(data):
        if tag == PRIMARY:
            inside = not found and _fingerprint(body) == fingerprint
        if inside:
            found.append((tag, body))
    if not found:
        return None
    binary = b"".join(bytes([0xC0 | tag, 0xFF]) + len(body).to_bytes(4, "big") + body for tag, body in found)
    text = base64.b64encode(binary).decode("ascii")
    lines = [text[at:at + 64] for at in range(0, len(text), 64)]
    crc = base64.b64encode(_crc24(binary).to_bytes(3, "big")).decode("ascii")
    return "\n".join(["-----BEGIN PGP PUBLIC KEY BLOCK-----", ""] + lines + ["=" + crc, "-----END PGP PUBLIC KEY BLOCK-----", ""])


def _blocks(data: bytes) -> List[bytes]:
    found: List[bytes] = []
    begin = _BEGIN.search(data)
    while begin is not None:
        end = data.find(_END, begin.end())
        if end < 0:
            break
        found.append(data[begin.end():end])
        begin = _BEGIN.search(data, end)
    return found


def _dearmoured(data: bytes) -> List[bytes]:
    blocks = _blocks(data)
    if not blocks:
        return [data] if data[:1] and data[0] & 0x80 else []
    found: List[bytes] = []
    for block in blocks:
        body = _BODY.search(block)
        text = _CRC.sub(b"", b"\n" + (body.group(1) if body is not None else block).strip())
        try:
            found.append(base64.b64decode(_WHITE.sub(b"", text), validate=True))
        except (binascii.Error, ValueError):
            continue
    return found


def _walk(data: bytes) -> Iterator[Tuple[int, int, int]]:
    """Tag, start and end of each packet."""
    at = 0
    while at < len(data) and data[at] & 0x80:
        header = _header(data, at)
        if header is None or header[1] + header[2] > len(data):
            return
        tag, start, size = header
        yield tag, start, start + size
        at = start + size


def _header(data: bytes, at: int) -> Optional[Tuple[int, int, int]]:
    """Tag, where the content starts, and its size; None for lengths in parts, which a key never has."""
    if data[at] & 0x40:
        tag, length = data[at] & 0x3F, data[at + 1:at + 6]
        if length and length[0] < 192:
            return tag, at + 2, length[0]
        if len(length) > 1 and length[0] < 224:
            return tag, at + 3, ((length[0] - 192) << 8) + length[1] + 192
        return (tag, at + 6, int.from_bytes(length[1:], "big")) if len(length) == 5 and length[0] == 255 else None
    tag, kind = (data[at] >> 2) & 0x0F, data[at] & 3
    if kind == 3:  # to the end of the file
        return tag, at + 1, len(data) - at - 1
    start = at + 1 + (1 << kind)
    return None if start > len(data) else (tag, start, int.from_bytes(data[at + 1:start], "big"))


def _fingerprint(body: bytes) -> Optional[str]:
    """Version 4 (SHA-1) and version 6 (SHA-256); older ones have no fingerprint worth trusting."""
    if not body or body[0] not in _FORMS:
        return None
    import hashlib  # openssl's, for who has a keyring

    digest, head, width = _FORMS[body[0]]
    return hashlib.new(digest, head + len(body).to_bytes(width, "big") + body).hexdigest().upper() if len(body) < 1 << 8 * width else None


def _crc24(data: bytes) -> int:
    value = 0xB704CE
    for byte in data:
        value ^= byte << 16
        for _bit in range(8):
            value <<= 1
            if value & 0x1000000:
                value ^= 0x1864CFB
    return value & 0xFFFFFF
