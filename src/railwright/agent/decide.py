# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is drained by what the nodes' agents say, and who is given back. Pure.

A link that goes on several nodes of one leaf at once is the leaf's: it is named, and drains nobody. A check that fails on much of a model
at once is the fleet's (mass.py), and drains nobody either. The breaker holds an absolute number, a share of the fleet and a number a leaf;
where more would have to go nobody does, until somebody says that it may go on. A hold stops all of it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.module_utils.rules.check_modes import ALL
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import WATCHED
from railwright.agent.mass import HOUR, Mass, acting, masses, waiting

SILENT_S = 300.0  # as node-status has it
TOGETHER, TOGETHER_S = 3, 150.0  # nodes of one leaf whose links went at once: the leaf's. Looks lie a minute apart, and answers too
SHOWN = 5


class Limits(NamedTuple):
    most: int
    share: float
    leaf_most: int
    mass_share: float = 0.25
    mass_hours: float = 1.0


class Node(NamedTuple):
    """``said``: what its agent says; None where the node gave no answer. ``drain``: what its scheduler says, or None."""

    name: str
    mode: str
    said: Mapping[str, Any] | None
    drain: Mapping[str, Any] | None = None
    out_of_service: Mapping[str, str] = {}
    placed: bool = False  # a scheduler has it: without its answer nothing is decided of the node

    @property
    def ours(self) -> bool:
        return str((self.drain or {}).get("reason") or "").startswith(WATCHED)

    @property
    def closed(self) -> bool:
        return bool((self.drain or {}).get("closed"))

    @property
    def links_only(self) -> bool:
        """Whether nothing but its links failed."""
        failed = [row["check"] for row in acting(self.said)] if self.said is not None else []
        return bool(failed) and all(check.startswith("port.") for check in failed)

    @property
    def silent(self) -> bool:
        return self.said is None or self.said["age"] is None or self.said["age"] > SILENT_S


@dataclass
class Decision:
    """``drain``: node -> reason. ``cured``: drained by us, and their agents find nothing any more. ``tripped``: why the breaker opened.

    ``mass``: checks that fail on much of the fleet; ``waiting``: nodes whose findings began just after an upgrade, with why.
    """

    drain: dict[str, str] = field(default_factory=dict)
    cured: list[str] = field(default_factory=list)
    observed: dict[str, str] = field(default_factory=dict)  # would be drained, but for their mode or their check's
    mass: list[Mass] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    leaves: dict[str, str] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)  # drained by us, and still sick
    unasked: list[str] = field(default_factory=list)  # of these their scheduler says nothing
    tripped: str = ""


def decide(
    nodes: Collection[Node], leaves: Mapping[str, Collection[str]], limits: Limits, tripped: str = "", held: Collection[str] = (),
    fleet: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Decision:
    """``leaves``: leaf -> its nodes. ``tripped``: why the breaker is open from an earlier look; nobody is drained till it is reset.

    ``held``: codes that a hold keeps from acting, ``all`` for every one: then nobody is drained or given back. ``fleet``: model -> codes
    that were held because they failed on much of it.
    """
    found = Decision(tripped=tripped, silent=[
        node.name for node in nodes if node.mode != "off" and node.said is not None and node.silent])
    found.leaves = {leaf: text for leaf, members in leaves.items() if (text := leaf_text([node for node in nodes if node.name in members]))}
    answers = [node.said for node in nodes if node.said is not None and not node.silent]
    found.mass = masses(answers, limits.mass_share, limits.mass_hours * HOUR)
    if ALL in held:
        return found
    excused = {name for leaf in found.leaves for name in leaves[leaf]}
    wanted: dict[str, str] = {}
    for node in nodes:
        model = node.said["model"] if node.said is not None else ""
        stopped = [*held, *fleet.get(model, ()), *(item.code for item in found.mass if item.model == model)]
        if node.out_of_service:
            if not node.closed and (node.drain is not None or not node.placed):
                found.drain[node.name] = service_reason(node.out_of_service)
        elif node.placed and node.drain is None:
            found.unasked.append(node.name)
        elif reason := reason_to_drain(node, stopped, excused=node.name in excused):
            why = waiting(node.said or {}, stopped, answers, limits.mass_hours * HOUR)
            _sick(node, reason, why, found, wanted)
        else:
            _well(node, found)
    if wanted and not tripped:
        found.tripped = breaker(wanted, nodes, leaves, limits)
    if not found.tripped:
        found.drain |= wanted
    return found


def _sick(node: Node, reason: str, why_waits: str, found: Decision, wanted: dict[str, str]) -> None:
    if node.closed:
        found.held += [node.name] if node.ours else []
    elif why_waits:
        found.waiting[node.name] = why_waits
    else:
        (wanted if node.mode == "drain" else found.observed)[node.name] = reason


def _well(node: Node, found: Decision) -> None:
    said = None if node.silent else node.said
    if said is not None and node.closed and node.ours and said["word"] in ("ok", "unjudged"):
        found.cured.append(node.name)
    elif said is not None and not node.closed and said["observed"]:
        found.observed[node.name] = f"{WATCHED} {said['observed']}"


def reason_to_drain(node: Node, stopped: Collection[str] = (), *, excused: bool) -> str:
    """'' for none: an agent that is silent, or at most warns, or says of links alone what is the leaf's, or of checks that are stopped."""
    if node.silent or node.said is None or node.said["word"] not in ("shared", "refuse") or (node.links_only and excused):
        return ""
    left = acting(node.said, stopped)
    if not left:
        return ""
    counted = node.said["reason"].split(" ")[0] in {row["check"] for row in left}
    return f"{WATCHED} " + (node.said["reason"] if counted else f"{left[0]['check']} {left[0]['subject']}: {left[0]['text']}")


def service_reason(wish: Mapping[str, str]) -> str:
    parts = [wish["reason"], *(f"{name} {wish[name]}" for name in ("ticket", "until") if name in wish)]
    return f"{WATCHED} out of service: {', '.join(parts)}"


def leaf_text(members: Collection[Node]) -> str:
    """What is said of a leaf whose nodes' links went down together; '' where they did not."""
    downs = sorted((float(down["ago"]), node.name) for node in members if node.said is not None for down in node.said["downs"])
    for at, (ago, _name) in enumerate(downs):
        together = sorted({name for other, name in downs[at:] if other - ago <= TOGETHER_S})
        if len(together) >= TOGETHER:
            return f"links of {len(together)} nodes went down at once: {first_of(together, SHOWN)}; inspect the switch"
    return ""


def breaker(
    wanted: Mapping[str, str], nodes: Collection[Node], leaves: Mapping[str, Collection[str]], limits: Limits
) -> str:
    """Why nobody may be drained; '' where all of ``wanted`` may. Nodes that are out of service count for nobody."""
    ours = {node.name for node in nodes if node.ours and node.closed and not node.out_of_service}
    total = ours | wanted.keys()
    share = max(1, int(limits.share * len(nodes)))
    names = first_of(sorted(wanted), SHOWN)
    if len(total) > min(limits.most, share):
        key, most = ("rdma_drain_most", limits.most) if limits.most <= share else ("rdma_drain_share", share)
        return f"{len(total)} nodes would be drained, and {key} allows {most}: {names}"
    for leaf, members in leaves.items():
        here = total & set(members)
        if len(here) > limits.leaf_most and wanted.keys() & here:
            return f"{len(here)} nodes of {leaf} would be drained, and rdma_drain_leaf_most allows {limits.leaf_most}: {names}"
    return ""
