# SPDX-License-Identifier: GPL-3.0-or-later
"""``ssh_mesh_addresses``: they become from= of a key and names in a client's configuration, so nothing but addresses may pass."""

from __future__ import annotations

import ipaddress
from typing import Any

from .findings import Findings
from .values import MISSING


def check_addresses(addresses: list[str], findings: Findings) -> Any:
    """The addresses in their canonical form, or MISSING."""
    good: list[str] = []
    for index, text in enumerate(addresses):
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            findings.error(f"ssh_mesh_addresses[{index}]", text, "is no IP address", "an address like 192.0.2.11, without a prefix")
            return MISSING
        if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
            findings.error(f"ssh_mesh_addresses[{index}]", text, "is not an address that other nodes reach this one at",
                           "a unicast address, neither loopback nor link-local")
            return MISSING
        good.append(str(address))
    return good


CHECKS: dict[str, Any] = {"ssh_mesh_addresses": check_addresses}
