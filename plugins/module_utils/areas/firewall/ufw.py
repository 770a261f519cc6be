# SPDX-License-Identifier: GPL-3.0-or-later
"""ufw: allow rules with our comment, before the site's own, by ufw's own commands: it keeps them over reloads and reboots.

What is there is read from the lines in which ufw remembers a rule (`### tuple ###` in user.rules), and from the live chains.
"""

import ipaddress
import re
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ...formats.outside import lines_in
from ...host.host import Host
from ...observe.nftables import COMMENT
from ...rules.packet_filter import OPEN
from ...types import Change, run
from .openings import WHY, Opening, same, worst

FILES = ("/etc/ufw/user.rules", "/etc/ufw/user6.rules")
SETTINGS = "/etc/default/ufw"
LIVE = ("ufw-user-input", "ufw6-user-input")
SOURCE = "NCCL src/misc/socket.cc (port 0); ufw(8); inventory: firewall_peers"
_TUPLE = re.compile(r"### tuple ### allow (tcp|udp) (any|[0-9]{1,5}) \S+ any (\S+) in_(\S+) comment=([0-9a-f]+)\Z")
_MARK = COMMENT.encode().hex()


class UfwState(NamedTuple):
    """``entries``: the rules of ours, each with one source."""

    entries: Tuple[Opening, ...]
    ipv6: bool


def observe(host: Host, _openings: Sequence[Opening]) -> UfwState:
    found = [entry for path in FILES for text in lines_in(host.read(path) or "") for entry in [entry_of(text)] if entry is not None]
    ipv6 = not any(text.strip().lower() == "ipv6=no" for text in lines_in(host.read(SETTINGS) or ""))
    return UfwState(tuple(found), ipv6)


def entry_of(text: str) -> Optional[Opening]:
    found = _TUPLE.match(text.strip())
    if found is None or found.group(5) != _MARK:
        return None
    try:
        source = str(ipaddress.ip_network(found.group(3)))
    except ValueError:
        return None
    return Opening(found.group(4), found.group(1), 0 if found.group(2) == "any" else int(found.group(2)), (source,))


def rule(verb: str, entry: Opening) -> Tuple[str, ...]:
    """The command that prepends or deletes a rule."""
    port = ("port", str(entry.port)) if entry.port else ()
    words = ("ufw", verb, "allow", "in", "on", entry.interface, "proto", entry.protocol, "from", entry.sources[0], "to", "any") + port
    return words if verb == "delete" else words + ("comment", COMMENT)


def plan(area: str, openings: Sequence[Opening], chains: Sequence[Mapping[str, Any]], state: UfwState) -> List[Change]:
    """Without IPv6 ufw lets none in and refuses rules for it: that is the site's wish."""
    mine = [opening for opening in openings if state.ipv6 or opening.family == "ipv4"]
    if not state.entries and worst(chains, mine).status == OPEN:
        return []
    wanted = [opening._replace(sources=(source,)) for opening in mine for source in opening.sources]
    missing = [entry for entry in wanted if entry not in state.entries]
    stale = [entry for entry in state.entries if entry not in wanted]
    # What comes first: a network that took the place of two must not leave a moment without either.
    ops = [run(rule("prepend", entry), (rule("delete", entry),)) for entry in missing]
    ops += [run(rule("delete", entry), (rule("prepend", entry),)) for entry in stale]
    if ops:
        return [Change(area, "rules for the cluster's nodes in ufw", _words(state.entries) or None, _words(wanted), "none", WHY, SOURCE,
                       tuple(ops))]
    live: Set[Any] = {same(item["if"]) for chain in chains if chain["chain"] in LIVE for item in chain["rules"]}
    if not all(same(entry.conditions()) in live for entry in wanted):
        return [Change(area, "ufw's rules loaded", False, True, "none", "they are in ufw's file, and no longer in the kernel", SOURCE,
                       (run(("ufw", "reload")),))]
    return []


def _words(entries: Sequence[Opening]) -> List[str]:
    return sorted(entry.words() for entry in entries)
