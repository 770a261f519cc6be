# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages of the stack the node lacks, has in another version than the one that is pinned, or must lose.

The changes carry no ops: ansible.builtin.apt and dnf make them, in the roles, after
rdma_packages has proved that they can. Only what the stack asks for by name is planned;
dependencies are the package manager's.

A stack is left cleanly before another one comes: everything of the old vendor's own family
goes, and with it every package of an inbox name whose version bears the vendor's mark; those
that the node wants come back as the distribution's.
"""

import fnmatch
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ...catalogue import erdma
from ...catalogue.inbox import RENAMED, Package, inbox_packages
from ...catalogue.repositories import wants_erdma_repository
from ...catalogue.stacks import PROFILES, VENDOR_STACKS, VendorStack, marked, stack_problem, vendor_stack
from ...formats.versions import GLOB
from ...host.host import Host
from ...observe.packages import VERSIONLOCK, Hold, all_installed, held_packages
from ...spec.model import Spec
from ...types import PRESENT, Change, Identity, Problem
from ..common.package_changes import candidates, hold_conflicts, missing_database, names_of, package_change, plan_packages, plan_removals
from ..kernel import kernel_modules
from ..kernel.kernel_guard import headers_package
from ..network import lldp
from . import repositories

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
VERSIONLOCK_SETTINGS = VERSIONLOCK["dnf"][0].replace(".list", ".conf")
# Meta packages tell the vendors apart (PROFILES); the kernel packages and scripts have the same names in both.
SHARED = ("mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-utils", "mlnx-ofed-kernel-modules", "mlnx-ofa_kernel*", "kmod-mlnx-ofa_kernel*",
          "ofed-scripts")
LEAVING = ("inbox", "doca", "mlnx_ofed")
UNINSTALL_WHY = "the node leaves the stack that this package belongs to"
NO_PROVIDER = "the installed one has no provider for eRDMA; Alibaba's repository has one that has"


class Leaving(NamedTuple):
    """What of an old stack must go: ``removed`` for good, ``replaced`` by the distribution's package of the same name."""

    removed: Tuple[str, ...]
    replaced: Tuple[str, ...]


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
    rows += [Package(name, "rdma_stack_pins", "inventory") for name in sorted(pins) if name not in known]
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
        rows.append(Package("opensm", "this host runs the subnet manager", "the name in every family",
                            units=("opensm.service", "opensmd.service")))
    if spec["network_lldp"]:
        rows.append(Package(lldp.PACKAGE, "hears into which switch port each rail is plugged", "the name in every family"))
    rows += [Package(name, "rdma_stack_extra_packages", "inventory") for name in spec["rdma_stack_extra_packages"]]
    rows += [
        Package(names[platform.family], why, "file lists of the distributions", tool=tool)
        for tool, names, why in TOOLS if platform.family in names
    ]
    if platform.package_manager == "dnf" and repositories.holds_wanted(repositories.desired(spec, identity)):
        rows.append(Package(VERSIONLOCK_PACKAGE, "holds packages at their versions: dnf has no other way", "dnf-plugins-core",
                            path=VERSIONLOCK_SETTINGS))
    if not identity.has("container"):
        rows += [
            Package(module.package, "carries the kernel module " + module.name, "inbox catalogue", module=module.name)
            for module in kernel_modules.desired(spec, identity).modules if module.package is not None
        ]
    return rows


def stack_rows(spec: Spec, identity: Identity, vendor: Optional[VendorStack]) -> List[Package]:
    """The stack itself: the vendor's, Alibaba's user space for eRDMA, or the distribution's."""
    if vendor is not None:
        return vendor_rows(spec, identity, vendor)
    if wants_erdma_repository(spec, identity):
        return list(erdma.packages_of(identity.platform))
    return list(inbox_packages(identity.platform, software_only=spec.rdma_stack == "soft_roce"))


def vendor_rows(spec: Spec, identity: Identity, vendor: VendorStack) -> List[Package]:
    """Headers and dkms first (not in a container: its kernel is not its own), then the meta package, which brings the rest."""
    rows: List[Package] = []
    headers = headers_package(identity.platform, identity.kernel)
    if vendor.dkms and not identity.has("container"):
        if headers is not None and spec["kernel_version"] is None:  # the pinned kernel's come with it (area kernel)
            rows.append(Package(headers, "DKMS builds the stack's modules against the running kernel's headers", vendor.source,
                                path="/lib/modules/%s/build" % identity.kernel))
        rows.append(Package("dkms", "builds the stack's kernel modules", vendor.source))
    if spec["rdma_stack_offline_package"]:
        rows.append(Package("doca-host", "rdma_stack_offline_package: the vendor's repository as one package", "NVIDIA (DOCA-Host)",
                            version=vendor.version))
    why = "the %s stack, release %s" % (vendor.name, vendor.release)
    return rows + [Package(vendor.meta, why, vendor.source, units=(vendor.unit,), version=vendor.version)]


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
        held_packages(host, desired.identity, sorted(installed or {})),
    )


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if observed.installed is None:
        return []
    family = desired.identity.platform.family
    left = leaving(desired.vendor, observed.installed, stack_names(desired)) if desired.leave else Leaving((), ())
    blocking = in_the_way(desired.vendor, desired.identity, observed.installed)
    source = desired.vendor.source if desired.vendor is not None else "usual practice (uninstall before another stack is installed)"
    changes = plan_removals(NAME, left.removed, observed.installed, UNINSTALL_WHY, source, "reload")
    changes += plan_removals(NAME, [name for name in blocking if name not in left.removed], observed.installed,
                             "the vendor's package has the same files", source, "restart")
    rows = [row._replace(version=row.version or observed.candidates.get(row.name)) if desired.latest else row
            for row in desired.packages if not needless(row, observed, left)]
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


def leaving(vendor: Optional[VendorStack], installed: Mapping[str, str], wanted: Sequence[str]) -> Leaving:
    """What must go before the wanted stack (None: the distribution's) can come. ``wanted``: names that the node is to have."""
    if other_stack(vendor, installed, wanted) is None:
        return Leaving((), ())
    family = _matching(installed, [glob for row in VENDOR_STACKS for glob in row.family])
    gone = [name for name in sorted(installed) if name in family or marked(installed[name])]
    if vendor is not None:
        return Leaving(tuple(gone), ())
    # perftest and others bear no mark, and the vendor's depend on its libraries: every inbox name is asked of the distribution again.
    back = tuple(name for name in sorted(installed) if name in wanted and (name in gone or name not in family))
    return Leaving(tuple(name for name in gone if name not in back), back)


def in_the_way(vendor: Optional[VendorStack], identity: Identity, installed: Mapping[str, str]) -> Tuple[str, ...]:
    """Inbox packages whose files the vendor has in a package of another name (librdmacm1t64), on a node that moves there."""
    if vendor is None or identity.platform.family != "debian" or vendor.meta in installed:
        return ()
    return tuple(new for _old, (new, _releases) in sorted(RENAMED.items()) if new in installed and not marked(installed[new]))


def other_stack(vendor: Optional[VendorStack], installed: Mapping[str, str], wanted: Sequence[str]) -> Optional[str]:
    """The package that tells that a stack is installed which is not the wanted one."""
    own = vendor.name if vendor is not None else ""
    found = [meta for name, metas in PROFILES.items() if name != own for meta in metas if meta in installed]
    if vendor is None:
        found += sorted(_matching(installed, SHARED))
        found += [name for name in wanted if name in installed and marked(installed[name])]
    return "%s %s" % (found[0], installed[found[0]]) if found else None


def _matching(names: Mapping[str, str], globs: Sequence[str]) -> Set[str]:
    return {name for glob in set(globs) for name in (fnmatch.filter(names, glob) if GLOB.search(glob) else [glob]) if name in names}
