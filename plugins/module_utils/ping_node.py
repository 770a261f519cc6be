# SPDX-License-Identifier: GPL-3.0-or-later
"""Send the jumbo pings of one node, a bounded number at a time."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, List, Mapping, Optional, Sequence

from .checks.judge import Where, verdict
from .checks.ping import ETHERNET_MTU, command, judge_probe, payload
from .host import Host
from .types import Verdict

PARALLEL = 16  # processes at once; a rail of a node with eight peers on eight rails would otherwise start 64


def ping_all(host, node, probes, count, wait):
    # type: (Host, str, Sequence[Mapping[str, Any]], int, int) -> List[Verdict]
    """A verdict for every probe, in their order."""
    ping = host.which("ping")
    if ping is None:
        return [verdict("ping.mtu", Where(node, probe["hca"], probe["port"], "%s to %s" % (probe["rail"], probe["peer"])), "unknown",
                        "an answer", None, "ping is not installed (package iputils-ping or iputils)") for probe in probes]
    if not probes:
        return []
    with ThreadPoolExecutor(max_workers=min(PARALLEL, len(probes))) as pool:
        return list(pool.map(lambda probe: _probe(host, ping, node, probe, count, wait), probes))


def _probe(host, ping, node, probe, count, wait):
    # type: (Host, str, str, Mapping[str, Any], int, int) -> Verdict
    full_size = payload(probe["mtu"], probe["address"])
    full = _answers(host, ping, probe, full_size, count, wait)
    small = None  # type: Optional[bool]
    least = payload(ETHERNET_MTU, probe["address"])
    if full is False and least < full_size:
        small = _answers(host, ping, probe, least, count, wait)
    return judge_probe(node, probe, full, small)


def _answers(host, ping, probe, size, count, wait):
    # type: (Host, str, Mapping[str, Any], int, int, int) -> Optional[bool]
    """Whether one answer came back; None when ping itself could not run. Its exit codes: 0 answered, 1 no answer, 2 other.

    2 is also what it gives for a source address that is not on this node: that is no answer, not an unknown.
    """
    result = host.run(command(ping, probe["address"], probe["source"], size, count, wait), timeout=count * wait + 10.0)
    if result.rc in (126, 127):
        return None
    return result.rc == 0
