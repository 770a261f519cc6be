# SPDX-License-Identifier: GPL-3.0-or-later
"""Every area, in the order in which a plan lists and applies them.

Packages bring tools and modules; modules make devices; the netdev must have its MTU
before the RDMA link on it is made, since the link's MTU follows it; what names
devices (NCCL) comes last.
"""

from typing import Any, Callable, List, NamedTuple, Tuple

from .areas import cpu, ipoib, kernel_modules, limits, nccl, network, opensm, packages, rxe, sysctl
from .host import Host
from .spec.model import Spec
from .types import Change, Identity, Problem


def no_conflicts(desired, observed):
    # type: (Any, Any) -> List[Problem]
    """For an area that nothing found on a node can make impossible."""
    return []


def no_notes(desired, observed):
    # type: (Any, Any) -> List[str]
    """For an area that leaves nothing out."""
    return []


class Area(NamedTuple):
    """One slice of a node's state; see docs/architecture.md for what each function promises."""

    name: str
    desired: Callable[[Spec, Identity], Any]
    observe: Callable[[Host, Any], Any]
    plan: Callable[[Any, Any], List[Change]]
    problems: Callable[[Spec, Identity, Any], List[Problem]]
    conflicts: Callable[[Any, Any], List[Problem]] = no_conflicts
    notes: Callable[[Any, Any], List[str]] = no_notes


AREAS = (
    Area(packages.NAME, packages.desired, packages.observe, packages.plan, packages.problems, packages.conflicts),
    Area(kernel_modules.NAME, kernel_modules.desired, kernel_modules.observe, kernel_modules.plan, kernel_modules.problems,
         kernel_modules.conflicts, kernel_modules.notes),
    Area(network.NAME, network.desired, network.observe, network.plan, network.problems, network.conflicts),
    Area(rxe.NAME, rxe.desired, rxe.observe, rxe.plan, rxe.problems),
    Area(ipoib.NAME, ipoib.desired, ipoib.observe, ipoib.plan, ipoib.problems),
    Area(limits.NAME, limits.desired, limits.observe, limits.plan, limits.problems, limits.conflicts),
    Area(sysctl.NAME, sysctl.desired, sysctl.observe, sysctl.plan, sysctl.problems, sysctl.conflicts, sysctl.notes),
    Area(cpu.NAME, cpu.desired, cpu.observe, cpu.plan, cpu.problems, cpu.conflicts),
    Area(nccl.NAME, nccl.desired, nccl.observe, nccl.plan, nccl.problems, no_conflicts, nccl.notes),
    Area(opensm.NAME, opensm.desired, opensm.observe, opensm.plan, opensm.problems, opensm.conflicts, opensm.notes),
)  # type: Tuple[Area, ...]
