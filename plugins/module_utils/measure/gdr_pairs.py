# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPU and which HCA belong together on a node: those that are nearest on the PCIe tree.

A transfer between a GPU and a distant HCA crosses the CPU, on some machines at a tenth of the speed, and NCCL would not use
that pair. Every HCA of the rails gets its nearest GPU, among equals the one that has the fewest HCAs yet; a GPU that is left
over gets its nearest HCA.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats.sysfs_values import pci_address
from ..host.host import Host
from ..types import Identity

PCI_DEVICES = "/sys/bus/pci/devices/"


class Pair(NamedTuple):
    """A GPU and an HCA. ``number``: of the GPU in the order of PCI addresses, which CUDA takes with CUDA_DEVICE_ORDER=PCI_BUS_ID."""

    gpu: str
    number: int
    hca: str
    port: int
    gid_index: Optional[int]
    rail: str
    numa_node: Optional[int]


class _Seat(NamedTuple):
    """A device with its place on the tree: bridges from the root to itself, and its NUMA node."""

    name: str
    place: Tuple[str, ...]
    numa_node: Optional[int]


def near_pairs(host: Host, identity: Identity, facts: Mapping[str, Any], rails: Sequence[Mapping[str, Any]]) -> List[Pair]:
    """``rails`` as ``checks.node.rail_views`` gives them; one without an RDMA device, or without the GID that it needs, is left out.

    So is one that only RDMA-CM connects: both ends of this traffic are on one node, out of band.
    """
    gpus = [_Seat(gpu.pci, _place(host, gpu.pci), gpu.numa_node) for gpu in sorted(identity.gpus, key=lambda gpu: gpu.pci)]
    devices = {hca.get("name"): hca for hca in facts.get("hcas") or []}
    usable: Dict[str, Mapping[str, Any]] = {}
    for rail in rails:
        reachable = rail["gid_index"] is not None or not (rail["gid_needed"] or rail.get("rdma_cm"))
        if rail["hca"] in devices and rail["port"] is not None and reachable:
            usable.setdefault(rail["hca"], rail)
    seats = [_Seat(name, _place(host, devices[name].get("pci_address")), devices[name].get("numa_node")) for name in usable]
    order = [gpu.name for gpu in gpus]
    pairs = []
    for gpu, hca in _matched(gpus, seats):
        rail = usable[hca.name]
        pairs.append(Pair(gpu.name, order.index(gpu.name), hca.name, rail["port"], rail["gid_index"], rail["label"], hca.numa_node))
    return pairs


def _matched(gpus: Sequence[_Seat], hcas: Sequence[_Seat]) -> List[Tuple[_Seat, _Seat]]:
    if not gpus or not hcas:
        return []
    found: List[Tuple[_Seat, _Seat]] = []
    for hca in hcas:
        taken = [gpu.name for gpu, _hca in found]
        found.append((max(gpus, key=lambda gpu: _nearness(gpu, hca) + (-taken.count(gpu.name),)), hca))
    for gpu in gpus:
        if gpu.name not in [seat.name for seat, _hca in found]:
            found.append((gpu, max(hcas, key=lambda hca: _nearness(gpu, hca))))
    return found


def _nearness(one: _Seat, other: _Seat) -> Tuple[int, bool]:
    """How many bridges they share, then whether they are on one NUMA node: a higher value is nearer."""
    shared = 0
    for mine, theirs in zip(one.place, other.place):
        if mine != theirs:
            break
        shared += 1
    return shared, one.numa_node is not None and one.numa_node == other.numa_node and one.numa_node >= 0


def _place(host: Host, address: Optional[str]) -> Tuple[str, ...]:
    """From the link of the function: ../../../devices/pci0000:16/0000:16:01.0/0000:18:00.0."""
    link = host.readlink(PCI_DEVICES + address) if pci_address(address) is not None and address is not None else None
    return tuple(part for part in (link or "").split("/") if part.startswith("pci") or pci_address(part) is not None)
