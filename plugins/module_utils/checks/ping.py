# SPDX-License-Identifier: GPL-3.0-or-later
"""Jumbo pings between nodes: which to send and what their answers mean. Pure.

``ping -M do -s`` sets "do not fragment": a packet of the full MTU arrives or it does
not. When it does not, one more ping of the Ethernet size tells a wrong MTU on the way
from a peer that cannot be reached at all.
"""

import ipaddress
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..types import Verdict
from .judge import Where, verdict

HEADERS = {4: 28, 6: 48}  # IP header and ICMP header
ETHERNET_MTU = 1500


def payload(mtu, address):
    # type: (int, str) -> int
    """The largest ICMP payload of one packet at an MTU."""
    return mtu - HEADERS[ipaddress.ip_address(address).version]


def command(ping, address, source, size, count, wait):
    # type: (str, str, str, int, int, int) -> Tuple[str, ...]
    """The command line of one probe; ``source`` is the rail's own address or interface."""
    version = ipaddress.ip_address(address).version
    return (ping, "-%d" % version, "-n", "-M", "do", "-s", str(size), "-c", str(count), "-W", str(wait), "-i", "0.2", "-I", source, address)


def peers_of(node, nodes, limit):
    # type: (str, Sequence[str], int) -> List[str]
    """Everybody in a small cluster; else the next ``limit`` nodes of the ring, so that every node is also pinged by as many."""
    ordered = sorted(nodes)
    if node not in ordered or limit < 1:
        return []
    start = ordered.index(node)
    ring = ordered[start + 1:] + ordered[:start]
    return ring[:limit]


def probes(rails, peers):
    # type: (Sequence[Mapping[str, Any]], Mapping[str, Sequence[Mapping[str, Any]]]) -> List[Dict[str, Any]]
    """One probe for each rail and peer that both have the rail with an address; rails are paired by name."""
    found = []  # type: List[Dict[str, Any]]
    for rail in rails:
        for peer in sorted(peers):
            theirs = [other for other in peers[peer] if other["name"] == rail["name"]]
            if rail["address"] is None or not theirs or theirs[0]["address"] is None:
                continue
            found.append({
                "rail": rail["label"], "hca": rail["hca"], "port": rail["port"], "peer": peer, "address": theirs[0]["address"],
                "source": rail["address"], "netdev": rail["netdev"], "mtu": min(int(rail["mtu"]), int(theirs[0]["mtu"])),
            })
    return found


def judge_probe(node, probe, full, small):
    # type: (str, Mapping[str, Any], Optional[bool], Optional[bool]) -> Verdict
    """``full`` and ``small`` say whether a packet of that size came back; None: not tried, or it could not be."""
    where = Where(node, probe["hca"], probe["port"], "%s to %s" % (probe["rail"], probe["peer"]))
    size = payload(probe["mtu"], probe["address"])
    least = min(size, payload(ETHERNET_MTU, probe["address"]))
    expected = "%d bytes unfragmented" % size
    if full:
        return verdict("ping.mtu", where, "pass", expected, expected, "%s answers at MTU %d" % (probe["address"], probe["mtu"]))
    if full is None:
        return verdict("ping.mtu", where, "unknown", expected, None, "ping could not be run on this node")
    if small:
        return verdict("ping.mtu", where, "fail", expected, "%d bytes" % least,
                       "%s answers at %d bytes but not at MTU %d: something on the way has a smaller MTU" % (
                           probe["address"], least, probe["mtu"]))
    return verdict("ping.mtu", where, "fail", expected, "no answer", "%s does not answer at any size" % probe["address"])
