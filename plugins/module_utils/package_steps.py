# SPDX-License-Identifier: GPL-3.0-or-later
"""From the package changes of a plan to what the package modules of ansible.builtin are told, in the order that works.

Removals come first (a stack is taken off before another one comes), then one step an
area in the plan's order: the RDMA stack before the GPU driver, the driver before CUDA.
"""

from typing import Any, Dict, List, Sequence

from .types import Change

PRESENT = "present"  # ``after`` of a package of which any version will do


def package_steps(changes, manager):
    # type: (Sequence[Change], str) -> Dict[str, Any]
    """``{"manager", "steps": [{"area", "state": "absent" or "present", "names"}]}``; names carry exact versions or globs."""
    joint = "=" if manager in ("apt", "zypper") else "-"
    named = [(change, str(change.package)) for change in changes if change.package is not None]
    steps = []  # type: List[Dict[str, Any]]
    removed = [name for change, name in named if change.after is None]
    if removed:
        steps.append({"area": "packages", "state": "absent", "names": removed})
    for area in _areas([change for change, _name in named]):
        names = [
            name if change.after == PRESENT else name + joint + str(change.after)
            for change, name in named if change.area == area and change.after is not None]
        if names:
            steps.append({"area": area, "state": "present", "names": names})
    return {"manager": manager, "steps": steps}


def _areas(changes):
    # type: (Sequence[Change]) -> List[str]
    found = []  # type: List[str]
    for change in changes:
        if change.area not in found:
            found.append(change.area)
    return found
