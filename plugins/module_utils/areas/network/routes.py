# SPDX-License-Identifier: GPL-3.0-or-later
"""The routes of a source-routed rail: its own table, asked for the rail's address only; what beside it must not be lost or must yield.

A node with several rails has several ways out, and the main table knows the first one: with
all rails in one subnet, traffic from the second rail's address would leave by the first rail,
and a default route of a rail would compete with the management network's. So each rail gets
a table with its subnet by its own interface (and its gateway, if it has one), and a rule that
sends its own address there. What the table has no route for goes on to the main table.
Source: ip-rule(8); policy routing per rail, as kayobe and NVIDIA's multi-rail RoCE guides have it.
"""

import ipaddress
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...formats.outside import is_digits, list_or_empty, whole
from ...formats.outside import rows as objects
from ...types import Change, Op, run
from .model import RULE_PRIORITY, TABLES, Connected, DesiredInterface, Observed, rail_change

Route = Tuple[str, ...]  # the words after ``ip route add`` that name the route, or ("from", address)
FAMILIES = ("-4", "-6")
ANYWHERE = {"-4": "0.0.0.0/0", "-6": "::/0"}


def wanted_routes(rail: DesiredInterface) -> List[Route]:
    if rail.address is None or not rail.source_routed:
        return []
    address = ipaddress.ip_interface(rail.address)
    gateway: List[Route] = [("default", "via", rail.gateway)] if rail.gateway is not None else []
    return [(str(address.network),), *gateway, ("from", str(address.ip))]


def family_of(route: Route) -> str:
    """An interface's name has no colon, so whatever has one is an IPv6 address."""
    return "-6" if any(":" in word for word in route) else "-4"


def add_argv(rail: DesiredInterface, route: Route) -> Tuple[str, ...]:
    table = str(rail.table)
    if route[0] == "from":
        return add_rule(route[1], table)
    # No preferred source: an address that is still being checked for duplicates would make the kernel refuse it.
    # Protocol static, as the managers add it: with another one theirs would stand beside ours.
    device: Tuple[str, ...] = () if "dev" in route else ("dev", rail.netdev)
    return ("ip", family_of(route), "route", "replace", *route, *device, "table", table, "proto", "static")


def del_argv(rail: DesiredInterface, route: Route) -> Tuple[str, ...]:
    if route[0] == "from":
        return del_rule(route[1], str(rail.table))
    return ("ip", family_of(route), "route", "del", *route, "table", str(rail.table))


def add_rule(address: str, table: str) -> Tuple[str, ...]:
    """Protocol static here too: networkd puts its own beside a rule without it (seen: systemd 252)."""
    words = ("from", address, "lookup", table, "priority", str(RULE_PRIORITY), "protocol", "static")
    return ("ip", family_of((address,)), "rule", "add", *words)


def del_rule(address: str, table: str) -> Tuple[str, ...]:
    return ("ip", family_of((address,)), "rule", "del", "from", address, "lookup", table)


def extra_routes(rail: DesiredInterface, found: Sequence[Route]) -> Tuple[Op, ...]:
    """Take away what is not wanted, the rule before the routes that it leads to."""
    wanted = wanted_routes(rail)
    return tuple(run(del_argv(rail, route), (add_argv(rail, route),)) for route in reversed(list(found)) if route not in wanted)


def missing_routes(rail: DesiredInterface, found: Sequence[Route]) -> Tuple[Op, ...]:
    """Add what is wanted; the rule comes last."""
    return tuple(run(add_argv(rail, route), (del_argv(rail, route),)) for route in wanted_routes(rail) if route not in found)


def crossing_changes(rail: DesiredInterface, observed: Observed, disruption: str) -> List[Change]:
    """Routes of the rail's table by another interface, where the rail was before: they go before any rail's address does.

    With an interface's last address the kernel drops them itself, and ``ip route del`` would fail; an undo would not restore them.
    """
    found = [tuple(words.split()) for words in observed.link(rail).routes if " dev " in words]
    ops = tuple(run(del_argv(rail, route), (add_argv(rail, route),)) for route in found)
    return [rail_change(AREA, "route by another interface", rail, route_words(found), None, disruption,
                        "the rail is no longer on that interface", "inventory: rdma_rails", ops)] if found else []


def parse_routes(rows: Any, netdev: str) -> List[Route]:
    """``ip -j route show table N``: only what a rail's table may hold. One by another interface says so, and is not the rail's."""
    found: List[Route] = []
    for row in objects(rows):
        destination = row.get("dst")
        # The kernel puts multicast and link-local routes into any IPv6 table by itself.
        if not isinstance(destination, str) or destination.startswith(("fe80:", "ff00:")):
            continue
        gateway, device = row.get("gateway"), row.get("dev")
        route: Route = (destination, "via", str(gateway)) if gateway else (destination,)
        found.append(route if device in (None, netdev) else (*route, "dev", str(device)))
    return found


def parse_rules(rows: Any) -> Dict[int, List[Route]]:
    """``ip -j rule show``: by table of ours, the addresses that are sent there."""
    found: Dict[int, List[Route]] = {}
    for row in objects(rows):
        table = str(row.get("table"))
        if is_digits(table) and int(table) in TABLES and isinstance(row.get("src"), str):
            found.setdefault(int(table), []).append(("from", row["src"]))
    return found


def route_words(routes: Sequence[Route]) -> List[str]:
    return sorted({" ".join(route) for route in routes})  # NetworkManager's routes have a metric, and stand beside ours until a reboot


# IPv4 routes that somebody else has put on a rail's interface: not ours to judge, but ours not to lose.
#
# With an interface's last IPv4 address the kernel drops every route by that interface, in all tables (fib_disable_ip). A
# change that takes an address off, if only for a moment, restores those that the new address can still reach, and its undo
# restores all of them: a default route on the management interface may be the way back to the controller. IPv6 has no such end.
# A route that ``ip`` describes with more than the words below (several next hops, encapsulation) is left out.
Words = Tuple[str, ...]  # what ``ip -4 route replace`` takes, the interface left out
ORDER = (("gateway", "via"), ("table", "table"), ("protocol", "proto"), ("scope", "scope"), ("prefsrc", "src"), ("metric", "metric"))
KNOWN = frozenset(key for key, _word in ORDER) | frozenset(("dst", "dev", "flags", "type"))
STATES = frozenset(("linkdown", "dead"))  # flags that say how a route is, not what it is
LOCAL = "local"  # the kernel's own table


def foreign_query(netdev: str) -> Words:
    return ("ip", "-j", "-4", "route", "show", "table", "all", "dev", netdev)


def parse_foreign(rows: Any, own_tables: Any) -> Tuple[Words, ...]:
    """``own_tables``: those of our rails, which have a change of their own."""
    found = [route_arguments(row, own_tables) for row in objects(rows)]
    # Networks before gateways: the kernel takes no gateway that it cannot reach yet.
    return tuple(sorted((words for words in found if words is not None), key=lambda words: "via" in words))


def route_arguments(row: Mapping[str, Any], own_tables: Any) -> Optional[Words]:
    table = str(row.get("table", "main"))
    flags = [flag for flag in map(str, list_or_empty(row.get("flags"))) if flag not in STATES]
    if row.get("protocol") == "kernel" or table == LOCAL or (is_digits(table) and int(table) in own_tables):
        return None  # the kernel makes its own again with the address
    if set(row) - KNOWN or row.get("type", "unicast") != "unicast" or flags not in ([], ["onlink"]):
        return None
    words = [str(row.get("dst", ""))]
    for key, word in ORDER:
        if key in row:
            words += [word, str(row[key])]
    words += flags
    return None if any(not text or text.startswith("-") or any(char.isspace() for char in text) for text in words) else tuple(words)


def restored(netdev: str, words: Words) -> Words:
    return ("ip", "-4", "route", "replace", *words, "dev", netdev)


def reachable(routes: Tuple[Words, ...], address: Optional[str]) -> List[Words]:
    """Those that an interface with this address alone can have: the gateway in its subnet, and no other source address."""
    if address is None or ":" in address:
        return []
    own = ipaddress.ip_interface(address)

    def fits(words: Words) -> bool:
        value = dict(zip(words[1::2], words[2::2]))
        try:
            return value.get("src", str(own.ip)) == str(own.ip) and (
                "via" not in value or "onlink" in words or ipaddress.ip_address(value["via"]) in own.network)
        except ValueError:
            return False

    return [words for words in routes if fits(words)]


# The metric of the route to a rail's own subnet in the main table.
#
# A cloud's second network interface often lies in the subnet of the first, and the kernel gives both a route to it: whichever has
# the lower metric carries what no rule of a rail's own table takes, the management traffic too. So the rail's is set above the
# other's, as Alibaba's controller does for eRDMA (200); what leaves from the rail's address goes by the rail's own table and rule.
# The kernel gives the route the address's metric (ip-address(8), Linux 4.18). NetworkManager adds its addresses without a
# route (noprefixroute) and the route beside them: there it is the route that is changed.
AREA = "network"
CONNECTED_QUERY = ("ip", "-j", "-4", "route", "show", "table", "main")
NETWORKD_SINCE = 246  # systemd NEWS: RouteMetric= in [Address]
KERNEL_SINCE = (4, 18)  # IFA_RT_PRIORITY
WHY_METRIC = "both interfaces have a route to this subnet, and traffic that is not the rail's must leave by the other one"
SOURCE = "inventory: erdma_route_metric (ERC: netdev.go)"
LOWER = ("%s has its route to %s with metric %d, which is not below erdma_route_metric: %d, so traffic of %s would leave by the rail; "
         "set erdma_route_metric above %d")
TOO_OLD = ("systemd-networkd before %d has no metric for an address's route; set erdma_route_metric: 0 (and keep the rail out of the "
           "subnet of other interfaces), or network_manage_addresses: false" % NETWORKD_SINCE)


def kernel_can(release: str) -> bool:
    """A release that nobody can read is taken for a new one: apply says so if it is not."""
    found = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", release)
    return found is None or (int(found.group(1)), int(found.group(2))) >= KERNEL_SINCE


def parse_connected(rows: Any) -> Tuple[Connected, ...]:
    """``ip -j route``: the routes to what is on the link itself."""
    return tuple(
        Connected(str(row["dst"]), str(row["dev"]), whole(row.get("metric")) or 0)
        for row in objects(rows) if "dst" in row and "dev" in row and "gateway" not in row and row["dst"] != "default")


def subnet_of(rail: DesiredInterface) -> str:
    return str(ipaddress.ip_interface(rail.address or "").network)


def metric_changes(rail: DesiredInterface, observed: Observed, disruption: str) -> List[Change]:
    """For an address that is there; one that is to come gets its metric with it."""
    link, address = observed.link(rail), rail.address
    if rail.metric is None or address is None or address not in link.addresses:
        return []
    ops, own, before = [], str(rail.metric), dict(link.metrics).get(address, "0")
    shown: Any = whole(before)
    if address in link.loose:
        found = sorted(route.metric for route in observed.connected if (route.subnet, route.netdev) == (subnet_of(rail), rail.netdev))
        shown = found[0] if len(found) == 1 else found or None
        start: Tuple[str, ...] = ("ip", "-4", "route")
        route = (subnet_of(rail), "dev", rail.netdev, "proto", "kernel", "scope", "link", "src", address.partition("/")[0], "metric")
        # The new one first, so that the subnet is never without a route.
        if rail.metric not in found:
            ops.append(run((*start, "replace", *route, own), ((*start, "del", *route, own),)))
        ops += [run((*start, "del", *route, str(metric)), ((*start, "replace", *route, str(metric)),))
                for metric in found if metric != rail.metric]
    elif before != own:
        words = ("ip", "addr", "replace", address, "broadcast", "+", "metric")
        ops.append(run((*words, own, "dev", rail.netdev), ((*words, before, "dev", rail.netdev),)))
    return [rail_change(AREA, "route metric", rail, shown, rail.metric, disruption, WHY_METRIC, SOURCE, tuple(ops))] if ops else []


def metric_conflicts(rail: DesiredInterface, rails: Sequence[DesiredInterface], observed: Observed) -> List[str]:
    """An interface that is no rail and would lose its subnet to the rail."""
    if rail.metric is None or rail.address is None:
        return []
    names = [other.netdev for other in rails]
    return [LOWER % (route.netdev, route.subnet, route.metric, rail.metric, route.netdev, route.metric) for route in observed.connected
            if route.subnet == subnet_of(rail) and route.netdev not in names and route.metric >= rail.metric]
