# SPDX-License-Identifier: GPL-3.0-or-later
"""firewalld: rich rules in the zone of the interface, runtime and permanent, so that neither a reload nor a restart is needed.

A rich rule has no room for a mark, so a file of ours remembers which ones we added: only those are ever taken away, and a
rule that the site had already stays the site's. An ipset would be shorter, but a new one needs a reload, and that throws
away what others set at run time only.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...formats import sysfs_values
from ...formats.outside import lines_in
from ...host.host import Host
from ...rules.packet_filter import OPEN
from ...types import Change, Op, run
from ..common.files import HEADER, FileState, is_ours, observe_file, plan_file
from .openings import WHY, Opening, worst

COMMAND = "firewall-cmd"
RECORD = "/etc/railwright/firewalld-rules"
SECONDS = 30.0
SOURCE = "NCCL src/misc/socket.cc (port 0); firewalld.richlanguage(5); inventory: firewall_peers"
PLACES: Tuple[Tuple[str, Tuple[str, ...]], ...] = (("at run time", ()), ("permanently", ("--permanent",)))
Rule = Tuple[str, str]  # zone, rich rule


class FirewalldState(NamedTuple):
    """``present``: the rich rules of each zone that we have to do with, at run time and permanently."""

    zones: Dict[str, str]  # interface: its zone
    present: Tuple[Tuple[Rule, ...], Tuple[Rule, ...]]
    shared: Dict[str, Tuple[str, ...]]  # zone: all of its interfaces
    record: FileState


def observe(host: Host, openings: Sequence[Opening]) -> FirewalldState:
    zones: Dict[str, str] = {}
    for interface in sorted({opening.interface for opening in openings}):
        answer = host.run((COMMAND, "--get-zone-of-interface=" + interface), SECONDS)
        if not answer.ok:  # an interface that nobody put into a zone is in the default one
            answer = host.run((COMMAND, "--get-default-zone"), SECONDS)
        zone = sysfs_values.name(answer.out) if answer.ok else None
        if zone is not None:
            zones[interface] = zone
    record = observe_file(host, RECORD)
    names = sorted(set(zones.values()) | {zone for zone, _rule in recorded(record)})
    present = tuple(tuple(
        (zone, line.strip()) for zone in names for line in _ask(host, options + ("--zone=" + zone, "--list-rich-rules")) if line.strip())
        for _words, options in PLACES)
    shared = {zone: tuple(word for line in _ask(host, ("--zone=" + zone, "--list-interfaces")) for word in line.split()) for zone in names}
    return FirewalldState(zones, (present[0], present[1]), shared, record)


def _ask(host: Host, options: Tuple[str, ...]) -> List[str]:
    return lines_in(host.run((COMMAND,) + options, SECONDS).out)


def recorded(record: FileState) -> List[Rule]:
    if record.text is None or not is_ours(record.text):
        return []
    found = [text.partition("\t") for text in lines_in(record.text) if "\t" in text and not text.startswith("#")]
    return [(zone, rule) for zone, _tab, rule in found if sysfs_values.is_name(zone)]


def rich_rules(opening: Opening) -> List[str]:
    """As firewalld itself writes them, so that they compare: one for each network, the last bits of a single address left out."""
    what = 'port port="%d" protocol="%s"' % (opening.port, opening.protocol) if opening.port else 'protocol value="%s"' % opening.protocol
    bare = "/128" if opening.family == "ipv6" else "/32"
    return ['rule family="%s" source address="%s" %s accept' % (
        opening.family, source[:-len(bare)] if source.endswith(bare) else source, what) for source in opening.sources]


def plan(area: str, openings: Sequence[Opening], chains: Optional[Sequence[Mapping[str, Any]]], state: FirewalldState) -> List[Change]:
    """``chains`` None: the kernel's rules cannot be read, and a rule too many does no harm."""
    known = recorded(state.record)
    wanted = sorted({(state.zones[opening.interface], rule) for opening in openings if opening.interface in state.zones
                     for rule in rich_rules(opening)})
    both = [rule for rule in wanted if rule in state.present[0] and rule in state.present[1]]
    if not known and (len(both) == len(wanted) or (chains is not None and worst(chains, openings).status == OPEN)):
        return []
    mine = [rule for rule in wanted if rule in known or rule not in both]
    text = HEADER + "".join("%s\t%s\n" % rule for rule in mine)
    changes = plan_file(area, state.record, text, "which of firewalld's rich rules are ours to take away again", SOURCE)
    for (words, options), present in zip(PLACES, state.present):
        missing = [rule for rule in wanted if rule not in present]
        stale = [rule for rule in known if rule not in wanted and rule in present]
        if missing or stale:
            before = sorted("%s: %s" % rule for rule in known if rule in present)
            changes.append(Change(area, "rules for the cluster's nodes in firewalld " + words, before or None,
                                  sorted("%s: %s" % rule for rule in mine), "none", WHY, SOURCE,
                                  tuple(_ops(options, missing, "add") + _ops(options, stale, "remove"))))
    return changes


def _ops(options: Tuple[str, ...], rules: Sequence[Rule], verb: str) -> List[Op]:
    """One command a zone: firewalld takes some tenths of a second for each."""
    opposite = {"add": "remove", "remove": "add"}[verb]
    found = []
    for zone in sorted({zone for zone, _rule in rules}):
        start = (COMMAND,) + options + ("--zone=" + zone,)
        texts = [rule for name, rule in rules if name == zone]
        found.append(run(start + tuple("--%s-rich-rule=%s" % (verb, text) for text in texts),
                         (start + tuple("--%s-rich-rule=%s" % (opposite, text) for text in texts),)))
    return found
