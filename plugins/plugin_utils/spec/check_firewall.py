# SPDX-License-Identifier: GPL-3.0-or-later
"""``firewall_peers``: they become rules of a firewall, so nothing but networks may pass, and no network that is everybody."""

from __future__ import annotations

import ipaddress
from typing import Any

from .findings import Findings
from .values import MISSING

ALLOWED = "a network like 192.0.2.0/24, or an address"


def check_peers(peers: list[str], findings: Findings) -> Any:
    """The networks in their canonical form, or MISSING."""
    good: list[str] = []
    for index, text in enumerate(peers):
        message = _fault(text)
        if message is not None:
            findings.error(f"firewall_peers[{index}]", text, message, ALLOWED)
            return MISSING
        good.append(str(ipaddress.ip_network(text)))
    return good


def _fault(text: str) -> Any:
    """What is wrong, or None."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return "is no IP address and no network"
    if "/" in text and ipaddress.ip_interface(text).ip != network.network_address:
        return f"has bits behind its prefix: the network is {network}, the address {ipaddress.ip_interface(text).ip}"
    if network.prefixlen == 0:
        return "is everybody, not the cluster's nodes"
    if network.is_loopback or network.is_multicast or network.is_unspecified:
        return "is nothing that other nodes come from"
    return None


CHECKS: dict[str, Any] = {"firewall_peers": check_peers}
