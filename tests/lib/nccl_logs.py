# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs of a job of two nodes with two GPUs each, in the words of NCCL's versions. The lines are written by the format strings of NCCL's
tags (src/init.cc, src/debug.cc, src/transport/net.cc, net_ib.cc, net_socket.cc, p2p.cc, shm.cc); none is a recording.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Style(NamedTuple):
    """Format strings of a version. ``a`` and ``b``: ranks, ``x`` and ``y``: their GPUs, ``r``: the rank itself."""

    net: str
    inside: str  # between GPUs of a node
    setup: str
    using: bool  # whether the network is announced
    nodes: bool  # whether NCCL counts nodes
    way: str  # how a connection inside a node is labelled


BUS = ("1b000", "3d000")
NEW = "Channel {c:02d}/0 : {a}[{x}] -> {b}[{y}] "
ID = "cudaDev {x} nvmlDev {x} busId {bx} commId 0x1c2d"
STYLES = {
    "2.4.8": Style("Ring {c:02d} : {a} -> {b} [{way}] via NET/{net}/{dev}{gdr}",
                   "Ring {c:02d} : {a}[{x}] -> {b}[{y}] via direct shared memory",
                   "comm 0x7f3c rank {r} nranks 4 cudaDev {x} nvmlDev {x} - Init COMPLETE", False, False, "SHM"),
    "2.10.3": Style("Channel {c:02d} : {a}[{bx}] -> {b}[{by}] [{way}] via NET/{net}/{dev}{gdr}",
                    "Channel {c:02d} : {a}[{bx}] -> {b}[{by}] via P2P/IPC/read",
                    "comm 0x7f3c rank {r} nranks 4 cudaDev {x} busId {bx} - Init COMPLETE", True, False, "P2P"),
    "2.18.6": Style(NEW + "[{way}] via NET/{net}/{dev}{gdr}", NEW + "via P2P/direct pointer",
                    "comm 0x7f3c rank {r} nranks 4 " + ID + " - Init COMPLETE", True, False, "P2P"),
    "2.21.5": Style(NEW + "[{way}] via NET/{net}/{dev}{gdr}/Shared", "Channel {c:02d} : {a}[{x}] -> {b}[{y}] via SHM/direct/CE",
                    "ncclCommInitRank comm 0x7f3c rank {r} nranks 4 " + ID + " - Init COMPLETE", True, True, "SHM"),
    "2.27.7": Style(NEW + "[{way}] via NET/{net}/{dev}{gdr}", NEW + "via P2P/CUMEM/CE",
                    "ncclCommInitRankConfig comm 0x7f3c rank {r} nranks 4 " + ID + " - Init COMPLETE", True, True, "P2P"),
    "2.30.7": Style(NEW + "[{way}] via NET/{net}/{dev}{proxy}{gdr}", "Channel {c:02d} : {a}[{x}] -> {b}[{y}] via SHM/direct",
                    "ncclCommInitRank comm 0x7f3c rank {r} nranks 4 " + ID + " - Init COMPLETE", True, True, "SHM"),
}
WITHOUT_END = ("2.4.8", "2.10.3")  # they write nothing when a communicator is destroyed
GDR = {"2.27.7": "/GDRDMA(PCI)"}
DEVICES = {
    "2.4.8": " [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE ; OOB eth0:192.0.2.1<0>",
    "2.10.3": " [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE ; OOB eth0:192.0.2.1<0>",
    "2.21.5": " [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [2]mlx5_2:1/RoCE [RO]; OOB eth0:192.0.2.1<0>",
    "2.30.7": " [0]mlx5_0:1:0:1/RoCE [1]mlx5_1:1::2/RoCE [RO]; OOB eth0:192.0.2.1<0>",
}
RING = ((0, 1), (1, 2), (2, 3), (3, 0))


def rank(version: str, number: int, *, net: str = "IB", gdr: bool = True, devices: bool = True, time: str = "") -> str:
    """What one rank writes."""
    return "".join(f"{time}n{number // 2 + 1}:{100 + number}:{200 + number} [{number % 2}] NCCL INFO {line}\n"
                   for line in _lines(version, number, net, gdr, devices))


def job(version: str, *, net: str = "IB", gdr: bool = True, devices: bool = True, ranks: Sequence[int] = range(4), time: str = "") -> str:
    """What all of them write, one behind the other; the version's line of the first rank has nothing before it."""
    first = f"NCCL version {version}+cuda12.4\n" if 0 in ranks else ""
    return first + "".join(rank(version, number, net=net, gdr=gdr, devices=devices, time=time) for number in ranks)


def _lines(version: str, own: int, net: str, gdr: bool, devices: bool) -> Iterator[str]:
    style = STYLES[version]
    yield f"Bootstrap : Using {'[0]' if version == '2.4.8' else ''}eth0:192.0.2.1<0>"
    yield f"NET/IB : Using{DEVICES.get(version, ' [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.1<0>')}" if devices else (
        "NET/IB : No device found.")
    if style.using:
        yield f"Using network {net}"
    if style.nodes:
        yield f"comm 0x7f3c rank {own} nRanks 4 nNodes 2 localRanks 2 localRank {own % 2} MNNVL 0"
    yield f"Trees [0] {own}/-1/-1->{own}->-1"
    for source, target in RING:
        far = source // 2 != target // 2
        if own == source or (far and own == target):  # the receiver writes a line of its own where it is on another node
            where = {"c": 0, "a": source, "b": target, "x": source % 2, "y": target % 2, "bx": BUS[source % 2], "by": BUS[target % 2]}
            way = "send" if own == source else "receive"
            words = {"way": way, "net": net, "dev": 0, "proxy": f"({own ^ 1})" if way == "send" else "",
                     "gdr": GDR.get(version, "/GDRDMA") if gdr else ""}
            yield (style.net if far else style.inside).format(**where, **words)
    yield "Connected all rings"
    yield style.setup.format(r=own, x=own % 2, bx=BUS[own % 2])
    if version not in WITHOUT_END:
        yield f"comm 0x7f3c rank {own} nranks 4 cudaDev {own % 2} busId {BUS[own % 2]} - Destroy COMPLETE"
