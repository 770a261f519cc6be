# SPDX-License-Identifier: GPL-3.0-or-later
"""Which way the data went, from NCCL's own log (NCCL_DEBUG=INFO, subsystems INIT and NET at least). Pure.

A bandwidth says how fast; only the log says over what. Lines of NCCL 2.30.7 (src/init.cc, src/transport/*.cc,
src/transport/net_ib/init.cc); older ones differ in details that the patterns leave open. Channels are set up when
the first collective runs, so a log without channel lines proves nothing.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

_NETWORK = re.compile(r"\bUsing network (\S.*)")
_CHANNEL = re.compile(
    r"^(?P<host>[^\s:]+):(?P<pid>\d{1,18}):\d+ (?:\[[-\d]+\] )?NCCL INFO (?:CollNet |Channel )(?P<channel>\d{1,18})(?:/[\d-]+)? ?: ?"
    r"(?P<source>\d{1,18})\[[0-9a-fx]+\] (?:-> (?P<target>\d{1,18})\[[0-9a-fx]+\] )?(?:\[(?P<way>send|receive)\] )?"
    r"via (?P<via>\S.*)$", re.MULTILINE)
_DEVICES = re.compile(r"^(?P<host>[^\s:]+):\d+:\d+ (?:\[[-\d]+\] )?NCCL INFO NET/IB ?: Using (?P<list>.*?)(?:; OOB [^\n]*)?$", re.MULTILINE)
_DEVICE = re.compile(r"\[(\d{1,9})\]([^\s:\[\]]+):(\d{1,9})(?!\d)[^\s\[]*/(IB|RoCE|EFA)\b")
_NO_DEVICE = re.compile(r"NET/IB ?: No device found")
_GDR_OFF = re.compile(r"NET/[^\n:/]* : GPU Direct RDMA Disabled for HCA \d+ '([^'\n]+)'")
_VIA = re.compile(r"(?P<kind>NET|P2P|SHM|COLLNET)(?:/(?P<rest>.*))?\Z")
_MERGED = re.compile(r"^(?P<host>[^\s:]+):\d+:\d+ (?:\[[-\d]+\] )?NCCL INFO NET/IB ?: Made virtual device \[(?P<index>\d{1,18})\] "
                     r"name=(?P<name>[^\s+]+\+\S+)", re.MULTILINE)  # ports or HCAs that NCCL uses as one (NCCL_NET_MERGE_LEVEL)
_NET_INDEX = re.compile(r"/(\d{1,18})(?:\((\d{1,18})\))?(?=/|\(|\Z)")

# Since 2.22 (src/init.cc), from 2.23 on with the function's name. The phases' names differ between releases.
_INIT = re.compile(r"NCCL INFO Init timings(?: - \w{1,64})?: rank (\d{1,9}) nranks \d{1,9} total (\d{1,9}\.\d{1,6}) \(([^()\n]{1,400})\)")
_PHASE = re.compile(r"\b([a-z]{1,32}) (\d{1,9}\.\d{1,6})(?=[,;]|\Z)")
_WAITING = ("bootstrap", "allgathers")  # phases in which a rank waits for the others


class Network(NamedTuple):
    """A name that NCCL prints for a network: what it is, and who brings it. ``rdma`` None: not known."""

    pattern: str  # a regular expression, whole and without regard to case
    rdma: Optional[bool]
    what: str
    source: str


NETWORKS = (
    Network(r"IB", True, "NCCL's own InfiniBand and RoCE transport", "NCCL src/transport/net_ib"),
    Network(r"IBext(_v\d+)?", True, "NVIDIA's nccl-rdma-sharp-plugins (HPC-X)", "Mellanox/nccl-rdma-sharp-plugins"),
    Network(r"UCX(_v\d+)?", True, "NVIDIA's nccl-rdma-sharp-plugins over UCX", "Mellanox/nccl-rdma-sharp-plugins"),
    Network(r"(AWS )?Libfabric", True, "aws-ofi-nccl over EFA", "aws/aws-ofi-nccl"),
    Network(r"Socket", False, "TCP sockets, NCCL's last resort", "NCCL src/transport/net_socket.cc"),
)


def network(name: str) -> Network:
    """The row of a network's name; for one that nobody here has read about, a row that says so."""
    for row in NETWORKS:
        if re.fullmatch(row.pattern, name, re.IGNORECASE):
            return row
    return Network(re.escape(name), None, "a network that railwright does not know", "")


class Channel(NamedTuple):
    """One connection of one channel."""

    host: str
    source: int  # rank
    target: Optional[int]
    way: Optional[str]  # send or receive, of network connections
    kind: str  # NET, P2P, SHM, COLLNET
    network: Optional[str]  # of NET: IB, Socket …
    device: Optional[int]  # of NET: index into the host's list of devices
    gdr: bool  # the HCA reads and writes GPU memory itself
    proxy: Optional[int] = None  # the rank whose GPU hands it to the HCA (PXN), where that is not the sender's own


def parse_log(text: str) -> Dict[str, Any]:
    """``{"networks", "no_ib_device", "devices", "gdr_disabled", "channels"}``.

    ``networks``: every name that a rank announced; ``devices``: host -> index -> ``{hca, port, link}``, merged ones with a + in
    their name; ``gdr_disabled``: HCAs for which NCCL said so; ``channels``: one ``Channel`` a line.
    """
    devices: Dict[str, Dict[int, Dict[str, Any]]] = {}
    for found in _DEVICES.finditer(text):
        own = devices.setdefault(found.group("host"), {})
        for index, hca, port, link in _DEVICE.findall(found.group("list")):
            own[int(index)] = {"hca": hca, "port": int(port), "link": link}
    for found in _MERGED.finditer(text):
        own = devices.get(found.group("host"), {})
        parts = [own[index] for index in sorted(own) if own[index]["hca"] in found.group("name").split("+")]
        if parts:
            own.setdefault(int(found.group("index")), dict(parts[0], hca=found.group("name")))
    return {
        "networks": sorted({name.rstrip() for name in _NETWORK.findall(text)}),
        "no_ib_device": _NO_DEVICE.search(text) is not None,
        "devices": devices,
        "gdr_disabled": sorted(set(_GDR_OFF.findall(text))),
        "channels": [channel for channel in map(_channel, _CHANNEL.finditer(text)) if channel is not None],
    }


def init_seconds(text: str) -> Dict[int, Tuple[float, float]]:
    """How long each rank set up its communicator: in all, and without the phases in which it waits for others; of several the longest."""
    found: Dict[int, Tuple[float, float]] = {}
    for line in _INIT.finditer(text):
        rank, total = int(line.group(1)), float(line.group(2))
        waited = sum(float(seconds) for phase, seconds in _PHASE.findall(line.group(3)) if phase in _WAITING)
        found[rank] = max(found.get(rank, (0.0, 0.0)), (total, round(max(0.0, total - waited), 6)))
    return found


def _channel(found: Any) -> Optional[Channel]:
    via = _VIA.match(found.group("via").rstrip())
    if via is None:
        return None
    kind, rest = via.group("kind"), via.group("rest") or ""
    name: Optional[str] = None
    device: Optional[int] = None
    proxy: Optional[int] = None
    if kind == "NET":
        index = _NET_INDEX.search("/" + rest, 1)
        name = rest[:index.start() - 1] if index is not None else rest.partition("/")[0]
        device = int(index.group(1)) if index is not None else None
        proxy = int(index.group(2)) if index is not None and index.group(2) is not None else None
    target = found.group("target")
    return Channel(found.group("host"), int(found.group("source")), int(target) if target is not None else None, found.group("way"), kind,
                   name or None, device, "/GDRDMA" in rest, proxy)


def summary(parsed: Dict[str, Any]) -> Dict[str, Any]:
    """How many connections went which way, and which HCA each rank used: JSON, for reports.

    ``{"networks": [...], "connections": {"NET/IB/GDRDMA": 8, "P2P": 16 …}, "hcas": {rank: ["node1 mlx5_0:1" …]}}``. A rank's
    HCA is that of the connections on its own host: of those that it sends over, the source's; of those that it receives over, the target's.
    """
    connections: Dict[str, int] = {}
    hcas: Dict[int, List[str]] = {}
    for channel in parsed["channels"]:
        label = way_of(channel)
        connections[label] = connections.get(label, 0) + 1
        rank = channel.target if channel.way == "receive" else channel.source
        device = parsed["devices"].get(channel.host, {}).get(channel.device)
        if rank is not None and device is not None:
            name = "%s %s:%d" % (channel.host, device["hca"], device["port"])
            if name not in hcas.setdefault(rank, []):
                hcas[rank].append(name)
    return {"networks": parsed["networks"], "connections": {key: connections[key] for key in sorted(connections)},
            "hcas": {rank: sorted(hcas[rank]) for rank in sorted(hcas)}}


def way_of(channel: Channel) -> str:
    """P2P, SHM, NET/IB, NET/IB/GDRDMA, NET/Socket …"""
    if channel.kind != "NET":
        return channel.kind
    return "NET/%s%s" % (channel.network or "?", "/GDRDMA" if channel.gdr else "")


def judge(parsed: Dict[str, Any], promised: str, *, gdr: bool = True) -> Tuple[str, str, str]:
    """(status, found, message) for a run between nodes. ``promised``: roce, infiniband or erdma; ``gdr``: GPUDirect is promised too.

    fail: sockets, or a promise that was not kept; unknown: a network that nobody here has read about, or no channel line at all.
    """
    net = [channel for channel in parsed["channels"] if channel.kind == "NET"]
    ways = sorted({way_of(channel) for channel in net}) or sorted({"NET/%s" % name for name in parsed["networks"]})
    found = ", ".join(ways) or "nothing"
    names = sorted({channel.network or "?" for channel in net} | set(parsed["networks"]))
    wanted = "%s%s" % (promised, " with GPUDirect RDMA" if gdr else "")
    rows = [(name, network(name)) for name in names]
    sockets = [name for name, row in rows if row.rdma is False]
    if sockets or (not names and parsed["no_ib_device"]):
        return "fail", found, "the inventory promises %s; NCCL went over %s" % (wanted, ", ".join(sockets) or "no RDMA device")
    strangers = [name for name, row in rows if row.rdma is None]
    if strangers:
        return "unknown", found, "NCCL went over %s, of which railwright does not know what it is" % ", ".join(strangers)
    if not net:
        return "unknown", found, "the log names no network connection: was NCCL_DEBUG=INFO set, and did ranks on two nodes talk?"
    staged = [channel for channel in net if not channel.gdr]
    if gdr and staged:
        return "fail", found, "%d of %d connections went through host memory, without GPUDirect RDMA%s" % (
            len(staged), len(net), "; NCCL disabled it for " + ", ".join(parsed["gdr_disabled"]) if parsed["gdr_disabled"] else "")
    carriers = "; ".join("%s is %s" % (name, row.what) for name, row in rows)
    return "pass", found, "%d connections, all %s: %s" % (len(net), ", ".join(ways), carriers)
