# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings held against the faults that were hidden: who was blamed without one, what was missed, what was not told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.lib.simulated_fabric import Fabric, Fault

from railwright.isolate.model import Finding, Fleet, Options
from railwright.isolate.solve import Outcome, Search

REQUIRED = ("node", "rail", "leaf")  # slower than nine tenths of its like, none may be missed
QUIET = ("unclear", "unmeasured")


class NoJournal:
    """In the place of a file: what a journal costs the disk is no part of the search."""

    done, begun = (), None

    def begin(self, _round: object) -> None: ...

    def end(self, *_round: object) -> None: ...


def searched(fabric: Fabric, options: Options | None = None) -> Outcome:
    return Search(fabric.fleet, fabric, NoJournal(), options or Options(seed=fabric.seed), lambda _text: None, fabric.clock).run()


def false_blame(findings: Iterable[Finding], faults: Sequence[Fault], fleet: Fleet) -> list[Finding]:
    """Findings that name a part with nothing wrong with it."""
    return [finding for finding in findings if finding.kind not in QUIET and not any(_explains(fault, finding, fleet) for fault in faults)]


def missed(findings: Sequence[Finding], faults: Sequence[Fault], fleet: Fleet) -> list[Fault]:
    """Slow nodes, rails and leaves that no finding names as what they are; one that a slower part around it hides does not count."""
    wanted = [fault for fault in faults if fault.kind in REQUIRED and fault.share < 0.9 and not hidden(fault, faults, fleet)]
    said: set[str] = set()
    if any(fault.kind in ("plane", "spine") for fault in faults):  # what is hidden behind them may be said to be unclear
        said = {node for finding in findings if finding.kind in QUIET for node in finding.nodes}
    return [fault for fault in wanted if not found(findings, fault, fleet) and not ends(fault, fleet) & said]


def ends(fault: Fault, fleet: Fleet) -> set[str]:
    return {fault.node} if fault.node else {node for (node, _rail), leaf in fleet.leaves.items() if leaf == fault.leaf}


def found(findings: Sequence[Finding], fault: Fault, fleet: Fleet) -> bool:
    return any(finding.kind not in QUIET and _names(finding, fault, fleet) for finding in findings)


def hidden(fault: Fault, faults: Sequence[Fault], fleet: Fleet) -> bool:
    """What its like let through is as slow: its leaf, its node."""
    ends = [(fault.node, rail) for rail in fleet.rails if fault.rail in ("", rail)]
    slower = {other.leaf for other in faults if other.kind == "leaf" and fault.share >= 0.9 * other.share}
    if fault.kind != "leaf" and all(fleet.leaves.get(end) in slower for end in ends):
        return True  # each rail behind a leaf of its own, perhaps
    for other in faults:
        if fault.kind == "leaf" and other.kind == "plane" and other.share < fault.share and len(fleet.rails) == 1:
            return True
        if fault.kind == "leaf" and other.kind == "plane" and fault.leaf.endswith(f"-{other.rail}"):
            return True  # behind a slow plane nothing crosses at a speed that would tell
        if other is fault or fault.kind == "leaf" or fault.share < 0.9 * other.share:
            continue
        if other.node == fault.node and other.kind in ("node", "hang", "late gpu", "rail", "direction", "flapping", "pair"):
            return True
    return False


def _names(finding: Finding, fault: Fault, fleet: Fleet) -> bool:
    if fault.kind == "leaf":
        return finding.kind == "leaf" and finding.leaf == fault.leaf
    if fault.kind in ("plane", "spine"):
        return finding.kind == "plane"
    if fault.node not in finding.nodes or finding.kind in ("leaf", "plane"):
        return False
    if fault.kind == "pair":
        return finding.kind == "pair" and fault.other in finding.nodes
    if fault.rail and len(fleet.rails) > 1:
        return finding.rail == fault.rail and (fault.kind != "rail" or finding.way == "")
    return finding.way == "" if fault.kind in ("node", "rail") else True


def _explains(fault: Fault, finding: Finding, fleet: Fleet) -> bool:
    """Looser than ``_names``: part of a fault is no innocent."""
    if fault.kind == "leaf":
        return finding.leaf == fault.leaf
    if fault.kind in ("plane", "spine"):  # a path that it makes slow is slow
        return finding.kind == "pair" or (finding.kind == "plane" and finding.rail in ("", fault.rail or finding.rail))
    if finding.kind in ("leaf", "plane"):
        return False
    if finding.kind == "pair":
        return fault.kind in ("pair", "flapping") and fault.node in finding.nodes
    if fault.kind == "pair":
        return False
    one_rail = len(fleet.rails) == 1
    return fault.node in finding.nodes and (one_rail or not fault.rail or fault.rail == finding.rail)
