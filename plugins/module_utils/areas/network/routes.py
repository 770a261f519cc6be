# SPDX-License-Identifier: GPL-3.0-or-later
"""The routes of a source-routed rail: its own table, asked for the rail's address only.

A node with several rails has several ways out, and the main table knows the first one: with
all rails in one subnet, traffic from the second rail's address would leave by the first rail,
and a default route of a rail would compete with the management network's. So each rail gets
a table with its subnet by its own interface (and its gateway, if it has one), and a rule that
sends its own address there. What the table has no route for goes on to the main table.
Source: ip-rule(8); policy routing per rail, as kayobe and NVIDIA's multi-rail RoCE guides have it.
"""

import ipaddress
from typing import Any, Dict, List, Sequence, Tuple

from ...formats.outside import is_digits
from ...formats.outside import rows as objects
from ...types import Op, run
from .model import RULE_PRIORITY, TABLES, RailWish

Route = Tuple[str, ...]  # the words after ``ip route add`` that name the route, or ("from", address)
FAMILIES = ("-4", "-6")
ANYWHERE = {"-4": "0.0.0.0/0", "-6": "::/0"}


def wanted_routes(rail: RailWish) -> List[Route]:
    if rail.address is None or not rail.source_routed:
        return []
    address = ipaddress.ip_interface(rail.address)
    gateway: List[Route] = [("default", "via", rail.gateway)] if rail.gateway is not None else []
    return [(str(address.network),), *gateway, ("from", str(address.ip))]


def family_of(route: Route) -> str:
    """An interface's name has no colon, so whatever has one is an IPv6 address."""
    return "-6" if any(":" in word for word in route) else "-4"


def add_argv(rail: RailWish, route: Route) -> Tuple[str, ...]:
    table = str(rail.table)
    if route[0] == "from":
        return add_rule(route[1], table)
    # No preferred source: an address that is still being checked for duplicates would make the kernel refuse it.
    # Protocol static, as the managers add it: with another one theirs would stand beside ours.
    device: Tuple[str, ...] = () if "dev" in route else ("dev", rail.netdev)
    return ("ip", family_of(route), "route", "replace", *route, *device, "table", table, "proto", "static")


def del_argv(rail: RailWish, route: Route) -> Tuple[str, ...]:
    if route[0] == "from":
        return del_rule(route[1], str(rail.table))
    return ("ip", family_of(route), "route", "del", *route, "table", str(rail.table))


def add_rule(address: str, table: str) -> Tuple[str, ...]:
    """Protocol static here too: networkd puts its own beside a rule without it (seen: systemd 252)."""
    words = ("from", address, "lookup", table, "priority", str(RULE_PRIORITY), "protocol", "static")
    return ("ip", family_of((address,)), "rule", "add", *words)


def del_rule(address: str, table: str) -> Tuple[str, ...]:
    return ("ip", family_of((address,)), "rule", "del", "from", address, "lookup", table)


def extra_routes(rail: RailWish, found: Sequence[Route]) -> Tuple[Op, ...]:
    """Take away what is not wanted, the rule before the routes that it leads to."""
    wanted = wanted_routes(rail)
    return tuple(run(del_argv(rail, route), (add_argv(rail, route),)) for route in reversed(list(found)) if route not in wanted)


def missing_routes(rail: RailWish, found: Sequence[Route]) -> Tuple[Op, ...]:
    """Add what is wanted; the rule comes last."""
    return tuple(run(add_argv(rail, route), (del_argv(rail, route),)) for route in wanted_routes(rail) if route not in found)


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
