# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI functions that should have an RDMA device and have none, and the PCIe switches above GPUs and HCAs with what is in their slots.

A function can do RDMA if its class is InfiniBand controller (0x0207), if its model is an RDMA adapter (eRDMA, EFA), if its driver or its
model (vendor and device id) has an RDMA device on another function of this node, or if its driver is known to have an RDMA driver beside it
(``RDMA_MODULES``).
"""

from typing import Any, Dict, List, NamedTuple, Optional, Set

from ..formats import sysfs_values
from ..formats.text import grouped
from ..host.host import Host
from ..types import Identity, Nic
from .affinity import nearest, path_class, pci_place
from .devices import PCI_DEVICES, VPD_LIMIT, linked_name, pci_attribute, pci_class, pci_functions
from .hca import places
from .modules import running_modules
from .pci import is_virtual_function, numa_nodes, path_above

NETWORK, INFINIBAND, BRIDGE = ("0x0200", "0x0207"), "0x0207", "0x0604"
# The driver of a function, and the module that makes its RDMA device (Linux 6.12, drivers/infiniband/hw/*/Kconfig).
RDMA_MODULES = {
    "mlx5_core": "mlx5_ib", "mlx4_core": "mlx4_ib", "bnxt_en": "bnxt_re", "ice": "irdma", "i40e": "irdma", "qede": "qedr",
    "cxgb4": "iw_cxgb4", "hns3": "hns_roce_hw_v2", "ionic": "ionic_rdma", "mana": "mana_ib",
}
# The auxiliary devices that a driver makes of a function with RDMA on; a function whose RDMA is off by devlink (enable_rdma, enable_roce)
# or that is the second of a socket-direct card has others, or none (Linux 6.12: mlx5 core/dev.c and lib/sd.c, ice_idc.c, bnxt_ulp.c).
RDMA_CHILDREN = {
    "mlx5_core": ("mlx5_core.rdma.",), "ice": ("ice.roce.", "ice.iwarp."), "bnxt_en": ("bnxt_en.rdma.",), "ionic": ("ionic.rdma.",),
}
# Models that are RDMA devices and nothing else, whatever their class: erdma_hw.h, and efa_main.c of amzn-drivers.
RDMA_MODELS = ("1ded:107f", "1d0f:efa0", "1d0f:efa1", "1d0f:efa2", "1d0f:efa3")
ELSEWHERE = ("vfio", "pci-stub", "uio_", "igb_uio", "xen-pciback")  # drivers that hand a function to a virtual machine or a program
SLOTS, SWITCHES, FUNCTIONS = 64, 64, 64  # the most that are kept
DEVLINK = ("enable_rdma", "enable_roce")


class Function(NamedTuple):
    """A network function on the PCI bus."""

    pci: str
    kind: str  # the first six characters of its class
    model: str  # 15b3:1021
    driver: Optional[str]


def observe_rdma_functions(host: Host, identity: Identity) -> Optional[List[Dict[str, Any]]]:
    """Each function that can do RDMA and has no RDMA device. ``exempt``: why it needs none, or None.

    None where the PCI bus does not list the functions of the RDMA devices: then nothing is known about the others either.
    """
    addresses = pci_functions(host)
    if any(place.pci is not None and place.pci not in addresses for place in places(host)):
        return None
    functions = [function for function in (_function(host, address) for address in addresses) if function is not None]
    having = {place.pci for place in places(host)} | set(identity.switch_functions)
    drivers = {function.driver for function in functions if function.pci in having and function.driver is not None}
    models = {function.model for function in functions if function.pci in having}
    single = (numa_nodes(host) or 1) <= 1
    gpus = [pci_place(host, gpu.pci) for gpu in identity.gpus]
    found = []
    for function in functions:
        known_model = function.model in models or function.model in RDMA_MODELS
        capable = ("class" if function.kind == INFINIBAND else "driver" if function.driver in drivers
                   else "model" if known_model else "known" if function.driver in RDMA_MODULES else None)
        if capable is not None and function.pci not in having:
            own = pci_place(host, function.pci)
            module = RDMA_MODULES.get(function.driver or "")
            found.append({
                "pci": function.pci, "class": function.kind, "model": function.model, "driver": function.driver, "capable": capable,
                "module": module, "module_loaded": _loaded(host, module), "exempt": _exempt(host, identity, function, functions),
                "path": nearest(path_class(own, gpu, single_node=single) for gpu in gpus),
            })
    return found[:FUNCTIONS]


def _function(host: Host, address: str) -> Optional[Function]:
    kind, model = pci_class(host, address), model_of(host, address)
    if kind not in NETWORK and model not in RDMA_MODELS:
        return None
    return Function(address, kind, model, linked_name(host, "%s/%s/driver" % (PCI_DEVICES, address)))


def model_of(host: Host, address: str) -> str:
    """Vendor and device id, as in 15b3:1021."""
    ids = [sysfs_values.hex_text(pci_attribute(host, address, name)) or "?" for name in ("vendor", "device")]
    return ":".join(text[2:].lower() if text.startswith("0x") else text for text in ids)


def _loaded(host: Host, module: Optional[str]) -> Optional[bool]:
    running = running_modules(host)
    if module is None or running is None:
        return None
    return module in running or host.exists("/sys/module/" + module)


def _exempt(host: Host, identity: Identity, function: Function, functions: List[Function]) -> Optional[str]:
    """Why a function without an RDMA device is as it should be; None where nothing explains it."""
    base = "%s/%s" % (PCI_DEVICES, function.pci)
    override = (pci_attribute(host, function.pci, "driver_override") or "").strip()
    children = host.listdir(base)
    netdevs = [nic for nic in identity.nics if nic.pci == function.pci]
    if is_virtual_function(host, function.pci):
        return "a virtual function"
    if (function.driver or override).startswith(ELSEWHERE):
        return "handed to a virtual machine or a program (%s)" % (function.driver or override)
    if any(name.startswith("mlx5_core.sf.") for name in children):
        return "its RDMA devices are those of sub-functions"
    if any(nic.management for nic in netdevs):
        return "carries the node's management"
    if _beside_bond(identity, netdevs) or _second_port(identity, function):
        return "a port of another function's RDMA device"
    if function.driver is not None and _turned_off(host, function, functions, children):
        return "RDMA is off for it, or it is the second function of a socket-direct card"
    return None


def _beside_bond(identity: Identity, netdevs: List[Nic]) -> bool:
    """Return whether the function's interface is in a bond with one that has an RDMA device: RoCE LAG has one device for all members."""
    bonds = {nic.bond for nic in netdevs if nic.bond is not None}
    pcis = {hca.pci for hca in identity.hcas}
    return any(nic.bond in bonds and nic.pci in pcis for nic in identity.nics if nic.bond is not None)


def _second_port(identity: Identity, function: Function) -> bool:
    """Return whether an RDMA device of several ports is on another function of the same card."""
    slot = function.pci.rpartition(".")[0]
    return any(len(hca.ports) > 1 and (hca.pci or "").rpartition(".")[0] == slot for hca in identity.hcas)


def _turned_off(host: Host, function: Function, functions: List[Function], children: List[str]) -> bool:
    """By the auxiliary devices of the function where this kernel has them, else by the serial number in the VPD and by devlink."""
    wanted, prefix = RDMA_CHILDREN.get(function.driver or ""), "%s." % function.driver
    if wanted is not None:
        like = [other.pci for other in functions if other.driver == function.driver]
        if any(name.startswith(prefix) for address in like for name in host.listdir("%s/%s" % (PCI_DEVICES, address))):
            return not any(name.startswith(wanted) for name in children)
    return _same_card(host, function) or any(_devlink(host, function.pci, name) == "false" for name in DEVLINK)


def _same_card(host: Host, function: Function) -> bool:
    """Return whether an HCA on another bus has this function's serial number. Only root may read it; without it nothing is the same."""
    own = _serial(host.read_bytes("%s/%s/vpd" % (PCI_DEVICES, function.pci), VPD_LIMIT))
    others: Set[str] = {place.pci for place in places(host) if place.pci is not None}
    return own is not None and any(_serial(host.read_bytes("%s/%s/vpd" % (PCI_DEVICES, pci), VPD_LIMIT)) == own for pci in sorted(others))


def _serial(vpd: Optional[bytes]) -> Optional[bytes]:
    """The field SN of a VPD (PCI Local Bus 3.0, appendix I): two letters, a length, the text."""
    at = vpd.find(b"SN") if vpd is not None else -1
    if vpd is None or at < 0 or at + 3 > len(vpd):
        return None
    return vpd[at + 3:at + 3 + vpd[at + 2]].strip() or None


def _devlink(host: Host, address: str, name: str) -> Optional[str]:
    answer = host.run(("devlink", "dev", "param", "show", "pci/" + address, "name", name), 5.0)
    words = answer.out.split() if answer.ok else []
    return next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "value"), None)


# PCIe switches.


def observe_pcie_switches(host: Host, identity: Identity) -> List[Dict[str, Any]]:
    """Each PCIe switch with a GPU or an HCA in a slot: its model, and what each downstream port has behind it ('': nothing)."""
    addresses = pci_functions(host)
    children = grouped((path[0], address) for address, path in ((address, path_above(host, address)) for address in addresses) if path)
    bridges = {address for address in addresses if pci_class(host, address) == BRIDGE}
    hcas = {hca.pci for hca in identity.hcas if hca.pci is not None}
    gpus = {gpu.pci for gpu in identity.gpus}
    found = []
    for upstream in sorted(bridges & set(children)):
        ports = [child for child in sorted(children[upstream]) if child in bridges]
        if len(ports) > 1 and path_above(host, upstream):
            slots = {port.rpartition(":")[2]: _behind(host, sorted(children.get(port, [])), gpus, hcas) for port in ports[:SLOTS]}
            if any(text.startswith(("gpu", "hca")) for text in slots.values()):
                found.append({"upstream": upstream, "model": model_of(host, upstream), "slots": slots})
    return found[:SWITCHES]


def _behind(host: Host, functions: List[str], gpus: Set[str], hcas: Set[str]) -> str:
    """``gpu 10de:2335``, ``hca 15b3:1021``, ``other``; an RDMA function without a device counts as an HCA."""
    for address in functions:
        if address in gpus:
            return "gpu " + model_of(host, address)
        driver = linked_name(host, "%s/%s/driver" % (PCI_DEVICES, address))
        if address in hcas or pci_class(host, address) == INFINIBAND or driver in RDMA_MODULES:
            return "hca " + model_of(host, address)
    return "other" if functions else ""
