# SPDX-License-Identifier: GPL-3.0-or-later
"""Is every rail plugged in where the inventory's cable plan has it? Pure; runs on the controller.

What a switch says of itself is held against ``rdma_cabling``; without a plan, rails are held against their like.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

CHECK = "cluster.cabling"
NAME = 256  # characters that are kept of a name
LIKE = 4  # nodes at least, before the others are what one is held against
MOST = 0.75  # of a switch's cables that are of one rail, before another rail there is odd
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
    """leaf4 is leaf4.example.net too: switches send either."""
    one, other = planned.lower(), seen.lower()
    return one == other or ("." not in one and other.partition(".")[0] == one)


def same_port(planned: str, seen: str) -> bool:
    """Eth1/12 is Ethernet1/12."""
    (word, number), (other, its) = (_parts(name.lower().replace(" ", "")) for name in (planned, seen))
    return number == its and (word == other or (bool(number) and bool(word) and bool(other)
                                                and (word.startswith(other) or other.startswith(word))))  # fmt: skip


def _parts(name: str) -> tuple[str, str]:
    found = _NUMBERS.search(name)
    return (name, "") if found is None else (name[:found.start()], name[found.start():])


def planned_ends(value: Any) -> dict[str, End]:
    """Of ``rdma_cabling``."""
    return {str(rail): End(str(end["switch"]), str(end["port"])) for rail, end in (value or {}).items()}


def cables_of(rails: Iterable[Mapping[str, Any]], neighbours: Iterable[Mapping[str, Any]]) -> dict[str, Cable]:
    """By rail, from a node's answer."""
    told = {(row["hca"], row["port"]): row for row in neighbours if isinstance(row.get("hca"), str) and isinstance(row.get("port"), int)}
    found = {}
    for rail in rails:
        row = told.get((rail["hca"], rail["port"]))
        if row is None:
            found[rail["name"]] = Cable(why="the rail has no port with a link" if rail["hca"] else "the rail has no device")
            continue
        switches, ports = (tuple(row[key][:NAME] for key in keys if isinstance(row.get(key), str) and row[key]) for keys in (
            ("switch", "switch_id"), ("switch_port", "switch_port_name")))  # fmt: skip
        ports = tuple(sorted(ports, key=lambda name: MAC.fullmatch(name) is not None))  # what people call it comes first
        known = bool(switches and ports)
        found[rail["name"]] = Cable(switches, ports, "") if known else Cable(why=str(row.get("why") or "it does not say which port it is"))
    return found


def judge_cabling(plan: Plan, cables: Cables) -> list[Verdict]:
    """One verdict for each rail that the plan names."""
    return [_judged(node, rail, end, plan, cables) for node, ends in sorted(plan.items()) for rail, end in ends.items()]


def _judged(node: str, rail: str, end: End, plan: Plan, cables: Cables) -> Verdict:
    where, cable = VerdictSubject(node, None, None, rail), cables.get(node, {}).get(rail, Cable())
    if not cable.switches:
        return verdict(CHECK, where, "unknown", str(end), None, f"the plan has it in {end}: {cable.why}")
    if cable.at(end):
        return verdict(CHECK, where, "pass", str(end), str(cable), f"in {end}, as planned")
    text = f"is in {cable}, the plan says {end}"
    there = next(((other, name) for other, own in sorted(cables.items()) for name, one in own.items()
                  if (other, name) != (node, rail) and one.at(end)), None)  # fmt: skip
    if there is not None:
        its = plan.get(there[0], {}).get(there[1])
        swapped = its is not None and cable.at(its)
        text += f"; {' '.join(there)} is there" + (": the two are swapped" if swapped else "")
    return verdict(CHECK, where, "fail", str(end), str(cable), text)


def oddities(cables: Cables) -> list[str]:
    """What differs from its like where no plan says how it should be: a line each."""
    return [*_other_plane(cables), *_same_leaf(cables)]


def _other_plane(cables: Cables) -> list[str]:
    """A switch that carries one rail of nearly all its nodes carries another rail of one."""
    on: dict[str, list[tuple[str, str]]] = {}
    for node, own in sorted(cables.items()):
        for rail, cable in own.items():
            if cable.switches:
                on.setdefault(cable.switches[0], []).append((node, rail))
    found = []
    for switch, there in sorted(on.items()):
        usual, count = Counter(rail for _node, rail in there).most_common(1)[0]
        if LIKE <= count < len(there) and count >= MOST * len(there):
            found += [f"{node} {rail} is on {switch}, where {count} of {len(there)} cables are of {usual}"
                      for node, rail in there if rail != usual]  # fmt: skip
    return found


def _same_leaf(cables: Cables) -> list[str]:
    """Two rails of a node on one switch, where they are on two with most others."""
    together: dict[tuple[str, str], dict[str, bool]] = {}
    for node, own in sorted(cables.items()):
        for one, other in combinations(sorted(rail for rail, cable in own.items() if cable.switches), 2):
            together.setdefault((one, other), {})[node] = own[one].switches[0] == own[other].switches[0]
    found = []
    for (one, other), nodes in sorted(together.items()):
        same = [node for node, both in nodes.items() if both]
        apart = len(nodes) - len(same)
        if same and apart >= LIKE and apart >= MOST * len(nodes):
            found += [f"{node} has {one} and {other} on one switch, {cables[node][one].switches[0]}; {apart} of {len(nodes)} nodes have "
                      "them on two" for node in same]  # fmt: skip
    return found
