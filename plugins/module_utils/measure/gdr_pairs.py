# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPU and which HCA belong together on a node: those that are nearest on the PCIe tree.

A transfer between a GPU and a distant HCA crosses the CPU, on some machines at a tenth of the speed, and NCCL would not use
that pair. Every HCA of the rails gets its nearest GPU, among equals the one that has the fewest HCAs yet; a GPU that is left
over gets its nearest HCA.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..host.host import Host
from ..observe.affinity import Place, pci_place, shared_bridges
from ..types import Identity

Seat = Tuple[str, Place]  # a device, and where it hangs


class Pair(NamedTuple):
    """A GPU and an HCA. ``number``: of the GPU in the order of PCI addresses, which CUDA takes with CUDA_DEVICE_ORDER=PCI_BUS_ID."""

    gpu: str
    number: int
    hca: str
    port: int
    gid_index: Optional[int]
    rail: str
    numa_node: Optional[int]


def near_pairs(host: Host, identity: Identity, facts: Mapping[str, Any], rails: Sequence[Mapping[str, Any]]) -> List[Pair]:
    """``rails`` as ``checks.node.rail_views`` gives them; one without an RDMA device, or without the GID that it needs, is left out.

    So is one that only RDMA-CM connects: both ends of this traffic are on one node, out of band.
    """
    order = sorted(gpu.pci for gpu in identity.gpus)
    devices = {hca.get("name"): hca for hca in facts.get("hcas") or []}
    usable: Dict[str, Mapping[str, Any]] = {}
    for rail in rails:
        reachable = rail["gid_index"] is not None or not (rail["gid_needed"] or rail.get("rdma_cm"))
        if rail["hca"] in devices and rail["port"] is not None and reachable:
            usable.setdefault(rail["hca"], rail)
    pairs = _matched([(pci, pci_place(host, pci)) for pci in order],
                     [(name, pci_place(host, devices[name].get("pci_address"))) for name in usable])
    return [Pair(gpu, order.index(gpu), hca, usable[hca]["port"], usable[hca]["gid_index"], usable[hca]["label"],
                 devices[hca].get("numa_node")) for gpu, hca in pairs]


def _matched(gpus: Sequence[Seat], hcas: Sequence[Seat]) -> List[Tuple[str, str]]:
    found: List[Tuple[str, str]] = []
    for hca in hcas if gpus else ():
        taken = [gpu for gpu, _hca in found]
        found.append((max(gpus, key=lambda gpu: (_nearness(gpu[1], hca[1]), -taken.count(gpu[0])))[0], hca[0]))
    left = [gpu for gpu in gpus if gpu[0] not in [name for name, _hca in found]]
    return found + [(gpu[0], max(hcas, key=lambda hca: _nearness(gpu[1], hca[1]))[0]) for gpu in left if hcas]


def _nearness(one: Place, other: Place) -> Tuple[int, bool]:
    """How many bridges they share, then whether they are on one NUMA node: a higher value is nearer."""
    return shared_bridges(one, other), one.numa_node is not None and one.numa_node == other.numa_node and one.numa_node >= 0
