# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of a run a worker reaches; what they are handed to is slow to import, and most sites have no region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from railwright.exitcodes import InputError

if TYPE_CHECKING:
    from railwright.cli.session import Judged
    from railwright.regions import Regions

IN_TURN = ("remediate",)  # that count how many nodes are changed at a time


def regions_of(judged: Judged, playbook: str = "", verb: str = "") -> Regions | None:
    """None where no node is in one. Raises InputError for nodes in several places that are to work together."""
    names = {spec["region"] for spec in judged.specs.values()}
    if names <= {None}:
        return None
    from railwright.run import JOINT

    if playbook in JOINT and len(names) > 1:
        places = ", ".join(sorted(name or "the controller's" for name in names))
        raise InputError(f"{verb}: measures nodes against each other, these are in several regions ({places}); allowed: a --limit of one")
    from railwright.regions import Regions

    return Regions(judged.inventory, judged.specs)


def places(regions: Regions | None, playbook: str, nodes: Sequence[str] | None) -> list[Sequence[str] | None]:
    """The nodes that run at once: mostly all, each region by itself where a playbook of its own would count only its own nodes."""
    if regions is None or nodes is None or playbook not in IN_TURN:
        return [nodes]
    away = [list(region.nodes) for region in regions.of(nodes)]
    here = [name for name in nodes if not any(name in others for others in away)]
    return [*([here] if here else []), *away]
