# SPDX-License-Identifier: GPL-3.0-or-later
"""What GPUDirect RDMA needs, as facts: peer memory modules, the GPU driver, dma-buf as the kernel, the HCAs and CUDA see it.

No decision is made here (rules/gpudirect.py): NCCL takes peermem when one of its three files exists and asks the
HCA driver for dma-buf itself (net_ib/gdr.cc).
"""

from typing import Any, Dict, List, Mapping, Optional

from ..formats import sysfs_values
from ..host.host import Host
from .boot import kernel_options
from .dmabuf_probe import ask_cuda, ask_hcas
from .gpu_driver import loaded_driver
from .peermem_build import observe_build

MEMORY_PEERS = "/sys/kernel/mm/memory_peers"
_PEERMEM_MODULES = ("nvidia_peermem", "nv_peer_mem")
OPTIONS = ("CONFIG_DMA_SHARED_BUFFER", "CONFIG_DMABUF_MOVE_NOTIFY", "CONFIG_PCI_P2PDMA", "CONFIG_INFINIBAND_ON_DEMAND_PAGING")


def observe_gpudirect(
    host: Host, kernel: Optional[str], modules: Optional[Mapping[str, Mapping[str, Any]]], gpus: int = 0
) -> Dict[str, Any]:
    """``gpus``: how many NVIDIA GPUs the node has; without one there is nobody to ask about CUDA."""
    loaded = [name for name in _PEERMEM_MODULES if name in (modules or {})]
    users = (modules or {}).get("ib_core", {}).get("used_by", [])  # None: this kernel does not tell
    driver = loaded_driver(host)
    return {
        "peermem_module": loaded[0] if loaded else None,
        "peermem_version": sysfs_values.token(host.line("/sys/module/%s/version" % loaded[0])) if loaded else None,
        # Registered: ib_core counts it among its users; a module built without OFED's headers loads nowhere at all.
        "peermem_registered": (bool(loaded) and loaded[0] in users) if modules is not None and users is not None else None,
        "peermem_build": observe_build(host, kernel),
        "peer_memory_interface": host.exists(MEMORY_PEERS),
        "memory_peers": _memory_peers(host),
        "nvidia_driver": driver.version,
        "nvidia_flavour": driver.flavour,
        "gdrdrv_loaded": "gdrdrv" in modules if modules is not None else None,
        "kernel_options": kernel_options(host, kernel, OPTIONS),
        "dmabuf": _dmabuf(host, driver.version is not None and gpus > 0),
    }


def _memory_peers(host: Host) -> List[Dict[str, Optional[str]]]:
    """Clients that registered with OFED's peer memory interface; inbox kernels have no such directory."""
    return [
        {"name": name, "version": sysfs_values.token(host.line("%s/%s/version" % (MEMORY_PEERS, name)))}
        for name in host.listdir(MEMORY_PEERS) if sysfs_values.is_name(name)
    ]


def _dmabuf(host: Host, has_cuda: bool) -> Dict[str, Any]:
    """Answers by HCA and by GPU: true, false, null for an answer that is neither; who was not asked is missing."""
    hcas = ask_hcas(host) if host.listdir("/sys/class/infiniband") else None
    cuda = ask_cuda(host) if has_cuda else None
    return {
        "hcas": hcas.found if hcas is not None else {},
        "hcas_said": hcas.raw if hcas is not None else {},
        "hcas_error": hcas.error if hcas is not None else None,
        "gpus": cuda.found if cuda is not None else {},
        "gpus_error": cuda.error if cuda is not None else None,
    }
