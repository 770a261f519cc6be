# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as a network of links: NICs and GPUs in their PCIe tree, sockets, NVLink; how much it carries from one point to another, and which
links hold it up. Made of facts; what they do not say is named. Pure.

A link is read in two ways. ``can``: what both of its ends are made for, which is what a node must reach. ``runs``: what it was trained to,
which is what it can reach as it is. A GPU that idles lets its link run slowly, so that of a GPU's own link only the width counts.

Links carry as much in either direction at once, and what leaves a node mirrors what comes in: a link that a block passes on its way in
carries another block on its way out in the opposite direction. So a flow over links without a direction is what both can have at once.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.boards import Board, linked_board
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, rows
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of, grouped

UNBOUNDED = float("inf")


class Link(NamedTuple):
    """``gbs`` for each direction; ``what``: as a person calls it."""

    one: str
    other: str
    gbs: float
    what: str = ""


def max_flow(links: Sequence[Link], source: str, sink: str) -> tuple[float, tuple[Link, ...]]:
    """(GB/s, the links that limit it); links of no bound limit nothing. Shortest ways first (Edmonds and Karp)."""
    room: dict[str, dict[str, float]] = {source: {}, sink: {}}
    for link in links:
        for one, other in ((link.one, link.other), (link.other, link.one)):
            ends = room.setdefault(one, {})
            ends[other] = ends.get(other, 0.0) + link.gbs
    total = 0.0
    while True:
        came_from = _ways_from(room, source)
        if sink not in came_from:
            return total, tuple(link for link in links if (link.one in came_from) != (link.other in came_from))
        way = _way(came_from, source, sink)
        least = min(room[one][other] for one, other in way)
        if least == UNBOUNDED:
            return UNBOUNDED, ()
        for one, other in way:
            room[one][other] -= least
            room[other][one] += least
        total += least


def _ways_from(room: dict[str, dict[str, float]], source: str) -> dict[str, str]:
    """Each point that can still be reached, with the one before it."""
    found, pending = {source: source}, deque([source])
    while pending:
        here = pending.popleft()
        for there, free in room[here].items():
            if free > 1e-9 and there not in found:
                found[there] = here
                pending.append(there)
    return found


def _way(came_from: dict[str, str], source: str, sink: str) -> list[tuple[str, str]]:
    found, here = [], sink
    while here != source:
        found.append((came_from[here], here))
        here = came_from[here]
    return found


# GT/s: (bytes of payload for each transfer of a lane, generation). Line coding of the PCI Express Base Specification (128b/130b; flits of
# 236 bytes in 256 from 6.0 on), and packets of 256 bytes with 24 of header, sequence number and checksums, which all of these boards take.
_PACKET = 256 / (256 + 24)
_CODING = {2.5: (0.8, "1.0"), 5.0: (0.8, "2.0"), 8.0: (128 / 130, "3.0"), 16.0: (128 / 130, "4.0"), 32.0: (128 / 130, "5.0"),
           64.0: (236 / 256, "6.0")}
# Between two sockets: what RTX PRO 6000 reached between two EPYC 9005 (Turin) with five xGMI links, since facts do not name the processor
# (voipmonitor/rtx6kpro 1306de81, hardware/pcie-bandwidth.md, 2026: 51 GB/s between GPUs, all_reduce 40.1 to 41.7). NCCL reckons with 6 to
# 40 by processor (src/graph/topo.h). More NUMA nodes than two are parts of sockets, and what is between these is not known.
SOCKETS_GBS = 51.0
SAYS_ANY_RATE = ("erdma", "rdma_rxe", "siw")  # drivers whose ports have the same rate in sysfs whatever is below them
CAN, RUNS = "can", "runs"
MOST = 64  # GPUs, and HCAs, of a node that are looked at: the largest machines have 16 and 32
SOCKETS = "the link between sockets"
MEMORY = "memory of node"
_IN, _OUT = "network", "GPUs"


class Port(NamedTuple):
    """A NIC's port that carries a rail."""

    name: str
    pci: str | None
    gbps: float
    links: tuple[Link, ...]  # from the port up to the memory of its NUMA node


class Gpu(NamedTuple):
    pci: str
    name: str
    links: tuple[Link, ...]


class Machine(NamedTuple):
    """``board``: of all GPUs; ``nvlink_gbs``: of each GPU, by the board or by the links that are up; ``unread``: what no fact said."""

    gpus: tuple[Gpu, ...]
    ports: tuple[Port, ...]
    board: Board | None
    nvlink_gbs: float
    numa: tuple[int, ...]
    gpudirect: bool
    unread: tuple[str, ...]


def pcie_gbs(speed: float, width: int) -> float | None:
    """GB/s of payload in each direction; None for a speed that no generation has."""
    coding = _CODING.get(speed)
    return None if coding is None else speed * width / 8 * coding[0] * _PACKET


def pcie_name(speed: float, width: int) -> str:
    return f"PCIe {_CODING[speed][1]} x{width}" if speed in _CODING else f"PCIe of {speed:g} GT/s x{width}"


def machine_of(facts: Mapping[str, Any], way: str = CAN, rails: Mapping[str, str] | None = None, gbps: float | None = None,
               *, gpudirect: bool = True) -> Machine:
    """``rails``: HCA to the rail's name, where an inventory says which take part (else every port that is up, the management's aside).

    ``gbps``: what the inventory expects of a rail, in place of what the port says.
    """
    unread: list[str] = []
    sliced = _sliced(facts)
    facts = {"gpus": rows(facts.get("gpus"))[:MOST], "hcas": rows(facts.get("hcas"))[:MOST], "netdevs": rows(facts.get("netdevs"))}
    numa = {_numa(row) for row in [*facts["gpus"], *facts["hcas"]]} or {0}
    gpus = [Gpu(str(row.get("pci")), str(row.get("name") or ""), _gpu_links(row, way, unread)) for row in facts["gpus"]]
    ports = [Port(name, row.get("pci_address"), rate, _links_up(row, way, name, unread)) for name, row, rate in _rails(facts, rails, gbps)]
    unread += [f"the rate of {port.name}" for port in ports if port.gbps == UNBOUNDED]
    names = {gpu.name for gpu in gpus}
    board = linked_board(names.pop()) if len(names) == 1 else None
    sliced = [gpu.pci for gpu in gpus if gpu.pci in sliced]
    if sliced:  # slices of a GPU have no peer access, over PCIe or NVLink (NVIDIA, MIG User Guide r580, 2025)
        board = None
        unread.insert(0, f"how slices of GPU {first_of(sliced, 2)} reach each other: MIG is on")
    elif gpus and board is None:
        named = all(gpu.name for gpu in gpus)
        unread.append("a GPU board that is not in the catalogue" if named else "the GPUs' names (is the driver loaded?)")
    nvlink = 0.0 if board is None else board.nvlink_gbs
    if way == RUNS and board is not None and nvlink:
        up = [len(row["nvlinks"]) for row in facts["gpus"] if isinstance(row.get("nvlinks"), list)]
        nvlink = nvlink * min(up) / board.nvlinks if up else nvlink
    return Machine(tuple(gpus), tuple(ports), board, nvlink, tuple(sorted(numa)), gpudirect, tuple(dict.fromkeys(unread)))


def _sliced(facts: Mapping[str, Any]) -> list[str]:
    """The PCI addresses of GPUs with MIG on."""
    health = mapping(mapping(facts.get("health")).get("gpu"))
    return [str(row.get("pci")) for row in rows(health.get("gpus")) if row.get("mig") == "Enabled"]


def _gpu_links(row: Mapping[str, Any], way: str, unread: list[str]) -> tuple[Link, ...]:
    board, name = linked_board(str(row.get("name") or "")), f"GPU {row.get('pci')}"
    if board is not None and board.c2c_gbs is not None:
        return (Link(str(row.get("pci")), f"{MEMORY} {_numa(row)}", board.c2c_gbs, f"NVLink-C2C of {name}"),)
    return _links_up(row, way, name, unread, slot=None if board is None else board.pcie)


def _numa(row: Mapping[str, Any]) -> int:
    number = row.get("numa_node")
    return number if isinstance(number, int) and number > 0 else 0


def _rails(facts: Mapping[str, Any], rails: Mapping[str, str] | None, gbps: float | None) -> Iterable[tuple[str, Mapping[str, Any], float]]:
    managing = {item.get("name") for item in facts["netdevs"] if item.get("management")}
    for hca in facts["hcas"]:
        name = str(hca.get("name"))
        if rails is not None and name not in rails:
            continue
        for port in rows(hca.get("ports")):
            if rails is None and (port.get("state") != "ACTIVE" or port.get("netdev") in managing):
                continue
            rate = gbps if gbps is not None else UNBOUNDED if hca.get("driver") in SAYS_ANY_RATE else port.get("rate_gbps")
            if rate and rate > 0:
                yield (name if rails is None else rails[name]), hca, float(rate)
                if rails is not None:
                    break


def _links_up(
    row: Mapping[str, Any], way: str, name: str, unread: list[str], slot: tuple[float, int] | None = None
) -> tuple[Link, ...]:
    """The links between a function and its NUMA node's memory; ``slot``: of a GPU's board, where its own link cannot be read."""
    found, links = [], rows((row.get("link") or {}).get("links"))
    memory = f"{MEMORY} {_numa(row)}"
    if not links and slot is not None:
        links = [{"device": row.get("pci")}]
    for at, link in enumerate(links):
        above = str(links[at + 1].get("device")) if at + 1 < len(links) else memory
        what = name if at == 0 else "the switch above %s" % name
        speed, width = _trained(link, way, idles=slot is not None and at == 0)
        if at == 0 and slot is not None:
            speed, width = speed or slot[0], width or slot[1]
        gbs = None if speed is None or width is None else pcie_gbs(speed, width)
        if gbs is None or speed is None or width is None:
            unread.append(f"the PCIe link of {what}")
            found.append(Link(str(link.get("device")), above, UNBOUNDED, f"the PCIe link of {what}"))
        else:
            found.append(Link(str(link.get("device")), above, gbs, f"{pcie_name(speed, width)} of {what}"))
    return tuple(found)


def _trained(link: Mapping[str, Any], way: str, *, idles: bool) -> tuple[float | None, int | None]:
    """GT/s and lanes."""
    best = link.get("best_speed_gts"), link.get("best_width")
    now = link.get("speed_gts"), link.get("width")
    if way == CAN:
        return best[0] or now[0], best[1] or now[1]
    return (best[0] or now[0]) if idles else (now[0] or best[0]), now[1] or best[1]


def network_gbs(machine: Machine) -> tuple[float, str]:
    """(GB/s that all GPUs together can send and receive over the rails at once, what limits it). 0 without a rail."""
    links = [Link(_IN, port.links[0].one if port.links else port.name, port.gbps / 8, f"{port.name} of {port.gbps:g} Gb/s")
             for port in machine.ports]
    if machine.gpudirect:
        links += _unique([*(port.links for port in machine.ports), *(gpu.links for gpu in machine.gpus)])
        links += _sockets(machine, "")
    else:  # every block lies in host memory in between: a link that both halves of its way need has half its rate for each
        below_ports = {(link.one, link.other) for port in machine.ports for link in port.links}
        below_gpus = {(link.one, link.other) for gpu in machine.gpus for link in gpu.links}
        shared = below_ports & below_gpus
        links += _unique([_halved(port.links, shared, "") for port in machine.ports])
        links += _unique([_halved(gpu.links, shared, "'") for gpu in machine.gpus])
        links += _sockets(machine, "") + _sockets(machine, "'")
        links += [Link(f"{MEMORY} {at}", f"{MEMORY} {at}'", UNBOUNDED) for at in machine.numa]
    mark = "" if machine.gpudirect else "'"
    links += [Link((gpu.links[0].one if gpu.links else gpu.pci) + mark, _OUT, UNBOUNDED) for gpu in machine.gpus]
    links += [Link(port.name, f"{MEMORY} {machine.numa[0]}", UNBOUNDED) for port in machine.ports if not port.links]
    links += [Link(gpu.pci + mark, f"{MEMORY} {machine.numa[0]}{mark}", UNBOUNDED) for gpu in machine.gpus if not gpu.links]
    found, limits = max_flow(links, _IN, _OUT)
    return found, limit_text(limits, "" if machine.gpudirect else ", twice through host memory (no GPUDirect RDMA)")


def _halved(links: Sequence[Link], shared: set[tuple[str, str]], mark: str) -> tuple[Link, ...]:
    return tuple(Link(link.one + mark, link.other + mark, link.gbs / 2 if (link.one, link.other) in shared else link.gbs, link.what)
                 for link in links)


def _unique(chains: Iterable[Sequence[Link]]) -> list[Link]:
    """Each link once: devices of one switch have its uplink in common."""
    return list({(link.one, link.other): link for chain in chains for link in chain}.values())


def _sockets(machine: Machine, mark: str) -> list[Link]:
    return [Link(f"{MEMORY} {one}{mark}", f"{MEMORY} {other}{mark}", SOCKETS_GBS if len(machine.numa) == 2 else UNBOUNDED, SOCKETS)
            for one, other in itertools.pairwise(machine.numa)]


def limit_text(limits: Sequence[Link], more: str = "") -> str:
    """``8 NICs of 400 Gb/s``, ``PCIe 4.0 x8 of rail2``, ``PCIe 5.0 x16 of GPU 0000:17:00.0 and 4 more``."""
    names = list(dict.fromkeys(link.what for link in limits if link.what))
    nics = [name for name in names if name.endswith(" Gb/s")]
    if len(nics) > 1 and len({name.partition(" of ")[2] for name in nics}) == 1:
        names = [f"{len(nics)} NICs of {nics[0].partition(' of ')[2]}", *(name for name in names if name not in nics)]
    kinds = grouped((name.partition(" of ")[0], name) for name in names)
    return ", ".join(same[0] + (f" and {len(same) - 1} more" if len(same) > 1 else "") for same in kinds.values()) + more


def gpu_pcie_gbs(machine: Machine) -> tuple[float, str]:
    """(The narrowest link between a GPU and host memory, what it is), of what GPUs without NVLink pass their blocks over."""
    links = [link for gpu in machine.gpus for link in gpu.links]
    least = min(links, key=lambda link: link.gbs, default=Link("", "", UNBOUNDED, ""))
    return least.gbs, least.what


def host_memory_gbs(machine: Machine) -> tuple[float, str]:
    """(What each GPU can write to host memory while it reads as much from it, what limits it), all GPUs at once."""
    return min(((same[0].gbs / len(same), same[0].what) for same in _below(machine).values()), default=(UNBOUNDED, ""))


def _below(machine: Machine) -> dict[tuple[str, str], list[Link]]:
    """PCIe link -> itself, once for each GPU below it."""
    return grouped(((link.one, link.other), link) for gpu in machine.gpus for link in gpu.links)


def cut_gbs(machine: Machine) -> tuple[float, str]:
    """(busbw of an alltoall over PCIe, what limits it): each link has to pass what the GPUs below it send to all others."""
    found, total = [(UNBOUNDED, "")], len(machine.gpus)
    for same in _below(machine).values():
        others = total - len(same)
        if others:
            found.append((same[0].gbs * (total - 1) / (len(same) * others), same[0].what))
    return min(found)
