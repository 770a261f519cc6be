# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest without a node: who tests whom, on which port, with which options, and what the output says. Pure.

Formats and options were read in the perftest source, 4.5-0.17 (Debian 12) to 26.01:
the table's header names its columns; ``--out_json`` of 4.5 writes keys without quotes,
which is no JSON, so the table is always there to fall back on.
"""

import contextlib
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats.outside import json_value, lines_in, mapping
from ..formats.outside import number as number_of
from ..rules.comparisons import VerdictSubject, at_least, at_most, number_text, verdict
from ..types import Verdict

TOGETHER = "together"  # write_bw of all rails of a node at once
TOOLS = {"write_bw": "ib_write_bw", "read_lat": "ib_read_lat", "write_lat": "ib_write_lat", TOGETHER: "ib_write_bw"}
TESTS = ("write_bw", "read_lat", "write_lat")  # of one rail after the other
BANDWIDTHS = ("write_bw", TOGETHER)
# The column of the table, and the key of the JSON report, that each test is judged by: the average, never
# the peak (which is 0.00 with -D, and flatters otherwise).
COLUMN = {name: "BW average[Gb/sec]" if name in BANDWIDTHS else "t_avg[usec]" for name in TOOLS}
JSON_KEY = {name: "BW_average" if name in BANDWIDTHS else "t_avg" for name in TOOLS}
CHECK = {"write_bw": "perftest.write_bw", "read_lat": "perftest.read_lat", "write_lat": "perftest.write_lat", TOGETHER: "perftest.together"}
KEY = {"write_bw": "validate_min_bandwidth_gbps", "read_lat": "validate_max_latency_us", "write_lat": "validate_max_write_latency_us",
       TOGETHER: "validate_min_bandwidth_gbps"}
UNIT = {name: "Gb/s" if name in BANDWIDTHS else "us" for name in TOOLS}
LATENCY_BYTES = 2  # perftest's own default for latency

HEADER = re.compile(
    r"#bytes|#iterations|BW (?:peak|average)\[[^\[\]]+\]|MsgRate\[[^\[\]]+\]"
    r"|t_\w{1,32}\[usec\]|[\d.]{1,16}% percentile\[usec\]|tps average|CPU_Util\[%\]")

Pair = Tuple[str, str]


class Measurement(NamedTuple):
    """One test of one rail between a server and a client."""

    name: str  # of TOOLS
    rail: str  # label on the client, for people
    hca: str
    port: int
    gid_index: Optional[int]  # None on InfiniBand: the path is by LID
    tcp_port: int
    address: str  # where the server listens
    tclass: Optional[int] = None  # the traffic class of the site's QoS profile; None: the queue of everybody
    rdma_cm: bool = False  # RDMA-CM connects the queue pairs: iWARP, which eRDMA is in mode default, knows no other way
    gpu: Optional[int] = None  # whose memory the data are in, by its PCI address's place in their order; None: the host's
    dmabuf: bool = False  # the way into GPU memory
    numa_node: Optional[int] = None  # of the HCA, where the tool is to run


class Options(NamedTuple):
    """What both ends must agree on."""

    seconds: int
    iterations: int
    message_bytes: int
    queue_pairs: int
    timeout: int


def pairs(nodes: Sequence[str], rounds: Optional[int] = None) -> List[List[Pair]]:
    """Rounds of disjoint (server, client) pairs: the circle method of a round-robin tournament.

    Within a round no node is in two pairs, so no measurement shares a node's links with
    another. Without ``rounds`` just enough of them that every node was in one: one round, or for an
    odd number one more with the node that had no partner.
    """
    ordered = sorted(set(nodes))
    if len(ordered) < 2:
        return []
    circle = ordered + [""] if len(ordered) % 2 else list(ordered)  # '' sits out
    wanted = len(circle) - 1 if rounds is None else min(rounds, len(circle) - 1)
    result: List[List[Pair]] = []
    idle = set(ordered)
    for number in range(wanted):
        half = len(circle) // 2
        drawn = [(circle[i], circle[-1 - i]) for i in range(half)]
        current = [(a, b) if number % 2 == 0 else (b, a) for a, b in drawn if a and b]
        if rounds is None and number > 0:
            current = [pair for pair in current if idle.intersection(pair)]
        result.append(current)
        idle.difference_update(node for pair in current for node in pair)
        if rounds is None and not idle:
            break
        circle = [circle[0], circle[-1]] + circle[1:-1]
    return result


def tcp_port(base: int, index: int, name: str) -> int:
    """Every rail and test has a port of its own, the same on every node, so a late server cannot meet the wrong client."""
    return base + index * len(TOOLS) + list(TOOLS).index(name)


Rails = Sequence[Mapping[str, Any]]
MODES = "one end is iWARP and connects by RDMA-CM alone, the other is not: their drivers are in different modes (erdma.mode)"
CROSSED = "the two ends are on different networks: one hears another rail of the peer where this one should be (rail.swapped, rail.segment)"


def plan_tests(
    client_rails: Rails, server_rails: Rails, base: int, crossed: Sequence[str] = (), names: Sequence[str] = TESTS
) -> Tuple[List[Measurement], List[Measurement], List[Tuple[str, str]]]:
    """(tests as the server runs them, tests as the client runs them, rails left out with the reason). Rails are paired by name.

    ``crossed``: rails of which the one end is known to be on another network than the other.
    """
    # Only the set-up goes over it, the traffic over the HCA: any address that the client reaches will do.
    exchange = next((rail["address"] for rail in server_rails if rail["address"]), None)
    exchange = exchange or next((rail["exchange"] for rail in server_rails if rail.get("exchange")), None)
    serving: List[Measurement] = []
    asking: List[Measurement] = []
    left: List[Tuple[str, str]] = []
    for index, rail in enumerate(client_rails):
        theirs = next((other for other in server_rails if other["name"] == rail["name"]), None)
        reason = CROSSED if rail["name"] in crossed else _cannot(rail, theirs, exchange)
        if reason is not None or theirs is None:
            left.append((str(rail["label"]), reason or "the peer has no such rail"))
            continue
        address = str(theirs["address"] or exchange)
        if ":" in address and theirs.get("exchange") and not rail.get("rdma_cm"):
            address = str(theirs["exchange"])  # IPv4: perftest 4.5 (Debian 12) knows no --ipv6-addr
        for name in names:
            port = tcp_port(base, index, name)
            serving.append(_measurement(name, theirs, port, address))
            asking.append(_measurement(name, rail, port, address))
    return serving, asking, left


def _measurement(name: str, rail: Mapping[str, Any], port: int, address: str) -> Measurement:
    cm = bool(rail.get("rdma_cm"))
    return Measurement(name, rail["label"], rail["hca"], rail["port"], None if cm else rail["gid_index"], port, address, rdma_cm=cm)


def _cannot(mine: Mapping[str, Any], theirs: Optional[Mapping[str, Any]], exchange: Optional[str]) -> Optional[str]:
    """Why a rail cannot be measured, or None."""
    if theirs is None:
        return "the peer has no rail of this name"
    if exchange is None:
        return "the peer has no address, on a rail or on its management interface, to exchange the connection data over"
    for whose, rail in (("this node", mine), ("the peer", theirs)):
        if rail["hca"] is None or rail["port"] is None:
            return "%s has no RDMA device on the rail" % whose
        if rail["gid_needed"] and rail["gid_index"] is None:
            return "%s has no RoCE v2 GID with the rail's address" % whose
    if bool(mine.get("rdma_cm")) != bool(theirs.get("rdma_cm")):
        return MODES
    if mine.get("rdma_cm") and theirs["address"] is None:
        return "the peer's rail has no address, and RDMA-CM finds the device by it"
    return None


# QP timeout, 4.096 us * 2^18 = 1.07 s, seven times. perftest's own 14 gives up after half a second of silence, which
# Soft-RoCE on a busy machine exceeds; NCCL waits 18 (2.14) or 20 (since 2.23). A lost packet costs bandwidth all the same.
QP_TIMEOUT = "18"


def arguments(test: Measurement, options: Options, tool: str, server: Optional[str] = None, extra: Tuple[str, ...] = ()) -> Tuple[str, ...]:
    """The command line; with ``server`` the client's. Both ends get the same options; perftest refuses or misreports otherwise."""
    argv = [tool, "-d", test.hca, "-i", str(test.port), "-p", str(test.tcp_port), "-F", "-u", QP_TIMEOUT]
    if test.rdma_cm:
        argv.append("-R")
    if test.gid_index is not None:
        argv += ["-x", str(test.gid_index)]
    if test.tclass is not None:
        argv.append("--tclass=%d" % test.tclass)
    if ":" in test.address:
        argv.append("--ipv6-addr")
    if test.gpu is not None:
        argv += ["--use_cuda=%d" % test.gpu] + (["--use_cuda_dmabuf"] if test.dmabuf else [])
    if test.name in BANDWIDTHS:
        argv += ["--report_gbits", "-s", str(options.message_bytes), "-q", str(options.queue_pairs), "-D", str(options.seconds)]
    else:
        argv += ["-s", str(LATENCY_BYTES), "-n", str(options.iterations)]
    argv += list(extra)
    return tuple(argv + [server] if server is not None else argv)


def life_time(tests: Sequence[Measurement], options: Options) -> int:
    """Seconds after which a server ends by itself, whatever became of the controller: every test before it may use its whole time."""
    return len(tests) * options.timeout + 60


def parse_table(text: str) -> Dict[str, float]:
    """The last row below the last header, by column name; {} when there is none.

    Lines in between (CUDA prints some) and the number of lines before are of no matter.
    """
    columns: List[str] = []
    row: Dict[str, float] = {}
    for line in lines_in(text):
        if line.lstrip().startswith("#bytes"):
            columns = HEADER.findall(line)
            continue
        fields = line.split()
        if columns and len(fields) == len(columns):
            with contextlib.suppress(ValueError):
                row = dict(zip(columns, map(float, fields)))
    return row


def parse_json(text: Optional[str], name: str) -> Optional[float]:
    """The judged figure of a JSON report; None for what is no JSON (perftest 4.5) or lacks it."""
    value = mapping(mapping(json_value(text)).get("results")).get(JSON_KEY[name])
    return None if isinstance(value, str) else number_of(value)


def figure(name: str, table_text: str, json_text: Optional[str]) -> Optional[float]:
    """The judged figure of a test; the JSON report first, else the table. 0 is no figure: nothing moved."""
    value = parse_json(json_text, name)
    if value is None:
        value = parse_table(table_text).get(COLUMN[name])
    return value if value is not None and value > 0 else None


def reason(rc: int, out: str, err: str, address: str) -> str:
    """Why a client failed, in one line: the first line on stderr that says something."""
    if rc in (124, 137):
        return "no end in time; server %s" % address
    lines = [line.strip() for line in lines_in(err + "\n" + out)]
    telling = [line for line in lines if re.search(r"couldn't|unable|fail|error|invalid|not found|refused|no such", line, re.IGNORECASE)]
    return "%s (rc %d, server %s)" % ((telling or [line for line in lines if line] or ["no output"])[0][:200], rc, address)


def stalled(rc: int, out: str, err: str) -> bool:
    """Whether the connection came up and nothing moved: it was ended at its time, or the queue pair gave up sending again."""
    return rc in (124, 137) or "Failed status 12" in out + err  # IBV_WC_RETRY_EXC_ERR, as perftest prints every completion's error


class Limit(NamedTuple):
    """What one test is judged by. ``source``: where it is from, or why there is none. ``unknown``: it is expected, and cannot be told.

    Of a rail that is measured with all others: ``alone``, its figure by itself, and ``shared``, what the facts show it to share.
    """

    value: Optional[float]
    source: str
    unknown: bool = False
    alone: Optional[float] = None
    shared: str = ""


def where_of(node: str, test: Measurement, peer: str) -> VerdictSubject:
    return VerdictSubject(node, test.hca, test.port, "%s to %s" % (test.rail, peer))


def judge_figure(node: str, peer: str, test: Measurement, limit: Limit, found: Optional[float], why: str) -> Verdict:
    """One test. Without a figure it failed, and ``why`` says how: a connection that does not come up needs no threshold."""
    check, where, tool = CHECK[test.name], where_of(node, test, peer), TOOLS[test.name]
    if found is None:
        expected = number_text(limit.value) if limit.value is not None else "a result"
        return verdict(check, where, "fail", expected, None, "%s: %s" % (tool, why))
    if limit.value is None:
        judged = verdict(check, where, "unknown" if limit.unknown else "skipped", None, found, "%s %s measured" % (
            number_text(found), UNIT[test.name]))
    else:
        judge = at_least if test.name in BANDWIDTHS else at_most
        judged = judge(check, where, limit.value, found, KEY[test.name], "%s average in %s" % (tool, UNIT[test.name]))
    notes = [limit.source] + (_together(limit, judged.status, test.gpu is not None) if test.name == TOGETHER else [])
    memory = " from GPU memory" if test.gpu is not None else ""
    return judged._replace(message="%s%s (%s)" % (judged.message, memory, "; ".join(notes)))


def _together(limit: Limit, status: str, gpu: bool) -> List[str]:
    """What a rail had by itself; where it is slow with the others, what it shares with them."""
    if limit.alone is None:
        return ["all rails at once; alone it had no figure"]
    alone = "all rails at once; alone it had %s Gb/s%s" % (number_text(limit.alone), " from host memory" if gpu else "")
    if status != "fail" or limit.value is None:
        return [alone]
    return [alone, limit.shared] if limit.alone >= limit.value else [alone + ", which is too little too"]
