# SPDX-License-Identifier: GPL-3.0-or-later
"""Is every rail plugged in where the inventory's cable plan has it? Pure; runs on the controller.

What a switch says of itself is held against ``rdma_cabling``; without a plan, rails are held against their like.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

from .outliers import usual

CHECK = "cluster.cabling"
NAME = 256  # characters that are kept of what a node says
SHORTEST = 3  # letters of an interface's kind: eth, of ethernet
SOUGHT = 64  # wrong cables for which it is looked up who is in their port
PLAIN = re.compile(r"[A-Za-z0-9 _.:;/()+-]{1,100}")  # names that may stand in an inventory: Ansible fills in templates there
_NUMBERS = re.compile(r"\d")
MAC = re.compile(r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")


class End(NamedTuple):
    """A port of a switch, as the plan names it."""

    switch: str
    port: str

    def __str__(self) -> str:
        return f"{self.switch} {self.port}"


class Cable(NamedTuple):
    """The other end, by every name that it gives itself; no name: nobody spoke, and ``why``."""

    switches: tuple[str, ...] = ()  # its name, its chassis
    ports: tuple[str, ...] = ()  # its id, its description
    why: str = "no answer from this node"

    def __str__(self) -> str:
        return f"{self.switches[0]} {self.ports[0]}"

    @property
    def end(self) -> End:
        return End(self.switches[0], self.ports[0])

    def at(self, end: End) -> bool:
        return any(same_switch(end.switch, name) for name in self.switches) and any(same_port(end.port, name) for name in self.ports)


Plan = Mapping[str, Mapping[str, End]]  # by node and rail
Cables = Mapping[str, Mapping[str, Cable]]


def same_switch(planned: str, seen: str) -> bool:
    """leaf4 is leaf4.example.net too: switches send either, and people write either."""
    one, other = planned.lower(), seen.lower()
    return one == other or (("." not in one or "." not in other) and one.partition(".")[0] == other.partition(".")[0])


def same_port(planned: str, seen: str) -> bool:
    """Eth1/12 is Ethernet1/12."""
    (word, number), (other, its) = (_parts(name.lower().replace(" ", "")) for name in (planned, seen))
    short, long = sorted((word, other), key=len)
    return number == its and (word == other or (bool(number) and len(short) >= SHORTEST and long.startswith(short)))


def _parts(name: str) -> tuple[str, str]:
    found = _NUMBERS.search(name)
    return (name, "") if found is None else (name[:found.start()], name[found.start():])


def planned_ends(value: Any) -> dict[str, End]:
    """Of ``rdma_cabling``; lint says what has not its form."""
    ends = value.items() if isinstance(value, Mapping) else ()
    return {str(rail): End(str(end["switch"]), str(end["port"])) for rail, end in ends
            if isinstance(end, Mapping) and end.keys() >= {"switch", "port"}}  # fmt: skip


def told_apart(cables: Cables) -> dict[str, dict[str, Cable]]:
    """The same, less names that several switches have (``sonic``, or what a maker gives all of them): those have their ids alone."""
    owners: dict[str, set[str]] = {}
    for cable in (cable for own in cables.values() for cable in own.values()):
        for name in cable.switches[:-1]:
            owners.setdefault(name, set()).add(cable.switches[-1])
    shared = {name for name, ids in owners.items() if len(ids) > 1}
    return {node: {rail: cable._replace(switches=cable.switches[-1:]) if set(cable.switches[:-1]) & shared else cable
                   for rail, cable in own.items()} for node, own in cables.items()}  # fmt: skip


def proposed(cables: Cables) -> tuple[dict[str, dict[str, End]], list[str]]:
    """What is there as a plan, by node and rail; and the rails of which a name may not stand in an inventory."""
    known = [(node, rail, cable.end) for node, own in told_apart(cables).items() for rail, cable in own.items() if cable.switches]
    odd = [f"{node} {rail}" for node, rail, end in known if not all(PLAIN.fullmatch(name) for name in end)]
    found: dict[str, dict[str, End]] = {}
    for node, rail, end in known:
        if f"{node} {rail}" not in odd:
            found.setdefault(node, {})[rail] = end
    return found, odd


def cables_of(rails: Iterable[Mapping[str, Any]], neighbours: Iterable[Mapping[str, Any]]) -> dict[str, Cable]:
    """By rail, from a node's answer."""
    told = {(row["hca"], row["port"]): row for row in neighbours if isinstance(row.get("hca"), str) and isinstance(row.get("port"), int)}
    found = {}
    for rail in rails:
        row = told.get((rail["hca"], rail["port"]))
        if row is None:
            found[rail["name"]] = Cable(why="the rail's port has no link, or no cable" if rail["hca"] else "the rail has no device")
            continue
        switches, ports = (tuple(row[key][:NAME] for key in keys if isinstance(row.get(key), str) and row[key]) for keys in (
            ("switch", "switch_id"), ("switch_port", "switch_port_name")))  # fmt: skip
        ports = tuple(sorted(ports, key=lambda name: MAC.fullmatch(name) is not None))  # what people call it comes first
        known = bool(switches and ports)
        why = str(row.get("why") or "it does not say which port it is")
        found[rail["name"]] = Cable(switches, ports, "") if known else Cable(why=why[:NAME])
    return found


def judge_cabling(plan: Plan, cables: Cables) -> list[Verdict]:
    """One verdict for each rail that the plan names."""
    seen = told_apart(cables)
    verdicts = [_judged(node, rail, end, seen) for node, ends in sorted(plan.items()) for rail, end in ends.items()]
    wrong = [at for at, item in enumerate(verdicts) if item.status == "fail"]
    for at in wrong[:SOUGHT]:
        item = verdicts[at]
        verdicts[at] = item._replace(message=item.message + _who_is_there(item.node, item.subject, plan, seen))
    return verdicts


def _judged(node: str, rail: str, end: End, cables: Cables) -> Verdict:
    where, cable = VerdictSubject(node, None, None, rail), cables.get(node, {}).get(rail, Cable())
    if not cable.switches:
        return verdict(CHECK, where, "unknown", str(end), None, f"the plan has it in {end}: {cable.why}")
    if cable.at(end):
        return verdict(CHECK, where, "pass", str(end), str(cable), f"in {end}, as planned")
    return verdict(CHECK, where, "fail", str(end), str(cable), f"is in {cable}, the plan says {end}")


def _who_is_there(node: str, rail: str, plan: Plan, cables: Cables) -> str:
    """In the port that the plan has for this rail."""
    end, cable = plan[node][rail], cables[node][rail]
    there = next(((other, name) for other, own in sorted(cables.items()) for name, one in own.items()
                  if (other, name) != (node, rail) and one.at(end)), None)  # fmt: skip
    if there is None:
        return ""
    its = plan.get(there[0], {}).get(there[1])
    return f"; {' '.join(there)} is there" + (": the two are swapped" if its is not None and cable.at(its) else "")


def oddities(cables: Cables) -> list[str]:
    """What differs from its like where no plan says how it should be: a line each."""
    seen = told_apart(cables)
    return [*_other_plane(seen), *_same_leaf(seen)]


def _other_plane(cables: Cables) -> list[str]:
    """A switch that carries one rail of nearly all its nodes carries another rail of one."""
    on = grouped((cable.switches[0], (node, rail)) for node, own in sorted(cables.items()) for rail, cable in own.items() if cable.switches)
    found = []
    for switch, there in sorted(on.items()):
        most = usual([rail for _node, rail in there])
        if most is not None:
            found += [f"{node} {rail} is on {switch}, where {most[1]} of {len(there)} cables are of {most[0]}"
                      for node, rail in there if rail != most[0]]  # fmt: skip
    return found


def _same_leaf(cables: Cables) -> list[str]:
    """Two rails of a node on one switch, where they are on two with most others."""
    together: dict[tuple[str, str], dict[str, bool]] = {}
    for node, own in sorted(cables.items()):
        for one, other in combinations(sorted(rail for rail, cable in own.items() if cable.switches), 2):
            together.setdefault((one, other), {})[node] = own[one].switches[0] == own[other].switches[0]
    found = []
    for (one, other), nodes in sorted(together.items()):
        most = usual(list(nodes.values()))
        if most is not None and not most[0]:
            found += [f"{node} has {one} and {other} on one switch, {cables[node][one].switches[0]}; {most[1]} of {len(nodes)} nodes have "
                      "them on two" for node, both in nodes.items() if both]  # fmt: skip
    return found
