# SPDX-License-Identifier: GPL-3.0-or-later
"""What a collective can reach on a machine and between several of its like, and which part limits it; ``railwright explain speed`` says
both of a node. Pure. docs/speed.md explains it.

busbw in GB/s of large messages. Ring, tree and NVLS move different amounts over the same links, so each has its own ceiling; where NCCL
chooses, the highest holds. What is between nodes is taken to carry what the NICs carry: an oversubscribed fabric is slower.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.boards import RACK, SWITCH

from .machine import CAN, RUNS, SOCKETS, SOCKETS_GBS, UNBOUNDED, Machine, cut_gbs, gpu_pcie_gbs, host_memory_gbs, machine_of, network_gbs

JUDGED_FROM = 1 << 30  # bytes: below 1 GiB latency decides (NVIDIA/nccl-tests issue 212, 2024: 256 MiB are too small for the peak)
# CUDA capability -> bytes from which on a board is on its plateau, where that is later. NVLink 5 at 1 GiB: 681 to 724 of the 847 GB/s that
# are reached at 8 GiB, 839 at 4 GiB (coreweave/nccl-tests pull request 43, February 2025; 652 GB/s at 256 MiB of B300, uccl, 2025).
PLATEAU = {10.3: 4 << 30}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast")
RING, TREE, NVLS, NVLS_TREE, DIRECT = "Ring", "Tree", "NVLS", "NVLSTree", "direct"
# NVIDIA/nccl 5067397c, src/graph/tuning.cc. NVLS: Hopper's factor, for Blackwell too: B200 reach more than its own (0.74) says.
NVLS_EFFICIENCY = 0.85
TREE_EFFICIENCY = 0.92
# GB/s of a tree's channel over two nodes, and over more (perChMaxTreeBws), by CUDA capability: the GPU's own pace. A NIC has a channel,
# one of 400 Gb/s two (src/graph/search.cc, ncclTopoDupChannels).
TREE_CHANNEL_GBS = {7: (18.5, 10.0), 8: (23.6, 17.8), 9: (41.4, 36.0), 10: (42.8, 24.0)}
# What the node with the most neighbours sends between nodes in a double binary tree, in halves of the data; a ring sends 4. On two nodes
# each has one neighbour in each tree, on three one has two and one, on four and more one has three and one.
TREE_HALVES = {2: 2, 3: 3}
RING_HALVES = 4
# GPUs that read and write each other's memory over PCIe: RTX 4090 get 24.74 of the 28.8 GB/s that a 4.0 x16 carries (all_reduce,
# tinygrad/open-gpu-kernel-modules issue 17, October 2024). NCCL reckons with 12 of 14.4 (src/graph/topo.h, PCI_BW).
PCIE_COPY = 24.8 / 28.8
FIRST_WITH_NVLS = 9.0


class Ceiling(NamedTuple):
    """``gbs``: busbw, None where nothing bounds it that was read; ``limit``: the part that does."""

    collective: str
    nodes: int
    gbs: float | None
    algorithm: str
    limit: str

    @property
    def text(self) -> str:
        where = "within a node" if self.nodes == 1 else f"over {self.nodes} nodes"
        found = "unknown" if self.gbs is None else f"{self.gbs:.0f} GB/s"
        return f"{self.collective} {where}: {found}, limited by {self.limit}"


def ceiling(machine: Machine, collective: str, nodes: int = 1, algorithm: str | None = None) -> Ceiling:
    """``algorithm``: the one that is forced, None where NCCL chooses."""
    why = _not_modelled(machine, nodes)
    if why:
        return Ceiling(collective, nodes, None, "", why)
    found = _of_algorithms(machine, collective, nodes)
    if algorithm is not None:
        found = [row for row in found if row[1].lower() == algorithm.lower() or row[1] == DIRECT]
        if not found:
            return Ceiling(collective, nodes, None, algorithm, f"{algorithm} does no {collective} here")
    gbs, name, limit = max(found, key=lambda row: row[0])
    if gbs == UNBOUNDED:
        return Ceiling(collective, nodes, None, name, "unread: " + ", ".join(machine.unread[:3]))
    return Ceiling(collective, nodes, round(gbs, 2), name, limit)


def _not_modelled(machine: Machine, nodes: int) -> str:
    """Return why no collective has a ceiling on these nodes, empty where one may."""
    if not machine.gpus:
        return "there is no GPU"
    if machine.board is None:
        return "unread: " + ", ".join(machine.unread[:3])
    if len(machine.gpus) * nodes == 1:
        return "one GPU has nobody to talk to"
    if nodes > 1 and machine.board.nvlink == RACK:
        return "unread: which nodes of the rack it reaches over NVLink"
    if nodes > 1 and not machine.ports:
        return "no rail: no HCA has a port that is up"
    if nodes > 1 and any(port.gbps == UNBOUNDED for port in machine.ports):
        return f"the rate of {machine.ports[0].name} is not known"
    return ""


def judged_from(machine: Machine) -> int:
    """Return the bytes of a message from which on its busbw is held against a floor."""
    return JUDGED_FROM if machine.board is None else PLATEAU.get(machine.board.capability, JUDGED_FROM)


def over_host_memory(machine: Machine) -> Ceiling:
    """all_reduce within a node whose GPUs do not reach each other's memory (NCCL's SHM): each block is written there and read again. Over
    sockets blocks pass host memory too, and processors copy them in between, which is slower by far and not modelled.
    """
    gbs, limit = host_memory_gbs(machine) if len(machine.gpus) > 1 else (UNBOUNDED, "one GPU has nobody to talk to")
    return Ceiling("all_reduce", 1, None if gbs == UNBOUNDED else round(gbs * PCIE_COPY, 2), RING, limit)


def _of_algorithms(machine: Machine, collective: str, nodes: int) -> list[tuple[float, str, str]]:
    if collective in ("alltoall", "sendrecv"):
        gbs, limit = _alltoall(machine, nodes) if collective == "alltoall" else _sendrecv(machine, nodes)
        return [(gbs, DIRECT, limit)]
    found = [(*_ring(machine, nodes), RING)]
    if collective == "all_reduce":
        found += _trees(machine, nodes)
    return [(gbs, name, limit) for gbs, limit, name in found]


def _within(machine: Machine) -> tuple[float, str]:
    """(What a GPU can send to its neighbour of the node while it receives as much, over what)."""
    board, count = machine.board, len(machine.gpus)
    pcie, part = gpu_pcie_gbs(machine)
    over_pcie = min((pcie * PCIE_COPY, part), (SOCKETS_GBS if len(machine.numa) == 2 else UNBOUNDED, SOCKETS))
    if board is None or not machine.nvlink_gbs:
        return over_pcie
    nvlink = machine.nvlink_gbs, f"NVLink ({board.nvlinks} links a GPU{'' if machine.nvlink_gbs == board.nvlink_gbs else ', fewer are up'})"
    if board.nvlink != "bridge" or count == 2:
        return nvlink
    # Pairs: a GPU has its partner on one side and PCIe on the other, so that two rings of opposite ways share it.
    return 2 * over_pcie[0], f"{part}, between pairs that NVLink joins"


def _ring(machine: Machine, nodes: int) -> tuple[float, str]:
    """Every GPU sends and receives each block once a turn, over one of its links."""
    count = len(machine.gpus)
    inside = _within(machine) if count > 1 else (UNBOUNDED, "")
    if nodes == 1:
        return inside
    if machine.nvlink_gbs:  # of what a GPU receives, its NIC brings its share
        inside = inside[0] * count / max(count - 1, 1), inside[1]
    return min(network_gbs(machine), inside)


def _trees(machine: Machine, nodes: int) -> list[tuple[float, str, str]]:
    """(GB/s, limit, name). All data go up a tree and down again."""
    count = len(machine.gpus)
    ranks = count * nodes
    busbw = 2 * (ranks - 1) / ranks  # of all data passed once
    inside, part = _within(machine)
    nvls = UNBOUNDED
    if machine.board is not None and machine.board.capability >= FIRST_WITH_NVLS and machine.board.nvlink in (SWITCH, RACK) and count > 1:
        # The switches add up and hand out: all data pass a GPU's links once each way, and its own share twice.
        nvls = machine.nvlink_gbs * NVLS_EFFICIENCY * busbw / (1 + 1 / count)
    in_switches = f"{part}, added up in the switches"
    if nodes == 1:
        return [(nvls, in_switches, NVLS)] if nvls != UNBOUNDED else []
    network, limit = network_gbs(machine)
    network *= busbw / 2 * RING_HALVES / TREE_HALVES.get(nodes, RING_HALVES)
    chain = inside * busbw / 2 * TREE_EFFICIENCY if count > 1 else UNBOUNDED  # GPUs of a node pass data up and down one after the other
    found = [(*min((network, limit), (chain, part), _channels(machine, nodes)), TREE)]
    if nvls != UNBOUNDED:
        found.append((*min((network, limit), (nvls, in_switches)), NVLS_TREE))
    return found


def _channels(machine: Machine, nodes: int) -> tuple[float, str]:
    board = machine.board
    pace = TREE_CHANNEL_GBS.get(int(board.capability)) if board is not None else None
    if pace is None:
        return UNBOUNDED, ""
    count = sum(2 if port.gbps >= 400 else 1 for port in machine.ports)
    return count * pace[nodes > 2], f"the GPUs' pace in {count} channels of a tree"


def _alltoall(machine: Machine, nodes: int) -> tuple[float, str]:
    count = len(machine.gpus)
    ranks = count * nodes
    inside: tuple[float, str] = (UNBOUNDED, "")
    if count > 1:
        gbs, limit = _within(machine)
        if not machine.nvlink_gbs or (machine.board is not None and machine.board.nvlink == "bridge" and count > 2):
            gbs, limit = min((gbs, limit), cut_gbs(machine))
        inside = gbs * (ranks - 1) / (count - 1), limit
    if nodes == 1:
        return inside
    network, limit = network_gbs(machine)
    return min(inside, (network * (ranks - 1) / (count * (ranks - count)), limit))


def _sendrecv(machine: Machine, nodes: int) -> tuple[float, str]:
    """Each rank sends to the next: between nodes over the NICs of one GPU, which are those that are its share."""
    inside = _within(machine) if len(machine.gpus) > 1 else (UNBOUNDED, "")
    if nodes == 1:
        return inside
    share = max(1, len(machine.ports) // len(machine.gpus))
    own = share * max(port.gbps for port in machine.ports) / 8
    links = [(link.gbs, link.what) for gpu in machine.gpus[:1] for link in gpu.links]
    return min(inside, network_gbs(machine), (own, f"{share} NIC{'s' if share > 1 else ''} of a GPU"), *links)


def perftest_gbps(machine: Machine, port: str, *, gpu: bool) -> tuple[float | None, str]:
    """(Gb/s that ib_write_bw of one port can reach with host memory, or with that of the best placed GPU; what limits it)."""
    alone = machine._replace(ports=tuple(item for item in machine.ports if item.name == port), gpudirect=True)
    if not alone.ports:
        return None, f"no port {port} is up"
    if alone.ports[0].gbps == UNBOUNDED:
        return None, "its rate is not known"
    if gpu:
        if not machine.gpus:
            return None, "there is no GPU"
        found, limit = max(((network_gbs(alone._replace(gpus=(item,)))) for item in machine.gpus), key=lambda row: row[0])
    else:
        own = alone.ports[0]
        found, limit = min([(own.gbps / 8, f"{own.name} of {own.gbps:g} Gb/s"), *((link.gbs, link.what) for link in own.links)])
    return (None if found == UNBOUNDED else round(found * 8, 1)), limit


def explain_speed(facts: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """``rows``: each collective within the node, over two and over ``nodes``; ``runs``: as it is, where that is slower than it can be."""
    can, runs = machine_of(facts, CAN), machine_of(facts, RUNS)
    counts = sorted({1, 2, nodes})
    host = can._replace(gpudirect=False)
    return {
        "gpus": len(can.gpus), "board": can.gpus[0].name if can.gpus else None, "nvlink_gbs": can.nvlink_gbs or None,
        "rails": [{"name": port.name, "gbps": port.gbps if port.gbps != UNBOUNDED else None} for port in can.ports],
        "unread": list(can.unread),
        "rows": [_row(can, runs, name, count) for name in COLLECTIVES for count in counts],
        "without_gpudirect": _row(host, runs._replace(gpudirect=False), "all_reduce", nodes) if can.ports and can.gpus else None,
        "over_host_memory": _figure(over_host_memory(can)) if len(can.gpus) > 1 else None,
        "perftest": [_perftest(can, runs, port.name, gpu=gpu) for port in can.ports for gpu in (False, True) if can.gpus or not gpu],
    }


def _row(can: Machine, runs: Machine, name: str, nodes: int) -> dict[str, Any]:
    best, now = ceiling(can, name, nodes), ceiling(runs, name, nodes)
    slower = now.gbs is not None and (best.gbs is None or now.gbs < best.gbs)
    return {"collective": name, "nodes": nodes, **_figure(best), "runs": _figure(now) if slower else None}


def _figure(found: Ceiling) -> dict[str, Any]:
    return {"gbs": found.gbs, "algorithm": found.algorithm or None, "limit": found.limit}


def _perftest(can: Machine, runs: Machine, port: str, *, gpu: bool) -> dict[str, Any]:
    (best, limit), (now, why) = perftest_gbps(can, port, gpu=gpu), perftest_gbps(runs, port, gpu=gpu)
    slower = now is not None and best is not None and now < best
    return {"rail": port, "memory": "GPU" if gpu else "host", "gbps": best, "limit": limit,
            "runs": {"gbps": now, "limit": why} if slower else None}
