# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules of the RDMA and GPU family: which are loaded, which the running kernel could load."""

import re
from typing import Any, Container, Dict, FrozenSet, Iterable, NamedTuple, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host

# Core, upper layers, providers (drivers/infiniband/hw and sw), their Ethernet drivers, GPU and peer memory.
FAMILY = re.compile(
    r"(?:ib_|rdma_|iw_|rpcrdma|svcrdma|xprtrdma|mlx[45]|mlxfw|mlx_compat|mana|erdma|irdma|i40iw|bnxt_(?:re|en)|qedr|qede|hns_roce|hfi1|efa|"
    r"ionic|usnic|vmw_pvrdma|ocrdma|cxgb4|siw|smc|nvme_rdma|nvmet_rdma|ko2iblnd|knem|xpmem|nvidia|nv_peer_mem|gdrdrv|amdgpu)[A-Za-z0-9_]*\Z")

# The first field of a line of modules.dep or modules.builtin, and in it the name of the module.
_ENTRY = re.compile(r"^((?:[^\s:/]*/)*([^\s:/.]+)\.ko(?:\.[a-z0-9]+)?)(?::|\s|\Z)", re.MULTILINE)

# Parameters that decide what a provider can do: without compat_mode eRDMA is iWARP-like and NCCL cannot use it.
PARAMETERS = {"erdma": ("compat_mode",), "nvidia_peermem": ("peerdirect_support",), "ib_ipoib": ("ipoib_enhanced",)}

# What the areas may have to load; ``module:NAME`` is a capability of a node whose kernel has it.
WANTED = (
    "ib_core", "ib_uverbs", "ib_umad", "ib_cm", "rdma_cm", "rdma_ucm", "ib_ipoib", "rdma_rxe", "siw",
    "mlx4_ib", "mlx5_core", "mlx5_ib", "erdma", "irdma", "bnxt_re", "mana_ib", "efa", "hns_roce_hw_v2",
    "nvidia", "nvidia_peermem", "nv_peer_mem", "gdrdrv",
)


class Loaded(NamedTuple):
    """A line of /proc/modules. ``references``: None where the kernel does not count (no CONFIG_MODULE_UNLOAD: ``-``, seen on a real node).

    More references than users: processes hold it.
    """

    references: Optional[int]
    users: Tuple[str, ...]


def running_modules(host: Host) -> Optional[Dict[str, Loaded]]:
    """Every module that is loaded, by name; None when /proc/modules cannot be read, is empty, or has another form."""
    return host.once("running modules", lambda: _running(host.read("/proc/modules")))


def _running(text: Optional[str]) -> Optional[Dict[str, Loaded]]:
    if text is None:
        return None
    rows = [line.split() for line in lines_in(text) if line.strip()]
    if not rows or any(len(row) < 4 for row in rows):
        return None
    return {row[0]: Loaded(sysfs_values.integer(row[2]), tuple(name for name in row[3].split(",") if sysfs_values.is_name(name)))
            for row in rows}


def loaded_modules(host: Host) -> Optional[Dict[str, Dict[str, Any]]]:
    """Loaded modules of the family; None when /proc/modules cannot be read. ``used_by``: None where the kernel does not count."""
    running = running_modules(host)
    return None if running is None else {
        name: {
            "version": sysfs_values.token(host.read("/sys/module/%s/version" % name, 256)),
            "used_by": sorted(row.users) if row.references is not None else None,
            "parameters": {key: sysfs_values.token(host.read("/sys/module/%s/parameters/%s" % (name, key), 256))
                           for key in PARAMETERS.get(name, ())},
        } for name, row in sorted(running.items()) if FAMILY.match(name)}


def available_modules(host: Host, kernel: Optional[str], names: Iterable[str] = WANTED) -> FrozenSet[str]:
    """Those of ``names`` that are loaded, built in, or could be loaded into the running kernel."""
    known: Tuple[Container[str], ...] = (
        running_modules(host) or {}, module_index(host, kernel), module_index(host, kernel, "modules.builtin"))
    return frozenset(name for name in names if any(name in each for each in known))


def module_path(host: Host, kernel: Optional[str], name: str) -> Optional[str]:
    """The file of a module below /lib/modules/KERNEL: ``updates/dkms/mlx5_core.ko.zst``."""
    return module_index(host, kernel).get(name)


def module_index(host: Host, kernel: Optional[str], name: str = "modules.dep") -> Dict[str, str]:
    """File by module, as the kernel spells it: its file may be called nvidia-peermem.ko. {} where the kernel has no such list."""
    return host.once("%s of %s" % (name, kernel), lambda: _index(host, kernel, name))


def _index(host: Host, kernel: Optional[str], name: str) -> Dict[str, str]:
    if kernel is None or not sysfs_values.is_name(kernel):
        return {}
    roots = ("/lib/modules/", "/usr/lib/modules/")  # one is a link to the other, unless a capture left it out
    text = next((text for text in (host.read(root + kernel + "/" + name) for root in roots) if text is not None), "")
    found: Dict[str, str] = {}
    for path, stem in _ENTRY.findall(text):
        found.setdefault(stem.replace("-", "_"), path)
    return found
