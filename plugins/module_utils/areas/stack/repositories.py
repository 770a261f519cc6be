# SPDX-License-Identifier: GPL-3.0-or-later
"""Where packages come from: keyrings, repository definitions, pins between repositories, holds; and an interrupted dpkg.

Only files of ours are written or removed (``railwright-*``, and a marked block in the version
locks). A keyring holds exactly the pinned key: it is taken out of what the role downloaded,
whatever else the vendor's file holds. Plans are the same with and without the downloaded key.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...catalogue.drivers import Wanted, cuda_packages
from ...catalogue.libnccl import nccl_packages
from ...catalogue.repositories import Repository, erdma_problem, repositories_of
from ...catalogue.stacks import stack_problem, vendor_stack
from ...formats.openpgp import extract, fingerprints
from ...formats.outside import lines_in
from ...host.host import Host
from ...observe.package_locks import lock_holder
from ...observe.packages import (
    CONFIGURE,
    LOCK_BEGIN,
    LOCK_END,
    VERSIONLOCK,
    Unfinished,
    all_installed,
    cannot_finish,
    unfinished,
    without_ours,
)
from ...spec.model import Spec
from ...types import AT_BOOT, KEYRING, Change, Identity, Op, Problem, Subject, run, write_file
from ..common.files import FileState, forget_file, observe_file, plan_file, removed_file
from . import repository_files as text
from .repository_files import Held

NAME = "repositories"
MANAGERS = ("apt", "dnf")
UNWANTED = {"erdma": "erdma_repository: false"}  # what to say instead, where it is not the stack or the GPU driver
# linux-system-roles/hpc locks these before it installs drivers.
DNF_KERNEL = (
    "kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-modules-extra", "kernel-devel", "kernel-devel-matched",
)
# Meta packages, whose next version brings the next kernel, and images, whose next version replaces the running one.
_APT_KERNEL = re.compile(r"linux-(?:image-.*|(?:generic|headers|modules-extra|virtual|amd64|arm64)(?:-.*)?)\Z")
_VERSIONED = re.compile(r"-[0-9]+\.[0-9]+\.[0-9]+-[0-9]+")
REPAIR = run(CONFIGURE, seconds=3600.0)
# apt takes no order while dpkg's journal is there; any command that writes merges it, and this one changes nothing else.
MERGE = run(("dpkg", "--set-selections"))
WHY_REPAIR = "an earlier run of dpkg was interrupted; nothing can be installed before it is finished"
WHY_STALE = "this node does not want that repository any more"
# What is held: (name of apt's file, why, source) of kernel, CUDA and NCCL.
HOLDS = (("kernel", "rdma_stack_kernel_hold: an update of the kernel would leave the driver stack without modules", "LSR"),
         ("cuda-hold", "cuda_hold: CUDA stays at the pinned version when the system is updated", "AZ"),
         ("nccl-hold", "nccl_hold: NCCL stays at the pinned version when the system is updated", "AZ"))


class Desired(NamedTuple):
    repositories: Tuple[Repository, ...]
    identity: Identity
    kernel_hold: bool
    cuda: Tuple[Held, ...]
    nccl: Tuple[Held, ...]
    kernel: str = ""  # the one that is held: rdma_kernel_version, else the running one

    @property
    def manager(self) -> str:
        return self.identity.platform.package_manager


class Observed(NamedTuple):
    """``keyrings`` and ``staged``: content by repository; ``files``: those that are wanted, and every one of ours that is there."""

    keyrings: Dict[str, Optional[bytes]]
    staged: Dict[str, Optional[bytes]]
    keyring_directory: bool
    files: Dict[str, FileState]
    stray_keyrings: Tuple[str, ...]
    foreign: Tuple[Tuple[str, str], ...]  # (repository, file of somebody else's that defines it)
    kernels: Tuple[Held, ...]  # installed kernel packages
    locks: str  # the versionlock plugin's list
    unfinished: Unfinished
    streams: Dict[str, Optional[str]]  # dnf: the enabled stream of each module that is wanted in a certain one


def desired(spec: Spec, identity: Identity) -> Desired:
    cuda = _held(cuda_packages(spec, identity)) if spec["cuda_hold"] else ()
    nccl = _held(nccl_packages(spec, identity)) if spec["nccl_hold"] else ()
    kernel = spec["kernel_version"] or identity.kernel
    return Desired(repositories_of(spec, identity), identity, spec["rdma_stack_kernel_hold"], cuda, nccl, kernel)


def _held(packages: Tuple[Wanted, ...]) -> Tuple[Held, ...]:
    return tuple(Held(row.name, row.version) for row in packages if row.version is not None)


def observe(host: Host, desired: Desired) -> Observed:
    if desired.manager not in MANAGERS:
        return Observed({}, {}, True, {}, (), (), (), "", Unfinished((), False), {})
    manager, apt = desired.manager, desired.manager == "apt"
    names = [row.name for row in desired.repositories]
    keyrings = [text.keyring_path(manager, name) for name in names]
    mark = ("RPM-GPG-KEY-" if manager == "dnf" else "") + text.PREFIX
    directories = [text.DEFINITIONS[manager]] + ([text.PREFERENCES] if apt else [])
    own = {"%s/%s" % (place, name) for place in directories for name in host.listdir(place) if name.startswith(text.PREFIX)}
    paths = set(_wanted_files(desired, ())) | own | ({_preferences_of(name) for name, _why, _source in HOLDS} if apt else set())
    kept = [text.KEYRINGS[manager] + "/" + name for name in host.listdir(text.KEYRINGS[manager]) if name.startswith(mark)]
    # What is half done while somebody's dpkg runs is not interrupted: the dry run waits for that run, or names it.
    left = unfinished(host) if apt else Unfinished((), False)
    interrupted = left.any and lock_holder(host, "apt") is None
    return Observed(
        {name: host.read_bytes(path) for name, path in zip(names, keyrings)},
        {name: host.read_bytes(text.STAGED % name) for name in names},
        host.exists(text.KEYRINGS[manager]),
        {path: observe_file(host, path) for path in sorted(paths)},
        tuple(path for path in kept if path not in keyrings),
        tuple(_foreign(host, desired)),
        _installed_kernels(host, desired) if desired.kernel_hold else (),
        (host.read(VERSIONLOCK["dnf"][0]) or "") if manager == "dnf" else "",
        left._replace(stuck=cannot_finish(host, left)) if interrupted else Unfinished((), False),
        {row.stream: text.enabled_stream(host.read(text.MODULES % row.stream.partition(":")[0]) or "")
         for row in desired.repositories if row.stream is not None},
    )


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if desired.manager not in MANAGERS:
        return []
    changes = _plan_repair(observed.unfinished)
    for repository in desired.repositories:
        changes += _plan_key(desired.manager, repository, observed)
    wanted = _wanted_files(desired, observed.kernels)
    for path, (content, why, source) in wanted.items():
        changes += plan_file(NAME, observed.files.get(path, FileState(path, None, None)), content, why, source)
    if desired.manager == "dnf":
        for stream, enabled in observed.streams.items():
            name, _colon, release = stream.partition(":")
            if enabled != release:  # dnf hides the packages of every stream but the enabled one
                changes.append(Change(NAME, "module stream of " + name, enabled, release, "none", "dnf takes packages of this module from "
                                      "the enabled stream only", "NVIDIA (driver guide)",
                                      (write_file(text.MODULES % name, text.module_file(stream)),)))
        changes += _plan_locks(desired, observed)
    for path, state in observed.files.items():
        if path not in wanted:
            changes += forget_file(NAME, state, WHY_STALE, "inventory")
    return changes + [removed_file(NAME, path, "a signing key", WHY_STALE, "inventory") for path in observed.stray_keyrings]


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    found: List[Problem] = []
    if (desired.repositories or holds_wanted(desired)) and desired.manager not in MANAGERS:
        found.append(Problem(NAME, "package manager", "%s: repositories and holds are managed with apt and dnf only%s" % (
            desired.manager, "; install dnf on this node first (yum install dnf)" if desired.manager == "yum" else "")))
    stack = vendor_stack(spec, identity)
    known = stack is None or stack.name in [row.name for row in desired.repositories] or spec["rdma_stack_offline_package"]
    if stack is not None and not known and stack_problem(spec, identity) is None:
        found.append(Problem(NAME, "repository " + stack.name, "nothing is known of its signing key for this system; set "
                             "rdma_stack_repository_key_url and rdma_stack_repository_fingerprint"))
    unserved = erdma_problem(spec, identity)
    if unserved is not None:
        found.append(Problem(NAME, "erdma_repository", unserved))
    for row in desired.repositories:
        if row.fingerprint is None:
            found.append(Problem(NAME, "repository " + row.name, "its signing key (%s) is not pinned: set %s to the key's "
                                 "fingerprint" % (row.key_url, fingerprint_key(row.name))))
    return found


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    return [
        Problem(NAME, "repository " + name, "is defined in %s already, which railwright does not own; remove that file, or set %s "
                "so that this repository is not wanted" % (path, UNWANTED.get(name, "rdma_stack (or gpu_driver_source)")))
        for name, path in observed.foreign]


def fingerprint_key(name: str) -> str:
    """The inventory key that pins a repository's signing key."""
    return (name if name in ("cuda", "erdma") else "rdma_stack") + "_repository_fingerprint"


def holds_wanted(desired: Desired) -> bool:
    return bool(desired.kernel_hold or desired.cuda or desired.nccl)


def _wanted_files(desired: Desired, kernels: Tuple[Held, ...]) -> Dict[str, Tuple[str, str, str]]:
    """Content, why and source by path, in the order in which they are written: pins before the definition that they restrain."""
    wanted: Dict[str, Tuple[str, str, str]] = {}
    if desired.manager not in MANAGERS:
        return wanted
    for row in desired.repositories:
        pins = text.preferences(row) if desired.manager == "apt" else None
        if pins is not None:
            wanted[_preferences_of(row.name)] = (
                pins, "a repository must not bring packages that another one is responsible for", row.source)
        path = text.definition_path(desired.manager, row.name)
        wanted[path] = (text.definition(desired.manager, row), "packages of the pinned release come from here", row.source)
    for (name, why, source), held in zip(HOLDS, (kernels, desired.cuda, desired.nccl)):
        if desired.manager == "apt" and held:
            wanted[_preferences_of(name)] = (text.apt_holds(held), why, source)
    return wanted


def _preferences_of(name: str) -> str:
    return "%s/%s%s.pref" % (text.PREFERENCES, text.PREFIX, name)


def _foreign(host: Host, desired: Desired) -> List[Tuple[str, str]]:
    """Repositories of ours that a file of somebody else's defines too: apt refuses two keyrings for one, dnf would ignore our pins."""
    manager = desired.manager
    place = text.DEFINITIONS[manager]
    ends = (".repo",) if manager == "dnf" else (".list", ".sources")
    paths = [place + "/" + name for name in host.listdir(place) if name.endswith(ends) and not name.startswith(text.PREFIX)]
    found: List[Tuple[str, str]] = []
    for path in (paths + ["/etc/apt/sources.list"] if manager == "apt" else paths) if desired.repositories else []:
        urls = text.urls_in(path, host.read(path) or "")
        found += [(row.name, path) for row in desired.repositories if any(text.same_place(url, row.url) for url in urls)]
    return found


def _installed_kernels(host: Host, desired: Desired) -> Tuple[Held, ...]:
    """What is held of the kernel. By the pinned or running kernel's version for dnf, where versions are installed side by side."""
    if desired.manager == "dnf":
        release = desired.kernel
        arch = "." + desired.identity.arch
        return tuple(Held(name, release[:-len(arch)] if release.endswith(arch) else release) for name in DNF_KERNEL)
    installed = all_installed(host, desired.identity) or {}
    names = [name for name in sorted(installed) if _APT_KERNEL.match(name)]
    # linux-headers-6.1.0-26-amd64 and the like stay as they are by name, and come and go with a DKMS stack.
    return tuple(Held(name, installed[name]) for name in names if name.startswith("linux-image-") or not _VERSIONED.search(name))


def _plan_repair(left: Unfinished) -> List[Change]:
    if not left.any:
        return []
    found: Dict[str, Any] = dict(left.packages)
    if left.journal:
        found["/var/lib/dpkg/updates"] = "not merged"
    if left.stuck:
        # The package step finishes it: which version is missing is its to say. apt alone (--fix-broken) would rather remove the stack.
        return [Change(NAME, "interrupted dpkg", found, None, "repair", "an earlier run of dpkg was interrupted, and what dpkg cannot "
                       "finish alone the package step has to bring", "apt-get(8)", (MERGE,) if left.journal else ())]
    return [Change(NAME, "interrupted dpkg", found, None, "repair", WHY_REPAIR, "dpkg(1), --configure --pending", (REPAIR,))]


def _plan_key(manager: str, repository: Repository, observed: Observed) -> List[Change]:
    path = text.keyring_path(manager, repository.name)
    there = fingerprints(observed.keyrings.get(repository.name) or b"")
    if repository.fingerprint is None or there == (repository.fingerprint,):
        return []
    ops: List[Op] = []
    if not observed.keyring_directory:
        directory = text.KEYRINGS[manager]
        ops.append(run(("install", "-d", "-m", "0755", directory), (("rmdir", directory),)))
    key = extract(observed.staged.get(repository.name) or b"", repository.fingerprint)
    # Without the key there is nothing to write; the command's failure says what is missing (the dry run before it says it better).
    ops.append(write_file(path, key) if key is not None else run(("test", "-s", (text.STAGED % repository.name) + " (the pinned key)")))
    before = list(there) if observed.keyrings.get(repository.name) is not None else None
    return [Change(NAME, "signing key of repository " + repository.name, before, [repository.fingerprint], "none",
                   "packages are only taken from this repository when they are signed by this key", repository.source,
                   tuple(ops), Subject(KEYRING, repository.name))]


def _plan_locks(desired: Desired, observed: Observed) -> List[Change]:
    """Our block in the version locks; other people's lines stay as they are."""
    path = VERSIONLOCK["dnf"][0]
    lines = text.dnf_locks(observed.kernels + desired.cuda + desired.nccl)
    content = without_ours(observed.locks) + ("\n".join([LOCK_BEGIN] + lines + [LOCK_END, ""]) if lines else "")
    if content == observed.locks:
        return []
    before = lines_in(observed.locks.split(LOCK_BEGIN + "\n", 1)[-1].split(LOCK_END, maxsplit=1)[0])
    whys = [why for (_name, why, _source), rows in zip(HOLDS, (observed.kernels, desired.cuda, desired.nccl)) if rows]
    return [Change(NAME, "version locks in " + path, before if LOCK_BEGIN in observed.locks else None, lines or None, "none",
                   "; ".join(whys) or "nothing is held any more", "LSR (versionlock)", (write_file(path, content),), when=AT_BOOT)]
