# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof by traffic: ib_write_bw between the memory of a GPU and an HCA, over the HCA back into the same node.

Registration of GPU memory with the HCA is the part that fails without GPUDirect, so a figure at all is the proof; whether
it is good enough is the inventory's to say. Where perftest cannot reach GPU memory nothing is proven, and that is said:
``unproven`` is not ``pass``. Client and server run on the node under ``timeout``; the server is ended in any case.
"""

import signal
from typing import Any, List, Optional, Sequence

from ..host.host import Host
from ..observe.nics import listening
from ..observe.processes import start_time
from ..rules.comparisons import VerdictSubject, number_text, verdict
from ..rules.gpudirect import DMABUF
from ..types import Verdict
from .gdr_pairs import Pair
from .perftest import TOOLS, Limit, Measurement, Options, figure, reason
from .perftest_node import RUN_DIR, TAKEN, Server, command, is_alive, wait_listening

CHECK = "gpudirect.traffic"
KEY = "gpudirect_min_bandwidth_gbps"
TEST = "write_bw"
LOOPBACK = "127.0.0.1"  # only the connection data go over it; the traffic goes over the HCA
HELP_SECONDS = 10.0


def measure(
    host: Host, node: str, path: str, pairs: Sequence[Pair], options: Options, port: int, limits: Sequence[Limit]
) -> List[Verdict]:
    """A verdict for every pair, one after the other: two at once would share a GPU or an HCA. ``limits``: one for each pair."""
    tool = host.which(TOOLS[TEST])
    lacking = "it is not installed" if tool is None else missing_in(host.run([tool, "--help"], HELP_SECONDS).out, path)
    if lacking is not None or tool is None:
        why = "%s: %s; the path is set up, and nothing on this node can show that it works" % (TOOLS[TEST], lacking)
        return [verdict(CHECK, where_of(node, pair), "unproven", "traffic from GPU memory", None, why) for pair in pairs]
    return [_judged(node, pair, limit, *_pair(host, loopback_test(pair, path, port), tool, options)) for pair, limit in zip(pairs, limits)]


def missing_in(text: str, path: str) -> Optional[str]:
    """What this build of perftest lacks for the path, by its own help; None when it has all."""
    if "--use_cuda=" not in text and "--use_cuda " not in text:
        return "it is built without CUDA"
    if path == DMABUF and "--use_cuda_dmabuf" not in text:
        return "it is built with CUDA but without DMA-BUF"
    return None


def where_of(node: str, pair: Pair) -> VerdictSubject:
    return VerdictSubject(node, pair.hca, pair.port, "GPU %s and %s" % (pair.gpu, pair.rail))


def _judged(node: str, pair: Pair, limit: Limit, found: Optional[float], why: str) -> Verdict:
    where, minimum = where_of(node, pair), limit.value
    if found is None:
        return verdict(CHECK, where, "fail", "traffic from GPU memory" if minimum is None else minimum, None, "%s: %s" % (TOOLS[TEST], why))
    if minimum is None:
        text = "%s Gb/s from GPU memory; %s" % (number_text(found), limit.source)
        return verdict(CHECK, where, "unknown" if limit.unknown else "pass", "traffic from GPU memory", found, text)
    status, side = ("pass", "") if found >= minimum else ("fail", ", below %s" % number_text(minimum))
    return verdict(CHECK, where, status, minimum, found, "%s Gb/s from GPU memory%s (%s)" % (number_text(found), side, limit.source))


def loopback_test(pair: Pair, path: str, port: int) -> Measurement:
    return Measurement(TEST, pair.rail, pair.hca, pair.port, pair.gid_index, port, LOOPBACK, gpu=pair.number, dmabuf=path == DMABUF,
                       numa_node=pair.numa_node)


def _pair(host: Host, test: Measurement, tool: str, options: Options) -> Any:
    """(figure, "") or (None, why)."""
    port = test.tcp_port
    if port in listening(host):
        return None, TAKEN % port
    log = "%s/gdr-%d.log" % (RUN_DIR, port)
    host.write(log, "", 0o600)  # also makes the directory
    argv = ["timeout", "-k", "5", str(options.timeout * 2)] + command(host, test, options, tool)
    pid = host.spawn(argv, log)
    server = Server(pid, start_time(host, pid) or "", argv)
    try:
        if not wait_listening(host, [(test, server, log)]):
            return None, "the server did not come up: %s" % reason(1, host.read(log) or "", "", LOOPBACK)
        result = host.run(command(host, test, options, tool, LOOPBACK), float(options.timeout))
        found = figure(TEST, result.out, None) if result.ok else None
        return found, "" if found is not None else reason(result.rc, result.out, result.err, LOOPBACK)
    finally:
        if is_alive(host, server):
            host.signal_group(server.pid, signal.SIGTERM)
        host.remove(log)
