# SPDX-License-Identifier: GPL-3.0-or-later
"""What the network area wants of a rail's interface, and what it saw on the node.

The backends turn a ``DesiredInterface`` into their own files; ``Observed`` is everything that
they and the ownership rules may inspect, so that all of them stay pure.
"""

import re
from typing import Any, List, Mapping, NamedTuple, Optional, Tuple

from ...types import INTERFACE, Change, Op, Subject
from ..common.files import HEADER, FileState, is_ours

TABLE_BASE = 47910  # routing table of rail 0: free for local use (rt_tables names 0 and 253 to 255); 4791 is RoCE v2's UDP port
TABLES = range(TABLE_BASE, TABLE_BASE + 64)  # more rails than any host has ports; a rule to one of these tables is ours
RULE_PRIORITY = 4791  # before 32766, where the main table with its default route is asked
RECORD = re.compile(r"^# Rail ([a-z][a-z0-9_-]*) has address (\S+)$", re.MULTILINE)


class DesiredInterface(NamedTuple):
    """A rail's interface as it should be. Built from Spec and Identity alone."""

    rail: str
    number: int  # position in the inventory's list
    netdev: str
    label: str  # rail0 (eth1)
    mac: str
    kind: str  # ethernet, infiniband or virtual
    pci: Optional[str]  # set when this PCI address names one interface only
    management: bool
    mtu: int
    address: Optional[str]  # normalised CIDR, None: none of ours
    gateway: Optional[str]
    mode: Optional[str]  # IPoIB: datagram or connected
    source_routed: bool = False  # network_source_routing, or a gateway
    metric: Optional[int] = None  # of the route to its subnet; None: whatever it has

    @property
    def table(self) -> int:
        """The rail's own routing table, used only when the rail is source-routed."""
        return TABLE_BASE + self.number


def rail_change(
    area: str, what: str, rail: DesiredInterface, before: Any, after: Any, disruption: str, why: str, source: str, ops: Tuple[Op, ...]
) -> Change:
    """One property of a rail's live interface."""
    return Change(area, "%s of %s" % (what, rail.label), before, after, disruption, why, source, ops, Subject(INTERFACE, rail.netdev),
                  rail=rail.rail)


class LinkState(NamedTuple):
    """An interface as it is. ``None`` where the node does not say."""

    ifindex: Optional[str]
    up: bool
    carrier: bool
    mtu: Optional[int]
    max_mtu: Optional[int]
    mode: Optional[str]
    devtype: Optional[str]  # bond, bridge, vlan …; None for hardware, dummies and veths
    addresses: Tuple[str, ...]  # CIDR, link-local ones left out
    bare: Tuple[str, ...]  # those IPv4 ones of them that lack their broadcast address
    routes: Tuple[str, ...]  # of the rail's own table and its rule, as routes.py writes them
    networkd_file: Optional[str]  # the .network file that networkd configured it by
    nm_managed: bool
    nm_uuid: Optional[str]
    ipv6_off: Optional[str] = None  # what keeps the kernel from taking an IPv6 address
    foreign: Tuple[Tuple[str, ...], ...] = ()  # IPv4 routes of others, as routes.py writes them
    metrics: Tuple[Tuple[str, str], ...] = ()  # (address, metric of its subnet's route) where a manager or DHCP gave it one
    loose: Tuple[str, ...] = ()  # addresses whose subnet's route is not the kernel's (noprefixroute: NetworkManager adds it)


RUNNING = ("active", "activating", "reloading")  # ActiveState of a unit that runs, or is about to


class UnitState(NamedTuple):
    """Three properties of a systemd unit, in systemd's words; empty when it did not answer."""

    load: str
    active: str
    enabled: str


class StaleRule(NamedTuple):
    """A rule of ours that leads to a table of no rail. ``netdev`` has the address now; None: no interface has."""

    address: str
    table: int
    netdev: Optional[str]


class Connected(NamedTuple):
    """A route of the main table to a subnet that an interface is in."""

    subnet: str
    netdev: str
    metric: int


NO_UNIT = UnitState("", "", "")
NO_LINK = LinkState(None, False, False, None, None, None, None, (), (), (), None, False, None)


class Observed(NamedTuple):
    """The evidence of one node. ``files`` holds foreign files too: never print their text, it may hold secrets."""

    links: Mapping[str, LinkState]
    units: Mapping[str, UnitState]
    files: Mapping[str, FileState]
    tools: Tuple[str, ...]
    networkd_reloads: bool  # ``networkctl reload`` came with systemd 244
    networkd_wait: Optional[str]  # path of systemd-networkd-wait-online
    stale_rules: Tuple[StaleRule, ...]
    holders: Tuple[Tuple[str, str], ...] = ()  # (interface, MAC) of others that have the address it is to get
    connected: Tuple[Connected, ...] = ()  # asked for only where a rail has a metric
    networkd_metrics: bool = False  # [Address] RouteMetric=

    def link(self, rail: DesiredInterface) -> LinkState:
        return self.links.get(rail.netdev, NO_LINK)

    def unit(self, name: str) -> UnitState:
        return self.units.get(name, NO_UNIT)

    def active(self, name: str) -> bool:
        return self.unit(name).active in RUNNING

    def under(self, *directories: str) -> List[FileState]:
        """The files seen directly below these directories, by path."""
        return [state for path, state in sorted(self.files.items()) if path.rpartition("/")[0] in directories]

    def state(self, path: str) -> FileState:
        return self.files.get(path, FileState(path, None, None))


class Wanted(NamedTuple):
    content: str
    mode: int


def header(rails: Tuple[DesiredInterface, ...]) -> str:
    """The first lines of every file: whose it is, and the addresses it stands for.

    The record is how a later run knows which address on an interface was ours, so that
    a changed one is taken off and a stranger's never is.
    """
    return HEADER + "".join("# Rail %s has address %s\n" % (rail.rail, rail.address) for rail in rails if rail.address is not None)


def recorded_addresses(observed: Observed) -> List[str]:
    """What files of ours put on any rail's interface: rails that change places find each other's address there."""
    texts = [state.text for state in observed.files.values() if state.text and is_ours(state.text)]
    return [address for text in texts for _rail, address in RECORD.findall(text)]


def by_name(rail: DesiredInterface) -> bool:
    """Whether the interface is matched by its name instead of its MAC.

    A bond, bridge or VLAN shares the MAC of the interfaces below it, and its name comes
    from configuration, so no driver update renames it.
    """
    return rail.kind == "virtual"
