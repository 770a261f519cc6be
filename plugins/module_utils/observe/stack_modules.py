# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the loaded kernel modules of the RDMA stack come from, and whether they are the ones on disk.

After a stack was installed or upgraded the new modules lie on disk and the old ones still run. The kernel keeps version and
srcversion of what it loaded below /sys/module; ``modinfo`` tells both of the file that modprobe would load. A module without
MODULE_VERSION has neither on a kernel without CONFIG_MODULE_SRCVERSION_ALL (Debian): nothing is a value here too.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..host.host import Host
from .modules import module_path, running_modules

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
    fields: Dict[str, str] = {}
    for line in answer.out.splitlines():
        key, _colon, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
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
    """``origin`` and ``version`` of what runs; ``on_disk``: what the next load would bring; ``stale``: modules where both differ."""
    core = next((module for module in modules if module.loaded is not None), None)
    return {
        "origin": origin(modules, package_name),
        "version": core.loaded[0] if core is not None and core.loaded is not None else None,
        "on_disk": core.disk[0] if core is not None and core.disk is not None else None,
        "path": core.path if core is not None else None,
        "stale": [module.name for module in modules if module.stale],
    }
