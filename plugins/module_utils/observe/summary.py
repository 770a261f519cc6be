# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives a node's HCAs and GPUs, in one line each: kernel, stack, DKMS, GPU driver, firmware, peer memory.

From the facts object, or, for a plan, from those parts of it that cost no command more than a plan takes anyway.
"""

from typing import Any, Dict, List, Mapping, Optional

from ..host.host import Host
from ..types import Identity
from . import erdma
from .boot import boot_facts, observe_boot
from .dkms import dkms_builds
from .gpu_driver import loaded_driver
from .hca import observe_hcas
from .modules import loaded_modules
from .packages import family_names, query_packages
from .stack import stack_facts

_PEERMEM = ("nvidia_peermem", "nv_peer_mem")


def observe_summary(host: Host, identity: Identity) -> Dict[str, str]:
    """``stack_summary`` of a node at the time of a plan."""
    modules = loaded_modules(host) or {}
    users = modules.get("ib_core", {}).get("used_by", [])
    driver = loaded_driver(host)
    peermem = next((name for name in _PEERMEM if name in modules), None)
    packages = query_packages(host, identity, family_names(identity))
    found: Dict[str, Any] = {
        "kernel": identity.kernel,
        "boot": boot_facts(observe_boot(host, identity.kernel)),
        "stack": stack_facts(host, identity, packages),
        "dkms": [dict(build._asdict()) for build in dkms_builds(host)],
        "hcas": observe_hcas(host, {}),
        "gpus": [dict(gpu._asdict()) for gpu in identity.gpus],
        "gpu_driver": {"version": driver.version, "flavour": driver.flavour},
        "gpudirect": {
            "peermem_module": peermem,
            "peermem_version": modules[peermem]["version"] if peermem is not None else None,
            "peermem_registered": peermem in users if users is not None else None,
        },
    }
    return stack_summary(dict(found, erdma=erdma.observe_erdma(host, identity, dict(found, modules=modules, packages=packages))))


def stack_summary(facts: Mapping[str, Any]) -> Dict[str, str]:
    """Label -> one line, in the order of reading."""
    lines = {
        "kernel": _kernel(facts), "stack": _stack(facts.get("stack") or {}), "DKMS": _dkms(facts), "GPU driver": _driver(facts),
        "firmware": _firmware(facts.get("hcas")), "peer memory": _peermem(facts.get("gpudirect") or {}),
    }
    return dict(lines, eRDMA=erdma.summary(facts)) if facts.get("erdma") else lines


def _kernel(facts: Mapping[str, Any]) -> str:
    boot = facts.get("boot") or {}
    words = [str(facts.get("kernel") or "unknown")]
    if boot.get("running_is_newest") is False:
        words.append("the next boot starts %s" % boot.get("next"))
    if boot.get("secure_boot"):
        words.append("Secure Boot on%s" % ("" if boot.get("mok_enrolled") else ", DKMS's key not enrolled"))
    return "; ".join(words)


def _stack(stack: Mapping[str, Any]) -> str:
    words = [" ".join(str(stack[key]) for key in ("name", "version") if stack.get(key)) or "none"]
    modules = stack.get("modules") or {}
    if modules.get("origin"):
        words.append("loaded modules: " + " ".join(str(modules[key]) for key in ("origin", "version") if modules.get(key)))
    if modules.get("stale"):
        words.append("not the ones on disk (%s)" % (modules.get("on_disk") or "the kernel's own"))
    if stack.get("half_installed"):
        words.append("half installed: " + ", ".join(stack["half_installed"]))
    return "; ".join(words)


def _dkms(facts: Mapping[str, Any]) -> str:
    """Each module's state for the running kernel."""
    states: Dict[str, str] = {}
    for build in facts.get("dkms") or []:
        label = "%s/%s" % (build["module"], build["version"])
        if build["kernel"] in (None, facts.get("kernel")):
            states[label] = build["state"]
        else:
            states.setdefault(label, "built for other kernels only")
    return ", ".join("%s %s" % item for item in states.items()) or "none"


def _driver(facts: Mapping[str, Any]) -> str:
    count = len(facts.get("gpus") or [])
    driver = facts.get("gpu_driver") or {}
    gpus = "%d GPU%s" % (count, "" if count == 1 else "s") if count else "no GPU"
    if not driver.get("version"):
        return gpus + (", no driver loaded" if count else "")
    label = " ".join(str(driver[key]) for key in ("version", "flavour") if driver.get(key))
    disk = driver.get("disk_version")
    return "%s, %s%s" % (label, gpus, "; on disk %s" % disk if disk and disk != driver["version"] else "")


def _firmware(hcas: Optional[List[Mapping[str, Any]]]) -> str:
    """How many HCAs have which."""
    counts: Dict[str, int] = {}
    for hca in hcas or []:
        if hca.get("fw_ver"):
            label = " ".join(str(hca[key]) for key in ("hca_type", "fw_ver") if hca.get(key))
            counts[label] = counts.get(label, 0) + 1
    return ", ".join("%s (%d)" % item for item in counts.items()) or "none"


def _peermem(gpudirect: Mapping[str, Any]) -> str:
    if not gpudirect.get("peermem_module"):
        return "not loaded"
    label = " ".join(str(gpudirect[key]) for key in ("peermem_module", "peermem_version") if gpudirect.get(key))
    registered = gpudirect.get("peermem_registered")
    return label + (", registered with ib_core" if registered else ", NOT registered with ib_core" if registered is False else "")
