# SPDX-License-Identifier: GPL-3.0-or-later
"""What of nccl-tests is built, where, and with what: decided over all nodes of a play. Pure.

One build serves all nodes: for the GPUs of every one of them, on the first node that has what it takes. Its directory
carries a key over all that went into it, so that another CUDA, NCCL, MPI or kind of GPU gives another directory and never
changes programs that somebody runs.
"""

import hashlib
import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...errors import RailwrightError
from ...formats.outside import read_json
from ...measure.nccl_tests.launch import COLLECTIVES

PREFIX = "/opt/railwright/nccl-tests"
MANIFEST = "manifest.json"
ENDING = "_perf"
ARTIFACT = "nccl-tests"
NAMED = 8  # nodes that one message names; the rest is counted
CXX17 = 13  # CUDA 13 needs C++17; the Makefile asks ``which`` for nvcc's version, and EL has none of it in a small installation


class Source(NamedTuple):
    """The archive; ``archive``: its path on the controller, None where it is downloaded."""

    version: str
    url: str
    sha256: str
    archive: Optional[str]


class Wishes(NamedTuple):
    """What the inventory says, of the keys that decide a build."""

    install: str
    path: Optional[str]
    shared: bool
    launcher: str
    collectives: Tuple[str, ...]
    source: Optional[Source]


def required(collectives: Sequence[str]) -> List[str]:
    """The programs that the collectives of the inventory need."""
    return [COLLECTIVES[name] for name in collectives]


def plan(nodes: Mapping[str, Mapping[str, Any]], wishes: Wishes) -> Dict[str, Any]:
    """What is to lie in which directory, and who builds it; ``nodes``: what each one's ``look`` found, in the inventory's order.

    Raises RailwrightError with one line that says what is missing, and where.
    """
    common: Dict[str, Any] = {"install": wishes.install, "shared": wishes.shared, "programs": required(wishes.collectives)}
    if wishes.install == "prebuilt":
        return dict(common, directory=wishes.path, builder=None, recipe=None)
    if wishes.source is None:
        raise RailwrightError("no source of nccl-tests")
    capabilities = capabilities_of(nodes)
    _one_architecture(nodes)
    mpi = wishes.launcher in ("mpi", "slurm") or (wishes.launcher == "auto" and len(nodes) > 1)
    wanted = ["sm_" + capability.replace(".", "") for capability in capabilities]
    builder = _builder(nodes, wanted, mpi)
    seen = nodes[builder]
    recipe = {
        "version": wishes.source.version, "source_sha256": wishes.source.sha256, "cuda": seen["nvcc"]["version"],
        "nccl": seen["nccl"]["version"], "sm": wanted,
        "mpi": "%s %s" % (seen["mpi"]["kind"], seen["mpi"]["version"]) if seen["mpi"] else None,
    }
    key = key_of(recipe)
    directory = "%s/%s-%s" % ((wishes.path or PREFIX).rstrip("/"), wishes.source.version, key)
    return dict(common, directory=directory, builder=builder, recipe=dict(recipe, key=key), source=dict(wishes.source._asdict()),
                toolchain={name: seen[name] for name in ("nvcc", "nccl", "mpi")})


def key_of(recipe: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits over everything that makes one build differ from another."""
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode("utf-8")).hexdigest()[:12]


def capabilities_of(nodes: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """The compute capabilities of all GPUs, in rising order."""
    if not any(seen["gpus"] for seen in nodes.values()):
        raise RailwrightError("no CUDA device on %s: there is no NVIDIA GPU on the PCI bus, so there is nothing to build nccl-tests for" % (
            listed(list(nodes))))
    unknown = ["%s (%s, %s)" % (name, gpu["pci"], gpu["device_id"]) for name, seen in nodes.items() for gpu in seen["gpus"]
               if gpu["capability"] is None]
    if unknown:
        raise RailwrightError("the compute capability of a GPU is not known: %s. Its driver tells it, and nvidia-smi gave no answer there" %
                              listed(unknown))
    found = {gpu["capability"] for seen in nodes.values() for gpu in seen["gpus"]}
    return sorted(found, key=lambda text: [int(part) for part in text.split(".")])


def listed(names: Sequence[str]) -> str:
    """``node1, node2`` or, of many, the first and how many more."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (" and %d more" % more if more > 0 else "")


def _one_architecture(nodes: Mapping[str, Mapping[str, Any]]) -> None:
    """GPU nodes of two architectures cannot run one build."""
    by_arch: Dict[str, List[str]] = {}
    for name, seen in nodes.items():
        if seen["gpus"]:
            by_arch.setdefault(seen["arch"], []).append(name)
    if len(by_arch) > 1:
        found = "; ".join("%s: %s" % (arch, listed(by_arch[arch])) for arch in sorted(by_arch))
        raise RailwrightError("one build serves all nodes, and these have two architectures: %s. Use --limit, or "
                              "nccl_tests_install: prebuilt" % found)


def _builder(nodes: Mapping[str, Mapping[str, Any]], wanted: Sequence[str], mpi: bool) -> str:
    """The first node with GPU, compiler and headers; why there is none, node by node."""
    why: List[str] = []
    for name, seen in nodes.items():
        lacks = lacking(seen, wanted, mpi) if seen["gpus"] else ["no GPU"]
        if not lacks:
            return name
        why.append("%s: %s" % (name, ", ".join(lacks)))
    raise RailwrightError("no node can build nccl-tests. %s" % listed(why))


def lacking(seen: Mapping[str, Any], wanted: Sequence[str], mpi: bool) -> List[str]:
    """What a node lacks to build for these GPUs, each in words that say what to do."""
    lacks = []
    nvcc = seen["nvcc"]
    if nvcc is None:
        lacks.append("no nvcc (cuda_version installs one)")
    else:
        strange = [code for code in wanted if code not in nvcc["codes"]]
        if strange:
            lacks.append("nvcc %s does not know %s, which GPUs of this play need; it knows %s: another CUDA is needed (cuda_version)" % (
                nvcc["version"], ", ".join(strange), ", ".join(nvcc["codes"]) or "none"))
    if seen["nccl"] is None:
        lacks.append("no libnccl.so.2 with nccl.h (nccl_install; of packages the -dev part)")
    if mpi and seen["mpi"] is None:
        lacks.append("no mpicc with mpi.h, which runs on several nodes need (mpi_install, mpi_prefix; of packages the -dev part)")
    lacks += ["no %s" % tool for tool in seen["missing_tools"]]
    return lacks


def gencode(codes: Sequence[str]) -> str:
    """NVCC_GENCODE: machine code for exactly these GPUs."""
    return " ".join("-gencode=arch=%s,code=%s" % (code.replace("sm_", "compute_"), code) for code in codes)


def make_options(recipe: Mapping[str, Any], toolchain: Mapping[str, Any], work: str, static_runtime: bool) -> List[str]:
    """make's variables. ``work`` holds homes of NCCL and MPI as the Makefile wants them, made of links.

    The CUDA runtime goes into the programs where it can (2.13 and newer): the other nodes need the driver and no toolkit.
    """
    nvcc = toolchain["nvcc"]
    options = ["BUILDDIR=%s/build" % work, "CUDA_HOME=" + nvcc["home"], "NVCC=" + nvcc["path"], "NCCL_HOME=%s/nccl" % work,
               "NVCC_GENCODE=" + gencode(recipe["sm"])]
    if static_runtime:
        options.append("CUDARTLIB=cudart_static")
    if toolchain["mpi"]:
        options += ["MPI=1", "MPI_HOME=%s/mpi" % work]
    if int(nvcc["version"].partition(".")[0]) >= CXX17:
        options.append("CXXSTD=-std=c++17")
    return options


def manifest(recipe: Mapping[str, Any], builder: str, programs: Mapping[str, str]) -> str:
    """The file beside the programs: what they were built with, and their checksums."""
    return json.dumps(dict(recipe, builder=builder, programs=dict(programs)), indent=1, sort_keys=True) + "\n"


def read_manifest(text: Optional[str]) -> Optional[Dict[str, Any]]:
    """The manifest of a directory; None for what is none."""
    try:
        found = read_json(text or "")
    except ValueError:
        return None
    programs = found.get("programs") if isinstance(found, dict) else None
    if not isinstance(programs, dict) or not programs or not all(isinstance(value, str) for value in programs.values()):
        return None
    return {str(name): value for name, value in found.items()}


def is_whole(state: Mapping[str, Any], recipe: Mapping[str, Any]) -> bool:
    """Whether a node has this build, with every program as its manifest says."""
    found = state["manifest"]
    return found is not None and found.get("key") == recipe["key"] and all(
        state["programs"].get(name) == digest for name, digest in found["programs"].items())


def choose(planned: Mapping[str, Any], states: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    """Who has it, who builds it, who gets it: ``{"origin", "build", "receivers", "programs", "warnings"}``.

    A build that is there and whole is never built again; the builder's is the one that counts, else that of the first node which has one.
    Where a program was changed, the node gets the build again. ``programs`` None: it is still to be built.
    """
    if planned["install"] == "prebuilt":
        return dict(_prebuilt(planned, states), origin=None, build=False, receivers=[])
    recipe, builder = planned["recipe"], planned["builder"]
    whole = [name for name in [builder] + [name for name in states if name != builder] if name in states and is_whole(states[name], recipe)]
    origin = whole[0] if whole else builder
    programs = states[origin]["manifest"]["programs"] if whole else None
    same = [name for name in whole if states[name]["manifest"]["programs"] == programs]
    receivers = [] if planned["shared"] else [name for name in states if name not in same and name != origin]
    warnings = []
    for name, state in states.items():
        if name not in same and state["manifest"] is not None:
            warnings.append("%s: programs in %s are not those of the build%s" % (
                name, planned["directory"], "" if planned["shared"] else "; they are replaced"))
    return {"origin": origin, "build": not whole, "receivers": receivers, "programs": programs, "warnings": warnings}


def _prebuilt(planned: Mapping[str, Any], states: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    """The programs must be there; where two nodes have different ones, people are told: two distributions may have a build each."""
    lacking = ["%s: %s" % (name, ", ".join(program for program in planned["programs"] if program not in state["programs"]))
               for name, state in states.items() if not set(planned["programs"]) <= set(state["programs"])]
    if lacking:
        raise RailwrightError("nccl_tests_path: %s holds no executable program of that name: %s" % (planned["directory"], listed(lacking)))
    warnings = []
    for program in planned["programs"]:
        by_digest: Dict[str, List[str]] = {}
        for name, state in states.items():
            by_digest.setdefault(state["programs"][program], []).append(name)
        if len(by_digest) > 1:
            warnings.append("%s/%s is not the same on all nodes (sha256): %s" % (planned["directory"], program, "; ".join(
                "%s on %s" % (digest[:12], listed(names)) for digest, names in by_digest.items())))
    return {"programs": None, "warnings": warnings}
