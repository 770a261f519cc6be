# SPDX-License-Identifier: GPL-3.0-or-later
"""What every output form says of one container on one node: derived once, from the node's inspection, the inventory and the options.

What a node says is data: each part is taken only in the form that it has on a healthy node, and everything else becomes a problem,
since it would get into a shell or a YAML file. The forms themselves quote all the same.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.containers import CDI_SINCE, CudaFit, at_least, cuda_fit, image_cuda
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import usable_addresses
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from railwright.container_flags.image import ImageSystem, image_system
from railwright.container_flags.torchrun import Job, Launch, launch

DEVICES = "/dev/infiniband/"
IMAGE = "IMAGE"  # stands where nobody has named one
SOCKET = "NCCL_SOCKET_IFNAME"
HCA = "NCCL_IB_HCA"
_DEVICE = re.compile(r"(?:uverbs|umad|issm)[0-9]{1,4}")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")
_EXPORTED = re.compile(r"(export|declare -x) [A-Za-z_][A-Za-z0-9_]*")
_CPUS = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*")
_PATH = re.compile(r"(?:/[A-Za-z0-9_.+@-]+)+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}")


class Options(NamedTuple):
    """What the command line and the inventory say about containers. ``form``: the one that is asked for, None for the runtime's own."""

    form: str | None = None
    runtime: str = "auto"  # docker, podman, nerdctl, or auto
    gpu: str = "auto"  # auto, cdi, nvidia, none
    image: str | None = None
    image_cuda: str | None = None
    image_os: str | None = None
    shm_size: str | None = None
    pod_interface: str = "eth0"
    pod_network: bool = False
    fabric: str | None = None
    rdma_resource: str | None = None
    near: str | None = None
    mad: bool = False
    processes: int | None = None
    command: tuple[str, ...] = ()
    spec: Spec | None = None


class Container(NamedTuple):
    """One container on one node. ``gpu``: cdi, gpus (docker --gpus), runtime (nvidia), or None."""

    node: str
    hostname: str
    runtime: str
    options: Options
    image: str
    devices: tuple[str, ...]
    variables: Mapping[str, str]
    files: tuple[str, ...]  # of the host, that variables name
    gpu: str | None
    gpus: int
    cpus: str | None
    mems: str | None
    job: Job
    launch: Launch
    cuda: CudaFit | None
    system: ImageSystem
    notes: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass
class _Said:
    """What is told beside the flags: notes for who reads them, problems that make them useless."""

    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def container(node: str, answer: Mapping[str, Any], options: Options, job: Job) -> Container:
    said = _Said(notes=[" ".join(str(note).split()) for note in _list(answer.get("notes"))])
    here = _Said() if options.form in ("kubernetes", "containerfile") else said  # those are no matter of this node's runtimes
    runtime = _runtime(answer, options, here)
    gpus = len(_list(answer.get("gpus"))) if options.gpu != "none" else 0
    cpus, mems = _numa(answer, options, said)
    started = launch(options.command, job, options.processes or gpus or None)
    said.notes += started.notes
    cuda = _cuda(answer, options, gpus, said)
    return Container(
        node=node, hostname=_name(answer.get("hostname")) or node, runtime=runtime, options=options, image=options.image or IMAGE,
        devices=tuple(DEVICES + name for name in _devices(answer, options, said)),
        variables=_variables(answer, said), files=_files(answer, said),
        gpu=_gpu(answer, runtime, options, gpus, here), gpus=gpus, cpus=cpus, mems=mems, job=job, launch=started, cuda=cuda,
        system=_system(answer, options, said), notes=tuple(dict.fromkeys(said.notes)), problems=tuple(dict.fromkeys(said.problems)),
    )  # fmt: skip


def _devices(answer: Mapping[str, Any], options: Options, said: _Said) -> list[str]:
    """rdma_cm, then every uverbs that there is; umad and issm, which can do harm to the fabric, only when they are asked for."""
    found = answer.get("infiniband") or {}
    rows = [row for row in _list(found.get("uverbs")) if isinstance(row, dict)]
    names = [str(row.get("name")) for row in rows]
    mad = [str(name) for name in _list(found.get("mad"))] if options.mad else []
    odd = [name for name in names + mad if not _DEVICE.fullmatch(name)]
    said.problems += [f"{name!r} is no name of an RDMA device node" for name in odd]
    good = [name for name in names + mad if name not in odd]
    if not names:
        said.problems.append("the captured tree has no uverbs device: it must hold dev/infiniband, or sys/class/infiniband_verbs"
                             if answer.get("captured") else
                             "this node has no /dev/infiniband/uverbs device: load its driver (railwright plan), then ask again")
    if found.get("rdma_cm") is True:
        return ["rdma_cm", *good]
    said.notes.append("/dev/infiniband/rdma_cm does not exist here (modprobe rdma_ucm): what connects by RDMA CM will fail")
    return good


def _variables(answer: Mapping[str, Any], said: _Said) -> dict[str, str]:
    """NCCL's, by name. NCCL_CONF_FILE and the like are not among them: the node's file has only what the inventory says."""
    found = {}
    for name, value in sorted((answer.get("variables") or {}).items()):
        if _EXPORTED.fullmatch(str(name)):  # a shell's word in nccl.conf, by which NCCL gets nothing either
            said.notes.append(f"{name!r} in the node's NCCL settings is no name of a variable, and is left out")
        elif not _VARIABLE.fullmatch(str(name)) or not isinstance(value, str) or not value.isprintable():
            said.problems.append(f"{name!r} in the node's NCCL settings is no variable with a printable value")
        else:
            found[str(name)] = value
    if not found:
        said.notes.append("no NCCL variables are known for this node (without an inventory they come from its /etc/nccl.conf)")
    return found


def _files(answer: Mapping[str, Any], said: _Said) -> tuple[str, ...]:
    """NCCL_TOPO_FILE and the like: the container reads them where the variables say they are."""
    found = [str(path) for path in _list(answer.get("files"))]
    odd = [path for path in found if not _PATH.fullmatch(path) or ".." in path.split("/")]
    said.problems += [f"{path!r} is no path that a container could be given" for path in odd]
    return tuple(path for path in found if path not in odd)


def _runtime(answer: Mapping[str, Any], options: Options, said: _Said) -> str:
    """A docker whose daemon does not answer comes last: it starts nothing."""
    rows = {str(row.get("name")): row for row in _list(answer.get("runtimes")) if isinstance(row, dict)}
    there = [name for name in ("docker", "podman", "nerdctl") if name in rows]
    if options.runtime in ("auto", "none"):
        known = sorted(there, key=lambda name: name == "docker" and rows[name].get("daemon") is None)
        if not known:
            said.notes.append("no container runtime was found on this node; this is docker's command line")
        return known[0] if known else "docker"
    if options.runtime not in there:
        said.notes.append(f"{options.runtime} was not found on this node")
    return options.runtime


def _gpu(answer: Mapping[str, Any], runtime: str, options: Options, gpus: int, said: _Said) -> str | None:
    if not gpus:
        return None
    row = next((row for row in _list(answer.get("runtimes")) if isinstance(row, dict) and row.get("name") == runtime), {})
    toolkit = answer.get("toolkit") or {}
    specs = any("all" in _list(spec.get("devices")) for spec in _list(answer.get("cdi")) if isinstance(spec, dict))
    if options.gpu == "nvidia":
        if "nvidia" not in _list(row.get("runtimes")):
            said.notes.append("docker has no runtime nvidia here; role containers registers it (containers_gpu: nvidia)")
        return "runtime"
    if options.gpu == "cdi" or runtime == "podman" or (runtime == "docker" and specs and _list(row.get("cdi_directories"))):
        if not specs:
            said.notes.append("no CDI specification of nvidia.com/gpu is on this node; role containers makes it (containers_gpu: cdi)")
        if runtime == "docker" and not _list(row.get("cdi_directories")):
            said.notes.append("docker does not use CDI here: features.cdi in daemon.json, from docker 25 on; by default from 28.2 on")
        if runtime == "podman" and row and not at_least(str(row.get("version")), CDI_SINCE["podman"]):
            said.notes.append(f"podman knows CDI from {CDI_SINCE['podman']} on")
        return "cdi"
    if toolkit.get("hook") is not True and runtime == "docker":
        if "nvidia" in _list(row.get("runtimes")):
            return "runtime"
        said.notes.append("NVIDIA's container toolkit was not found here, so --gpus fails; containers_toolkit_install: true brings it")
    return "gpus"


def _numa(answer: Mapping[str, Any], options: Options, said: _Said) -> tuple[str | None, str | None]:
    """(CPUs, memory nodes) near what --near names."""
    if options.near is None:
        return None, None
    places: dict[str, Any] = {}
    for at, gpu in enumerate(_list(answer.get("gpus"))):
        places |= dict.fromkeys((f"gpu{at}", str(gpu.get("pci"))), gpu.get("numa_node"))
    for hca in _list(answer.get("hcas")):
        names = [str(hca.get(key)) for key in ("name", "rail", "pci") if hca.get(key)]
        places |= dict.fromkeys(names, hca.get("numa_node"))
    if options.near not in places:
        allowed = [name for name in places if _NAME.fullmatch(name)]
        said.problems.append(f"--near {options.near}: no HCA, rail or GPU of this node; allowed: {', '.join(allowed) or 'none'}")
        return None, None
    number = places[options.near]
    cpus = (answer.get("numa") or {}).get(str(number))
    if number is None or not isinstance(cpus, str) or not _CPUS.fullmatch(cpus):
        said.notes.append(f"the kernel does not say which NUMA node {options.near} is near: no CPUs are chosen")
        return None, None
    return cpus, str(int(number))


def _cuda(answer: Mapping[str, Any], options: Options, gpus: int, said: _Said) -> CudaFit | None:
    """Judged where there is a GPU and an image. A node's word about an image is checked for its form by the catalogue."""
    found = (answer.get("image") or {}).get("variables") or {}
    if not gpus or (options.image is None and options.image_cuda is None):
        return None
    cuda = options.image_cuda or image_cuda(_string(found.get("CUDA_VERSION")), _string(found.get("NVIDIA_REQUIRE_CUDA")))
    driver = _string(answer.get("driver"))
    fit = cuda_fit(cuda, driver if driver is not None and _NAME.fullmatch(driver) else None)
    (said.problems if fit.fits is False else said.notes).append(fit.message)
    return fit


def _system(answer: Mapping[str, Any], options: Options, said: _Said) -> ImageSystem:
    """A problem of the image is one only where an image is to be made."""
    system = image_system(_base(answer, options), _name(answer.get("arch")) or "x86_64", options.spec)
    if system.problem is not None and options.form == "containerfile":
        said.problems.append(system.problem)
    return system


def _base(answer: Mapping[str, Any], options: Options) -> tuple[str, str] | None:
    """``--image-os ubuntu22.04``, or Ubuntu's own labels, which images made from Ubuntu's keep."""
    if options.image_os is not None:
        found = re.fullmatch(r"([a-z-]+)([0-9][0-9.]*)", options.image_os)
        return (found.group(1), found.group(2)) if found is not None else None
    labels = (answer.get("image") or {}).get("labels") or {}
    name, version = (_string(labels.get(f"org.opencontainers.image.{key}")) for key in ("ref.name", "version"))
    return (name, version) if name == "ubuntu" and version is not None and re.fullmatch(r"[0-9]{2}\.[0-9]{2}", version) else None


def usable_address(texts: Sequence[Any]) -> str | None:
    """The first one that other nodes can reach, IPv4 before IPv6."""
    return min(usable_addresses(texts), key=lambda text: ":" in text, default=None)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None
