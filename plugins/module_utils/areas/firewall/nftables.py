# SPDX-License-Identifier: GPL-3.0-or-later
"""Our rules at the head of the input chains that others wrote for nftables, now and whenever those chains are made anew.

An accept ends its own base chain alone: a chain of ours could let in what it likes, the site's chain would drop it after
that. So our rules go into the chain that drops, first of all, marked by their comment. The site's file is not touched.
nftables.service flushes and loads that file, so a unit of ours follows it at every start, restart and reload. A file in a
directory that the site's includes would need the right place among the others; the unit needs none.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from ...host.host import Host
from ...observe.nftables import COMMENT
from ...rules.packet_filter import OPEN, applies
from ...types import Change, Op, run
from ..common.files import HEADER, FileState, observe_file, plan_file
from ..common.units import DIRECTORY, Unit, UnitState, observe_unit, plan_unit
from .openings import WHY, Opening, same, worst

SCRIPT = "/usr/local/libexec/railwright/firewall"
RULES = "/etc/railwright/firewall.nft"
UNIT = "railwright-firewall.service"
SOURCE = "NCCL src/misc/socket.cc (port 0); nft(8); inventory: firewall_peers"
# awk tells the table and the chain that a rule of ours is in; nft alone can only delete a rule by its number.
SCRIPT_TEXT = "#!/bin/sh\n" + HEADER + r"""# usage: firewall load FILE | clear
# load puts the rules of FILE at the head of their chains, in place of those that are there; clear takes ours out.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin

ours() {
    nft -a list ruleset | awk '
        $1 == "table" { table = $2 " " $3 }
        $1 == "chain" { chain = $2 }
        /comment "railwright" # handle [0-9]+$/ { print "delete rule " table " " chain " handle " $NF }'
}

if [ "$1" = clear ]; then
    ours | nft -f -
    exit 0
fi
# At once, so that no connection meets a moment without them. A chain that is gone must not keep the others closed.
if { ours; cat "$2"; } | nft -f - 2>/dev/null; then
    exit 0
fi
ours | nft -f -
failed=0
while read -r line; do
    case $line in
    insert*) printf '%s\n' "$line" | nft -f - || failed=1 ;;
    esac
done <"$2"
exit "$failed"
"""
UNIT_TEXT = HEADER + """[Unit]
Description=TCP between the cluster's nodes at the head of the nftables input chains (railwright)
After=nftables.service
PartOf=nftables.service
ReloadPropagatedFrom=nftables.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=%s load %s
ExecReload=%s load %s
ExecStop=%s clear

[Install]
WantedBy=multi-user.target nftables.service
""" % (SCRIPT, RULES, SCRIPT, RULES, SCRIPT)
BOOT = Unit(UNIT, UNIT_TEXT, "multi-user.target", True)


class NftState(NamedTuple):
    script: FileState
    rules: FileState
    unit: UnitState


def observe(host: Host, _openings: Sequence[Opening]) -> NftState:
    unit = Unit(UNIT, "", BOOT.wanted_by, host.exists("%s/%s" % (DIRECTORY, UNIT)))
    return NftState(observe_file(host, SCRIPT), observe_file(host, RULES), observe_unit(host, unit))


def plan(area: str, openings: Sequence[Opening], chains: Sequence[Mapping[str, Any]], state: NftState) -> List[Change]:
    wanted = [(chain, _for(chain, openings)) for chain in chains if _needs(chain, chains, openings)]
    if not wanted:
        return []
    text = HEADER + "".join(sorted(line(chain, opening) + "\n" for chain, fitting in wanted for opening in fitting))
    changes = plan_file(area, state.script, SCRIPT_TEXT, "puts our rules in again after the site's were loaded", SOURCE, mode=0o755)
    changes += plan_file(area, state.rules, text, WHY, SOURCE)
    wrong = [chain for chain, fitting in wanted if not _right(chain, chains, fitting)]
    if wrong:
        before = [words for chain in wrong for words in _found(chain)]
        after = ["%s: %s" % (place(chain), opening.words()) for chain, fitting in wanted if chain in wrong for opening in fitting]
        changes.append(Change(area, "rules for the cluster's nodes in nftables", before or None, after, "none", WHY, SOURCE,
                              (_load(state),)))
    return changes + plan_unit(area, BOOT, state.unit, "nftables.service loads the site's file without our rules", SOURCE)


def _load(state: NftState) -> Op:
    """Where rules of ours were before, a roll-back loads the file that it has restored; else it takes them out."""
    argv = (SCRIPT, "load", RULES)
    return run(argv) if state.rules.text is not None and state.script.text is not None else run(argv, ((SCRIPT, "clear"),))


def ours(chain: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    return [rule for rule in chain["rules"] if rule["ours"]]


def _for(chain: Mapping[str, Any], openings: Sequence[Opening]) -> List[Opening]:
    return [opening for opening in openings if applies(chain, opening.packets)]


def _needs(chain: Mapping[str, Any], chains: Sequence[Mapping[str, Any]], openings: Sequence[Opening]) -> bool:
    """A base chain that would not let all of it in without us. One that has rules of ours keeps them up to date."""
    if not chain["hook"] or not _for(chain, openings):
        return False
    without = dict(chain, rules=[rule for rule in chain["rules"] if not rule["ours"]])
    return bool(ours(chain)) or _fate(without, chains, openings) != OPEN


def _right(chain: Mapping[str, Any], chains: Sequence[Mapping[str, Any]], openings: Sequence[Opening]) -> bool:
    """Exactly ours, each once; at the head, unless what stands before lets it all in too."""
    found = sorted(same(rule["if"]) for rule in ours(chain))
    if found != sorted(same(opening.conditions()) for opening in openings):
        return False
    head = chain["rules"][:len(openings)]
    return all(rule["ours"] for rule in head) or _fate(chain, chains, openings) == OPEN


def _fate(chain: Mapping[str, Any], chains: Sequence[Mapping[str, Any]], openings: Sequence[Opening]) -> str:
    """Of this base chain alone, with the chains that it leads to."""
    others = [item for item in chains if (item["family"], item["table"]) == (chain["family"], chain["table"])]
    alone = [dict(item, hook=False) for item in others if item["chain"] != chain["chain"]]
    return worst([dict(chain)] + alone, _for(chain, openings)).status


def _found(chain: Mapping[str, Any]) -> List[str]:
    told = []
    for rule in ours(chain):
        values: Dict[str, str] = {item["what"]: ", ".join(item["in"]) for item in rule["if"]}
        port = " port " + values["dport"] if "dport" in values else ""
        told.append("%s: %s: %s%s from %s" % (place(chain), values.get("iif"), values.get("protocol"), port, values.get("saddr")))
    return told


def place(chain: Mapping[str, Any]) -> str:
    return "%s %s %s" % (chain["family"], chain["table"], chain["chain"])


def line(chain: Mapping[str, Any], opening: Opening) -> str:
    """Names come from nft's own listing and the node's interfaces, and hold no quotes, blanks or braces; networks are parsed."""
    address = "ip6" if opening.family == "ipv6" else "ip"
    what = "%s dport %d" % (opening.protocol, opening.port) if opening.port else "meta l4proto %s" % opening.protocol
    return 'insert rule %s iifname "%s" %s saddr { %s } %s accept comment "%s"' % (
        place(chain), opening.interface, address, ", ".join(opening.sources), what, COMMENT)
