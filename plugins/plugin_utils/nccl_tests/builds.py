# SPDX-License-Identifier: GPL-3.0-or-later
"""What of nccl-tests is built, where, and with what: decided over all nodes of a play. Pure.

One build serves all nodes: for the GPUs of every one of them, on the first node that has what it takes. Its directory
carries a key over all that went into it, so that another CUDA, NCCL, MPI or kind of GPU gives another directory and never
changes programs that somebody runs.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of, grouped
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import COLLECTIVES

PREFIX = "/opt/railwright/nccl-tests"
Nodes = Mapping[str, Mapping[str, Any]]


class Source(NamedTuple):
    """The archive; ``archive``: its path on the controller, None where it is downloaded."""

    version: str
    url: str
    sha256: str
    archive: str | None


class Wishes(NamedTuple):
    """What the inventory says, of the keys that decide a build."""

    install: str
    path: str | None
    shared: bool
    launcher: str
    collectives: tuple[str, ...]
    source: Source | None


def plan(nodes: Nodes, wishes: Wishes) -> dict[str, Any]:
    """What is to lie in which directory, and who builds it; ``nodes``: what each one's ``look`` found, in the inventory's order.

    Raises RailwrightError with one line that says what is missing, and where.
    """
    common = {"install": wishes.install, "shared": wishes.shared, "programs": [COLLECTIVES[name] for name in wishes.collectives]}
    if wishes.install == "prebuilt":
        return {**common, "directory": wishes.path, "builder": None, "recipe": None}
    if wishes.source is None:
        raise RailwrightError("no source of nccl-tests")
    capabilities = _capabilities(nodes)
    _one_architecture(nodes)
    mpi = wishes.launcher in ("mpi", "slurm") or (wishes.launcher == "auto" and len(nodes) > 1)
    wanted = ["sm_" + capability.replace(".", "") for capability in capabilities]
    builder = _builder(nodes, wanted, mpi=mpi)
    seen = nodes[builder]
    recipe = {
        "version": wishes.source.version, "source_sha256": wishes.source.sha256, "cuda": seen["nvcc"]["version"],
        "nccl": seen["nccl"]["version"], "sm": wanted,
        "mpi": f"{seen['mpi']['kind']} {seen['mpi']['version']}" if seen["mpi"] else None,
    }
    # Everything that makes one build differ from another.
    key = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode("utf-8")).hexdigest()[:12]
    directory = f"{(wishes.path or PREFIX).rstrip('/')}/{wishes.source.version}-{key}"
    return {**common, "directory": directory, "builder": builder, "recipe": {**recipe, "key": key}, "source": wishes.source._asdict(),
            "toolchain": {name: seen[name] for name in ("nvcc", "nccl", "mpi")}}


def _capabilities(nodes: Nodes) -> list[str]:
    """The compute capabilities of all GPUs, in rising order."""
    if not any(seen["gpus"] for seen in nodes.values()):
        raise RailwrightError(f"no CUDA device on {first_of(list(nodes))}: there is no NVIDIA GPU on the PCI bus, so there is nothing to "
                              "build nccl-tests for")
    unknown = [f"{name} ({gpu['pci']}, {gpu['device_id']})" for name, seen in nodes.items() for gpu in seen["gpus"]
               if gpu["capability"] is None]
    if unknown:
        raise RailwrightError(f"the compute capability of a GPU is not known: {first_of(unknown)}. Its driver tells it, and nvidia-smi "
                              "gave no answer there")
    found = {gpu["capability"] for seen in nodes.values() for gpu in seen["gpus"]}
    return sorted(found, key=lambda text: [int(part) for part in text.split(".")])


def _one_architecture(nodes: Nodes) -> None:
    """GPU nodes of two architectures cannot run one build."""
    by_arch = grouped((str(seen["arch"]), name) for name, seen in nodes.items() if seen["gpus"])
    if len(by_arch) > 1:
        found = "; ".join(f"{arch}: {first_of(by_arch[arch])}" for arch in sorted(by_arch))
        raise RailwrightError(f"one build serves all nodes, and these have two architectures: {found}. Use --limit, or "
                              "nccl_tests_install: prebuilt")


def _builder(nodes: Nodes, wanted: Sequence[str], *, mpi: bool) -> str:
    """The first node with GPU, compiler and headers; why there is none, node by node."""
    why: list[str] = []
    for name, seen in nodes.items():
        lacks = _lacking(seen, wanted, mpi=mpi) if seen["gpus"] else ["no GPU"]
        if not lacks:
            return name
        why.append(f"{name}: {', '.join(lacks)}")
    raise RailwrightError(f"no node can build nccl-tests. {first_of(why)}")


def _lacking(seen: Mapping[str, Any], wanted: Sequence[str], *, mpi: bool) -> list[str]:
    """What a node lacks to build for these GPUs, each in words that say what to do."""
    lacks = []
    nvcc = seen["nvcc"]
    if nvcc is None:
        lacks.append("no nvcc (cuda_version installs one)")
    elif strange := [code for code in wanted if code not in nvcc["codes"]]:
        lacks.append(f"nvcc {nvcc['version']} does not know {', '.join(strange)}, which GPUs of this play need; it knows "
                     f"{', '.join(nvcc['codes']) or 'none'}: another CUDA is needed (cuda_version)")
    if seen["nccl"] is None:
        lacks.append("no libnccl.so.2 with nccl.h (nccl_install; of packages the -dev part)")
    if mpi and seen["mpi"] is None:
        lacks.append("no mpicc with mpi.h, which runs on several nodes need (mpi_install, mpi_prefix; of packages the -dev part)")
    return lacks + [f"no {tool}" for tool in seen["missing_tools"]]


def is_whole(state: Mapping[str, Any], recipe: Mapping[str, Any]) -> bool:
    """Whether a node has this build, with every program as its manifest says."""
    found = state["manifest"]
    return found is not None and found.get("key") == recipe["key"] and all(
        state["programs"].get(name) == digest for name, digest in found["programs"].items())


def choose_origin(planned: Mapping[str, Any], states: Nodes) -> dict[str, Any]:
    """Who has it, who builds it, who gets it: ``{"origin", "build", "receivers", "programs", "warnings"}``.

    A build that is there and whole is never built again; the builder's is the one that counts, else that of the first node which has one.
    Where a program was changed, the node gets the build again. ``programs`` None: it is still to be built.
    """
    if planned["install"] == "prebuilt":
        return {"origin": None, "build": False, "receivers": [], "programs": None, "warnings": _check_prebuilt(planned, states)}
    recipe, builder = planned["recipe"], planned["builder"]
    whole = [name for name in [builder, *states] if name in states and is_whole(states[name], recipe)]
    origin = whole[0] if whole else builder
    programs = states[origin]["manifest"]["programs"] if whole else None
    same = [name for name in whole if states[name]["manifest"]["programs"] == programs]
    receivers = [] if planned["shared"] else [name for name in states if name not in same and name != origin]
    warnings = [
        f"{name}: programs in {planned['directory']} are not those of the build{'' if planned['shared'] else '; they are replaced'}"
        for name, state in states.items() if name not in same and state["manifest"] is not None]
    return {"origin": origin, "build": not whole, "receivers": receivers, "programs": programs, "warnings": warnings}


def _check_prebuilt(planned: Mapping[str, Any], states: Nodes) -> list[str]:
    """The programs must be there; where two nodes have different ones, people are told: two distributions may have a build each."""
    lacking = [f"{name}: {', '.join(program for program in planned['programs'] if program not in state['programs'])}"
               for name, state in states.items() if not set(planned["programs"]) <= set(state["programs"])]
    if lacking:
        raise RailwrightError(f"nccl_tests_path: {planned['directory']} holds no executable program of that name: {first_of(lacking)}")
    warnings = []
    for program in planned["programs"]:
        by_digest = grouped((str(state["programs"][program]), name) for name, state in states.items())
        if len(by_digest) > 1:
            found = "; ".join(f"{digest[:12]} on {first_of(names)}" for digest, names in by_digest.items())
            warnings.append(f"{planned['directory']}/{program} is not the same on all nodes (sha256): {found}")
    return warnings
