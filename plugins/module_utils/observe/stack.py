# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA stack a node runs: the distribution's own (inbox), DOCA-OFED or MLNX_OFED.

Asked in this order: packages, then the mlx5 driver's own version and place, and only then
``ofed_info``, which DOCA 4.0 no longer has and which outlives the stack it belonged to.
"""

import re
from typing import Dict, Mapping, Optional, Tuple

from ..host import Host
from . import parse
from .modules import module_index, module_path

_META_PACKAGES = (
    ("doca", ("doca-ofed", "doca-all", "doca-networking", "doca-roce")),
    ("mlnx_ofed", ("mlnx-ofed-all", "mlnx-ofed-basic", "mlnx-ofed-kernel-only")),
)
_CORE_PACKAGES = ("rdma-core",)
# Where DKMS and kmod packages put modules (domain knowledge B3): everything else is the kernel's own.
_FOREIGN_PATH = re.compile(r"(?:^|/)(?:updates|extra|weak-updates)/")
_OFED_VERSION = re.compile(r"([0-9]{1,2})\.[0-9]{1,2}-[0-9.]+\Z")
_OFED_INFO = re.compile(r"^(?:MLNX_OFED_LINUX|OFED-internal)-([0-9]+\.[0-9]+-[0-9.]+?):?(?:\s|$)", re.MULTILINE)
_LAST_MLNX_OFED = 24  # MLNX_OFED ended with 24.10; what is newer is DOCA-OFED


def observe_stack(host, kernel, packages):
    # type: (Host, Optional[str], Optional[Mapping[str, str]]) -> Dict[str, Optional[str]]
    """``name`` inbox, doca, mlnx_ofed or None; its version; and what told."""
    for source in (_by_package, _by_module, _by_ofed_info, _by_core):
        found = source(host, kernel, packages or {})
        if found is not None:
            return {"name": found[0], "version": found[1], "source": found[2]}
    return {"name": None, "version": None, "source": None}


def _by_package(host, kernel, packages):
    # type: (Host, Optional[str], Mapping[str, str]) -> Optional[Tuple[str, Optional[str], str]]
    for stack, names in _META_PACKAGES:
        for name in names:
            if name in packages:
                return stack, packages[name], "package " + name
    return None


def _by_module(host, kernel, packages):
    # type: (Host, Optional[str], Mapping[str, str]) -> Optional[Tuple[str, Optional[str], str]]
    """An OFED module has a version like 24.10-1.1.4; a module of the kernel has none, or 5.0-0 in old ones."""
    path = module_path(module_index(host, kernel), "mlx5_core")
    version = parse.token(host.line("/sys/module/mlx5_core/version"))
    if path is None or not _FOREIGN_PATH.search(path):
        return None
    release = _OFED_VERSION.match(version or "")
    name = "doca" if release is not None and int(release.group(1)) > _LAST_MLNX_OFED else "mlnx_ofed"
    return name, version, "module " + path


def _by_ofed_info(host, kernel, packages):
    # type: (Host, Optional[str], Mapping[str, str]) -> Optional[Tuple[str, Optional[str], str]]
    """Only where mlx5 lies nowhere that we know: its answer alone does not say that the stack is in use."""
    if module_path(module_index(host, kernel), "mlx5_core") is not None or host.which("ofed_info") is None:
        return None
    found = _OFED_INFO.search(host.run(["ofed_info", "-s"], 10.0).out)
    if found is None:
        return None
    return ("doca" if int(found.group(1).partition(".")[0]) > _LAST_MLNX_OFED else "mlnx_ofed"), found.group(1), "ofed_info -s"


def _by_core(host, kernel, packages):
    # type: (Host, Optional[str], Mapping[str, str]) -> Optional[Tuple[str, Optional[str], str]]
    for name in _CORE_PACKAGES:
        if name in packages:
            return "inbox", packages[name], "package " + name
    path = module_path(module_index(host, kernel), "ib_core")
    return ("inbox", None, "module " + path) if path is not None else None
