# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts object: everything that is observed of a node, as plain JSON. docs/reference/facts.md is its contract.

What cannot be read is null and nothing here raises: a node in trouble is the one to observe. Facts say what is; whether it is right
is for ``checks/``. ``stack_summary`` says in one line each what drives the node's HCAs and GPUs.
"""

from collections import Counter
from typing import Any, Dict, List, Mapping, Optional

from ..catalogue.platforms import find_system
from ..host.host import Host, TreeHost
from ..host.inspected import InspectedHost
from ..types import Identity, Platform, as_dicts
from .accelerators import observe_accelerators
from .affinity import affinity
from .aiacc import as_facts, observe_aiacc
from .boot import boot_facts, observe_boot
from .dkms import dkms_builds
from .erdma import observe_erdma
from .erdma import summary as erdma_summary
from .firewall import observe_firewall
from .firmware import device_of, firmware_facts
from .gpu_driver import gpu_facts, loaded_driver, observe_gpu_driver
from .gpudirect import observe_gpudirect, peermem_facts
from .hca import active_mtus, observe_hcas
from .health import observe_health
from .identity import observe_identity
from .limits import observe_limits
from .modules import loaded_modules
from .nccl import observe_nccl
from .nccl_libraries import Places, loadable_nccl
from .nics import observe_netdevs
from .packages import family_names, query_packages
from .pci import link_facts, pci_facts
from .qos import observe_qos
from .qos_boot import with_boot
from .rdma_functions import observe_pcie_switches, observe_rdma_functions
from .stack import stack_facts
from .storage import observe_gds, rdma_storage

SCHEMA = 1  # rises when a key changes its meaning or goes; new keys alone do not raise it


def observe_facts(host: Host, identity: Optional[Identity] = None, places: Optional[Places] = None) -> Dict[str, Any]:
    """Observe a node. ``identity``: what ``observe_identity`` gave, when the caller has it already; ``places``: of the inventory."""
    known = identity if identity is not None else observe_identity(host)
    kernel = known.kernel or None
    modules = loaded_modules(host)
    packages = query_packages(host, known, family_names(known))
    found: Dict[str, Any] = {
        "schema": SCHEMA,
        "hostname": known.hostname or None,
        "virtual": known.virtual,
        "os": _os(known.platform),
        "kernel": kernel,
        "arch": known.arch or None,
        **_software(host, known, packages),
        "storage": as_dicts(rdma_storage(host)),
        "hcas": _hcas(host, observe_hcas(host, active_mtus(host) if known.hcas else {})),
        "netdevs": observe_netdevs(host, known.nics),
        "qos": with_boot(host, observe_qos(host, known)),
        "firewall": observe_firewall(host),
        "modules": modules,
        "gpus": [dict(gpu, link=link_facts(host, gpu["pci"])) for gpu in gpu_facts(host, known.gpus)],
        "accelerators": observe_accelerators(host),
        "pci": _pci(host, known),
        "affinity": affinity(host, known),
        "gpu_driver": observe_gpu_driver(host, known),
        "gpudirect": dict(observe_gpudirect(host, kernel, modules, len(known.gpus)), gds=observe_gds(host, kernel)),
        "limits": observe_limits(host),
        "nccl": observe_nccl(host),
        "aiacc": as_facts(observe_aiacc(host, known, places)),
        "nccl_libraries": as_dicts(loadable_nccl(host, known, places)),
        "packages": packages,
    }
    return dict(found, erdma=observe_erdma(host, known, found), health=observe_health(host, known, found))


def _pci(host: Host, known: Identity) -> Dict[str, Any]:
    found = pci_facts(host, [gpu.pci for gpu in known.gpus] + [hca.pci for hca in known.hcas if hca.pci is not None])
    return dict(found, rdma_functions=observe_rdma_functions(host, known), switches=observe_pcie_switches(host, known))


def _hcas(host: Host, hcas: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """With what the PCI bus and the firmware's tools say of each."""
    firmware = firmware_facts(host, hcas)
    return [dict(hca, link=None, firmware=None) if hca["pci_address"] is None else
            dict(hca, link=link_facts(host, hca["pci_address"]), firmware=firmware.get(device_of(hca["pci_address"]))) for hca in hcas]


def facts_of_tree(path: str) -> Dict[str, Any]:
    """Facts of a captured tree (sys/, proc/, etc/ …, recorded commands in cmd/); any part of it may be missing."""
    return observe_facts(InspectedHost(TreeHost(path)))


def _os(platform: Platform) -> Dict[str, Optional[str]]:
    row = find_system(platform.id, platform.version)
    named = {name: getattr(platform, name) or None for name in ("id", "version", "codename")}
    return dict(named, name=platform.pretty or None, family=platform.family, eol=row.eol if row is not None else None)


def _software(host: Host, identity: Identity, packages: Optional[Mapping[str, str]]) -> Dict[str, Any]:
    return {"boot": boot_facts(observe_boot(host, identity.kernel)), "stack": stack_facts(host, identity, packages),
            "dkms": as_dicts(dkms_builds(host))}


def observe_summary(host: Host, identity: Identity) -> Dict[str, str]:
    """``stack_summary`` of a node at the time of a plan."""
    modules = loaded_modules(host) or {}
    driver = loaded_driver(host)
    packages = query_packages(host, identity, family_names(identity))
    found: Dict[str, Any] = {
        "kernel": identity.kernel, **_software(host, identity, packages),
        "hcas": observe_hcas(host, {}), "gpus": as_dicts(identity.gpus), "gpu_driver": dict(driver._asdict()),
        "gpudirect": peermem_facts(modules),
    }
    return stack_summary(dict(found, erdma=observe_erdma(host, identity, dict(found, modules=modules, packages=packages))))


def stack_summary(facts: Mapping[str, Any]) -> Dict[str, str]:
    """Label -> one line, in the order of reading."""
    lines = {
        "kernel": _kernel(facts), "stack": _stack(facts.get("stack") or {}), "DKMS": _dkms(facts), "GPU driver": _driver(facts),
        "firmware": _firmware(facts.get("hcas")), "peer memory": _peermem(facts.get("gpudirect") or {}),
    }
    return dict(lines, eRDMA=erdma_summary(facts)) if facts.get("erdma") else lines


def _kernel(facts: Mapping[str, Any]) -> str:
    boot = facts.get("boot") or {}
    words = [str(facts.get("kernel") or "unknown")]
    if boot.get("running_is_newest") is False:
        words.append("the next boot starts %s" % boot.get("next"))
    if boot.get("secure_boot"):
        key = ", DKMS's key waits for the console" if boot.get("mok_pending") else ", DKMS's key not enrolled"
        words.append("Secure Boot on" + ("" if boot.get("mok_enrolled") else key))
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
    counts = Counter(" ".join(str(hca[key]) for key in ("hca_type", "fw_ver") if hca.get(key)) for hca in hcas or [] if hca.get("fw_ver"))
    return ", ".join("%s (%d)" % item for item in counts.items()) or "none"


def _peermem(gpudirect: Mapping[str, Any]) -> str:
    if not gpudirect.get("peermem_module"):
        return "not loaded"
    label = " ".join(str(gpudirect[key]) for key in ("peermem_module", "peermem_version") if gpudirect.get(key))
    registered = gpudirect.get("peermem_registered")
    return label + (", registered with ib_core" if registered else ", NOT registered with ib_core" if registered is False else "")
