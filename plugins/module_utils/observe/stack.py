# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA stack a node runs: the distribution's own (inbox), DOCA-OFED or MLNX_OFED.

Asked in this order: packages, then the mlx5 driver's own version and place, and only then
``ofed_info``, which DOCA 4.0 no longer has and which outlives the stack it belonged to.
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..formats import sysfs_values
from ..host.host import Host
from ..types import Identity
from .modules import module_path
from .package_state import UNFINISHED
from .packages import dpkg_rows
from .stack_modules import FOREIGN_PATH, LAST_MLNX_OFED, module_facts, observe_modules, release_name

_META_PACKAGES = (
    ("doca", ("doca-ofed", "doca-all", "doca-networking", "doca-roce")),
    ("mlnx_ofed", ("mlnx-ofed-all", "mlnx-ofed-basic", "mlnx-ofed-kernel-only")),
)
_CORE_PACKAGES = ("rdma-core",)
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
    for source in (_by_package, _by_module, _by_ofed_info, _by_core):
        found = source(host, kernel, packages or {})
        if found is not None:
            return {"name": found[0], "version": found[1], "source": found[2]}
    return {"name": None, "version": None, "source": None}


def _by_package(host: Host, kernel: Optional[str], packages: Mapping[str, str]) -> Optional[Tuple[str, Optional[str], str]]:
    for stack, names in _META_PACKAGES:
        for name in names:
            if name in packages:
                return stack, packages[name], "package " + name
    return None


def _by_module(host: Host, kernel: Optional[str], packages: Mapping[str, str]) -> Optional[Tuple[str, Optional[str], str]]:
    """An OFED module has a version like 24.10-1.1.4; a module of the kernel has none, or 5.0-0 in old ones."""
    path = module_path(host, kernel, "mlx5_core")
    version = sysfs_values.token(host.line("/sys/module/mlx5_core/version"))
    if path is None or not FOREIGN_PATH.search(path):
        return None
    return release_name(version) or "mlnx_ofed", version, "module " + path


def _by_ofed_info(host: Host, kernel: Optional[str], packages: Mapping[str, str]) -> Optional[Tuple[str, Optional[str], str]]:
    """Only where mlx5 lies nowhere that we know: its answer alone does not say that the stack is in use."""
    if module_path(host, kernel, "mlx5_core") is not None or host.which("ofed_info") is None:
        return None
    found = _OFED_INFO.search(host.run(["ofed_info", "-s"], 10.0).out)
    if found is None:
        return None
    return ("doca" if int(found.group(1).partition(".")[0]) > LAST_MLNX_OFED else "mlnx_ofed"), found.group(1), "ofed_info -s"


def _by_core(host: Host, kernel: Optional[str], packages: Mapping[str, str]) -> Optional[Tuple[str, Optional[str], str]]:
    for name in _CORE_PACKAGES:
        if name in packages:
            return "inbox", packages[name], "package " + name
    path = module_path(host, kernel, "ib_core")
    return ("inbox", None, "module " + path) if path is not None else None
