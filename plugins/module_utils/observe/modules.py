# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules of the RDMA and GPU family: which are loaded, which the running kernel could load."""

import re
from typing import Any, Dict, FrozenSet, Iterable, NamedTuple, Optional, Tuple

from ..formats import sysfs_values
from ..host.host import Host

# Core, upper layers, providers (drivers/infiniband/hw and sw), their Ethernet drivers, GPU and peer memory.
FAMILY = re.compile(
    r"(?:ib_|rdma_|iw_|rpcrdma|svcrdma|xprtrdma|mlx[45]|mlxfw|mlx_compat|mana|erdma|irdma|i40iw|bnxt_(?:re|en)|qedr|qede|hns_roce|hfi1|efa|"
    r"ionic|usnic|vmw_pvrdma|ocrdma|cxgb4|siw|smc|nvme_rdma|nvmet_rdma|ko2iblnd|knem|xpmem|nvidia|nv_peer_mem|gdrdrv|amdgpu)[A-Za-z0-9_]*\Z")

_ENTRY = re.compile(r"([^\s:]+\.ko(?:\.[a-z0-9]+)?)(?::|\s|\Z)")  # the first field of a line of modules.dep or modules.builtin

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
    """Every module that is loaded, by name; None when /proc/modules cannot be read."""
    return host.once("running modules", lambda: _running(host.read("/proc/modules")))


def _running(text: Optional[str]) -> Optional[Dict[str, Loaded]]:
    if text is None:
        return None
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: Loaded(sysfs_values.integer(row[2]), tuple(name for name in row[3].split(",") if sysfs_values.is_name(name)))
            for row in rows if len(row) > 3}


def loaded_modules(host: Host) -> Optional[Dict[str, Dict[str, Any]]]:
    """Loaded modules of the family; None when /proc/modules cannot be read. ``used_by``: None where the kernel does not count."""
    running = running_modules(host)
    return None if running is None else {
        name: {
            "version": sysfs_values.token(host.read("/sys/module/%s/version" % name, 256)),
            "used_by": sorted(row.users) if row.references is not None else None,
            "parameters": _parameters(host, name),
        } for name, row in sorted(running.items()) if FAMILY.match(name)}


def _parameters(host: Host, module: str) -> Dict[str, Optional[str]]:
    path = "/sys/module/%s/parameters/" % module
    return {name: sysfs_values.token(host.read(path + name, 256)) for name in PARAMETERS.get(module, ())}


def available_modules(host: Host, kernel: Optional[str], names: Iterable[str] = WANTED) -> FrozenSet[str]:
    """Those of ``names`` that are loaded, built in, or could be loaded into the running kernel."""
    indexes = [module_index(host, kernel), _tree_file(host, kernel, "modules.builtin")]
    loaded = running_modules(host) or {}
    return frozenset(name for name in names if name in loaded or any(module_path(index, name) for index in indexes))


def module_index(host: Host, kernel: Optional[str]) -> str:
    """modules.dep of the running kernel, "" when there is none."""
    return host.once("modules.dep of %s" % kernel, lambda: _tree_file(host, kernel, "modules.dep"))


def _tree_file(host: Host, kernel: Optional[str], name: str) -> str:
    if kernel is None or not sysfs_values.is_name(kernel):
        return ""
    for root in ("/lib/modules/", "/usr/lib/modules/"):  # one is a link to the other, unless a capture left it out
        text = host.read(root + kernel + "/" + name)
        if text is not None:
            return text
    return ""


def module_path(index: str, name: str) -> Optional[str]:
    """The file of a module below /lib/modules/KERNEL: ``updates/dkms/mlx5_core.ko.zst``.

    modules.dep is half a MiB: it is searched for the name, since a pattern over every line costs a
    hundred times as much. A file may be called nvidia-peermem.ko where the kernel says nvidia_peermem.
    """
    for spelling in sorted({name, name.replace("_", "-")}):
        wanted = "/%s.ko" % spelling
        at = index.find(wanted)
        while at >= 0:
            start = index.rfind("\n", 0, at) + 1
            found = _ENTRY.match(index, start)
            if found is not None and found.end(1) > at:  # else it is named as what another module needs
                return found.group(1)
            at = index.find(wanted, at + 1)
    return None
