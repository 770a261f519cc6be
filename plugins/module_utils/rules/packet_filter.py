# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's input chains do with a kind of packet: let it in, stop it, or nobody can tell. Pure, over the chains of the facts object.

A kind of packet is a class (new connections of one protocol to a range of ports, from some networks, on one interface), so that
a rule may fit all of it, part of it or none. An accept in one base chain does not end the others: each must let it in.
What a rule asks that we do not understand may or may not fit; a drop behind it is then no certainty, and neither is the accept.
"""

import ipaddress
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats.outside import is_digits

OPEN, CLOSED, UNKNOWN = "open", "closed", "unknown"
YES, PART, MAYBE, NO = "yes", "part", "maybe", "no"
ALL_PORTS = (1, 65535)
MAX_STEPS, MAX_DEPTH = 20000, 32  # chains may jump to chains: what is longer or deeper is not judged
_OPPOSITE = {YES: NO, NO: YES, PART: PART, MAYBE: MAYBE}
PROTOCOLS = {"6": "tcp", "17": "udp", "1": "icmp", "58": "ipv6-icmp"}
Span = Tuple[int, int, int]


class Packets(NamedTuple):
    """New connections (or datagrams) from ``sources``, networks of one family, to this node."""

    interface: str
    protocol: str  # tcp, udp
    ports: Tuple[int, int]
    sources: Tuple[str, ...]

    @property
    def family(self) -> str:
        return "ipv6" if self.sources and ":" in self.sources[0] else "ipv4"


class FilterResult(NamedTuple):
    status: str  # open, closed, unknown
    by: str  # the rule or policy that stops it, or that cannot be judged


def by_family(networks: Iterable[str]) -> List[Tuple[str, ...]]:
    """The networks of IPv4, then those of IPv6, as few as say the same; a family without any is left out."""
    parsed = [ipaddress.ip_network(text) for text in networks]
    four = ipaddress.collapse_addresses([item for item in parsed if isinstance(item, ipaddress.IPv4Network)])
    six = ipaddress.collapse_addresses([item for item in parsed if isinstance(item, ipaddress.IPv6Network)])
    return [group for group in (tuple(str(item) for item in four), tuple(str(item) for item in six)) if group]


def span(text: str) -> Optional[Span]:
    """(family, first, last) of an address, a network or a range of addresses."""
    first, dash, last = text.partition("-")
    try:
        if dash:
            low, high = ipaddress.ip_address(first), ipaddress.ip_address(last)
            return (low.version, int(low), int(high)) if low.version == high.version else None
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    return network.version, int(network.network_address), int(network.broadcast_address)


def merged(spans: Iterable[Span]) -> List[Span]:
    """Sorted, with what touches or overlaps made one."""
    found: List[Span] = []
    for version, low, high in sorted(spans):
        if found and found[-1][0] == version and low <= found[-1][2] + 1:
            found[-1] = (version, found[-1][1], max(high, found[-1][2]))
        else:
            found.append((version, low, high))
    return found


def covered(wanted: Sequence[Span], given: Sequence[Span]) -> str:
    """How much of ``wanted`` lies in ``given``: all, part, nothing."""
    whole, some = True, False
    pool = merged(given)
    for version, low, high in merged(wanted):
        touching = [item for item in pool if item[0] == version and item[1] <= high and item[2] >= low]
        some = some or bool(touching)
        whole = whole and any(item[1] <= low and item[2] >= high for item in touching)
    return YES if whole and some else PART if some else NO


def fate(chains: Sequence[Mapping[str, Any]], packets: Packets) -> FilterResult:
    """What becomes of the packets in all base chains together; the chain that stops them first is named."""
    doubts: List[str] = []
    for chain in chains:
        if chain["hook"] and applies(chain, packets):
            found = fate_in(chain, chains, packets)
            if found.status == CLOSED:
                return found
            if found.status == UNKNOWN:
                doubts.append(found.by)
    return FilterResult(UNKNOWN, doubts[0]) if doubts else FilterResult(OPEN, "")


def applies(chain: Mapping[str, Any], packets: Packets) -> bool:
    return {"ip": "ipv4", "ip6": "ipv6"}.get(chain["family"], packets.family) == packets.family


def fate_in(base: Mapping[str, Any], chains: Sequence[Mapping[str, Any]], packets: Packets) -> FilterResult:
    same = {chain["chain"]: chain for chain in chains if (chain["family"], chain["table"]) == (base["family"], base["table"])}
    walk = _Walk(same, packets)
    left = walk.chain(base["chain"], YES)
    if base["policy"] == "drop" and left != NO:
        walk.stop(left, "policy drop of %s %s %s" % (base["family"], base["table"], base["chain"]))
    if walk.closed:
        return FilterResult(CLOSED, walk.closed)
    return FilterResult(UNKNOWN, walk.doubt) if walk.doubt else FilterResult(OPEN, "")


class _Walk:
    """One base chain. ``reach``: whether some of the packets surely (yes), perhaps (maybe) or no longer (no) come to a place."""

    def __init__(self, chains: Dict[str, Mapping[str, Any]], packets: Packets) -> None:
        self.chains = chains
        self.packets = packets
        self.sources = [found for found in map(span, packets.sources) if found is not None]
        self.closed = ""
        self.doubt = ""
        self.steps = self.depth = 0
        self.ended = 0  # how many rules ended the way of some packets: a chain that none of them ends gives back all

    def stop(self, certain: str, where: str) -> None:
        if certain == YES:
            self.closed = self.closed or where
        else:
            self.doubt = self.doubt or where

    def chain(self, name: str, reach: str) -> str:
        """What is left at the end of a chain."""
        self.depth += 1
        back = NO
        for rule in (self.chains.get(name) or {"rules": []})["rules"]:
            self.steps += 1
            if self.steps > MAX_STEPS or self.depth > MAX_DEPTH:
                self.end(MAYBE, "more rules than are judged")
                break
            how = self.match(rule["if"])
            if how != NO:
                reach, more = self.rule(rule, how, reach)
                back = _more(back, more)
            if reach == NO:
                break
        self.depth -= 1
        return _more(back, reach)

    def rule(self, rule: Mapping[str, Any], how: str, reach: str) -> Tuple[str, str]:
        """(what goes on to the next rule, what goes back to the chain before) of a rule that fits some of the packets."""
        taken = YES if reach == YES and how in (YES, PART) else MAYBE
        rest = NO if how == YES else MAYBE if how == MAYBE else reach
        verb, target = rule["then"]
        if verb == "continue":
            return reach, NO
        if verb == "return":
            return rest, taken
        if verb in ("jump", "goto"):
            before = self.ended
            left = self.chain(target, taken)
            if verb == "goto":
                return rest, left
            if how == YES:
                return left, NO
            return reach if self.ended == before else rest, NO
        if verb == "accept":
            self.ended += 1
            return rest, NO
        self.end(taken if verb in ("drop", "reject") else MAYBE, rule["text"])
        # Behind a drop that perhaps fits, a later one stops the rest: either way they are stopped.
        return NO if how == YES else reach, NO

    def end(self, certain: str, where: str) -> None:
        self.ended += 1
        self.stop(certain, where)

    def match(self, conditions: Sequence[Mapping[str, Any]]) -> str:
        found = [self.condition(item) for item in conditions]
        for answer in (NO, MAYBE):
            if answer in found:
                return answer
        parts = found.count(PART)
        return YES if parts == 0 else PART if parts == 1 else MAYBE  # two parts may have nothing in common

    def condition(self, item: Mapping[str, Any]) -> str:
        asked: Dict[str, Callable[[Sequence[str]], str]] = {
            "iif": self.interface, "saddr": self.source, "daddr": self.destination, "dport": self.port, "sport": self.origin,
            "protocol": lambda values: _yes(self.packets.protocol in [PROTOCOLS.get(text, text) for text in values] or "all" in values),
            "family": lambda values: _yes(self.packets.family in values),
            "state": lambda values: _yes("new" in values),
            "status": lambda values: NO,  # of NAT: the peers reach this node by its own addresses
            "type": lambda values: _yes(any(text in ("local", "host", "unicast") for text in values)),
        }
        answer = asked[item["what"]](item["in"]) if item["what"] in asked else MAYBE
        return _OPPOSITE[answer] if item["not"] else answer

    def interface(self, values: Sequence[str]) -> str:
        name = self.packets.interface
        return _yes(any(name == text or (text.endswith("*") and name.startswith(text[:-1])) for text in values))

    def source(self, values: Sequence[str]) -> str:
        given = [found for found in map(span, values) if found is not None]
        return covered(self.sources, given) if len(given) == len(values) else MAYBE

    def port(self, values: Sequence[str]) -> str:
        given = [found for found in map(_ports, values) if found is not None]
        return covered([(0,) + self.packets.ports], given) if len(given) == len(values) else MAYBE

    def origin(self, values: Sequence[str]) -> str:
        """Ports that the peers send from are whatever their kernel hands out."""
        given = [found for found in map(_ports, values) if found is not None]
        return YES if covered([(0,) + ALL_PORTS], given) == YES else MAYBE

    def destination(self, values: Sequence[str]) -> str:
        """Which of its addresses they come to is not known, only that it is one that is unicast, and no link's own."""
        given = [text.partition("-")[0].partition("/")[0] for text in values]
        try:
            parsed = [ipaddress.ip_address(text) for text in given]
        except ValueError:
            return MAYBE
        if any(text.endswith("/0") for text in values):
            return YES
        return NO if all(item.is_multicast or item.is_link_local or str(item) == "255.255.255.255" for item in parsed) else MAYBE


def _ports(text: str) -> Optional[Span]:
    low, _dash, high = text.partition("-")
    if not is_digits(low) or not is_digits(high or low):
        return None
    return 0, int(low), int(high or low)


def _yes(holds: bool) -> str:
    return YES if holds else NO


def _more(one: str, other: str) -> str:
    return next(item for item in (YES, MAYBE, NO) if item in (one, other))
