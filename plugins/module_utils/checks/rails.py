# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA ports of a node are rails, where no inventory names them: the ports near GPUs, of each fabric. Pure; of facts alone.

Where fewer than half of the ports of a kind are near a GPU, all of that kind are rails: they were bought alike, and ``gpu.near`` says what
is wrong. Without a port near a GPU (no GPUs, a virtual machine with a flat PCI tree) each port with a link is a rail, but for the
management.
"""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..formats.outside import mapping, rows
from ..formats.text import grouped
from ..observe.affinity import nearest

LINKED = ("ACTIVE", "ARMED", "INIT")
NEAR = ("PIX", "PXB")  # NCCL uses GPUDirect RDMA up to PXB (node.py)
NEAR_OF_GRACE = NEAR + ("PHB", "NODE")  # NCCL_NET_GDR_C2C: the HCAs of its CPU are near to a GPU that is part of it
RAIL, MANAGEMENT, FAR, VIRTUAL, DARK = "rail", "management", "far from every GPU", "virtual", "no link"
Place = Tuple[Any, Any]  # name of the HCA, number of the port


def ports_in(facts: Mapping[str, Any]) -> List[Tuple[Dict[str, Any], Dict[str, Any]]]:
    """(HCA, port) of all of them."""
    return [(hca, port) for hca in rows(facts.get("hcas")) for port in rows(hca.get("ports"))]


def linked_ports(facts: Mapping[str, Any]) -> List[Tuple[Dict[str, Any], Dict[str, Any]]]:
    """(HCA, port) of those that are up, or on their way up and stuck."""
    return [(hca, port) for hca, port in ports_in(facts) if has_link(port)]


def has_link(port: Mapping[str, Any]) -> bool:
    return port.get("state") in LINKED or port.get("phys_state") == "LinkUp"


def is_virtual(hca: Mapping[str, Any]) -> bool:
    """A virtual function that this machine itself hands out, or a sub-function."""
    return mapping(hca.get("link")).get("virtual_function") is True or hca.get("sub_function") is True


def kind_of(hca: Mapping[str, Any], port: Mapping[str, Any]) -> Tuple[Any, ...]:
    """PSID (else the PCI ids), number of the PCI function and number of the port: a dual-port card has two functions with one port each."""
    model = hca.get("board_id") or (hca.get("vendor_id"), hca.get("device_id"))
    return model, str(hca.get("pci_address")).rpartition(".")[2], port.get("number")


def distances(facts: Mapping[str, Any]) -> Dict[Place, Optional[str]]:
    """The distance of each port to the nearest GPU, in the words of ``nvidia-smi topo -m``."""
    paths = grouped(((row.get("hca"), row.get("port")), row.get("path")) for row in rows(facts.get("affinity")))
    return {place: nearest(own) for place, own in paths.items()}


def near_classes(facts: Mapping[str, Any]) -> Tuple[str, ...]:
    return NEAR_OF_GRACE if facts.get("arch") == "aarch64" else NEAR


def roles_of(facts: Mapping[str, Any]) -> Dict[Place, str]:
    """What each RDMA port is."""
    managing = {netdev.get("name") for netdev in rows(facts.get("netdevs")) if netdev.get("management") is True}
    away, near = distances(facts), near_classes(facts)
    found: Dict[Place, str] = {}
    for hca, port in ports_in(facts):
        place = (hca.get("name"), port.get("number"))
        manages = port.get("netdev") is not None and port.get("netdev") in managing and hca.get("driver") != "erdma"
        found[place] = (VIRTUAL if is_virtual(hca) else DARK if not has_link(port) else RAIL if away.get(place) in near
                        else MANAGEMENT if manages else FAR)
    for kind in grouped((kind_of(hca, port), (hca.get("name"), port.get("number"))) for hca, port in ports_in(facts)).values():
        near_ones = [place for place in kind if found[place] == RAIL]
        far_ones = [place for place in kind if found[place] == FAR]
        found.update((place, RAIL) for place in far_ones if near_ones and len(near_ones) < len(far_ones))
    if RAIL not in found.values():
        rest = FAR if FAR in found.values() else MANAGEMENT
        found = {place: RAIL if role == rest else role for place, role in found.items()}
    return found
