# SPDX-License-Identifier: GPL-3.0-or-later
"""IPv4 routes that somebody else has put on a rail's interface: not ours to judge, but ours not to lose.

With an interface's last IPv4 address the kernel drops every route by that interface, in all tables (fib_disable_ip). A
change that takes an address off, if only for a moment, puts back those that the new address can still reach, and its undo
puts back all of them: a default route on the management interface may be the way back to the controller. IPv6 has no such end.

A route that ``ip`` describes with more than the words below (several next hops, encapsulation) is left out.
"""

import ipaddress
from typing import Any, List, Mapping, Optional, Tuple

from ...formats.outside import is_digits, listed
from ...formats.outside import rows as objects

Words = Tuple[str, ...]  # what ``ip -4 route replace`` takes, the interface left out
ORDER = (("gateway", "via"), ("table", "table"), ("protocol", "proto"), ("scope", "scope"), ("prefsrc", "src"), ("metric", "metric"))
KNOWN = frozenset(key for key, _word in ORDER) | frozenset(("dst", "dev", "flags", "type"))
STATES = frozenset(("linkdown", "dead"))  # flags that say how a route is, not what it is
LOCAL = "local"  # the kernel's own table


def query(netdev: str) -> Words:
    return ("ip", "-j", "-4", "route", "show", "table", "all", "dev", netdev)


def parse(rows: Any, own_tables: Any) -> Tuple[Words, ...]:
    """``own_tables``: those of our rails, which have a change of their own."""
    found = [words_of(row, own_tables) for row in objects(rows)]
    # Networks before gateways: the kernel takes no gateway that it cannot reach yet.
    return tuple(sorted((words for words in found if words is not None), key=lambda words: "via" in words))


def words_of(row: Mapping[str, Any], own_tables: Any) -> Optional[Words]:
    table = str(row.get("table", "main"))
    flags = [flag for flag in map(str, listed(row.get("flags"))) if flag not in STATES]
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


def put_back(netdev: str, words: Words) -> Words:
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
