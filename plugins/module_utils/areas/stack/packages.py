# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages of the stack the node lacks, has in another version than the one that is pinned, or must lose.

The changes carry no ops: ansible.builtin.apt and dnf make them, in the roles, after
rdma_packages has proved that they can. Only what the stack asks for by name is planned;
dependencies are the package manager's.
"""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...catalogue import erdma
from ...catalogue.inbox import inbox_packages
from ...catalogue.repositories import wants_erdma_repository
from ...catalogue.stacks import VendorStack, stack_problem, vendor_stack
from ...host.host import Host
from ...observe.package_state import VERSIONLOCK, Hold, held
from ...observe.packages import all_installed
from ...spec.model import Spec
from ...types import PRESENT, Change, Identity, Problem
from ..common.package_changes import candidates, hold_conflicts, missing_database, names_of, package_change, plan_packages
from ..kernel import kernel_modules
from . import repositories
from .stack_packages import Leaving, build_path, headers_package, in_the_way, leaving, other_stack

NAME = "packages"
PROVIDERS = "/etc/libibverbs.d"  # one file a provider, in every distribution's packages
# Tools that our own areas run, with the package that has them; minimal images lack some.
TOOLS = (
    ("ip", {"debian": "iproute2", "redhat": "iproute", "suse": "iproute2"}, "addresses, MTU and RDMA links"),
    ("rdma", {"debian": "iproute2", "redhat": "iproute", "suse": "iproute2"}, "RDMA links (rxe)"),
    ("modprobe", {"debian": "kmod", "redhat": "kmod", "suse": "kmod"}, "loading kernel modules"),
    ("ping", {"debian": "iputils-ping", "redhat": "iputils", "suse": "iputils"}, "full-size pings with DF on every rail"),
)


VERSIONLOCK_PACKAGE = "python3-dnf-plugin-versionlock"
LEAVING = ("inbox", "doca", "mlnx_ofed")
UNINSTALL_WHY = "the node leaves the stack that this package belongs to"
NO_PROVIDER = "the installed one has no provider for eRDMA; Alibaba's repository has one that has"


class Package(NamedTuple):
    """One wanted package. ``tool``/``module``/``path``: wanted only where that is missing. ``service``: another version restarts one."""

    name: str
    version: Optional[str]  # exact or a glob; None: any
    why: str
    source: str
    tool: Optional[str]
    module: Optional[str]
    service: bool
    path: Optional[str] = None
    supplied: bool = False  # Alibaba's repository has it: where eRDMA's provider is missing, the installed one is the wrong one

    @property
    def disruption(self) -> str:
        return "restart" if self.service else "none"


class Desired(NamedTuple):
    packages: Tuple[Package, ...]
    identity: Identity
    latest: bool
    provider: Optional[str]  # the verbs provider that the fabric cannot do without
    vendor: Optional[VendorStack]
    leave: bool  # take another stack off: only where the inventory names the wanted one, and not on eRDMA (its driver needs OFED)


class Observed(NamedTuple):
    """``installed``: version by name, None when the package database cannot be read."""

    installed: Optional[Dict[str, str]]
    tools: Tuple[str, ...]
    modules: Optional[Tuple[str, ...]]  # None: the kernel's list cannot be read
    candidates: Dict[str, str]  # newer versions, looked for only where the latest are wanted
    provider: bool  # it is there
    paths: Tuple[str, ...] = ()  # of those that rows name, the ones that are there
    holds: Tuple[Hold, ...] = ()


def desired(spec: Spec, identity: Identity) -> Desired:
    pins: Dict[str, str] = spec["rdma_stack_pins"]
    rows = wanted_packages(spec, identity)
    known = [row.name for row in rows]
    rows += [package(name, "rdma_stack_pins", "inventory") for name in sorted(pins) if name not in known]
    vendor = vendor_stack(spec, identity)
    rows = [row._replace(version=pins.get(row.name, row.version)) for row in rows]
    return Desired(
        tuple(rows), identity, spec["rdma_stack_packages_state"] == "latest",
        erdma.PROVIDER if spec.fabric == "erdma" else None, vendor,
        spec.rdma_stack in LEAVING and spec.fabric != "erdma" and identity.platform.package_manager in repositories.MANAGERS)


def wanted_packages(spec: Spec, identity: Identity) -> List[Package]:
    """Everything by name, without the site's pins: the stack, what the inventory adds, and what our own areas run."""
    platform = identity.platform
    vendor = vendor_stack(spec, identity)
    rows = stack_rows(spec, identity, vendor)
    if spec["network_opensm"]:
        rows.append(package("opensm", "this host runs the subnet manager", "the name in every family", units=("opensm.service",)))
    rows += [package(name, "rdma_stack_extra_packages", "inventory") for name in spec["rdma_stack_extra_packages"]]
    rows += [
        package(names[platform.family], why, "file lists of the distributions", tool=tool)
        for tool, names, why in TOOLS if platform.family in names
    ]
    if platform.package_manager == "dnf" and repositories.holds_wanted(repositories.desired(spec, identity)):
        rows.append(package(VERSIONLOCK_PACKAGE, "holds packages at their versions: dnf has no other way", "dnf-plugins-core",
                            path=VERSIONLOCK["dnf"][0].replace(".list", ".conf")))
    if not identity.has("container"):
        rows += [
            package(module.package, "carries the kernel module " + module.name, "inbox catalogue", module=module.name)
            for module in kernel_modules.desired(spec, identity).modules if module.package is not None
        ]
    return rows


def stack_rows(spec: Spec, identity: Identity, vendor: Optional[VendorStack]) -> List[Package]:
    """The stack itself: the vendor's, Alibaba's user space for eRDMA, or the distribution's."""
    if vendor is not None:
        return vendor_rows(spec, identity, vendor)
    if wants_erdma_repository(spec, identity):
        return [package(row.name, row.why, row.source, units=row.units)._replace(supplied=row.supplied)
                for row in erdma.packages_of(identity.platform)]
    rows = inbox_packages(identity.platform, software_only=spec.rdma_stack == "soft_roce")
    return [package(row.name, row.why, row.source, units=row.units) for row in rows]


def vendor_rows(spec: Spec, identity: Identity, vendor: VendorStack) -> List[Package]:
    """Headers and dkms first (not in a container: its kernel is not its own), then the meta package, which brings the rest."""
    rows: List[Package] = []
    headers = headers_package(identity)
    if vendor.dkms and not identity.has("container"):
        if headers is not None and spec["kernel_version"] is None:  # the pinned kernel's come with it (area kernel)
            rows.append(package(headers, "DKMS builds the stack's modules against the running kernel's headers", vendor.source,
                                path=build_path(identity)))
        rows.append(package("dkms", "builds the stack's kernel modules", vendor.source))
    if spec["rdma_stack_offline_package"]:
        row = package("doca-host", "rdma_stack_offline_package: the vendor's repository as one package", "NVIDIA (DOCA-Host)")
        rows.append(row._replace(version=vendor.version))
    meta = package(vendor.meta, "the %s stack, release %s" % (vendor.name, vendor.release), vendor.source, units=(vendor.unit,))
    return rows + [meta._replace(version=vendor.version)]


def package(
    name: str, why: str, source: str, tool: Optional[str] = None, module: Optional[str] = None, units: Sequence[str] = (),
    path: Optional[str] = None,
) -> Package:
    """A wanted package without a version. Of its units, services run all the time; templates and targets do not."""
    service = any(unit.endswith(".service") and "@" not in unit for unit in units)
    return Package(name, None, why, source, tool, module, service, path)


def observe(host: Host, desired: Desired) -> Observed:
    modules = [row.module for row in desired.packages if row.module is not None]
    installed = all_installed(host, desired.identity)
    free = [row.name for row in desired.packages if desired.latest and row.version is None and row.name in (installed or {})]
    return Observed(
        installed,
        tuple(row.tool for row in desired.packages if row.tool is not None and host.which(row.tool) is not None),
        kernel_modules.kernel_has(host, desired.identity.kernel, modules),
        candidates(host, desired.identity.platform.package_manager, free),
        desired.provider is None or host.exists("%s/%s.driver" % (PROVIDERS, desired.provider)),
        tuple(row.path for row in desired.packages if row.path is not None and host.exists(row.path)),
        held(host, desired.identity, sorted(installed or {})),
    )


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if observed.installed is None:
        return []
    family = desired.identity.platform.family
    left = leaving(desired.vendor, observed.installed, stack_names(desired)) if desired.leave else Leaving((), ())
    blocking = in_the_way(desired.vendor, desired.identity, observed.installed)
    changes = [_removal(desired, observed, name, "reload", UNINSTALL_WHY) for name in left.removed]
    changes += [_removal(desired, observed, name, "restart", "the vendor's package has the same files") for name in blocking
                if name not in left.removed]
    rows = [_asked(row, desired, observed) for row in desired.packages if not needless(row, observed, left)]
    for row in rows:
        if row.name in left.replaced and row.version is None and not any(change.package == row.name for change in changes):
            changes.append(package_change(NAME, row.name, observed.installed[row.name], PRESENT,
                                          UNINSTALL_WHY + "; the distribution's comes in its place", row.source, "reload"))
    changes += [package_change(NAME, row.name, observed.installed[row.name], PRESENT, NO_PROVIDER, row.source, row.disruption)
                for row in rows if wrong_one(row, observed)]
    present = {name: version for name, version in observed.installed.items() if name not in left.removed}
    return changes + plan_packages(NAME, rows, present, family)


def wrong_one(row: Package, observed: Observed) -> bool:
    """An installed package of the distribution's that must become Alibaba's. A pin says its own version."""
    return row.supplied and row.version is None and not observed.provider and row.name in (observed.installed or {})


def stack_names(desired: Desired) -> Tuple[str, ...]:
    """What a stack may have brought: not the tools of ours that come with any system (iproute2, kmod), which stay as they are."""
    return tuple(row.name for row in desired.packages if row.tool is None and row.module is None)


def _asked(row: Package, desired: Desired, observed: Observed) -> Package:
    """The row with the version that is wanted of it now; a meta package that replaces inbox packages restarts what uses them."""
    version = row.version
    if version is None and desired.latest:
        version = observed.candidates.get(row.name)
    return row._replace(version=version)


def _removal(desired: Desired, observed: Observed, name: str, disruption: str, why: str) -> Change:
    source = desired.vendor.source if desired.vendor is not None else "domain B3 (uninstall before another stack is installed)"
    return package_change(NAME, name, (observed.installed or {}).get(name), None, why, source, disruption)


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    unsupported = stack_problem(spec, identity)
    if unsupported is not None:
        return [Problem(NAME, "rdma_stack", unsupported)]
    if spec["rdma_stack_offline_package"] and desired.vendor is not None and desired.vendor.name != "doca":
        return [Problem(NAME, "rdma_stack_offline_package", "is doca-host: it goes with rdma_stack doca, and this node gets %s" % (
            desired.vendor.name))]
    return []


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    if observed.installed is None:
        return [missing_database(NAME, desired.identity.platform.package_manager)]
    found = other_stack(desired.vendor, observed.installed, stack_names(desired))
    if found is not None and desired.vendor is not None and not desired.leave:
        return [Problem(NAME, "rdma_stack", "auto means %s here and %s is installed, which auto does not take off; say rdma_stack: %s to "
                        "migrate, or name the installed stack" % (desired.vendor.name, found, desired.vendor.name))]
    if found is not None and any(wrong_one(row, observed) for row in desired.packages):
        return [Problem(NAME, "erdma_repository", "%s is installed, and its user space has no provider for eRDMA: Alibaba's packages would "
                        "take it apart; take that stack off first, or set erdma_repository: false" % found)]
    return hold_conflicts(NAME, plan(desired, observed), observed.holds)


def notes(desired: Desired, observed: Observed) -> List[str]:
    """What is left out. The package may be there and the provider not: rdma-core has erdma since 43 (Debian 11: 33, Ubuntu 22.04: 39)."""
    found: List[str] = []
    if desired.vendor is not None and desired.vendor.dkms and desired.identity.has("container"):
        found.append("packages: this is a container, no kernel module is built here: headers and dkms of its own are not asked for")
    other = other_stack(desired.vendor, observed.installed or {}, names_of(desired.packages))
    if other is not None and not desired.leave:
        found.append("packages: %s is installed and left alone; rdma_stack: inbox would take it off" % other)
    if observed.provider or any(change.before is None for change in plan(desired, observed)):
        return found
    return found + ["packages: the installed rdma-core has no provider for %s (%s/%s.driver), so libibverbs finds no device; it comes with "
                    "rdma-core %s, or from Alibaba's own repository (erdma_repository)" % (
                        desired.provider, PROVIDERS, desired.provider, erdma.PROVIDER_SINCE)]


def needless(row: Package, observed: Observed, left: Leaving) -> bool:
    """A tool, module or path that is there already, from wherever, needs no package of ours (unless that is pinned or changes hands)."""
    if row.version is not None or row.name in left.replaced:
        return False
    if row.tool is not None:
        return row.tool in observed.tools
    if row.path is not None:
        return row.path in observed.paths
    return row.module is not None and (observed.modules is None or row.module in observed.modules)
