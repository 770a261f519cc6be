# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Python environment belongs on this node, from what, and which directory it has or gets. Reads only.

An environment cannot be moved: its scripts, and conda's libraries, hold its path. So it is made where it stays, in a directory that
nobody uses yet (its name says what is in it and has a digest of the lock), and it counts once its manifest is written, as the last
thing. The link ``current``, replaced in one step, is what publishes it. One that is broken is left to the jobs that run in it: the
same lock is made again beside it, in NAME-2.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...catalogue.drivers import BLACKWELL, driver_fits, minimum_driver, number_of
from ...catalogue.torch import BLACKWELL_CUDA, CPU, cuda_of_torch, find_release, newer, python_fits
from ...errors import RailwrightError
from ...formats.outside import json_object
from ...formats.text import numbers
from ...host.host import Host
from ...observe.gpu_driver import driver_on_disk, loaded_driver
from ...spec.model import Spec
from ...types import Identity
from ..installer import CURRENT, plain_name
from .lock import Entry, Python, digest_of, fitting, lock_of_wheels, lock_text, missing_wheels, parse_lock, version_in
from .manifest import manifest_of, what_is_wrong

MARKER = "railwright-begun"  # in the directory of the files: which node makes the environment
ASK_SECONDS = 60.0
GENERATIONS = 99
# What the node's own Python is, asked of itself: its version, and the glibc that wheels have to fit.
ASK = r"""
import importlib.util, json, os, platform, sys
print(json.dumps({"version": list(sys.version_info[:3]), "implementation": platform.python_implementation(),
                  "libc": os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else "",
                  "venv": all(importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip"))}))
"""


class ControllerFiles(NamedTuple):
    """What the controller has read: the lock's text, the wheels' checksums and sizes, conda's packages."""

    lock: Optional[str]
    wheels: Dict[str, str]
    sizes: Dict[str, int]
    conda: Dict[str, str]
    conda_sha256: str


class Wanted(NamedTuple):
    """One environment. ``name`` is its directory's, without the number of a second one."""

    kind: str
    path: str
    name: str
    torch: str
    cuda: Optional[str]  # '' of a build without, None where it is not known
    python: str  # venv: the interpreter that it is made with
    release: str  # 3.11
    entries: Tuple[Entry, ...]
    wheels: Tuple[str, ...]  # files that travel
    size: int  # of them
    indexes: Tuple[str, ...]
    packages: Tuple[str, ...]
    owner: str
    profile: str
    installer_sha256: str
    explicit_sha256: str
    node: str


class Place(NamedTuple):
    """Where it lies, or will. ``broken``: what is wrong with those before it."""

    directory: str
    files: str  # what it is made from, and with; gone afterwards
    state: str  # whole, begun, absent
    broken: Tuple[str, ...]


def wanted(host: Host, spec: Spec, identity: Identity, bill: ControllerFiles) -> Optional[Wanted]:
    """None where the inventory wants none here. Raises RailwrightError with one line where it cannot be had."""
    kind, torch = spec["ai_environment_kind"], spec["ai_environment_torch"] or ""
    if kind == "none":
        return None
    cuda = cuda_of_torch(torch, identity.arch)
    if cuda != "" and not identity.gpus:
        return None
    if cuda == "" and identity.gpus and not torch.endswith("+" + CPU):
        raise RailwrightError("torch %s of PyPI has no CUDA for %s, and this node has GPUs; allowed: the build with its CUDA, like "
                              "%s+cu128, or %s+cpu if that is meant" % (torch, identity.arch, torch, torch))
    _check_gpus(host, identity, torch, cuda)
    interpreter, python = _python(host, spec, identity, bill)
    entries = tuple(_entries(spec, bill, python))
    _check_torch(spec, bill, entries, python)
    chosen = {digest for entry in entries for digest in entry.hashes}
    files = tuple(wheel.file for wheel, digest in fitting(bill.wheels, python) if digest in chosen)
    digest = digest_of({
        "kind": kind, "python": python.version, "arch": identity.arch, "lock": lock_text(entries), "owner": spec["ai_environment_owner"],
        "conda": bill.conda_sha256, "packages": sorted(spec["ai_environment_packages"])})
    name = "torch-%s-py%s-%s" % (torch, python.version, digest)
    indexes = [spec["ai_environment_index_url"]] if spec["ai_environment_index_url"] is not None else []
    return Wanted(kind, spec["ai_environment_path"].rstrip("/"), name, torch, cuda, interpreter, python.version, entries, files,
                  sum(bill.sizes[file] for file in files),
                  tuple(indexes + spec["ai_environment_extra_index_urls"]), tuple(spec["ai_environment_packages"]),
                  spec["ai_environment_owner"], spec["nccl_profile"],
                  spec["ai_environment_conda_installer_sha256"] or "", bill.conda_sha256,
                  plain_name(identity.hostname))


def _check_gpus(host: Host, identity: Identity, torch: str, cuda: Optional[str]) -> None:
    """The wheel brings CUDA itself; only the driver and the GPUs are the node's."""
    if not cuda:
        return
    driver = driver_on_disk(host, identity.kernel).version or loaded_driver(host).version
    if driver is not None and not driver_fits(cuda, driver):
        raise RailwrightError("torch %s is for CUDA %s, which needs driver %s or newer; this node has %s. Set gpu_driver_branch to a newer "
                              "one, or take a build for an older CUDA" % (torch, cuda, minimum_driver(cuda), driver))
    if newer(BLACKWELL_CUDA, cuda) and any((number_of(gpu) or 0) >= BLACKWELL for gpu in identity.gpus):
        raise RailwrightError("torch %s is for CUDA %s and has no kernels for this node's GPUs (Blackwell); allowed: a build for CUDA %s "
                              "or newer" % (torch, cuda, BLACKWELL_CUDA))


def _python(host: Host, spec: Spec, identity: Identity, bill: ControllerFiles) -> Tuple[str, Python]:
    """The interpreter (venv) and what wheels have to fit."""
    said: Optional[Dict[str, Any]] = None
    asked = spec["ai_environment_python"]
    name = "python" + asked if asked else "python3"
    found = host.which(name)
    if spec["ai_environment_kind"] == "conda":
        found = host.which("python3")  # of glibc alone: conda brings its own
    if found is not None:
        answer = host.run((found, "-I", "-c", ASK), ASK_SECONDS)
        said = json_object(answer.out) if answer.ok else None
    if spec["ai_environment_kind"] == "conda":
        return "", Python(numbers(bill.conda["python"])[1], identity.arch, _glibc(said))
    if found is None or said is None:
        raise RailwrightError("this node has no %s; allowed: a Python that it has, or rdma_stack_extra_packages with the package that "
                              "brings it, and railwright apply" % name)
    if said.get("implementation") != "CPython" or said["version"][0] != 3:
        raise RailwrightError("%s is no CPython 3, and torch is for nothing else" % found)
    if not said.get("venv"):
        raise RailwrightError("%s has no venv and ensurepip; on Debian and Ubuntu they are in python3-venv (python3.%d-venv): name it in "
                              "rdma_stack_extra_packages and apply" % (found, said["version"][1]))
    return found, Python(said["version"][1], identity.arch, _glibc(said))


def _glibc(said: Optional[Dict[str, Any]]) -> Tuple[int, int]:
    found = re.match(r"glibc ([0-9]{1,18})\.([0-9]{1,18})", str((said or {}).get("libc") or ""))
    if found is None:
        raise RailwrightError("this node's C library is not glibc, or its version cannot be told; torch is built for glibc")
    return int(found.group(1)), int(found.group(2))


def _entries(spec: Spec, bill: ControllerFiles, python: Python) -> List[Entry]:
    """The lock: the operator's file, or the wheels that fit. None where conda alone brings everything."""
    if bill.lock is None:
        return lock_of_wheels(bill.wheels, python, str(spec["ai_environment_wheels"])) if bill.wheels else []
    entries = parse_lock(bill.lock, str(spec["ai_environment_requirements"]))
    if spec["ai_environment_wheels"] is not None:
        for entry, names in missing_wheels(entries, bill.wheels, python):
            raise RailwrightError("%s has no wheel of %s %s that fits CPython %s on %s with glibc %d.%d and has a checksum of the lock; "
                                  "there: %s" % ((spec["ai_environment_wheels"], entry.name, entry.version, python.version, python.arch)
                                                 + python.glibc + (", ".join(names[:4]) or "none of that name",)))
    return entries


def _check_torch(spec: Spec, bill: ControllerFiles, entries: Sequence[Entry], python: Python) -> None:
    """The lock has the release that the inventory names, and the packages."""
    asked, directory = spec["ai_environment_torch"] or "", spec["ai_environment_wheels"]
    where = spec["ai_environment_requirements"] or directory or spec["ai_environment_conda_explicit"]
    found = version_in(entries, "torch") or bill.conda.get("pytorch")
    fit = "" if bill.lock is not None else " that fits CPython %s on %s with glibc %d.%d" % ((python.version, python.arch) + python.glibc)
    if found is None:
        there = sorted(name for name in bill.wheels if name.startswith("torch-"))
        raise RailwrightError("%s has no torch%s; ai_environment_torch is %s; there: %s" % (
            where, fit, asked, ", ".join(there[:4]) or "none"))
    if found not in (asked, asked.partition("+")[0] if version_in(entries, "torch") is None else asked):
        raise RailwrightError("%s has torch %s%s; ai_environment_torch is %s: both must say the same" % (where, found, fit, asked))
    row = find_release(asked)
    if row is not None and version_in(entries, "torch") is not None and not python_fits(row, python.version):
        raise RailwrightError("torch %s has no wheel for Python %s, which this node's is; allowed as ai_environment_python: %s to %s" % (
            asked, python.version, row.pythons[0], row.pythons[1]))
    for item in spec["ai_environment_packages"]:
        name, _equals, version = item.partition("==")
        locked = version_in(entries, name) or bill.conda.get(name.lower())
        if locked is None or (version and locked != version):
            raise RailwrightError("ai_environment_packages: %s: %s has %s%s; allowed: what the lock has" % (
                item, where, "%s %s" % (name, locked) if locked else "no " + name, fit))


def environment_place(host: Host, wish: Wanted) -> Place:
    """The environment that is there whole, or the first free place. Raises RailwrightError where something else lies in the way."""
    if host.exists("%s/%s" % (wish.path, CURRENT)) and host.readlink("%s/%s" % (wish.path, CURRENT)) is None:
        raise RailwrightError("%s/%s is there and is no link; remove it, or set another ai_environment_path" % (wish.path, CURRENT))
    broken: List[str] = []
    for generation in range(1, GENERATIONS + 1):
        name = wish.name if generation == 1 else "%s-%d" % (wish.name, generation)
        directory, files = "%s/%s" % (wish.path, name), "%s/.%s.files" % (wish.path, name)
        begun = host.line("%s/%s" % (files, MARKER))
        if begun is not None and begun != wish.node:
            raise RailwrightError("%s is being made by %s, or was left by it; wait for it, or remove %s" % (directory, begun, files))
        found = manifest_of(host, directory)
        if found is not None:
            wrong = what_is_wrong(host, directory, found)
            if wrong is None:
                return Place(directory, files, "whole", tuple(broken))
            broken.append("%s: %s" % (name, wrong))
        elif host.exists(directory) and begun is None:
            raise RailwrightError("%s is there, but it is no environment of railwright's (it has no manifest); remove it, or set another "
                                  "ai_environment_path" % directory)
        else:
            return Place(directory, files, "begun" if begun is not None else "absent", tuple(broken))
    raise RailwrightError("%s has %d broken environments of that name; remove them" % (wish.path, GENERATIONS))


def others(host: Host, wish: Wanted, directory: str) -> List[str]:
    """Environments that are kept beside this one."""
    names = [name for name in host.listdir(wish.path) if not name.startswith(".") and name != CURRENT]
    kept = [name for name in names if "%s/%s" % (wish.path, name) != directory]
    return [name for name in kept if manifest_of(host, "%s/%s" % (wish.path, name)) is not None]
