# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts object: everything that is observed of a node, as plain JSON. docs/reference/facts.md is its contract.

What cannot be read is null and nothing here raises: a node in trouble is the one to observe.
Facts say what is; whether it is right is for ``checks/``.
"""

from typing import Any, Dict, List, Optional

from ..catalogue.platforms import find_system
from ..host.host import Host, TreeHost
from ..host.inspected import InspectedHost
from ..types import Identity, Platform, as_dicts
from .aiacc import as_facts, observe_aiacc
from .boot import boot_facts, observe_boot
from .dkms import dkms_builds
from .erdma import observe_erdma
from .firewall import observe_firewall
from .firmware import device_of, firmware_facts
from .gpu import gpu_facts
from .gpu_driver import observe_gpu_driver
from .gpudirect import observe_gpudirect
from .hca import active_mtus, observe_hcas
from .identity import observe_identity
from .iommu import pci_facts
from .limits import observe_limits
from .modules import loaded_modules
from .nccl import observe_nccl
from .nccl_libraries import Places, loadable_nccl
from .nics import observe_netdevs
from .packages import family_names, query_packages
from .pci import link_facts
from .qos import observe_qos
from .qos_boot import with_boot
from .stack import stack_facts
from .storage import rdma_storage

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
        "boot": boot_facts(observe_boot(host, known.kernel)),
        "stack": stack_facts(host, known, packages),
        "dkms": [dict(build._asdict()) for build in dkms_builds(host)],
        "storage": [dict(item._asdict()) for item in rdma_storage(host)],
        "hcas": _hcas(host, observe_hcas(host, active_mtus(host) if known.hcas else {})),
        "netdevs": observe_netdevs(host, known.nics),
        "qos": with_boot(host, observe_qos(host, known)),
        "firewall": observe_firewall(host),
        "modules": modules,
        "gpus": [dict(gpu, link=link_facts(host, gpu["pci"])) for gpu in gpu_facts(host, known.gpus)],
        "pci": pci_facts(host, [gpu.pci for gpu in known.gpus] + [hca.pci for hca in known.hcas if hca.pci is not None]),
        "gpu_driver": observe_gpu_driver(host, known),
        "gpudirect": observe_gpudirect(host, kernel, modules, len(known.gpus)),
        "limits": observe_limits(host),
        "nccl": observe_nccl(host),
        "aiacc": as_facts(observe_aiacc(host, known, places)),
        "nccl_libraries": as_dicts(loadable_nccl(host, known, places)),
        "packages": packages,
    }
    return dict(found, erdma=observe_erdma(host, known, found))


def _hcas(host: Host, hcas: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """With what the PCI bus and the firmware's tools say of each."""
    firmware = firmware_facts(host, hcas)
    return [
        dict(hca, link=link_facts(host, address) if address is not None else None,
             firmware=firmware.get(device_of(address)) if address is not None else None)
        for hca, address in [(hca, hca["pci_address"]) for hca in hcas]]


def facts_of_tree(path: str) -> Dict[str, Any]:
    """Facts of a captured tree (sys/, proc/, etc/ …, recorded commands in cmd/); any part of it may be missing."""
    return observe_facts(InspectedHost(TreeHost(path)))


def _os(platform: Platform) -> Dict[str, Optional[str]]:
    row = find_system(platform.id, platform.version)
    return {
        "id": platform.id or None,
        "version": platform.version or None,
        "codename": platform.codename or None,
        "name": platform.pretty or None,
        "family": platform.family,
        "eol": row.eol if row is not None else None,
    }
