# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages the node lacks or has in another version than the one that is pinned.

The changes carry no ops: ansible.builtin.apt and dnf make them, in the roles. Only
what the stack asks for by name is planned; dependencies are the package manager's.
"""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..catalogue.inbox import inbox_packages
from ..host import Host
from ..observe.packages import query_packages
from ..package_steps import PRESENT
from ..spec.model import Spec
from ..types import PACKAGE_WHAT, Change, Identity, Problem
from . import kernel_modules
from .upgrades import candidates

NAME = "packages"
PROVIDERS = "/etc/libibverbs.d"  # one file a provider, in every distribution's packages
# Tools that our own areas run, with the package that has them; minimal images lack some.
TOOLS = (
    ("ip", {"debian": "iproute2", "redhat": "iproute", "suse": "iproute2"}, "addresses, MTU and RDMA links"),
    ("rdma", {"debian": "iproute2", "redhat": "iproute", "suse": "iproute2"}, "RDMA links (rxe)"),
    ("modprobe", {"debian": "kmod", "redhat": "kmod", "suse": "kmod"}, "loading kernel modules"),
    ("ping", {"debian": "iputils-ping", "redhat": "iputils", "suse": "iputils"}, "full-size pings with DF on every rail"),
)


class Package(NamedTuple):
    """One wanted package. ``tool``/``module``: wanted only where that is missing. ``service``: another version restarts one."""

    name: str
    version: Optional[str]  # exact; None: any
    why: str
    source: str
    tool: Optional[str]
    module: Optional[str]
    service: bool


class Desired(NamedTuple):
    packages: Tuple[Package, ...]
    identity: Identity
    latest: bool
    provider: Optional[str]  # the verbs provider that the fabric cannot do without


class Observed(NamedTuple):
    """``installed``: version by name, None when the package database cannot be read."""

    installed: Optional[Dict[str, str]]
    tools: Tuple[str, ...]
    modules: Optional[Tuple[str, ...]]  # None: the kernel's list cannot be read
    candidates: Dict[str, str]  # newer versions, looked for only where the latest are wanted
    provider: bool  # it is there


def desired(spec, identity):
    # type: (Spec, Identity) -> Desired
    pins = spec["rdma_stack_pins"]  # type: Dict[str, str]
    rows = wanted_packages(spec, identity)
    known = [row.name for row in rows]
    rows += [package(name, "rdma_stack_pins", "inventory") for name in sorted(pins) if name not in known]
    return Desired(tuple(row._replace(version=pins.get(row.name)) for row in rows), identity, spec["rdma_stack_packages_state"] == "latest",
                   "erdma" if spec.fabric == "erdma" else None)


def wanted_packages(spec, identity):
    # type: (Spec, Identity) -> List[Package]
    """Everything by name, without versions: the stack, what the inventory adds, and what our own areas run."""
    platform = identity.platform
    stack = inbox_packages(platform, software_only=spec.rdma_stack == "soft_roce")
    rows = [package(row.name, row.why, row.source, units=row.units) for row in stack]
    if spec["opensm_enabled"]:
        rows.append(package("opensm", "this host runs the subnet manager", "the name in every family", units=("opensm.service",)))
    rows += [package(name, "rdma_stack_extra_packages", "inventory") for name in spec["rdma_stack_extra_packages"]]
    rows += [
        package(names[platform.family], why, "file lists of the distributions", tool=tool)
        for tool, names, why in TOOLS if platform.family in names
    ]
    if not identity.has("container"):
        rows += [
            package(module.package, "carries the kernel module " + module.name, "inbox catalogue", module=module.name)
            for module in kernel_modules.desired(spec, identity).modules if module.package is not None
        ]
    return rows


def package(name, why, source, tool=None, module=None, units=()):
    # type: (str, str, str, Optional[str], Optional[str], Sequence[str]) -> Package
    """A wanted package without a version. Of its units, services run all the time; templates and targets do not."""
    service = any(unit.endswith(".service") and "@" not in unit for unit in units)
    return Package(name, None, why, source, tool, module, service)


def observe(host, desired):
    # type: (Host, Desired) -> Observed
    names = [row.name for row in desired.packages]
    modules = [row.module for row in desired.packages if row.module is not None]
    installed = query_packages(host, desired.identity, names)
    free = [row.name for row in desired.packages if desired.latest and row.version is None and row.name in (installed or {})]
    return Observed(
        installed,
        tuple(row.tool for row in desired.packages if row.tool is not None and host.which(row.tool) is not None),
        kernel_modules.kernel_has(host, desired.identity.kernel, modules),
        candidates(host, desired.identity.platform.package_manager, free),
        desired.provider is None or host.exists("%s/%s.driver" % (PROVIDERS, desired.provider)),
    )


def plan(desired, observed):
    # type: (Desired, Observed) -> List[Change]
    if observed.installed is None:
        return []
    changes = []  # type: List[Change]
    seen = []  # type: List[str]
    for row in desired.packages:
        found = observed.installed.get(row.name)
        wanted = row.version or observed.candidates.get(row.name)
        if row.name in seen or needless(row, observed) or (found is not None and wanted in (None, found)):
            continue
        seen.append(row.name)
        disruption = "restart" if found is not None and row.service else "none"
        changes.append(Change(NAME, PACKAGE_WHAT + row.name, found, wanted or PRESENT, disruption, row.why, row.source, ()))
    return changes


def problems(spec, identity, desired):
    # type: (Spec, Identity, Desired) -> List[Problem]
    return []


def conflicts(desired, observed):
    # type: (Desired, Observed) -> List[Problem]
    if observed.installed is not None:
        return []
    return [Problem(NAME, "package database", "cannot be read (%s); what is installed is not known" % (
        desired.identity.platform.package_manager))]


def notes(desired, observed):
    # type: (Desired, Observed) -> List[str]
    """The package may be there and the provider not: rdma-core has erdma since version 43 (Debian 11: 33, Ubuntu 22.04: 39)."""
    if observed.provider or any(change.before is None for change in plan(desired, observed)):
        return []
    return ["packages: the installed rdma-core has no provider for %s (%s/%s.driver), so libibverbs finds no device; it comes with "
            "rdma-core 43, or from Alibaba's own repository" % (desired.provider, PROVIDERS, desired.provider)]


def needless(row, observed):
    # type: (Package, Observed) -> bool
    """A tool or module that is there already, from wherever, needs no package of ours (unless that is pinned)."""
    if row.version is not None:
        return False
    if row.tool is not None:
        return row.tool in observed.tools
    return row.module is not None and (observed.modules is None or row.module in observed.modules)
