# SPDX-License-Identifier: GPL-3.0-or-later
"""How near each GPU is to each RDMA port, from the PCI tree in sysfs, in the words of ``nvidia-smi topo -m``.

PIX: at most one PCIe bridge (a switch) lies between them. PXB: several, below one root port. PHB: they meet in one host
bridge. NODE: in different host bridges of one NUMA node. SYS: in different NUMA nodes. A switch shows as two functions, an upstream port
and a downstream port for each device below it, so two devices of one switch have a downstream port each and the rest in common.

sysfs says it without a driver. Where the driver's own tool is there, ``topo_matrix`` reads what that says, for comparison.
"""

import itertools
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats.outside import lines_in
from ..formats.sysfs_values import integer, natural_key, pci_address
from ..host.host import Host
from ..types import Identity

CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")  # the nearest first
PCI_DEVICES = "/sys/bus/pci/devices/"
NODES = "/sys/devices/system/node"
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}\Z")
_UNDERLINED = re.compile(r"\x1b\[[0-9;]*m")  # nvidia-smi underlines its header, into files too
_NIC = re.compile(r"NIC\d+:\Z")  # in the legend
_GPU = re.compile(r"GPU(\d{1,18})\Z")
_LINKED = re.compile(r"NV\d+\Z")
_HEAD_END = ("CPU", "NUMA")  # "CPU Affinity", "NUMA Affinity": columns behind the devices


class Place(NamedTuple):
    """Where a function hangs: the host bridge first, then every bridge down to the one right above it."""

    bridges: Tuple[str, ...]
    numa_node: Optional[int]


def affinity(host: Host, identity: Identity) -> List[Dict[str, Any]]:
    """``{"gpu", "hca", "port", "path", "near"}`` for each GPU and each port of each HCA that is a PCI function.

    ``path`` is None where the tree does not tell. ``near``: nothing on this node is nearer to this GPU.
    """
    # A machine with one NUMA node, or a kernel that knows none, says -1 for every device.
    one_node = len([name for name in host.listdir(NODES) if re.match(r"node\d+\Z", name)]) <= 1
    hcas = [(hca, pci_place(host, hca.pci)) for hca in identity.hcas if hca.pci is not None]
    rows: List[Dict[str, Any]] = []
    for gpu in sorted(identity.gpus, key=lambda item: item.pci):
        mine = pci_place(host, gpu.pci)
        found = [(hca, path_class(mine, place, single_node=one_node)) for hca, place in hcas]
        best = nearest(path for _hca, path in found)
        rows += [{"gpu": gpu.pci, "hca": hca.name, "port": port, "path": path, "near": path is not None and path == best}
                 for hca, path in found for port in hca.ports]
    return sorted(rows, key=lambda row: (row["gpu"], natural_key(row["hca"]), row["port"]))


def nearest(paths: Any) -> Optional[str]:
    """The nearest of some classes; None without any."""
    known = [path for path in paths if path in CLASSES]
    return min(known, key=CLASSES.index) if known else None


def pci_place(host: Host, address: Optional[str]) -> Place:
    """From the link of a function: ../../../devices/pci0000:16/0000:16:01.0/0000:18:00.0."""
    known = pci_address(address)
    link = host.readlink(PCI_DEVICES + known) if known is not None else None
    parts = [part for part in (link or "").split("/") if _HOST_BRIDGE.match(part) or pci_address(part) is not None]
    if known is None or len(parts) < 2 or not _HOST_BRIDGE.match(parts[0]) or pci_address(parts[-1]) != known:
        return Place((), None)
    return Place(tuple(parts[:-1]), integer(host.read(PCI_DEVICES + known + "/numa_node", 4096)))


def shared_bridges(one: Place, other: Place) -> int:
    """How many bridges the ways to two functions have in common."""
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one.bridges, other.bridges))))


def path_class(one: Place, other: Place, *, single_node: bool = False) -> Optional[str]:
    """The class of the way between two functions; ``single_node``: the machine has no second NUMA node that a device could be at."""
    if not one.bridges or not other.bridges:
        return None
    shared = shared_bridges(one, other)
    if shared > 1:
        # what is left on each side is the switch's port to that device; more of it is another switch
        return "PIX" if max(len(one.bridges), len(other.bridges)) - shared <= 1 else "PXB"
    if shared == 1:
        return "PHB"
    known = one.numa_node is not None and one.numa_node >= 0
    return "NODE" if single_node or (known and one.numa_node == other.numa_node) else "SYS"


def driver_matrix(host: Host) -> Optional[Dict[Tuple[int, str], str]]:
    """What the driver's own tool says; None where it is not there or fails."""
    if host.which("nvidia-smi") is None:
        return None
    result = host.run(["nvidia-smi", "topo", "-m"], 60.0)
    return topo_matrix(result.out) if result.ok else None


def topo_matrix(text: str) -> Optional[Dict[Tuple[int, str], str]]:
    """(number of the GPU, name of the HCA) -> class, from ``nvidia-smi topo -m``; None for a text that has no such matrix.

    Drivers before 515 head the columns with the HCAs' names, later ones with NIC0, NIC1 … and explain these below. GPUs are
    numbered in the order of their PCI addresses.
    """
    plain = _UNDERLINED.sub("", text)
    lines = [line.split() for line in lines_in(plain)]
    names = {words[0][:-1]: words[1] for words in lines if len(words) == 2 and _NIC.match(words[0])}
    head = next((at for at, words in enumerate(lines) if words and words[0] == "GPU0" and not _is_cell(words[1:2])), None)
    if head is None:
        return None
    columns = list(itertools.takewhile(lambda word: word not in _HEAD_END, lines[head]))
    found: Dict[Tuple[int, str], str] = {}
    for gpu, words in ((_GPU.match(words[0]), words) for words in lines[head + 1:] if words):
        cells = words[1:1 + len(columns)]
        if gpu is None:
            continue
        if len(cells) < len(columns) or not all(_is_cell([cell]) for cell in cells):
            return None  # a row that was cut off, or words that this tool does not print: half of a matrix is none
        found.update(((int(gpu.group(1)), names.get(column, column)), cell) for column, cell in zip(columns, cells)
                     if not _GPU.match(column))
    return found


def _is_cell(words: Sequence[str]) -> bool:
    return bool(words) and (words[0] in CLASSES or words[0] in ("X", "SOC", "N/A") or _LINKED.match(words[0]) is not None)


def differences(rows: Sequence[Mapping[str, Any]], matrix: Mapping[Tuple[int, str], str]) -> List[Tuple[str, str, str, str]]:
    """(GPU, HCA, what sysfs says, what the driver says) where the two differ; what only one of them knows is left out."""
    order = sorted({row["gpu"] for row in rows})
    told = [(row, matrix.get((order.index(row["gpu"]), row["hca"]))) for row in rows]
    return list(dict.fromkeys((row["gpu"], row["hca"], row["path"] or "unknown", other) for row, other in told
                              if other in CLASSES and other is not None and other != row["path"]))
