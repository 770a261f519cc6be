# SPDX-License-Identifier: GPL-3.0-or-later
"""Which way the data went, from NCCL's own log (NCCL_DEBUG=INFO, subsystems INIT and NET at least). Pure.

A bandwidth says how fast; only the log says over what. Formats of the tags 2.4.8, 2.10.3, 2.18.6, 2.21.5, 2.27.7 and 2.30.7
(src/init.cc, src/debug.cc, src/transport/*). Channels are set up when the communicator is, since 2.22 when the first collective
runs: a log without channel lines proves nothing.
"""

import re
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ...rules.comparisons import VerdictSubject, verdict
from ...types import Verdict

_SAID = "NCCL INFO "
# What stands before it: a launcher's tag, a time (since 2.26, if asked for), the last word of a row of nccl-tests (-1), then host:pid:tid.
_ORIGIN = re.compile(r"(?<![^\s>:\]])(?:-1)?(\w[\w.-]{0,254}):\d{1,18}:\d{1,18} (?:\[-?\d{1,9}\] )?\Z")
_ORIGIN_LENGTH, _LENGTH, _NAME = 400, 4096, 64  # of a line (NCCL cuts its own at 1024), and of a network's name
_NUMBERED = re.compile(r"Channel \d{1,18}(?:/\d{1,9})? ?: ?")
_KEPT = 200000  # of a cache's entries
_CHANNEL = re.compile(  # "Ring" to 2.6; the device in brackets is not there in 2.4, a bus id from 2.5 to 2.17; the arrow some pages lose
    r"(?:Channel|Ring|CollNet|Coll) (?P<channel>\d{1,18})(?:/[\d-]{1,18})? ?: ?(?P<source>\d{1,18})(?:\[[0-9a-fx]{1,18}\])? "
    r"(?:(?:-> )?(?P<target>\d{1,18})(?:\[[0-9a-fx]{1,18}\])? )?(?:\[(?P<way>send|receive)\] )?via (?P<via>\S.*)")
_DEVICES = re.compile(r"NET/IB ?: Using (.*)")
_DEVICE = re.compile(r"\[(\d{1,9})\](?:=\{(?P<parts>[^{}]{1,512})\}|(?P<hca>[^\s:\[\]]{1,64}):(?P<port>\d{1,9})(?!\d)"
                     r"[^\s\[]{0,64}/(?P<link>IB|RoCE|EFA)\b)")
_PART = re.compile(r"\[\d{1,9}\] ([^\s:\[\]]{1,64}):(\d{1,9})/(IB|RoCE)\b")  # of 2.20 and 2.21: [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}
_NO_DEVICE = re.compile(r"NET/IB ?: No device found")
_GDR_OFF = re.compile(r"NET/[^\n:/]{1,64} : GPU Direct RDMA Disabled for (?:GPU \d{1,9}\[\d{1,9}\] / )?HCA \d{1,9} '([^'\n]{1,64})'")
_LOST = re.compile(r"(?<![\w.-])(\w[\w.-]{0,254}):\d{1,18}:\d{1,18} .{0,200} NCCL WARN NET/IB ?: .{0,80}Device (\d{1,9}) marked as failed")
_VIA = re.compile(r"(?P<kind>NET|P2P|SHM|COLLNET)(?:/(?P<rest>.*))?\Z")
_SHARED = "direct shared memory"  # SHM to 2.10
_MERGED = re.compile(r"NET/IB ?: Made virtual device \[(?P<index>\d{1,18})\] "
                     r"name=(?P<name>[^\s+]{1,64}\+\S{1,512})")  # ports or HCAs that NCCL uses as one (NCCL_NET_MERGE_LEVEL)
_NET_INDEX = re.compile(r"/(\d{1,18})(?:\((\d{1,18})\))?(?=/|\(|\Z)")
_VERSION = re.compile(r"(?<![a-z] )NCCL version (\d{1,4}(?:\.\d{1,4}){1,3}[\w.+-]{0,40})")
_SETUP = re.compile(r"\bcomm 0x[0-9a-f]{1,16} rank (\d{1,9}) nranks (\d{1,9}) ")
_COMM_ID = re.compile(r" commId (0x[0-9a-f]{1,16})")
_NODES = re.compile(r"comm 0x[0-9a-f]{1,16} rank \d{1,9} nRanks \d{1,9} nNodes (\d{1,9}) ")  # since 2.19
_SET = re.compile(r"(?:(NCCL_(?:IB_DISABLE|NET_PLUGIN)) set by environment|(?:NET/Plugin ?: )?Plugin name set by env) to (\S{1,200}?)\.?\Z")

# Since 2.22 (src/init.cc), from 2.23 on with the function's name. The phases' names differ between releases.
_INIT = re.compile(r"NCCL INFO Init timings(?: - \w{1,64})?: rank (\d{1,9}) nranks \d{1,9} total (\d{1,9}\.\d{1,6}) \(([^()\n]{1,400})\)")
_PHASE = re.compile(r"\b([a-z]{1,32}) (\d{1,9}\.\d{1,6})(?=[,;]|\Z)")
_WAITING = ("bootstrap", "allgathers")  # phases in which a rank waits for the others


OWN = ("IB", "Socket")  # every other name is a plugin's
NONE = ("no RDMA device", "")


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
    stranger = Network(re.escape(name), None, "a network that railwright does not know", "")
    return next((row for row in NETWORKS if re.fullmatch(row.pattern, name, re.IGNORECASE)), stranger)


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


class LogReader:
    """Read a log line by line and keep what it proves, in memory that does not grow with repeated lines."""

    def __init__(self) -> None:
        self.found: Dict[str, Any] = {"lines": 0, "no_ib_device": False, "devices": {}, "channels": [], "communicators": {}, "nodes": 0,
                                      "settings": {}}
        self.names: Dict[str, Set[str]] = {"networks": set(), "gdr_disabled": set(), "hosts": set(), "versions": set(), "lost": set()}
        self.origins: Dict[str, str] = {}
        self.known: Dict[Tuple[str, str], Optional[Channel]] = {}

    def feed(self, line: str) -> None:
        at = line.find(_SAID)
        if "NCCL version " in line:
            self.names["versions"].update(_VERSION.findall(line))
        if at >= 0:
            self._info(self.host_of(line[max(0, at - _ORIGIN_LENGTH):at]), line[at + len(_SAID):at + _LENGTH].rstrip())
        elif "marked as failed" in line:  # NCCL's number counts the HCAs of one connection, so it is no name
            lost = _LOST.search(line[:_LENGTH])
            self.names["lost"].update(["device %d of %s" % (int(lost.group(2)), lost.group(1))] if lost is not None else [])

    def host_of(self, before: str) -> str:
        """The host that stands before a message; "" where a page or a filter has cut it off."""
        host = self.origins.get(before)
        if host is None:
            origin = _ORIGIN.search(before)
            host = origin.group(1) if origin is not None else ""
            if len(self.origins) >= _KEPT:
                self.origins.clear()
            self.origins[before] = host
        return host

    def _info(self, host: str, words: str) -> None:
        found, names = self.found, self.names
        found["lines"] += 1
        if " via " in words:
            channel = self._channel(host, words)
            if channel is not None:
                found["channels"].append(channel)
            return
        if words.startswith("Using network "):
            names["networks"].add(words[14:14 + _NAME].strip())
        elif words.startswith("NET/IB"):
            _ib_line(words, found["devices"].setdefault(host, {}), found)
        if "RDMA Disabled" in words:
            names["gdr_disabled"].update(_GDR_OFF.findall(words))
        setup = _SETUP.search(words) if words.endswith("- Init COMPLETE") else None
        given = _SET.match(words) if " set by env" in words else None
        counted = _NODES.match(words) if " nNodes " in words else None
        if given is not None:
            found["settings"][given.group(1) or "NCCL_NET_PLUGIN"] = given.group(2)
        if setup is not None and int(setup.group(1)) < int(setup.group(2)):
            own = _COMM_ID.search(words)
            key = (own.group(1) if own is not None else "", int(setup.group(2)))
            found["communicators"].setdefault(key, set()).add(int(setup.group(1)))
            names["hosts"].add(host)
        if counted is not None:
            found["nodes"] = max(found["nodes"], int(counted.group(1)))

    def _channel(self, host: str, words: str) -> Optional["Channel"]:
        """Lines that differ only in the channel's number share one object."""
        number = _NUMBERED.match(words)
        if number is None:
            return _channel(host, words)
        key = (host, words[number.end():])
        if key not in self.known:
            if len(self.known) >= _KEPT:
                self.known.clear()
            self.known[key] = _channel(host, words)
        return self.known[key]

    def result(self) -> Dict[str, Any]:
        """``{"lines", "versions", "networks", "no_ib_device", "devices", "gdr_disabled", "channels", "communicators", "hosts", "nodes",
        "settings", "lost"}``.

        ``lines``: INFO lines; ``networks``: every name that a rank announced; ``devices``: host -> index -> ``{hca, port, link}``, merged
        ones with a + in their name; ``gdr_disabled``: HCAs for which NCCL said so; ``channels``: one ``Channel`` a line;
        ``communicators``: (id, ranks) -> ranks whose setup ended; ``hosts``: where those are; ``nodes``: as NCCL counts them, 0 where it
        does not say; ``lost``: HCAs that failed while the job went on over others (NCCL_IB_RESILIENCY_PORT_FAILOVER, since 2.29: a
        warning of src/transport/net_ib/p2p_resiliency.cc, and nothing else tells).
        """
        devices = {host: _whole(own) for host, own in self.found["devices"].items() if own}
        return dict(self.found, devices=devices, **{name: sorted(items) for name, items in self.names.items()})


def parse_log(text: str) -> Dict[str, Any]:
    """The result of a LogReader for a text."""
    reader = LogReader()
    for line in text.split("\n"):
        reader.feed(line)
    return reader.result()


def _ib_line(words: str, own: Dict[int, Dict[str, Any]], found: Dict[str, Any]) -> None:
    """A line of the transport InfiniBand and RoCE: what it listed, what it made one of, or that there was none."""
    listed, merged = _DEVICES.match(words), _MERGED.match(words)
    found["no_ib_device"] = found["no_ib_device"] or _NO_DEVICE.match(words) is not None
    if listed is not None:
        text = listed.group(1).partition("; OOB ")[0]
        for place, device in enumerate(_DEVICE.finditer(text)):  # with a merged one among them 2.21 prints other numbers than it uses
            parts = _PART.findall(device.group("parts") or "")
            index = place if "={" in text else int(device.group(1))
            if parts:
                own[index] = {"hca": "+".join(part[0] for part in parts), "port": int(parts[0][1]), "link": parts[0][2]}
            elif device.group("hca"):
                own[index] = {"hca": device.group("hca"), "port": int(device.group("port")), "link": device.group("link")}
    if merged is not None:
        own.setdefault(int(merged.group("index")), {"hca": merged.group("name"), "port": 0, "link": ""})  # as its parts: below


def _whole(own: Dict[int, Dict[str, Any]]) -> Dict[int, Dict[str, Any]]:
    """The devices of a host; a merged one has port and link of the first of its parts that was listed, and is not there without."""
    plain = [own[index] for index in sorted(own) if own[index]["port"]]
    found = {}
    for index, device in own.items():
        parts = [device] if device["port"] else [item for item in plain if item["hca"] in device["hca"].split("+")]
        if parts:
            found[index] = dict(parts[0], hca=device["hca"])
    return found


def chosen_by(parsed: Dict[str, Any]) -> str:
    """Who chose the network, as far as the log tells: NCCL writes down NCCL_NET_PLUGIN and NCCL_IB_DISABLE, not NCCL_NET."""
    settings = ["%s=%s" % item for item in sorted(parsed["settings"].items())]
    used = {channel.network for channel in parsed["channels"] if channel.kind == "NET"} | set(parsed["networks"])
    plugins = sorted(name for name in used if name and name not in OWN)
    who = "a plugin, %s" % ", ".join(plugins) if plugins else "NCCL itself or NCCL_NET, which it does not write down"
    return who + (" (%s)" % ", ".join(settings) if settings else "")


def init_seconds(text: str) -> Dict[int, Tuple[float, float]]:
    """How long each rank set up its communicator: in all, and without the phases in which it waits for others; of several the longest."""
    found: Dict[int, Tuple[float, float]] = {}
    for line in _INIT.finditer(text):
        rank, total = int(line.group(1)), float(line.group(2))
        waited = sum(float(seconds) for phase, seconds in _PHASE.findall(line.group(3)) if phase in _WAITING)
        found[rank] = max(found.get(rank, (0.0, 0.0)), (total, round(max(0.0, total - waited), 6)))
    return found


def _channel(host: str, words: str) -> Optional[Channel]:
    line = _CHANNEL.match(words)
    if line is None:
        return None
    name = line.group("via").rstrip()
    via = _VIA.match("SHM" if name.startswith(_SHARED) else name)
    if via is None:
        return None
    kind, rest = via.group("kind"), via.group("rest") or ""
    index = _NET_INDEX.search("/" + rest, 1) if kind == "NET" else None
    name = "" if kind != "NET" else rest[:index.start() - 1] if index is not None else rest.partition("/")[0]
    target, device, proxy = (int(text) if text is not None else None for text in (
        line.group("target"), *(index.groups() if index is not None else (None, None))))
    return Channel(host, int(line.group("source")), target, line.group("way"), kind, name[:_NAME].strip() or None, device,
                   "/GDRDMA" in rest, proxy)


def summary(parsed: Dict[str, Any]) -> Dict[str, Any]:
    """How many connections went which way, and which HCA each rank used: JSON, for reports.

    ``{"networks": [...], "connections": {"NET/IB/GDRDMA": 8, "P2P": 16 …}, "hcas": {rank: ["node1 mlx5_0:1" …]}}``. A rank's
    HCA is that of the connections on its own host: of those that it sends over, the source's; of those that it receives over, the target's.
    """
    connections = Counter(map(way_of, parsed["channels"]))
    hcas: Dict[int, Set[str]] = {}
    for channel in parsed["channels"]:
        rank = channel.target if channel.way == "receive" else channel.source
        device = _device_of(parsed, channel)
        if rank is not None and device is not None:
            hcas.setdefault(rank, set()).add("%s %s:%d" % (channel.host, device["hca"], device["port"]))
    return {"networks": parsed["networks"], "connections": dict(sorted(connections.items())),
            "hcas": {rank: sorted(hcas[rank]) for rank in sorted(hcas)}}


def _device_of(parsed: Dict[str, Any], channel: Channel) -> Optional[Dict[str, Any]]:
    own: Dict[Optional[int], Dict[str, Any]] = parsed["devices"].get(channel.host, {})
    return own.get(channel.device)


def way_of(channel: Channel) -> str:
    """P2P, SHM, NET/IB, NET/IB/GDRDMA, NET/Socket …"""
    if channel.kind != "NET":
        return channel.kind
    return "NET/%s%s" % (channel.network or "?", "/GDRDMA" if channel.gdr else "")


def nodes_of(parsed: Dict[str, Any]) -> int:
    """How many nodes the job has; 0 where the log does not tell."""
    return parsed["nodes"] or len([host for host in parsed["hosts"] if host])


def gaps(parsed: Dict[str, Any], ranks: int = 0) -> List[str]:
    """Why the log is not that of a whole job, in sentences. ``ranks``: how many it has, where somebody else knows."""
    sizes = [(size, len(own)) for (_name, size), own in sorted(parsed["communicators"].items())]
    found = ["only %d of %d ranks of a communicator are in the log" % (many, size) for size, many in sizes if many < size][:1]
    if ranks and not any(size >= ranks for size, _many in sizes):
        found.append("no communicator of %d ranks is in the log" % ranks)
    spoke = {channel.host for channel in parsed["channels"] if channel.kind == "NET"}
    dark = [host for host in parsed["hosts"] if host not in spoke] if nodes_of(parsed) > 1 else []
    return found + (["the logs of %s name no network connection" % ", ".join(dark[:4])] if dark else [])


def judge(parsed: Dict[str, Any], promised: str, *, gdr: bool = True, missing: Sequence[str] = ()) -> Tuple[str, str, str]:
    """(status, found, message) for a run between nodes. ``promised``: roce, infiniband or erdma, "" by nobody; ``gdr``: GPUDirect is
    promised too; ``missing``: what the log lacks (``gaps``).

    fail: sockets, or a promise that was not kept; unknown: a network that nobody here has read about, or no channel line at all.
    """
    net = [channel for channel in parsed["channels"] if channel.kind == "NET"]
    ways = sorted({way_of(channel) for channel in net}) or sorted({"NET/%s" % name for name in parsed["networks"]})
    found = ", ".join(ways) or "nothing"
    names = sorted({channel.network or "?" for channel in net} | set(parsed["networks"]))
    wanted = "the inventory promises %s%s; " % (promised, " with GPUDirect RDMA" if gdr else "") if promised else ""
    rows = [(name, network(name)) for name in names]
    sockets = [name for name, row in rows if row.rdma is False]
    if sockets or (not names and parsed["no_ib_device"]):
        return "fail", found, "%sNCCL went over %s%s" % (wanted, *((", ".join(sockets), _why_sockets(parsed)) if sockets else NONE))
    if parsed["lost"]:
        return "fail", found, "NCCL lost %s while the job ran, and went on over another HCA" % ", ".join(parsed["lost"][:4])
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
    links = sorted({device["link"] for channel in net for device in (_device_of(parsed, channel),) if device is not None})
    message = "%d connections, all %s%s: %s" % (len(net), ", ".join(ways), " over " + " and ".join(links) if links else "", carriers)
    return ("unknown", found, "%s; of the others: %s" % ("; ".join(missing), message)) if missing else ("pass", found, message)


def judge_inside(parsed: Dict[str, Any], missing: Sequence[str] = ()) -> Tuple[str, str, str]:
    """(status, found, message) for GPUs of one node, between which nothing went over a network. SHM is host memory: NCCL takes it for
    GPUs without peer access, or further apart than NCCL_P2P_LEVEL (ncclTopoCheckP2p in src/graph/paths.cc).
    """
    inside = [channel for channel in parsed["channels"] if channel.kind in ("P2P", "SHM")]
    found = ", ".join(sorted({channel.kind for channel in inside})) or "nothing"
    staged = [channel for channel in inside if channel.kind == "SHM"]
    if staged:
        why = "no peer access, NCCL_P2P_DISABLE, or GPUs that are further apart than NCCL_P2P_LEVEL"
        return "warn", found, "%d of %d connections inside the node go through host memory (SHM), such as of ranks %d and %s: %s" % (
            len(staged), len(inside), staged[0].source, staged[0].target, why)
    if not inside or missing:
        return "unknown", found, "; ".join(missing) or "the log names no connection: was NCCL_DEBUG=INFO set?"
    return "pass", found, "%d connections inside the node, all P2P" % len(inside)


def _why_sockets(parsed: Dict[str, Any]) -> str:
    """What the log says of the HCAs that were not used."""
    hcas = sorted({"%s:%d" % (device["hca"], device["port"]) for own in parsed["devices"].values() for device in own.values()})
    if hcas:
        return ", and there is %s" % ", ".join(hcas[:4])
    if parsed["settings"].get("NCCL_IB_DISABLE", "0") != "0":
        return ": NCCL_IB_DISABLE=%s" % parsed["settings"]["NCCL_IB_DISABLE"]
    return ": it found no RDMA device" if parsed["no_ib_device"] else ""


def judge_run_transport(
    parsed: Dict[str, Any], where: VerdictSubject, promise: Dict[str, Any], missing: Sequence[str] = (), *, alone: bool = False
) -> Verdict:
    """``nccl.transport`` of a run of ours. ``promise``: ``{"fabric", "network", "gdr"}`` of its plan. Ranks of one node (``alone``) that
    talk over the network all the same (no P2P, no SHM) are held to it too.
    """
    if alone and all(channel.kind != "NET" for channel in parsed["channels"]):
        status, found, message = judge_inside(parsed, missing)
        return verdict("nccl.transport", where, status, "P2P between the GPUs of a node", found, message)
    if promise["network"] == "any" or not promise["fabric"]:
        ways = ", ".join(summary(parsed)["connections"]) or None
        return verdict("nccl.transport", where, "skipped", None, ways, "nothing is promised (nccl_tests_network)")
    status, found, message = judge(parsed, promise["fabric"], gdr=promise["gdr"], missing=missing)
    expected = "%s%s" % (promise["fabric"], " with GPUDirect RDMA" if promise["gdr"] else "")
    return verdict("nccl.transport", where, status, expected, found, message)
