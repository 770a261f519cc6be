# SPDX-License-Identifier: GPL-3.0-or-later
"""The routes of a rail that has a gateway: its own table, asked for the rail's address only.

A default route of a rail in the main table would compete with the management network's,
and traffic of one rail would leave by another. So each rail with a gateway gets a table
with its subnet and its gateway, and a rule that sends its own address there.
Source: policy routing per rail, as kayobe and NVIDIA's multi-rail RoCE guides have it.
"""

import ipaddress
from typing import Any, List, Sequence, Tuple

from ...types import Op, run
from .model import RULE_PRIORITY, RailWish

Route = Tuple[str, ...]  # the words after ``ip route add`` that name the route, or ("from", address)


def wanted_routes(rail):
    # type: (RailWish) -> List[Route]
    if rail.gateway is None or rail.address is None:
        return []
    address = ipaddress.ip_interface(rail.address)
    return [(str(address.network),), ("default", "via", rail.gateway), ("from", str(address.ip))]


def family(rail):
    # type: (RailWish) -> str
    return "-6" if rail.address is not None and ":" in rail.address else "-4"


def add_argv(rail, route):
    # type: (RailWish, Route) -> Tuple[str, ...]
    table = str(rail.table)
    if route[0] == "from":
        return ("ip", family(rail), "rule", "add", *route, "lookup", table, "priority", str(RULE_PRIORITY))
    # No preferred source: an address that is still being checked for duplicates would make the kernel refuse it.
    # Protocol static, as the managers add it: with another one theirs would stand beside ours.
    return ("ip", family(rail), "route", "replace", *route, "dev", rail.netdev, "table", table, "proto", "static")


def del_argv(rail, route):
    # type: (RailWish, Route) -> Tuple[str, ...]
    table = str(rail.table)
    if route[0] == "from":
        return ("ip", family(rail), "rule", "del", *route, "lookup", table)
    return ("ip", family(rail), "route", "del", *route, "table", table)


def extra_routes(rail, found):
    # type: (RailWish, Sequence[Route]) -> Tuple[Op, ...]
    """Take away what is not wanted, the rule before the routes that it leads to."""
    wanted = wanted_routes(rail)
    return tuple(run(del_argv(rail, route), (add_argv(rail, route),)) for route in reversed(list(found)) if route not in wanted)


def missing_routes(rail, found):
    # type: (RailWish, Sequence[Route]) -> Tuple[Op, ...]
    """Add what is wanted; the rule comes last."""
    return tuple(run(add_argv(rail, route), (del_argv(rail, route),)) for route in wanted_routes(rail) if route not in found)


def parse_routes(rows):
    # type: (Any) -> List[Route]
    """``ip -j route show table N``: only what a rail's table may hold."""
    found = []  # type: List[Route]
    for row in rows if isinstance(rows, list) else []:
        destination = row.get("dst")
        # The kernel puts multicast and link-local routes into any IPv6 table by itself.
        if not isinstance(destination, str) or destination.startswith(("fe80:", "ff00:")):
            continue
        gateway = row.get("gateway")
        found.append((destination, "via", str(gateway)) if gateway else (destination,))
    return found


def parse_rules(rows, table):
    # type: (Any, int) -> List[Route]
    """``ip -j rule show``: the addresses that are sent to this table."""
    if not isinstance(rows, list):
        return []
    return [("from", str(row.get("src"))) for row in rows if isinstance(row, dict) and str(row.get("table")) == str(table)]


def route_words(routes):
    # type: (Sequence[Route]) -> List[str]
    return sorted({" ".join(route) for route in routes})  # NetworkManager's routes have a metric, and stand beside ours until a reboot
