# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on what drives the HCAs and GPUs of one node, now and after the next boot. Pure.

The next boot counts as much as this one: a kernel that was installed meanwhile and has no modules is caught here, before the reboot.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...catalogue.stacks import DKMS, keeps_stack, stack_of, vendor_stack
from ...observe.dkms import ERDMA, GDRCOPY, GPU_DRIVER, INSTALLED, PEER_MEMORY, TREE
from ...observe.stack import INBOX, UNKNOWN
from ...rules.comparisons import UNREADABLE, Inspection, VerdictSubject, decided, unreadable, verdict
from ...types import Verdict

STACK_MODULES = frozenset(name for names in DKMS.values() for name in names)


def judge_stack(seen: Inspection) -> List[Verdict]:
    """In a container kernel and modules belong to the machine below: nothing is said about them, here and in the next two."""
    if seen.identity.has("container"):
        return []
    node, facts, vendor, kept = seen.node, seen.facts, wants_vendor(seen), keeps_stack(seen.spec)
    modules = judged_modules(seen)
    wanted = stack_of(seen.spec, seen.identity) if vendor else None if kept else INBOX
    verdicts = _next_kernel(VerdictSubject(node, None, None, "kernel"), facts, modules, vendor)
    verdicts += _origin(VerdictSubject(node, None, None, "kernel modules"), (facts.get("stack") or {}).get("modules") or {}, wanted)
    if modules or vendor:
        boot = facts.get("boot") or {}
        verdicts.append(_headers(VerdictSubject(node, None, None, "kernel headers"), facts.get("kernel"), boot))
        verdicts.append(_secure_boot(VerdictSubject(node, None, None, "Secure Boot"), boot, modules))
    return verdicts


def judge_builds(seen: Inspection) -> List[Verdict]:
    """What DKMS has built for the running kernel."""
    modules = judged_modules(seen)
    return _dkms(seen.node, seen.facts, modules) if (modules or wants_vendor(seen)) and not seen.identity.has("container") else []


def judge_packages(seen: Inspection) -> List[Verdict]:
    if seen.identity.has("container"):
        return []
    vendor, half = wants_vendor(seen), (seen.facts.get("stack") or {}).get("half_installed")
    if not half and not vendor:
        return []
    names = ", ".join(half or ())
    return [decided(
        "stack.packages", VerdictSubject(seen.node, None, None, "packages"),
        (half is None, "unknown", "installed", None, UNREADABLE % "dpkg's database"),
        (half, "fail", "installed", names, "dpkg has not finished with %s" % names),
        (True, "pass", "installed", "installed", "no package of the stack is half installed"))]


def judged_modules(seen: Inspection) -> Dict[str, List[Mapping[str, Any]]]:
    """DKMS's builds by module: of the stack where a vendor's is wanted or kept, of the GPU driver and what goes with it."""
    vendor = wants_vendor(seen) or keeps_stack(seen.spec)
    found: Dict[str, List[Mapping[str, Any]]] = {}
    for build in seen.facts.get("dkms") or []:
        name = build["module"]
        if (vendor and name in STACK_MODULES) or any(pattern.match(name) for pattern in (GPU_DRIVER, PEER_MEMORY, GDRCOPY, ERDMA)):
            found.setdefault(name, []).append(build)
    # A peer memory module that was never built is a leftover: nobody has used it.
    return {name: builds for name, builds in found.items() if not PEER_MEMORY.match(name) or any(build["kernel"] for build in builds)}


def wants_vendor(seen: Inspection) -> bool:
    return vendor_stack(seen.spec, seen.identity) is not None


def _next_kernel(
    where: VerdictSubject, facts: Mapping[str, Any], modules: Mapping[str, Sequence[Mapping[str, Any]]], vendor: bool
) -> List[Verdict]:
    boot = facts.get("boot") or {}
    running, following = facts.get("kernel"), boot.get("next")
    if following is None:  # no kernel is installed here: a node that is booted from elsewhere, which matters only with modules of its own
        return [unreadable("kernel.newest", where, running, "the kernel of the next boot")] if modules or vendor else []
    if following == running:
        return [verdict("kernel.newest", where, "pass", running, following, "the next boot starts %s, which is running" % following)]
    missing = ["%s/%s" % (name, builds[-1]["version"]) for name, builds in sorted(modules.items())
               if not any((build["kernel"], build["state"]) == (following, INSTALLED) for build in builds)]
    if missing:
        more = ": without %s, which DKMS has not built for it" % ", ".join(missing)
    elif modules:
        more = "; every DKMS module is built for it: reboot when it suits"
    else:
        more = "; whether the stack has modules for it is not known" if vendor else "; no module here is built for one kernel only"
    status = "fail" if missing else "warn" if modules or vendor else "pass"
    return [verdict("kernel.newest", where, status, running, following, "the next boot starts %s (%s), running is %s%s" % (
        following, boot.get("next_source"), running, more))]


def _dkms(node: str, facts: Mapping[str, Any], modules: Mapping[str, Sequence[Mapping[str, Any]]]) -> List[Verdict]:
    running = facts.get("kernel")
    whole = VerdictSubject(node, None, None, "DKMS")
    if not modules:
        return [verdict("stack.dkms", whole, "skipped", None, None, "DKMS has none of the stack's modules: prebuilt ones, or none at all")]
    verdicts: List[Verdict] = []
    for name, builds in sorted(modules.items()):
        here = [build for build in builds if build["kernel"] == running] or [build for build in builds if build["kernel"] is None]
        state = here[-1]["state"] if here else "built for other kernels only"
        if state == INSTALLED:
            continue
        version = builds[-1]["version"]
        where = VerdictSubject(node, None, None, "DKMS %s/%s" % (name, version))
        said = "not installed for the running kernel %s; see %s/%s/%s/build/make.log" % (running, TREE, name, version)
        verdicts.append(verdict("stack.dkms", where, "fail", INSTALLED, state, said))
    if verdicts:
        return verdicts
    return [verdict("stack.dkms", whole, "pass", INSTALLED, INSTALLED, "%s for %s" % (", ".join(sorted(modules)), running))]


def _origin(where: VerdictSubject, modules: Mapping[str, Any], expected: Optional[str]) -> List[Verdict]:
    """Whose modules run. The next load would bring others: the restart or the reboot after an installation is still to come.

    ``expected`` None: whoever's are there stay (eRDMA, rdma_stack auto).
    """
    found, stale = modules.get("origin"), modules.get("stale") or ()
    if found is None and expected in (None, INBOX):
        return []
    label = " ".join(part for part in (found, modules.get("version")) if part)
    return [decided(
        "stack.modules", where,
        (found is None, "skipped", expected, None, "no module of the RDMA stack is loaded"),
        (stale, "fail", expected, label, "%s: loaded is %s, on disk is %s; restart openibd or reboot" % (
            ", ".join(stale), label, modules.get("on_disk") or "the kernel's own")),
        (found == UNKNOWN, "unknown", expected, label, "the modules come from %s and carry no vendor's version" % modules.get("path")),
        (expected not in (None, found), "fail", expected, label, "the modules of %s run, wanted are those of %s" % (label, expected)),
        (modules.get("unread"), "unknown", expected, label, UNREADABLE % ("by modinfo, of %s, the module on disk" % ", ".join(
            modules.get("unread") or ()))),
        (True, "pass", expected, label, "the modules of %s run" % label))]


def _headers(where: VerdictSubject, running: Optional[str], boot: Mapping[str, Any]) -> Verdict:
    """A warning: what is built works without, the next update of the stack does not."""
    kernels = {kernel["release"]: kernel["headers"] for kernel in boot.get("kernels") or []}
    asked = sorted({str(release) for release in (running, boot.get("next")) if release in kernels})
    lacking = [release for release in asked if not kernels[release]]
    return decided(
        "stack.headers", where,
        (not asked, "unknown", "installed", None, UNREADABLE % "the installed kernels"),
        (lacking, "warn", "installed", "missing", "no headers for %s: DKMS cannot build for it" % ", ".join(lacking)),
        (True, "pass", "installed", "installed", "headers are there for %s" % ", ".join(asked)))


def _secure_boot(where: VerdictSubject, boot: Mapping[str, Any], modules: Mapping[str, Any]) -> Verdict:
    """With Secure Boot the kernel loads signed modules only; DKMS signs with a key that the machine's owner has to enrol."""
    on, enrolled = boot.get("secure_boot"), boot.get("mok_enrolled")
    return decided(
        "stack.secure_boot", where,
        (not modules, "skipped", None, on, "no module here is built by DKMS"),
        (on is None, "unknown", "off, or DKMS's key enrolled", None, UNREADABLE % "Secure Boot"),
        (not on, "pass", None, "off", "Secure Boot is off: any module loads"),
        (enrolled is None, "unknown", "DKMS's key enrolled", None, UNREADABLE % "whether DKMS's key is enrolled (mokutil)"),
        (enrolled, "pass", "enrolled", "enrolled", "Secure Boot is on and the key that DKMS signs with is enrolled"),
        (boot.get("mok_pending"), "fail", "enrolled", "pending", (
            "Secure Boot is on and the key that DKMS signs with waits to be enrolled, its modules do not load: reboot, and confirm it at "
            "the console")),
        (True, "fail", "enrolled", "not enrolled", (
            "Secure Boot is on and the key that DKMS signs with is not enrolled, its modules do not load: rdma_mok_password_hash and "
            "apply, or mokutil --import; then confirm it at the console")))
