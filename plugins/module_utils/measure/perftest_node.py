# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest on a node: servers that end by themselves, clients with a time limit, a stop that hits nobody else.

What was started is recorded under /run before anything else happens, so that ``stop``
works after a lost connection or a killed controller, and every server runs under
``timeout`` in a session of its own, so that it ends even if ``stop`` never comes.
"""

import ipaddress
import json
import re
import signal
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import RailwrightError
from ..formats.outside import is_digits, json_object, list_or_empty, mapping, rows, whole
from ..formats.text import last_line
from ..host.host import Host
from ..observe.nics import listening
from ..observe.processes import start_time
from ..observe.traffic_counters import Watched
from ..rules.comparisons import VerdictSubject, verdict
from ..types import Verdict
from .counter_verdicts import counters_before, judge_growth
from .perftest import TOGETHER, TOOLS, Limit, Measurement, Options, arguments, figure, judge_figure, life_time, reason, stalled, where_of

RUN_DIR = "/run/railwright"
RECORD = RUN_DIR + "/perftest.json"
READY_S = 20.0  # a server listens within milliseconds on hardware; an emulated node needs seconds
POLL_S = 0.1
LOG_LIMIT = 256 * 1024  # bytes of what a client says
CM_SETTLE_S = 3.0  # a listener of RDMA-CM is in no table of /proc: a server that is alive after this has one
EACH = ("-Q", "1")  # every message completes: by the hundred, as is perftest's way, a second of a slow link is a handful of steps
DEVICE = re.compile(r"^[A-Za-z0-9_.\-]{1,64}$")
TAKEN = "TCP port %d is in use on this node; set validate_port to a free range"


class Server(NamedTuple):
    """A started server as it is recorded: enough to know it again."""

    pid: int
    started: str  # start time in clock ticks since boot, from /proc/PID/stat: a recycled pid differs
    argv: List[str]


class Sample(NamedTuple):
    """What a client measured."""

    figure: Optional[float]  # Gb/s or us; None without one
    why: str  # there is none
    hung: bool  # the connection came up, and nothing moved over it


def check_test(test: Measurement) -> None:
    """Device names become paths here, the address the last word of a command line; they came from a node once, maybe from another one."""
    if not DEVICE.match(test.hca) or test.hca.startswith("."):
        raise RailwrightError("%r is no name of an RDMA device" % test.hca)
    try:
        ipaddress.ip_address(test.address)
    except ValueError as error:
        raise RailwrightError("the address of %s: %s" % (test.rail, error)) from error
    if test.name not in TOOLS:
        raise RailwrightError("unknown test %r; known: %s" % (test.name, ", ".join(sorted(TOOLS))))


def command(
    host: Host, test: Measurement, options: Options, tool: str, server: Optional[str] = None, extra: Tuple[str, ...] = ()
) -> List[str]:
    """Pinned to the HCA's NUMA node where that can be done: from the wrong one an 8-GPU node has been seen at a tenth."""
    check_test(test)
    known = test.numa_node is not None and test.numa_node >= 0  # -1: the firmware tells none
    pinned = ["numactl", "-N", str(test.numa_node)] if known and host.which("numactl") is not None else []
    ordered = ["env", "CUDA_DEVICE_ORDER=PCI_BUS_ID"] if test.gpu is not None else []
    return ordered + pinned + list(arguments(test, options, tool, server, extra))


def start(
    host: Host, node: str, peer: str, tests: Sequence[Measurement], ports: Sequence[Watched], options: Options
) -> Tuple[List[Verdict], List[int]]:
    """Take the counters' baseline of ``ports`` and start a server for every test.

    Returns the verdicts of those that did not start, and the ports on which the others listen.
    """
    stop_servers(host)
    record: Dict[str, Any] = {"servers": [], "counters": counters_before(host, ports)}
    host.write(RECORD, json.dumps(record), 0o600)
    started: List[Tuple[Measurement, Server, str]] = []
    verdicts = []
    taken = listening(host)
    for test in tests:
        check_test(test)
        why = _why_not(host, test, taken)
        if why is not None:
            verdicts.append(_not_started(node, peer, test, why))
            continue
        log = "%s/server-%d.log" % (RUN_DIR, test.tcp_port)
        argv = ["timeout", "-k", "5", str(life_time(tests, options))] + command(host, test, options, str(host.which(TOOLS[test.name])))
        started.append((test, _spawn(host, argv, log, record), log))
    open_ports = wait_listening(host, [item for item in started if not item[0].rdma_cm])
    open_ports += _settle(host, [item for item in started if item[0].rdma_cm])
    for test, _server, log in started:
        if test.tcp_port not in open_ports:
            why = "did not listen within %g s: %s" % (ready_seconds(tests), last_line(host.read(log) or "", 200))
            verdicts.append(_not_started(node, peer, test, why))
    return verdicts, open_ports


def _spawn(host: Host, argv: List[str], log: str, record: Dict[str, Any]) -> Server:
    """Recorded, so that ``stop`` ends it."""
    pid = host.spawn(argv, log)
    server = Server(pid, start_time(host, pid) or "", argv)
    record["servers"].append(server._asdict())
    host.write(RECORD, json.dumps(record), 0o600)
    return server


def _why_not(host: Host, test: Measurement, taken: Sequence[int]) -> Optional[str]:
    if host.which(TOOLS[test.name]) is None:
        return "%s is not installed" % TOOLS[test.name]
    return TAKEN % test.tcp_port if test.tcp_port in taken else None


def _not_started(node: str, peer: str, test: Measurement, why: str) -> Verdict:
    expected = "%s on port %d" % (TOOLS[test.name], test.tcp_port)
    where = VerdictSubject(node, test.hca, test.port, "%s for %s" % (test.rail, peer))
    return verdict("perftest.server", where, "fail", expected, None, why)


def ready_seconds(tests: Sequence[Measurement]) -> float:
    """CUDA is initialised before a server listens."""
    return READY_S * 2 if any(test.gpu is not None for test in tests) else READY_S


def wait_listening(host: Host, started: Sequence[Tuple[Measurement, Server, str]]) -> List[int]:
    """The ports that listen; waits for the slow ones, not for the dead."""
    deadline = time.monotonic() + ready_seconds([test for test, _server, _log in started])
    while True:
        ports = listening(host)
        waiting = [server for test, server, _log in started if test.tcp_port not in ports and is_alive(host, server)]
        if not waiting or time.monotonic() > deadline:
            return [test.tcp_port for test, _server, _log in started if test.tcp_port in ports]
        time.sleep(POLL_S)


def _settle(host: Host, started: Sequence[Tuple[Measurement, Server, str]]) -> List[int]:
    """The same for servers that listen by RDMA-CM: one that cannot has ended by then."""
    if started:
        time.sleep(CM_SETTLE_S)
    return [test.tcp_port for test, server, _log in started if is_alive(host, server)]


def run_clients(
    host: Host, node: str, peer: str, tests: Sequence[Measurement], open_ports: Sequence[int], options: Options, limits: Sequence[Limit]
) -> List[Verdict]:
    """One after the other, so that a figure is one rail's own; those of TOGETHER at once. ``limits``: one for each test."""
    verdicts, ready = [], []
    for test, limit in zip(tests, limits):
        check_test(test)
        if test.tcp_port not in open_ports:
            verdicts.append(verdict("perftest." + test.name, where_of(node, test, peer), "unknown", "a result", None,
                                    "not run: no server on %s (see its verdict perftest.server)" % peer))
        elif host.which(TOOLS[test.name]) is None:
            verdicts.append(judge_figure(node, peer, test, limit, None, "not installed"))
        elif test.name == TOGETHER:
            ready.append((test, limit))
        else:
            sample = _sample(host, peer, test, str(host.which(TOOLS[test.name])), options)
            verdicts.append(judge_figure(node, peer, test, limit, sample.figure, sample.why))
    samples = _sample_at_once(host, peer, [test for test, _limit in ready], options)
    return verdicts + [judge_figure(node, peer, test, limit, sample.figure, sample.why) for (test, limit), sample in zip(ready, samples)]


def _sample_at_once(host: Host, peer: str, tests: Sequence[Measurement], options: Options) -> List[Sample]:
    """Clients end by themselves as servers do, and are recorded as these are: one that goes on too long is ended here, else by ``stop``."""
    record = read_record(host)
    record["servers"] = rows(record.get("servers"))
    running: List[Tuple[Measurement, Server, str]] = []
    samples = []
    deadline = time.monotonic() + options.timeout
    try:
        for test in tests:
            log = "%s/client-%d.log" % (RUN_DIR, test.tcp_port)
            host.write(log, "", 0o600)
            own = command(host, test, options, str(host.which(TOOLS[test.name])), test.address)
            running.append((test, _spawn(host, ["timeout", "-k", "5", str(options.timeout + 5)] + own, log, record), log))
        while time.monotonic() < deadline and any(is_alive(host, server) for _test, server, _log in running):
            time.sleep(POLL_S)
    finally:
        late = [is_alive(host, server) for _test, server, _log in running]
        for (test, server, log), over in zip(running, late):
            if over:
                host.signal_group(server.pid, signal.SIGTERM)
            text = host.read(log, LOG_LIMIT) or ""
            host.remove(log)
            found = None if over else figure(test.name, text, None)
            why = reason(124 if over else 1, text, "", "%s (%s)" % (peer, test.address))
            samples.append(Sample(found, "" if found is not None else why, over or stalled(1, text, "")))
    return samples


def sample_clients(
    host: Host, peer: str, tests: Sequence[Measurement], open_ports: Sequence[int], options: Options
) -> List[Dict[str, Any]]:
    """A Sample for each test, one after the other: whoever compares many nodes judges them. ``open_ports``: where the peer listens."""
    found = []
    for test in tests:
        check_test(test)
        tool = host.which(TOOLS[test.name])
        if test.tcp_port not in open_ports or tool is None:
            missing = "%s is not installed" % TOOLS[test.name] if tool is None else "no server on %s" % peer
            found.append(Sample(None, missing, False))
        else:
            found.append(_sample(host, peer, test, tool, options, EACH))
    return [dict(sample._asdict()) for sample in found]


def _sample(host: Host, peer: str, test: Measurement, tool: str, options: Options, extra: Tuple[str, ...] = ()) -> Sample:
    report = "%s/client-%d.json" % (RUN_DIR, test.tcp_port)
    json_options = ("--out_json", "--out_json_file=" + report) if "--out_json_file" in host.run([tool, "--help"], timeout=10).out else ()
    host.write(report, "", 0o600)  # also makes the directory; an old report must not be read as a new one
    try:
        result = host.run(command(host, test, options, tool, test.address, extra + json_options), timeout=float(options.timeout))
        found = figure(test.name, result.out, host.read(report)) if result.ok else None
    finally:
        host.remove(report)
    if result.ok:
        return Sample(found, "" if found is not None else "no figure in its output", False)
    why = reason(result.rc, result.out, result.err, "%s (%s)" % (peer, test.address))
    return Sample(None, why, stalled(result.rc, result.out, result.err))


def stop(
    host: Host, node: str, peer: str, ports: Sequence[Watched], lossless: Sequence[int], why_not: Optional[str] = None
) -> Tuple[List[Verdict], int, List[Dict[str, Any]]]:
    """End what ``start`` recorded and judge how the counters grew; returns the verdicts, how many were ended, and the figures.

    ``lossless``: the priorities of the site's QoS profile; ``why_not``: why there is nothing to hold the traffic against.
    """
    record = read_record(host)
    ended = stop_servers(host)
    verdicts, figures = judge_growth(host, node, peer, ports, mapping(record.get("counters")), lossless, why_not)
    return verdicts, ended, figures


def stop_servers(host: Host) -> int:
    """End the recorded servers, and only those: pid, start time and command line must all still be the same."""
    ended = 0
    for item in rows(read_record(host).get("servers")):
        pid = whole(item.get("pid"), 0, 1 << 22)  # the kernel's own limit
        if pid is None or "started" not in item:
            continue
        server = Server(pid, str(item["started"]), [str(part) for part in list_or_empty(item.get("argv"))])
        if server.pid > 1 and is_ours(host, server):
            host.signal_group(server.pid, signal.SIGTERM)
            ended += 1
        host.remove("%s/server-%s.log" % (RUN_DIR, _option(server.argv, "-p")))
    host.remove(RECORD)
    return ended


def _option(argv: List[str], name: str) -> str:
    """The number after an option; digits only, since it becomes part of a path."""
    value = argv[argv.index(name) + 1] if name in argv[:-1] else ""
    return value if is_digits(value) else "none"


def is_ours(host: Host, server: Server) -> bool:
    text = host.read("/proc/%d/cmdline" % server.pid)
    return bool(text) and str(text).rstrip("\0").split("\0") == server.argv and is_alive(host, server)


def is_alive(host: Host, server: Server) -> bool:
    """For one that was just started: its command line reads as empty for a moment while the kernel still sets the program up."""
    return bool(server.started) and start_time(host, server.pid) == server.started


def read_record(host: Host) -> Dict[str, Any]:
    return json_object(host.read(RECORD)) or {}
