# SPDX-License-Identifier: GPL-3.0-or-later
"""Small fleets by hand, and the search over their simulated fabric."""

from __future__ import annotations

from collections.abc import Sequence

from tests.lib.isolate_scores import searched
from tests.lib.simulated_fabric import Fabric, Fault, Noise

from railwright.isolate.model import Fleet, Options, make_fleet
from railwright.isolate.solve import Outcome


def fleet_of(count: int, tool: str = "perftest", rails: int = 4, per_leaf: int = 0, *, by_rail: bool = False) -> Fleet:
    """``per_leaf``: nodes a leaf; 0 where the inventory names none."""
    nodes = [f"node{number}" for number in range(count)]
    names = [f"rail{number}" for number in range(rails)]
    leaves: dict[str, list[str | tuple[str, str]]] = {}
    for place, node in enumerate(nodes if per_leaf else []):
        for rail in names if by_rail else [""]:
            leaves.setdefault(f"leaf{place // per_leaf}{rail and '-' + rail}", []).append((node, rail) if rail else node)
    return make_fleet(nodes, names, leaves, tool)


def run(fleet: Fleet, faults: Sequence[Fault] = (), seed: int = 7, noise: Noise | None = None, **options: float) -> Outcome:
    given = Options(seed=seed)._replace(**options)
    return searched(Fabric(fleet, faults, seed, noise or Noise(outliers=0, launches=0)), given)


def said(outcome: Outcome) -> list[tuple[str, tuple[str, ...], str]]:
    return [(finding.kind, finding.nodes, finding.rail) for finding in outcome.findings]
