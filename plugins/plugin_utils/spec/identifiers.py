# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rail is matched by, in the one form in which nodes report it.

PCI ``0000:1a:00.0``, MAC ``52:54:00:aa:bb:cc``, GUID ``b8ce:f603:00ab:cdef``. Every form
in use is taken (no PCI domain, dashes or dots in a MAC, 0x or colons in a GUID). A value
that YAML has already turned into a number is lost and must be quoted: YAML 1.1 reads
``0000:10:00.0`` as the base-60 number 600.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

FORMS = {
    "pci": "a PCI address like 0000:1a:00.0",
    "mac": "a MAC address like 52:54:00:aa:bb:cc",
    "guid": "a GUID like b8ce:f603:00ab:cdef",
}


class IdentifierError(ValueError):
    """Not of this kind; the text says what is wrong."""


def normalise(kind: str, value: Any) -> str:
    """The identifier as nodes report it. Raises IdentifierError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise IdentifierError("was read as a number by YAML (digits and colons are base 60); put quotes around it")
    if not isinstance(value, str):
        raise IdentifierError(f"must be text: {FORMS[kind]}")
    return _NORMALISE[kind](value.strip().lower())


def _pci(text: str) -> str:
    found = re.match(r"^(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$", text)
    if found is None or int(found.group(3), 16) > 0x1F:
        raise IdentifierError(f"is not {FORMS['pci']}")
    return f"{found.group(1) or '0000'}:{found.group(2)}:{found.group(3)}.{found.group(4)}"


def _mac(text: str) -> str:
    if re.match(r"^([0-9a-f]{2}[:-]){19}[0-9a-f]{2}$", text):
        raise IdentifierError("is the 20-byte address of an IPoIB interface, which changes with the queue pair; match by guid")
    if not re.match(r"^(([0-9a-f]{2}:){5}|([0-9a-f]{2}-){5})[0-9a-f]{2}$|^([0-9a-f]{4}\.){2}[0-9a-f]{4}$|^[0-9a-f]{12}$", text):
        raise IdentifierError(f"is not {FORMS['mac']}")
    digits = re.sub(r"[^0-9a-f]", "", text)
    if int(digits, 16) == 0:
        raise IdentifierError("is the empty MAC address")
    if int(digits[:2], 16) & 1:
        raise IdentifierError("is a multicast or broadcast MAC address; no interface has one")
    return ":".join(digits[index:index + 2] for index in range(0, 12, 2))


def _guid(text: str) -> str:
    if not re.match(r"^(0x)?[0-9a-f]{16}$|^([0-9a-f]{4}:){3}[0-9a-f]{4}$|^([0-9a-f]{2}[:-]){7}[0-9a-f]{2}$", text):
        raise IdentifierError(f"is not {FORMS['guid']}")
    digits = re.sub(r"[^0-9a-f]", "", text.removeprefix("0x"))
    if int(digits, 16) == 0:
        raise IdentifierError("is the empty GUID")
    return ":".join(digits[index:index + 4] for index in range(0, 16, 4))


_NORMALISE: dict[str, Callable[[str], str]] = {"pci": _pci, "mac": _mac, "guid": _guid}
MATCH_KINDS: tuple[str, ...] = ("pci", "mac", "guid")
