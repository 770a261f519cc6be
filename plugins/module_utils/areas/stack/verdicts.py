# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on what drives the HCAs and GPUs of one node, now and after the next boot. Pure.

The next boot counts as much as this one: a kernel that was installed meanwhile and has no modules is caught here, before the reboot.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...catalogue.stacks import DKMS, keeps_stack, stack_of, vendor_stack
from ...observe.dkms import ERDMA, GDRCOPY, GPU_DRIVER, INSTALLED, PEER_MEMORY, TREE
from ...observe.stack_modules import INBOX, UNKNOWN
from ...rules.comparisons import Inspection, Where, unreadable, verdict
from ...types import Verdict

STACK_MODULES = frozenset(name for names in DKMS.values() for name in names)


def judge_stack(seen: Inspection) -> List[Verdict]:
    """In a container kernel and modules belong to the machine below: nothing is said about them, here and in the next two."""
    if seen.identity.has("container"):
        return []
    node, facts, vendor, kept = seen.node, seen.facts, wants_vendor(seen), keeps_stack(seen.spec)
    modules = judged_modules(seen)
    verdicts = _next_kernel(Where(node, None, None, "kernel"), facts, modules, vendor)
    wanted = stack_of(seen.spec, seen.identity) if vendor else None if kept else INBOX
    verdicts += _origin(Where(node, None, None, "kernel modules"), facts, wanted)
    if modules or vendor:
        verdicts.append(_headers(Where(node, None, None, "kernel headers"), facts))
        verdicts.append(_secure_boot(Where(node, None, None, "Secure Boot"), facts, modules))
    return verdicts


def judge_builds(seen: Inspection) -> List[Verdict]:
    """What DKMS has built for the running kernel."""
    modules = judged_modules(seen)
    return _dkms(seen.node, seen.facts, modules) if (modules or wants_vendor(seen)) and not seen.identity.has("container") else []


def judge_packages(seen: Inspection) -> List[Verdict]:
    return [] if seen.identity.has("container") else _half_installed(seen.node, seen.facts, wants_vendor(seen))


def judged_modules(seen: Inspection) -> Dict[str, List[Mapping[str, Any]]]:
    return relevant_modules(seen.facts, wants_vendor(seen) or keeps_stack(seen.spec))


def wants_vendor(seen: Inspection) -> bool:
    return vendor_stack(seen.spec, seen.identity) is not None


def relevant_modules(facts: Mapping[str, Any], vendor: bool) -> Dict[str, List[Mapping[str, Any]]]:
    """DKMS's builds by module: of the stack where a vendor's is wanted, of the GPU driver and what goes with it."""
    found: Dict[str, List[Mapping[str, Any]]] = {}
    for build in facts.get("dkms") or []:
        name = build["module"]
        if (vendor and name in STACK_MODULES) or any(pattern.match(name) for pattern in (GPU_DRIVER, PEER_MEMORY, GDRCOPY, ERDMA)):
            found.setdefault(name, []).append(build)
    # A peer memory module that was never built is a leftover: nobody has used it.
    return {name: builds for name, builds in found.items() if not PEER_MEMORY.match(name) or any(build["kernel"] for build in builds)}


def _missing(modules: Mapping[str, Sequence[Mapping[str, Any]]], kernel: Any) -> List[str]:
    """MODULE/VERSION of those that DKMS has not installed for a kernel."""
    return [
        "%s/%s" % (name, builds[-1]["version"]) for name, builds in sorted(modules.items())
        if not any(build["kernel"] == kernel and build["state"] == INSTALLED for build in builds)]


def _next_kernel(where: Where, facts: Mapping[str, Any], modules: Mapping[str, Sequence[Mapping[str, Any]]], vendor: bool) -> List[Verdict]:
    boot = facts.get("boot") or {}
    running, following = facts.get("kernel"), boot.get("next")
    if following is None:  # no kernel is installed here: a node that is booted from elsewhere, which matters only with modules of its own
        return [unreadable("kernel.newest", where, running, "the kernel of the next boot")] if modules or vendor else []
    if following == running:
        return [verdict("kernel.newest", where, "pass", running, following, "the next boot starts %s, which is running" % following)]
    said = "the next boot starts %s (%s), running is %s" % (following, boot.get("next_source"), running)
    missing = _missing(modules, following)
    if missing:
        said += ": without %s, which DKMS has not built for it" % ", ".join(missing)
        return [verdict("kernel.newest", where, "fail", running, following, said)]
    if modules:
        said += "; every DKMS module is built for it: reboot when it suits"
    elif vendor:
        said += "; whether the stack has modules for it is not known"
    else:
        said += "; no module here is built for one kernel only"
    return [verdict("kernel.newest", where, "warn" if modules or vendor else "pass", running, following, said)]


def _dkms(node: str, facts: Mapping[str, Any], modules: Mapping[str, Sequence[Mapping[str, Any]]]) -> List[Verdict]:
    running = facts.get("kernel")
    whole = Where(node, None, None, "DKMS")
    if not modules:
        return [verdict("stack.dkms", whole, "skipped", None, None, "DKMS has none of the stack's modules: prebuilt ones, or none at all")]
    verdicts: List[Verdict] = []
    for name, builds in sorted(modules.items()):
        here = [build for build in builds if build["kernel"] == running] or [build for build in builds if build["kernel"] is None]
        state = here[-1]["state"] if here else "built for other kernels only"
        if state == INSTALLED:
            continue
        version = builds[-1]["version"]
        where = Where(node, None, None, "DKMS %s/%s" % (name, version))
        said = "not installed for the running kernel %s; see %s/%s/%s/build/make.log" % (running, TREE, name, version)
        verdicts.append(verdict("stack.dkms", where, "fail", INSTALLED, state, said))
    if verdicts:
        return verdicts
    return [verdict("stack.dkms", whole, "pass", INSTALLED, INSTALLED, "%s for %s" % (", ".join(sorted(modules)), running))]


def _origin(where: Where, facts: Mapping[str, Any], expected: Optional[str]) -> List[Verdict]:
    """Whose modules run. The next load would bring others: the restart or the reboot after an installation is still to come.

    ``expected`` None: whoever's are there stay (eRDMA, rdma_stack auto).
    """
    modules = (facts.get("stack") or {}).get("modules") or {}
    found = modules.get("origin")
    if found is None:
        quiet = expected in (None, INBOX)
        return [] if quiet else [verdict("stack.modules", where, "skipped", expected, None, "no module of the RDMA stack is loaded")]
    label = " ".join(part for part in (found, modules.get("version")) if part)
    if modules.get("stale"):
        return [verdict("stack.modules", where, "fail", expected, label, "%s: loaded is %s, on disk is %s; restart openibd or reboot" % (
            ", ".join(modules["stale"]), label, modules.get("on_disk") or "the kernel's own"))]
    if found == UNKNOWN:
        said = "the modules come from %s and carry no vendor's version" % modules.get("path")
        return [verdict("stack.modules", where, "unknown", expected, label, said)]
    if expected is not None and found != expected:
        said = "the modules of %s run, wanted are those of %s" % (label, expected)
        return [verdict("stack.modules", where, "fail", expected, label, said)]
    return [verdict("stack.modules", where, "pass", expected, label, "the modules of %s run" % label)]


def _half_installed(node: str, facts: Mapping[str, Any], vendor: bool) -> List[Verdict]:
    where = Where(node, None, None, "packages")
    half = (facts.get("stack") or {}).get("half_installed")
    if half is None:
        return [unreadable("stack.packages", where, "installed", "dpkg's database")] if vendor else []
    if half:
        return [verdict("stack.packages", where, "fail", "installed", ", ".join(half), "dpkg has not finished with %s" % ", ".join(half))]
    if not vendor:
        return []
    return [verdict("stack.packages", where, "pass", "installed", "installed", "no package of the stack is half installed")]


def _headers(where: Where, facts: Mapping[str, Any]) -> Verdict:
    """A warning: what is built works without, the next update of the stack does not."""
    boot = facts.get("boot") or {}
    kernels = {kernel["release"]: kernel["headers"] for kernel in boot.get("kernels") or []}
    asked = [release for release in (facts.get("kernel"), boot.get("next")) if release in kernels]
    lacking = sorted({str(release) for release in asked if not kernels[release]})
    if not asked:
        return unreadable("stack.headers", where, "installed", "the installed kernels")
    if lacking:
        said = "no headers for %s: DKMS cannot build for it" % ", ".join(lacking)
        return verdict("stack.headers", where, "warn", "installed", "missing", said)
    said = "headers are there for %s" % ", ".join(sorted({str(release) for release in asked}))
    return verdict("stack.headers", where, "pass", "installed", "installed", said)


def _secure_boot(where: Where, facts: Mapping[str, Any], modules: Mapping[str, Any]) -> Verdict:
    """With Secure Boot the kernel loads signed modules only; DKMS signs with a key that the machine's owner has to enrol."""
    boot = facts.get("boot") or {}
    on, enrolled = boot.get("secure_boot"), boot.get("mok_enrolled")
    if not modules:
        return verdict("stack.secure_boot", where, "skipped", None, on, "no module here is built by DKMS")
    if on is None:
        return unreadable("stack.secure_boot", where, "off, or DKMS's key enrolled", "Secure Boot")
    if not on:
        return verdict("stack.secure_boot", where, "pass", None, "off", "Secure Boot is off: any module loads")
    if enrolled is None:
        return unreadable("stack.secure_boot", where, "DKMS's key enrolled", "whether DKMS's key is enrolled (mokutil)")
    if enrolled:
        said = "Secure Boot is on and the key that DKMS signs with is enrolled"
        return verdict("stack.secure_boot", where, "pass", "enrolled", "enrolled", said)
    said = "Secure Boot is on and the key that DKMS signs with is not enrolled, its modules do not load: mokutil --import, confirm at boot"
    return verdict("stack.secure_boot", where, "fail", "enrolled", "not enrolled", said)
