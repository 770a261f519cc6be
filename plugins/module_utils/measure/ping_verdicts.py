# SPDX-License-Identifier: GPL-3.0-or-later
"""Jumbo pings between nodes: which to send and what their answers mean. Pure.

``ping -M do -s`` sets "do not fragment": a packet of the full MTU arrives or it does
not. When it does not, one more ping of the Ethernet size tells a wrong MTU on the way
from a peer that cannot be reached at all. Every ping is bound to its rail's interface and
address, so that an answer over another rail is none.
"""

import ipaddress
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..rules.comparisons import VerdictSubject, decided
from ..types import Verdict

HEADERS = {4: 28, 6: 48}  # IP header and ICMP header
ETHERNET_MTU = 1500


def payload(mtu: int, address: str) -> int:
    """The largest ICMP payload of one packet at an MTU."""
    return mtu - HEADERS[ipaddress.ip_address(address).version]


def command(ping: str, probe: Mapping[str, Any], size: int, count: int, wait: int) -> Tuple[str, ...]:
    """The command line of one probe. The interface alone would let the kernel choose the address, and the other way round."""
    bound: Tuple[str, ...] = ("-I", probe["netdev"]) if probe["netdev"] else ()
    version = ipaddress.ip_address(probe["address"]).version
    return (ping, "-%d" % version, "-n", "-M", "do", "-s", str(size), "-c", str(count), "-W", str(wait), "-i", "0.2") + bound + (
        "-I", probe["source"], probe["address"])


def peers_of(node: str, nodes: Sequence[str], limit: int) -> List[str]:
    """Everybody in a small cluster; else the next ``limit`` nodes of the ring, so that every node is also pinged by as many."""
    ordered = sorted(nodes)
    if node not in ordered or limit < 1:
        return []
    start = ordered.index(node)
    ring = ordered[start + 1:] + ordered[:start]
    return ring[:limit]


def probes(rails: Sequence[Mapping[str, Any]], peers: Mapping[str, Sequence[Mapping[str, Any]]]) -> List[Dict[str, Any]]:
    """One probe for each rail and peer that both have the rail with an address; rails are paired by name.

    ``others``: the peer's other rails. Should one of those answer on this interface, it is on that rail's network.
    """
    found: List[Dict[str, Any]] = []
    for rail in rails:
        for peer in sorted(peers):
            theirs = [other for other in peers[peer] if other["name"] == rail["name"]]
            if rail["address"] is None or not theirs or theirs[0]["address"] is None:
                continue
            found.append({
                "name": rail["name"], "rail": rail["label"], "hca": rail["hca"], "port": rail["port"],
                "peer": peer, "address": theirs[0]["address"],
                "source": rail["address"], "netdev": rail["netdev"], "mtu": min(int(rail["mtu"]), int(theirs[0]["mtu"])),
                "others": [other["address"] for other in peers[peer] if other["name"] != rail["name"] and other["address"] is not None],
            })
    return found


def unanswered(ping: Mapping[str, Any]) -> bool:
    """Not even a small packet came back."""
    return ping["full"] is False and not ping["small"]


def on_another_network(ping: Mapping[str, Any]) -> bool:
    """Other rails of the peer are heard on this interface, and this rail is not: not even RDMA comes through."""
    heard = ping["heard"]
    return unanswered(ping) and not heard.get(ping["address"]) and any(heard.get(address) for address in ping["others"])


def judge_probe(node: str, ping: Mapping[str, Any], cause: Optional[str] = None, hint: str = "") -> Verdict:
    """``full`` and ``small`` say whether a packet of that size came back; None: not tried, or it could not be.

    ``cause``: what is known to be wrong with one of the two ends. Then that is the finding, and this path was not measured.
    """
    where = VerdictSubject(node, ping["hca"], ping["port"], "%s to %s" % (ping["rail"], ping["peer"]))
    size = payload(ping["mtu"], ping["address"])
    least = min(size, payload(ETHERNET_MTU, ping["address"]))
    expected = "%d bytes unfragmented" % size
    return decided(
        "ping.mtu", where,
        (ping["full"], "pass", expected, expected, "%s answers at MTU %d" % (ping["address"], ping["mtu"])),
        (ping["full"] is None, "unknown", expected, None, ping.get("why") or "ping could not be run on this node"),
        (ping["small"], "fail", expected, "%d bytes" % least, "%s answers at %d bytes but not at MTU %d: something on the way has a "
         "smaller MTU" % (ping["address"], least, ping["mtu"])),
        (cause is not None, "unknown", expected, "no answer", "not judged: %s" % cause),
        (True, "fail", expected, "no answer", "%s does not answer at any size%s" % (ping["address"], hint)))
