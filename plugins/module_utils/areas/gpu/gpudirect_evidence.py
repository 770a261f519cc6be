# SPDX-License-Identifier: GPL-3.0-or-later
"""What the choice of the GPUDirect path rests on, put together from the inventory, the node's identity and its facts. Pure.

What the inventory asks for comes first: a node that has no driver yet is planned for the driver that it will get, so
that the plan does not change under the installation. What the inventory leaves open is taken as it is found.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...catalogue.drivers import find_branch
from ...catalogue.stacks import has_nvidia_hca, stack_of, vendor_stack
from ...formats.text import spoken, turing_or_newer
from ...rules.gpudirect import AUTO, ERDMA, MLX4, MLX5, OFED_STACKS, SOFTWARE, Evidence, HcaSeen
from ...spec.match import match_rails
from ...spec.model import Spec
from ...types import Hca, Identity

INVENTORY = "inventory"


class Wants(NamedTuple):
    """What the inventory and the identity say. ``spec`` None: a captured node without an inventory, taken as it is."""

    path: str
    gpus: int
    turing: Optional[bool]
    hcas: Tuple[Tuple[str, Optional[str]], ...]  # (name, driver); an interface's where there is no RDMA device yet
    hcas_by: str  # what chose them
    kernel: str
    virtual: Optional[str]
    driver: Optional[str] = None
    flavour: Optional[str] = None
    cuda: Optional[str] = None
    stack: Optional[str] = None
    stack_version: Optional[str] = None


class Row(NamedTuple):
    """One piece of evidence for people, with where it was read."""

    what: str
    value: Any
    source: str


def wants_of(spec: Optional[Spec], identity: Identity) -> Wants:
    hcas, by = _hcas(spec, identity)
    wants = Wants(
        spec["gpudirect_path"] if spec is not None else AUTO, len(identity.gpus), turing_or_newer([gpu.device_id for gpu in identity.gpus]),
        hcas, by, identity.kernel, identity.virtual)
    if spec is None:
        return wants
    wants = wants._replace(cuda=spec["cuda_version"])
    if spec["gpu_driver_branch"] is not None and identity.gpus:
        row = find_branch(spec["gpu_driver_branch"])
        version = spec["gpu_driver_version"] or (row.version if row is not None else spec["gpu_driver_branch"])
        wants = wants._replace(driver=version, flavour=spec["gpu_driver_flavour"])
    vendor = vendor_stack(spec, identity)
    if vendor is not None:
        return wants._replace(stack=vendor.name, stack_version=vendor.release)
    # Of HCAs that are not NVIDIA's nobody here chooses the stack: eRDMA's own installer brings one.
    return wants if spec.rdma_stack == AUTO and not has_nvidia_hca(identity) else wants._replace(stack=stack_of(spec, identity))


def evidence_of(wants: Wants, facts: Mapping[str, Any]) -> Tuple[Evidence, List[Row]]:
    """``facts`` as ``observe_facts`` gives them; gpudirect, gpu_driver and stack are read."""
    gpudirect = facts.get("gpudirect") or {}
    driver, flavour, driver_source = _driver(wants, facts.get("gpu_driver") or {})
    stack, stack_version, stack_source = _stack(wants, facts.get("stack") or {})
    dmabuf = gpudirect.get("dmabuf") or {}
    # What is about to be replaced does not answer for what comes.
    answers = (dmabuf.get("hcas") or {}) if _stack_stays(wants, facts.get("stack") or {}) else {}
    hcas = tuple(HcaSeen(name, kind, answers.get(name)) for name, kind in wants.hcas)
    options = gpudirect.get("kernel_options") or {}
    stays = wants.driver is None or (gpudirect.get("nvidia_driver"), gpudirect.get("nvidia_flavour")) == (wants.driver, wants.flavour)
    cuda_dmabuf = _every((dmabuf.get("gpus") or {}) if stays else {}, wants.gpus)
    evidence = Evidence(
        wants.gpus, hcas, wants.kernel, driver, flavour, stack, stack_version, wants.turing, wants.cuda, options, cuda_dmabuf,
        wants.virtual)
    rows = [
        Row("GPUs", wants.gpus, "/sys/bus/pci/devices"),
        Row("every GPU is Turing or newer", wants.turing, "PCI device ids"),
        Row("GPU driver", driver, driver_source),
        Row("kernel modules of the driver", flavour, driver_source),
        Row("CUDA toolkit", wants.cuda, INVENTORY + " (cuda_version)"),
        Row("CUDA says dma-buf", cuda_dmabuf, _asked("libcuda, attribute 124 of every GPU", dmabuf.get("gpus_error"))),
        Row("kernel", wants.kernel, "/proc/sys/kernel/osrelease"),
    ]
    rows += [Row(name, options[name], "kernel configuration") for name in sorted(options)]
    rows += [Row("RDMA stack", " ".join(part for part in (stack, stack_version) if part) or None, stack_source)]
    rows.append(Row("HCAs that count", spoken([hca.name for hca in hcas]), wants.hcas_by))
    for hca in hcas:
        rows.append(Row("HCA %s (%s) takes dma-buf" % (hca.name, hca.driver or "no driver"), hca.dmabuf,
                        _asked("ibv_reg_dmabuf_mr with fd -1", dmabuf.get("hcas_error"))))
    rows += _peermem_rows(gpudirect)
    return evidence, rows + [Row("virtual", wants.virtual, "CPU flags, DMI")]


def _peermem_rows(gpudirect: Mapping[str, Any]) -> List[Row]:
    build = gpudirect.get("peermem_build") or {}
    return [
        Row("peer memory interface of ib_core", gpudirect.get("peer_memory_interface"), "/sys/kernel/mm/memory_peers"),
        Row("peer memory module loaded", gpudirect.get("peermem_module"), "/proc/modules"),
        Row("registered with ib_core", gpudirect.get("peermem_registered"), "/proc/modules (users of ib_core)"),
        Row("peer memory module on disk", build.get("state"), build.get("file") or "modules.dep"),
    ]


def _stack_stays(wants: Wants, found: Mapping[str, Any]) -> bool:
    return wants.stack is None or found.get("name") in (wants.stack, None)


def _asked(how: str, error: Optional[str]) -> str:
    return "%s (no answer: %s)" % (how, error) if error else how


def _every(answers: Mapping[str, Optional[bool]], count: int) -> Optional[bool]:
    """True when every GPU answered yes, False when one said no; None while somebody has not answered."""
    if False in answers.values():
        return False
    return True if len(answers) >= count > 0 and all(answers.values()) else None


def _driver(wants: Wants, found: Mapping[str, Any]) -> Tuple[Optional[str], Optional[str], str]:
    """(version, flavour, where from). What lies on disk is what the next boot loads, so it comes before what is loaded."""
    if wants.driver is not None:
        return wants.driver, wants.flavour, INVENTORY + " (gpu_driver_branch)"
    if found.get("disk_version"):
        same = found.get("version") == found.get("disk_version")
        return found["disk_version"], found.get("disk_flavour") or (found.get("flavour") if same else None), "modinfo nvidia"
    return found.get("version"), found.get("flavour"), "/proc/driver/nvidia/version"


def _stack(wants: Wants, found: Mapping[str, Any]) -> Tuple[Optional[str], Optional[str], str]:
    if wants.stack is None:
        return found.get("name"), found.get("version"), found.get("source") or "no package and no module tells"
    if wants.stack in OFED_STACKS:
        return wants.stack, wants.stack_version, INVENTORY + " (rdma_stack)"
    return wants.stack, None, INVENTORY + " (rdma_stack)"


def _hcas(spec: Optional[Spec], identity: Identity) -> Tuple[Tuple[Tuple[str, Optional[str]], ...], str]:
    """The devices that count: the rails', else the best kind that is there (an on-board NIC may do RDMA too, and nobody means it)."""
    if spec is not None and spec.rails:
        found: Dict[str, Optional[str]] = {}
        for target in match_rails(spec, identity)[0]:
            if target.hca is not None:
                found[target.hca.name] = target.hca.driver
            elif target.nic is not None and target.nic.driver in MLX5 + MLX4:
                found[target.nic.name] = target.nic.driver  # its RDMA device comes with the stack
        if found:
            return tuple(sorted(found.items())), "rails of the inventory"
    for drivers in (MLX5, ERDMA, MLX4):
        kind = [hca for hca in identity.hcas if hca.driver in drivers]
        if kind:
            return _named(kind), "/sys/class/infiniband"
    hardware = [hca for hca in identity.hcas if hca.driver not in SOFTWARE]
    return _named(hardware or list(identity.hcas)), "/sys/class/infiniband"


def _named(hcas: List[Hca]) -> Tuple[Tuple[str, Optional[str]], ...]:
    return tuple((hca.name, hca.driver) for hca in hcas)
