# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's inspection of its rails' networks: pings, the routes they take, and who answers for which address.

Everything runs a bounded number at a time. What it means is judged on the controller, which sees all nodes.
"""

import ipaddress
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..formats.outside import json_value, lines_in, rows
from ..host.host import Host
from ..host.threads import ask_at_once
from ..observe.arp import who_has
from .ping_verdicts import ETHERNET_MTU, command, payload, unanswered

PARALLEL = 16  # processes at once; a rail of a node with eight peers on eight rails would otherwise start 64
ASKED_PEERS = 4  # of a rail on which pings fail: their addresses are asked for by ARP; more would say no more
NO_PING = "ping is not installed (package iputils-ping or iputils)"
Probe = Mapping[str, Any]


def ping_probes(host: Host, probes: Sequence[Probe], rails: Sequence[Mapping[str, Any]], count: int, wait: int) -> Dict[str, Any]:
    """An answer for every probe, and one for every rail (name, netdev, address), in their order."""
    ping = host.which("ping")
    pings = ask_at_once(lambda probe: _probe(host, ping, probe, count, wait), probes, PARALLEL)
    failed = [(probe, found) for probe, found in zip(probes, pings) if unanswered(found)]
    wanted: Dict[str, List[str]] = {rail["netdev"]: [rail["address"]] for rail in rails}
    for netdev, addresses in wanted.items():
        for probe in [item for item, _ping in failed if item["netdev"] == netdev][:ASKED_PEERS]:
            addresses += [address for address in [probe["address"]] + list(probe["others"]) if address not in addresses]
    answers = who_has(host, wanted)
    for probe, found in failed:
        heard = answers.get(probe["netdev"]) or {}
        found["heard"] = {address: list(heard[address]) for address in [probe["address"]] + list(probe["others"]) if heard.get(address)}
    doubted = dad_failed(host) if any(":" in rail["address"] for rail in rails) else []
    return {"pings": pings, "rails": [_holders(rail, answers, doubted) for rail in rails]}


def _holders(rail: Mapping[str, Any], answers: Mapping[str, Any], doubted: Sequence[Tuple[str, str]]) -> Dict[str, Any]:
    """``macs``: who else answers for the rail's own address; None where nobody could be asked."""
    found = answers.get(rail["netdev"])
    macs = list(found.get(rail["address"], ())) if found is not None else None
    failed = (rail["netdev"], str(ipaddress.ip_address(rail["address"]))) in doubted
    return {"name": rail["name"], "macs": macs, "dad_failed": failed}


def dad_failed(host: Host) -> List[Tuple[str, str]]:
    """(interface, address) of the IPv6 addresses that the kernel found in use elsewhere: they are set and never used."""
    links = rows(json_value(host.run(("ip", "-j", "-6", "addr", "show"), 10.0).out))
    return [(str(link.get("ifname")), str(item.get("local"))) for link in links for item in rows(link.get("addr_info"))
            if item.get("dadfailed")]


def _probe(host: Host, ping: Optional[str], probe: Probe, count: int, wait: int) -> Dict[str, Any]:
    full_size = payload(probe["mtu"], probe["address"])
    least = payload(ETHERNET_MTU, probe["address"])
    full = _answers(host, ping, probe, full_size, count, wait) if ping is not None else None
    small = _answers(host, ping, probe, least, count, wait) if ping is not None and full is False and least < full_size else None
    device, why = _route(host, probe)
    found: Dict[str, Any] = {"full": full, "small": small, "device": device, "no_route": why, "heard": {}}
    return found if ping is not None else dict(found, why=NO_PING)


def _answers(host: Host, ping: str, probe: Probe, size: int, count: int, wait: int) -> Optional[bool]:
    """Whether one answer came back; None when ping itself could not run. Its exit codes: 0 answered, 1 no answer, 2 other.

    2 is also what it gives for a source address that is not on this node: that is no answer, not an unknown.
    """
    result = host.run(command(ping, probe, size, count, wait), timeout=count * wait + 10.0)
    if result.rc in (126, 127):
        return None
    return result.rc == 0


def _route(host: Host, probe: Probe) -> Tuple[Optional[str], Optional[str]]:
    """The interface that the kernel would send by, were it not told one; else ip's own words."""
    result = host.run(("ip", "-j", "route", "get", probe["address"], "from", probe["source"]), 10.0)
    found = rows(json_value(result.out)) if result.ok else []
    device = found[0].get("dev") if found else None
    if isinstance(device, str):
        return device, None
    lines = lines_in(result.err.strip())
    return None, lines[-1] if lines else "ip gave no route"
