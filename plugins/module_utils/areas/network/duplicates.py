# SPDX-License-Identifier: GPL-3.0-or-later
"""Is an address free before it is set? Once it is taken twice, both holders lose packets at random and nobody says why.

Asked are only the addresses that are not set yet, on interfaces that are up and have a link: a plan of a node
that is as it should be asks nothing. What cannot be asked (a link that is still down, IPoIB) is judged by
``rail.duplicate`` of validate afterwards.
"""

import ipaddress
from typing import List, Sequence

from ...host.host import Host
from ...observe.arp import who_has
from ...types import Problem
from .model import LinkState, Observed, RailWish

AREA = "network"
HELD = ("address %s of %s is already held by another device on %s: MAC %s answers for it; "
        "take it off there, or give the rail another one")


def observe(host: Host, rails: Sequence[RailWish], observed: Observed) -> Observed:
    """With the MACs of others that answer for the address which a rail is to get."""
    wanted = {rail.netdev: [host_part(rail.address)] for rail in rails if rail.address is not None and _to_come(rail, observed.link(rail))}
    answers = who_has(host, wanted)
    found = [(netdev, mac) for netdev in sorted(answers) for macs in (answers[netdev] or {}).values() for mac in macs]
    return observed._replace(holders=tuple(found))


def _to_come(rail: RailWish, link: LinkState) -> bool:
    """An address that is there with another prefix has long been in use here."""
    there = [host_part(address) for address in link.addresses]
    return link.up and link.carrier and rail.address is not None and host_part(rail.address) not in there


def host_part(cidr: str) -> str:
    return str(ipaddress.ip_interface(cidr).ip)


def conflicts(rails: Sequence[RailWish], observed: Observed) -> List[Problem]:
    found: List[Problem] = []
    for rail in rails:
        macs = ", ".join(mac for netdev, mac in observed.holders if netdev == rail.netdev)
        if rail.address is not None and macs:
            held = (host_part(rail.address), rail.rail, rail.netdev, macs)
            found.append(Problem(AREA, rail.label, HELD % held))
    return found
