# SPDX-License-Identifier: GPL-3.0-or-later
"""Which path the HCAs take to GPU memory: the decision table of docs/reference/gpudirect.md. Pure.

A version proves nothing by itself: where the HCA and CUDA have been asked (observe/gpudirect.py), their answer counts
and the kernel's version does not. What this table calls possible still has to be proven (checks/gpudirect.py).

Sources: NVIDIA GPU Operator documentation (GPUDirect RDMA: prerequisites), nvidia-peermem.c of the open kernel modules,
README and tags of nv_peer_memory; for eRDMA the runbook of alibabacloud-erdma-controller.
"""

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats.text import join_names, numbers

# Versions at which the paths to GPU memory begin and end.
DMABUF_KERNEL = (5, 12)  # first with ib_umem_dmabuf, and mlx5_ib the first driver that used it
OPEN_DRIVER = 515  # first branch with open kernel modules; it brings CUDA 11.7
PEERMEM_DRIVER = 470  # nvidia_peermem is part of the driver from here on
DMABUF_CUDA = (11, 7)
NV_PEER_MEM_OFED = (5, 1)  # nv_peer_mem 1.2 and newer register as the new kind of client of OFED 5.1; older ones can deadlock there
OFED_STACKS = ("doca", "mlnx_ofed")
DMABUF, PEERMEM, NV_PEER_MEM, NONE = "dmabuf", "nvidia_peermem", "nv_peer_mem", "none"
PATHS = (DMABUF, PEERMEM, NV_PEER_MEM)  # in the order of preference
MODULES = {PEERMEM: "nvidia_peermem", NV_PEER_MEM: "nv_peer_mem"}
AUTO = "auto"

NVIDIA = "NVIDIA"
MLX5, MLX4, ERDMA = ("mlx5_core", "mlx5_ib"), ("mlx4_core", "mlx4_ib"), ("erdma",)
SOFTWARE = ("rdma_rxe", "siw")
# Without them there is no dma-buf at all; peer-to-peer DMA is what lets a foreign device reach GPU memory.
NEEDED_OPTIONS = (
    ("CONFIG_DMA_SHARED_BUFFER", "the kernel has no dma-buf"),
    ("CONFIG_PCI_P2PDMA", "the kernel lets no PCI device reach another's memory"),
)
ODP = "CONFIG_INFINIBAND_ON_DEMAND_PAGING"  # mlx5_ib refuses dma-buf without it


class HcaSeen(NamedTuple):
    """An RDMA device that GPU memory shall be reached from, and what it answered to the dma-buf probe (None: not asked, or unclear)."""

    name: str
    driver: Optional[str]
    dmabuf: Optional[bool] = None
    provider: Optional[str] = None  # of NVIDIA's memory in EFA's driver; '': none, None: this driver does not tell


class Evidence(NamedTuple):
    """What the choice rests on. None means that it is not known."""

    gpus: int
    hcas: Tuple[HcaSeen, ...]
    kernel: str
    driver: Optional[str] = None  # version of the NVIDIA driver: the one that the inventory wants, else the installed one
    flavour: Optional[str] = None  # open or proprietary
    stack: Optional[str] = None  # inbox, doca, mlnx_ofed or soft_roce
    stack_version: Optional[str] = None
    turing: Optional[bool] = None  # every GPU is of the Turing generation or newer
    cuda: Optional[str] = None  # toolkit that the inventory wants
    options: Mapping[str, Optional[str]] = {}  # of the kernel: y, m, n
    cuda_dmabuf: Optional[bool] = None  # CUDA's own answer for every GPU
    virtual: Optional[str] = None


class Refusal(NamedTuple):
    """Why a path is not taken. ``certain``: it cannot work here; else it is only not known to, or another one is better."""

    path: str
    why: str
    certain: bool = True


class Choice(NamedTuple):
    path: str
    reason: str
    refused: Tuple[Refusal, ...]
    release: Optional[str] = None  # of nv_peer_mem: the one for this OFED
    problem: Optional[str] = None  # the inventory asks for a path that cannot work here


def choose_path(evidence: Evidence, wanted: str = AUTO) -> Choice:
    """The path for one node. ``wanted``: the inventory's gpudirect_path."""
    nothing = _nothing_to_connect(evidence)
    if nothing is not None:
        return Choice(NONE, nothing, ())
    found = {path: _against(path, evidence) for path in PATHS}
    release = nv_peer_mem_release(evidence.stack, evidence.stack_version)
    if wanted == NONE:
        return Choice(NONE, "the inventory wants none (gpudirect_path: none)", _others(found, NONE))
    if wanted != AUTO:
        certain = [item.why for item in found[wanted] if item.certain]
        reason = "the inventory says so (gpudirect_path: %s)" % wanted
        problem = "%s cannot work on this node: %s" % (wanted, "; ".join(certain)) if certain else None
        return Choice(wanted, reason, _others(found, wanted), release if wanted == NV_PEER_MEM else None, problem)
    for path in PATHS:
        if not found[path]:
            return Choice(path, _reason(path, evidence, found), _others(found, path), release if path == NV_PEER_MEM else None)
    if all((hca.provider or "").startswith(NVIDIA) for hca in evidence.hcas):
        return Choice(NONE, "EFA's driver reaches GPU memory by itself (attribute p2p: %s)" % evidence.hcas[0].provider, ())
    why = "; ".join("%s: %s" % (path, found[path][0].why) for path in PATHS)
    return Choice(NONE, "no path is known to work here: " + why, _others(found, NONE))


def nv_peer_mem_release(stack: Optional[str], stack_version: Optional[str]) -> str:
    """1.2 and 1.3 are for OFED 5.1 and newer only, before that (4.9 LTS) 1.0-9 is right. DOCA-OFED counts anew, all of it is later."""
    version = numbers(stack_version)
    return "1.0-9" if stack == "mlnx_ofed" and version and version < NV_PEER_MEM_OFED else "1.3-0"


def _nothing_to_connect(evidence: Evidence) -> Optional[str]:
    if not evidence.gpus:
        return "this node has no NVIDIA GPU"
    if not evidence.hcas:
        return "this node has no RDMA device"
    if all(hca.driver in SOFTWARE for hca in evidence.hcas):
        return "the RDMA devices are software (%s): the CPU copies, no device reads GPU memory" % join_names(
            sorted({str(hca.driver) for hca in evidence.hcas}))
    return None


def _branch(evidence: Evidence) -> int:
    """Of the driver: 580 of 580.95.05; 0 where there is none."""
    return (numbers(evidence.driver) or (0,))[0]


def _against(path: str, evidence: Evidence) -> List[Refusal]:
    """Everything that speaks against a path; [] when nothing does."""
    branch = _branch(evidence)
    if not numbers(evidence.driver):
        return [Refusal(path, "no NVIDIA driver is installed, and the inventory asks for none (gpu_driver_branch)")]
    if path == DMABUF:
        return [Refusal(DMABUF, why) for why in _gpu_side(evidence) + _kernel_side(evidence)] + _hca_side(evidence)
    found = []
    if path == PEERMEM and branch < PEERMEM_DRIVER:
        found.append(Refusal(path, "driver %s is older than R%d, the first that brings nvidia_peermem" % (evidence.driver, PEERMEM_DRIVER)))
    if path == NV_PEER_MEM and branch >= PEERMEM_DRIVER:
        found.append(Refusal(path, "obsolete: since R%d the driver (%s here) brings nvidia_peermem in its place" % (
            PEERMEM_DRIVER, evidence.driver)))
    # Peer memory clients register with ib_core of OFED; the kernel's own has no such interface.
    if evidence.stack not in OFED_STACKS:
        found.append(Refusal(path, "ib_core of the %s stack has no peer memory interface (ib_register_peer_memory_client); "
                             "DOCA-OFED and MLNX_OFED have it" % (evidence.stack or "kernel's own")))
    foreign = sorted({str(hca.driver) for hca in evidence.hcas if hca.driver not in MLX5 + MLX4 + ERDMA})
    if foreign:
        found.append(Refusal(path, "driver %s does not use OFED's peer memory" % join_names(foreign)))
    return found


def _gpu_side(evidence: Evidence) -> List[str]:
    found = []
    if _branch(evidence) < OPEN_DRIVER:
        found.append("driver %s is older than R%d: it has no open kernel modules and no CUDA 11.7" % (evidence.driver, OPEN_DRIVER))
    elif evidence.flavour == "proprietary":
        found.append("the driver's kernel modules are the proprietary ones, only the open ones export dma-buf (gpu_driver_flavour: open)")
    elif evidence.flavour is None and evidence.cuda_dmabuf is not True:
        found.append("whether the driver's kernel modules are the open ones cannot be read")
    if evidence.turing is False:
        found.append("a GPU here is older than Turing, which the open kernel modules do not drive")
    if evidence.cuda is not None and numbers(evidence.cuda) < DMABUF_CUDA:
        found.append("CUDA %s is older than 11.7" % evidence.cuda)
    if evidence.cuda_dmabuf is False and not found:
        found.append("CUDA itself says that a GPU here does not support it (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0)")
    return found


def _kernel_side(evidence: Evidence) -> List[str]:
    """An HCA that takes dma-buf on this kernel has answered for the kernel too."""
    found = []
    answered = all(hca.dmabuf for hca in evidence.hcas)
    if not answered and numbers(evidence.kernel)[:2] < DMABUF_KERNEL:
        found.append("kernel %s is older than 5.12, where RDMA over dma-buf begins" % evidence.kernel)
    for option, meaning in NEEDED_OPTIONS:
        proven = answered if option == "CONFIG_DMA_SHARED_BUFFER" else evidence.cuda_dmabuf is True
        if evidence.options.get(option) == "n" and not proven:
            found.append("%s: it is built without %s" % (meaning, option))
    if evidence.options.get(ODP) == "n" and not answered and any(hca.driver in MLX5 for hca in evidence.hcas):
        found.append("mlx5 takes dma-buf only in a kernel with %s, and this one is built without" % ODP)
    return found


def _hca_side(evidence: Evidence) -> List[Refusal]:
    found = []
    refusing = [hca.name for hca in evidence.hcas if hca.dmabuf is False]
    if refusing:
        lacking = ", and EFA's driver has no provider of NVIDIA's memory either (attribute p2p is empty)"
        found.append(Refusal(DMABUF, "%s cannot register dma-buf by its own answer (ibv_reg_dmabuf_mr)%s" % (
            join_names(refusing), lacking if any(hca.provider == "" for hca in evidence.hcas) else "")))
    old = [hca.name for hca in evidence.hcas if hca.driver in MLX4 and hca.dmabuf is None]
    if old:
        found.append(Refusal(DMABUF, "%s is older than ConnectX-4: its driver mlx4_ib has no dma-buf" % join_names(old)))
    others = [hca for hca in evidence.hcas if hca.dmabuf is None and hca.driver not in MLX5 + MLX4]
    if others:
        found.append(Refusal(DMABUF, "whether driver %s registers dma-buf differs by version: only %s can tell, and %s not been asked" % (
            join_names(sorted({str(hca.driver) for hca in others})), join_names([hca.name for hca in others]),
            "has" if len(others) == 1 else "have"), False))
    return found


def _others(found: Dict[str, List[Refusal]], chosen: str) -> Tuple[Refusal, ...]:
    """Every path that is not taken, with all that speaks against it."""
    refused = []
    for path in [item for item in PATHS if item != chosen]:
        against = found[path]
        if against:
            refused.append(Refusal(path, "; ".join(item.why for item in against), any(item.certain for item in against)))
        else:
            preferred = chosen in PATHS and PATHS.index(chosen) < PATHS.index(path)
            better = "%s is preferred: no module to keep in step" % chosen if preferred else "the inventory chose otherwise"
            refused.append(Refusal(path, "possible, but " + better, False))
    return tuple(refused)


def _reason(path: str, evidence: Evidence, found: Mapping[str, Sequence[Refusal]]) -> str:
    """Why this one, in a sentence."""
    names = join_names([hca.name for hca in evidence.hcas])
    if path == DMABUF:
        asked = all(hca.dmabuf for hca in evidence.hcas) and evidence.cuda_dmabuf is True
        proof = "the HCAs and CUDA were asked and support it" if asked else "by their versions; validate asks the HCAs and CUDA"
        return "the open driver %s exports GPU memory as dma-buf and %s on kernel %s can register it (%s); no module has to be loaded" % (
            evidence.driver, names, evidence.kernel, proof)
    stack = " ".join(part for part in (evidence.stack, evidence.stack_version) if part)
    why_not = found[DMABUF][0].why
    if path == PEERMEM:
        return "DMA-BUF is out (%s); driver %s brings nvidia_peermem, and ib_core of %s takes it as a peer memory client" % (
            why_not, evidence.driver, stack)
    return "driver %s is older than R%d and has no nvidia_peermem; nv_peer_mem %s is the client for ib_core of %s" % (
        evidence.driver, PEERMEM_DRIVER, nv_peer_mem_release(evidence.stack, evidence.stack_version), stack)
