# SPDX-License-Identifier: GPL-3.0-or-later
"""What GPUDirect RDMA needs, as facts: peer memory modules, the GPU driver, the kernel's dma-buf options.

No decision is made here: NCCL takes peermem when one of its three files exists and asks the
HCA driver for dma-buf itself (net_ib/gdr.cc).
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..host import Host
from . import parse

MEMORY_PEERS = "/sys/kernel/mm/memory_peers"
_PEERMEM_MODULES = ("nvidia_peermem", "nv_peer_mem")
_NVRM = re.compile(r"^NVRM version: (.*?)\s{2,}([0-9]+(?:\.[0-9]+)+)\s", re.MULTILINE)
_OPTIONS = ("CONFIG_DMABUF_MOVE_NOTIFY", "CONFIG_PCI_P2PDMA", "CONFIG_INFINIBAND_ON_DEMAND_PAGING")


def observe_gpudirect(host, kernel, modules):
    # type: (Host, Optional[str], Optional[Mapping[str, Mapping[str, Any]]]) -> Dict[str, Any]
    loaded = [name for name in _PEERMEM_MODULES if name in (modules or {})]
    users = (modules or {}).get("ib_core", {}).get("used_by", [])
    driver, flavour = _nvidia_driver(host)
    return {
        "peermem_module": loaded[0] if loaded else None,
        "peermem_version": parse.token(host.line("/sys/module/%s/version" % loaded[0])) if loaded else None,
        # Registered: ib_core counts it among its users; a module built without OFED's headers loads nowhere at all.
        "peermem_registered": (bool(loaded) and loaded[0] in users) if modules is not None else None,
        "memory_peers": _memory_peers(host),
        "nvidia_driver": driver,
        "nvidia_flavour": flavour,
        "gdrdrv_loaded": "gdrdrv" in modules if modules is not None else None,
        "kernel_options": _kernel_options(host, kernel),
    }


def _memory_peers(host):
    # type: (Host) -> List[Dict[str, Optional[str]]]
    """Clients that registered with OFED's peer memory interface; inbox kernels have no such directory."""
    return [
        {"name": name, "version": parse.token(host.line("%s/%s/version" % (MEMORY_PEERS, name)))}
        for name in host.listdir(MEMORY_PEERS) if parse.is_name(name)
    ]


def _nvidia_driver(host):
    # type: (Host) -> Tuple[Optional[str], Optional[str]]
    """(version, "open" or "proprietary"): the driver says which kind it is in the first line of its version file."""
    found = _NVRM.search(host.read("/proc/driver/nvidia/version", 4096) or "")
    if found is not None:
        return found.group(2), "open" if "Open Kernel Module" in found.group(1) else "proprietary"
    return parse.token(host.line("/sys/module/nvidia/version")), None


def _kernel_options(host, kernel):
    # type: (Host, Optional[str]) -> Dict[str, Optional[str]]
    """y, m or n of the options that dma-buf over RDMA rests on; None when the kernel's configuration is not there."""
    text = host.read("/boot/config-" + kernel) if kernel is not None and parse.is_name(kernel) else None
    if text is None and kernel is not None and parse.is_name(kernel):
        text = host.read("/lib/modules/%s/config" % kernel)
    found = {}  # type: Dict[str, Optional[str]]
    for option in _OPTIONS:
        value = re.search(r"^%s=([ym])$" % option, text or "", re.MULTILINE)
        found[option] = value.group(1) if value else ("n" if text else None)
    return found
