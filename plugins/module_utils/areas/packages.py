# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages the node lacks or has in another version than the one that is pinned.

The changes carry no ops: ansible.builtin.apt and dnf make them, in the roles. Only
what the stack asks for by name is planned; dependencies are the package manager's.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from ..catalogue.inbox import inbox_packages, package_of_module
from ..host import Host
from ..observe.packages import installed_packages
from ..spec.model import Spec
from ..types import Change, Identity, Problem
from . import kernel_modules

NAME = "packages"
PRESENT = "present"
# Tools that our own areas run, with the package that has them; minimal images lack some.
TOOLS = (
    ("ip", {"debian": "iproute2", "redhat": "iproute", "suse": "iproute2"}, "addresses, MTU and RDMA links"),
    ("rdma", {"debian": "iproute2", "redhat": "iproute", "suse": "iproute2"}, "RDMA links (rxe)"),
    ("modprobe", {"debian": "kmod", "redhat": "kmod", "suse": "kmod"}, "loading kernel modules"),
    ("ping", {"debian": "iputils-ping", "redhat": "iputils", "suse": "iputils"}, "full-size pings with DF on every rail"),
)
OPENSM = {"debian": "opensm", "redhat": "opensm", "suse": "opensm"}


class Package(NamedTuple):
    """One wanted package. ``tool``/``module``: wanted only where that is missing."""

    name: str
    version: Optional[str]  # exact; None: any
    why: str
    source: str
    tool: Optional[str]
    module: Optional[str]


class Desired(NamedTuple):
    packages: Tuple[Package, ...]
    kernel: str
    manager: str
    family: str


class Observed(NamedTuple):
    """``installed`` holds the wanted packages that are there; the rest is what lets a conditional package rest."""

    installed: Dict[str, str]
    tools: Tuple[str, ...]
    modules: Optional[Tuple[str, ...]]  # None: the kernel's list cannot be read


def desired(spec, identity):
    # type: (Spec, Identity) -> Desired
    pins = spec["rdma_stack_pins"]  # type: Dict[str, str]
    rows = [Package(row.name, None, row.why, row.source, None, None) for row in inbox_packages(identity.platform)]
    if spec["opensm_enabled"]:
        rows.append(Package(OPENSM.get(identity.platform.family, "opensm"), None, "this host runs the subnet manager", "opensm", None, None))
    rows += [Package(name, None, "rdma_stack_extra_packages", "inventory", None, None) for name in spec["rdma_stack_extra_packages"]]
    for tool, names, why in TOOLS:
        if identity.platform.family in names:
            rows.append(Package(names[identity.platform.family], None, why, "file lists of the distributions", tool, None))
    if not identity.has("container"):
        for module in kernel_modules.desired(spec, identity).modules:
            package = package_of_module(identity.platform, identity.kernel, module.name)
            if package is not None:
                rows.append(Package(package, None, "carries the kernel module " + module.name, "inbox catalogue", None, module.name))
    known = [row.name for row in rows]
    rows += [Package(name, None, "rdma_stack_pins", "inventory", None, None) for name in sorted(pins) if name not in known]
    return Desired(tuple(row._replace(version=pins.get(row.name)) for row in rows), identity.kernel, identity.platform.package_manager,
                   identity.platform.family)


def observe(host, desired):
    # type: (Host, Desired) -> Observed
    names = [row.name for row in desired.packages]
    modules = [row.module for row in desired.packages if row.module is not None]
    return Observed(
        {name: version for name, version in installed_packages(host, desired.manager).items() if name in names},
        tuple(row.tool for row in desired.packages if row.tool is not None and host.which(row.tool) is not None),
        kernel_modules.kernel_has(host, desired.kernel, modules),
    )


def plan(desired, observed):
    # type: (Desired, Observed) -> List[Change]
    changes = []  # type: List[Change]
    seen = []  # type: List[str]
    for row in desired.packages:
        found = observed.installed.get(row.name)
        if row.name in seen or needless(row, observed) or found is not None and row.version in (None, found):
            continue
        seen.append(row.name)
        changes.append(Change(NAME, "package " + row.name, found, row.version or PRESENT, "none", row.why, row.source, ()))
    return changes


def problems(spec, identity, desired):
    # type: (Spec, Identity, Desired) -> List[Problem]
    return []


def needless(row, observed):
    # type: (Package, Observed) -> bool
    """A tool or module that is there already, from wherever, needs no package of ours (unless that is pinned)."""
    if row.version is not None:
        return False
    if row.tool is not None:
        return row.tool in observed.tools
    return row.module is not None and (observed.modules is None or row.module in observed.modules)
