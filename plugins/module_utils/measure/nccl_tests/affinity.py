# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether each GPU's data left over an HCA that is near it: NCCL's log against the PCI tree. Pure.

A far HCA is reached through the CPU, at a part of the speed. Two cases look far and are sound. NCCL may hand data to the GPU
beside another HCA over NVLink (PXN: "via NET/IB/2(5)", the 5 is the rank whose GPU that is): such a connection is judged by that GPU.
And where NCCL uses fewer HCAs than the node has (NCCL_IB_HCA, a port that is down), the nearest of those that it lists counts.
"""

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ...observe.affinity import differences, nearest
from ...rules.comparisons import VerdictSubject, verdict
from ...types import Verdict
from .transport import Channel, network

_COMM = re.compile(  # the same words since NCCL 2.8; before 2.23 without the function's name
    r"^(?P<host>[^\s:]+):\d+:\d+ (?:\[[-\d]+\] )?NCCL INFO (?:[^\n]* )?comm 0x[0-9a-f]+ rank (?P<rank>\d{1,18}) nranks \d+ cudaDev -?\d+ "
    r"(?:nvmlDev -?\d+ )?busId (?P<bus>[0-9a-f]{1,16})\b", re.MULTILINE)
_DEVICE = re.compile(  # nccl-tests' own list: [0000:1b:00], up to 2.14 [0x1b]
    r"#\s+Rank +(?P<rank>\d{1,18}) (?:Group +\d+ )?Pid +\d+ on +(?P<host>\S+) device +\d+ "
    r"\[(?:0x(?P<old>[0-9a-f]{2})|(?P<domain>[0-9a-f]{4,8}):(?P<bus>[0-9a-f]{2}):(?P<slot>[0-9a-f]{2}))\]")

Seat = Tuple[str, str]  # host as NCCL names it, PCI address of the GPU
Port = Tuple[str, int]  # HCA and port


class _Use(NamedTuple):
    """One connection over an HCA: of which GPU, over which device, and the GPU that touches the HCA."""

    rank: int
    gpu: str
    hcas: Tuple[Port, ...]
    by: str


def gpus_of_ranks(text: str) -> Dict[int, Seat]:
    """rank -> (host, GPU), from NCCL's log, else from the list that nccl-tests prints.

    A rank with two answers (communicators that number differently) has none.
    """
    found: Dict[int, Set[Seat]] = {}
    for line in _COMM.finditer(text):
        found.setdefault(int(line.group("rank")), set()).add((line.group("host"), _address(int(line.group("bus"), 16))))
    if not found:
        for line in _DEVICE.finditer(text):
            address = "0000:%s:00.0" % line.group("old") if line.group("old") else "%s:%s:%s.0" % (
                line.group("domain")[-4:], line.group("bus"), line.group("slot"))
            found.setdefault(int(line.group("rank")), set()).add((line.group("host"), address))
    return {rank: next(iter(seats)) for rank, seats in sorted(found.items()) if len(seats) == 1}


def _address(number: int) -> str:
    """NCCL writes a PCI address as one number: its hexadecimal digits without colons and dot."""
    return "%04x:%02x:%02x.%x" % (number >> 20, number >> 12 & 0xff, number >> 4 & 0xff, number & 0xf)


def judge_near(
    parsed_log: Mapping[str, Any], affinity_by_host: Mapping[str, Sequence[Mapping[str, Any]]], gpus_by_rank: Mapping[int, Seat]
) -> List[Verdict]:
    """One verdict a node: ``nccl.near``.

    ``parsed_log``: ``transport.parse_log``; ``affinity_by_host``: rows of ``affinity()`` by the node's name (NCCL cuts it at the
    first dot); ``gpus_by_rank``: ``gpus_of_ranks``. fail: a GPU used far HCAs only; warn: near and far ones.
    """
    return [_judge_node(node, affinity_by_host[node], parsed_log, gpus_by_rank) for node in sorted(affinity_by_host)]


def _judge_node(node: str, rows: Sequence[Mapping[str, Any]], parsed: Mapping[str, Any], gpus: Mapping[int, Seat]) -> Verdict:
    where = VerdictSubject(node, None, None, "GPUs and HCAs of %s" % node)
    host = node.partition(".")[0]
    channels = [item for item in parsed["channels"] if item.host == host and item.kind == "NET" and network(item.network or "").rdma]
    if not channels:
        return verdict("nccl.near", where, "skipped", None, None, "no connection of this node went over an HCA")
    uses = [_use(channel, parsed["devices"].get(host, {}), gpus) for channel in channels]
    listed = {port for device in parsed["devices"].get(host, {}).values() for port in _ports(device)}
    classes = {(row["gpu"], (row["hca"], row["port"])): row["path"] for row in rows if row["path"] is not None}
    known = [use for use in uses if use is not None and any((use.by, port) in classes for port in use.hcas)]
    if len(known) < len(uses):
        return verdict("nccl.near", where, "unknown", None, None, "%d of %d connections: the log or the PCI tree does not tell %s" % (
            len(uses) - len(known), len(uses), "which GPU or HCA it was"))
    return _verdict(where, known, classes, listed)


def _use(channel: Channel, devices: Mapping[int, Mapping[str, Any]], gpus: Mapping[int, Seat]) -> Optional[_Use]:
    rank = channel.target if channel.way == "receive" else channel.source
    device = devices.get(channel.device) if channel.device is not None else None
    if rank is None or channel.way is None or device is None:
        return None
    mine, by = gpus.get(rank), gpus.get(channel.proxy if channel.proxy is not None else rank)
    if mine is None or by is None or mine[0] != channel.host or by[0] != channel.host:
        return None
    return _Use(rank, mine[1], _ports(device), by[1])


def _ports(device: Mapping[str, Any]) -> Tuple[Port, ...]:
    """A merged device stands for several HCAs; mlx5_0_dma is mlx5_0 through its second way to the GPU (Data Direct)."""
    names = [name[:-4] if name.endswith("_dma") else name for name in device["hca"].split("+")]
    return tuple((name, device["port"]) for name in names)


def _verdict(where: VerdictSubject, uses: Sequence[_Use], classes: Mapping[Tuple[str, Port], str], listed: Set[Port]) -> Verdict:
    expected: Dict[str, List[str]] = {}
    found: Dict[str, List[str]] = {}
    near: Dict[str, Set[bool]] = {}
    far: List[str] = []
    for use in uses:
        choice = {port: path for (gpu, port), path in classes.items() if gpu == use.by and port in listed}
        best = nearest(choice.values())
        expected[use.by] = sorted("%s:%d" % port for port, path in choice.items() if path == best)
        name = "+".join("%s:%d" % port for port in use.hcas) + (" by %s" % use.by if use.by != use.gpu else "")
        if name not in found.setdefault(use.gpu, []):
            found[use.gpu].append(name)
        path = nearest(classes.get((use.by, port)) for port in use.hcas)
        near.setdefault(use.gpu, set()).add(path == best)
        line = "%s uses %s (%s), %s is nearer (%s)" % (use.gpu, name, path, " or ".join(expected[use.by]), best)
        if path != best and line not in far:
            far.append(line)
    if not far:
        return verdict("nccl.near", where, "pass", expected, found, "each of %d GPUs used the HCA next to it" % len(found))
    status = "fail" if any(True not in answers for answers in near.values()) else "warn"
    return verdict("nccl.near", where, status, expected, found, "; ".join(far[:4]) + (" and %d more" % (len(far) - 4) if far[4:] else ""))


def judge_topology(node: str, rows: Sequence[Mapping[str, Any]], matrix: Optional[Mapping[Tuple[int, str], str]]) -> List[Verdict]:
    """``topology.agrees``: the driver's own tool against sysfs; nothing where that tool is not there (``matrix`` None)."""
    if matrix is None or not rows:
        return []
    where = VerdictSubject(node, None, None, "PCI topology of %s" % node)
    order = sorted({row["gpu"] for row in rows})
    compared = [row for row in rows if (order.index(row["gpu"]), row["hca"]) in matrix]
    if not compared:
        return [verdict("topology.agrees", where, "unknown", len(rows), 0, "nvidia-smi topo -m names none of this node's HCAs")]
    differing = differences(rows, matrix)
    if not differing:
        return [verdict("topology.agrees", where, "pass", len(compared), len(compared), "nvidia-smi topo -m says the same")]
    words = ["%s to %s is %s, nvidia-smi says %s" % item for item in differing[:4]]
    return [verdict("topology.agrees", where, "warn", [list(item[:2]) + [item[3]] for item in differing],
                    [list(item[:3]) for item in differing], "; ".join(words) + (" and more" if differing[4:] else ""))]
