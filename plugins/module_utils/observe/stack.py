# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA stack a node runs (inbox, DOCA-OFED, MLNX_OFED), and whether its loaded kernel modules are the ones on disk.

Asked in this order: packages, then the mlx5 driver's own version and place, and only then
``ofed_info``, which DOCA 4.0 no longer has and which outlives the stack it belonged to.
After a stack was installed or upgraded the new modules lie on disk and the old ones still run. The kernel keeps version and
srcversion of what it loaded below /sys/module; ``modinfo`` tells both of the file that modprobe would load. A module without
MODULE_VERSION has neither on a kernel without CONFIG_MODULE_SRCVERSION_ALL (Debian): nothing is a value here too.
"""

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from ..types import Identity
from .modules import module_path, running_modules
from .packages import UNFINISHED, dpkg_rows

CORE = "mlx5_core"
# mlx5_core first: its place tells which stack the node has.
CHECKED = (CORE, "mlx5_ib", "ib_core", "ib_uverbs", "ib_umad", "rdma_cm", "rdma_ucm", "ib_ipoib", "mlx_compat")
INBOX, UNKNOWN = "inbox", "unknown"
# Where DKMS and kmod packages put modules (domain knowledge B3): everything else is the kernel's own.
FOREIGN_PATH = re.compile(r"(?:^|/)(?:updates|extra|weak-updates)/")
OFED_VERSION = re.compile(r"([0-9]{1,2})\.[0-9]{1,2}-[0-9.]+\Z")
LAST_MLNX_OFED = 24  # MLNX_OFED ended with 24.10; what is newer is DOCA-OFED
MLNX_OFED, DOCA = "mlnx_ofed", "doca"


class StackModule(NamedTuple):
    """One module of the stack. ``disk`` is None where modinfo gave no answer; versions are (version, srcversion)."""

    name: str
    path: Optional[str]  # below /lib/modules/KERNEL, of the file that modprobe would load
    loaded: Optional[Tuple[Optional[str], Optional[str]]]  # None: not loaded
    disk: Optional[Tuple[Optional[str], Optional[str]]]

    @property
    def foreign(self) -> bool:
        """The file on disk is no module of the kernel's own package."""
        return self.path is not None and FOREIGN_PATH.search(self.path) is not None

    @property
    def stale(self) -> bool:
        """Loaded, and not from the file that is on disk now."""
        return self.loaded is not None and self.disk is not None and self.loaded != self.disk


def observe_modules(host: Host, kernel: Optional[str]) -> Tuple[StackModule, ...]:
    """Those of CHECKED that are loaded or on disk, in that order."""
    running = running_modules(host) or {}
    found: List[StackModule] = []
    for name in CHECKED:
        path = module_path(host, kernel, name)
        loaded: Optional[Tuple[Optional[str], Optional[str]]] = None
        if name in running:
            base = "/sys/module/%s/" % name
            loaded = sysfs_values.token(host.line(base + "version")), sysfs_values.token(host.line(base + "srcversion"))
        if loaded is None and path is None:
            continue
        found.append(StackModule(name, path, loaded, _on_disk(host, kernel, name) if loaded is not None and path is not None else None))
    return tuple(found)


def _on_disk(host: Host, kernel: Optional[str], name: str) -> Optional[Tuple[Optional[str], Optional[str]]]:
    answer = host.run(("modinfo", "-k", str(kernel), name), 10.0)
    if not answer.ok or "filename:" not in answer.out:
        return None
    pairs = [line.partition(":") for line in lines_in(answer.out)]
    fields = {key.strip(): value.strip() for key, _colon, value in reversed(pairs)}  # the first of a name counts
    return sysfs_values.token(fields.get("version")), sysfs_values.token(fields.get("srcversion"))


def release_name(version: Optional[str]) -> Optional[str]:
    """Which vendor's stack has modules of this version; None for a version of another kind, or none."""
    release = OFED_VERSION.match(version or "")
    if release is None:
        return None
    return DOCA if int(release.group(1)) > LAST_MLNX_OFED else MLNX_OFED


def origin(modules: Sequence[StackModule], package_name: Optional[str] = None) -> Optional[str]:
    """Whose modules run: inbox, doca, mlnx_ofed, or unknown (loaded from a vendor's place without a vendor's version).

    ``package_name``: the stack that is installed by its packages. DOCA 2.9 and MLNX_OFED 24.10 have the same module versions.
    """
    for module in modules:
        if module.loaded is None or module.name == "mlx_compat":
            continue
        name = release_name(module.loaded[0])
        if name is not None:
            return package_name if name == MLNX_OFED and package_name == DOCA else name
        if module.path is None:
            continue  # no version, and no place to tell it by
        if module.foreign and not module.stale:
            return package_name if package_name in (DOCA, MLNX_OFED) else UNKNOWN
        return INBOX
    return None


def module_facts(modules: Sequence[StackModule], package_name: Optional[str]) -> Dict[str, Any]:
    """``origin`` and ``version`` of what runs; ``on_disk``: what the next load would bring; ``stale``: modules where both differ;
    ``unread``: loaded ones of whose file modinfo tells nothing, where it tells of others (a captured tree may have no answer of it)."""
    core = next((module for module in modules if module.loaded is not None), None)
    return {
        "origin": origin(modules, package_name),
        "version": core.loaded[0] if core is not None and core.loaded is not None else None,
        "on_disk": core.disk[0] if core is not None and core.disk is not None else None,
        "path": core.path if core is not None else None,
        "stale": [module.name for module in modules if module.stale],
        "unread": [module.name for module in modules if module.loaded is not None and module.path is not None and module.disk is None
                   and any(other.disk is not None for other in modules)],
    }


_META_PACKAGES = (
    ("doca", ("doca-ofed", "doca-all", "doca-networking", "doca-roce")),
    ("mlnx_ofed", ("mlnx-ofed-all", "mlnx-ofed-basic", "mlnx-ofed-kernel-only")),
)
_CORE_PACKAGE = "rdma-core"
_OFED_INFO = re.compile(r"^(?:MLNX_OFED_LINUX|OFED-internal)-([0-9]{1,9}\.[0-9]+-[0-9.]+?):?(?:\s|$)", re.MULTILINE)
_FAMILY = re.compile("doca|mlnx|ofed|rdma|libibverbs|ibverbs|librdmacm|nvidia|cuda|dkms|mft|kernel-mft|iser|isert|srp|knem")


def stack_facts(host: Host, identity: Identity, packages: Optional[Mapping[str, str]]) -> Dict[str, Any]:
    """The stack as the packages tell it, beside it what its modules tell, and what is only half there."""
    known: Dict[str, Any] = observe_stack(host, identity.kernel or None, packages)
    known["modules"] = module_facts(observe_modules(host, identity.kernel), known["name"])
    known["half_installed"] = [] if identity.platform.family in ("redhat", "suse") else half_installed(host)  # rpm has no such states
    return known


def half_installed(host: Host) -> Optional[List[str]]:
    """``NAME (half-configured)`` for each package of stack and drivers that dpkg has not finished with; None without its database."""
    rows = dpkg_rows(host)
    half = [row for row in rows or () if row.state in UNFINISHED and _FAMILY.match(row.name)]
    return None if rows is None else ["%s (%s)" % (row.name, row.state) for row in half]


def observe_stack(host: Host, kernel: Optional[str], packages: Optional[Mapping[str, str]]) -> Dict[str, Optional[str]]:
    """``name`` inbox, doca, mlnx_ofed or None; its version; and what told."""
    name, version, source = _stack(host, kernel, packages or {})
    return {"name": name, "version": version, "source": source}


def _stack(host: Host, kernel: Optional[str], packages: Mapping[str, str]) -> Tuple[Optional[str], Optional[str], Optional[str]]:
    for stack, names in _META_PACKAGES:
        for name in names:
            if name in packages:
                return stack, packages[name], "package " + name
    # An OFED module has a version like 24.10-1.1.4; a module of the kernel has none, or 5.0-0 in old ones.
    path = module_path(host, kernel, CORE)
    if path is not None and FOREIGN_PATH.search(path):
        version = sysfs_values.token(host.line("/sys/module/%s/version" % CORE))
        return release_name(version) or MLNX_OFED, version, "module " + path
    if path is None and host.which("ofed_info") is not None:  # its answer alone does not say that the stack is in use
        found = _OFED_INFO.search(host.run(["ofed_info", "-s"], 10.0).out)
        if found is not None:
            return DOCA if int(found.group(1).partition(".")[0]) > LAST_MLNX_OFED else MLNX_OFED, found.group(1), "ofed_info -s"
    if _CORE_PACKAGE in packages:
        return INBOX, packages[_CORE_PACKAGE], "package " + _CORE_PACKAGE
    path = module_path(host, kernel, "ib_core")
    return (INBOX, None, "module " + path) if path is not None else (None, None, None)
