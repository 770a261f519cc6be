# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters of rails before and after traffic: kept in a file of root's meanwhile, and judged by how they grew."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..errors import RailwrightError
from ..formats import sysfs_values
from ..host.host import Host
from ..observe.traffic_counters import Watched, snapshot
from ..rules.comparisons import VerdictSubject, verdict
from ..types import Verdict
from . import counter_verdicts
from .counter_verdicts import FAULTS, LINK, SUSPECT, judge_deltas

COUNTERS = tuple(dict.fromkeys(FAULTS + SUSPECT + counter_verdicts.NAMES))
Figures = List[Dict[str, Any]]


def watched(ports: Sequence[Mapping[str, Any]]) -> List[Watched]:
    """As the controller names them."""
    return [Watched(**dict(port, netdevs=tuple(port["netdevs"]))) for port in ports]


def check_port(port: Watched) -> None:
    """Names become paths and words of a command line here."""
    for name in (port.hca,) + port.netdevs:
        if not sysfs_values.is_name(name):
            raise RailwrightError("%r is no name of an RDMA device or of its interface" % name)


def counters_before(host: Host, ports: Sequence[Watched]) -> Dict[str, Any]:
    for port in ports:
        check_port(port)
    return {_key(port): snapshot(host, port, COUNTERS) for port in ports}


def judge_growth(
    host: Host, node: str, peer: str, ports: Sequence[Watched], baseline: Mapping[str, Any], lossless: Sequence[int], why_not: Optional[str]
) -> Tuple[List[Verdict], Figures]:
    """``baseline``: what was taken before, kept in a file and of any form; ``lossless``: the priorities of the site's QoS profile;
    ``why_not``: why there is nothing to hold the traffic against."""
    verdicts: List[Verdict] = []
    figures: Figures = []
    for port in ports:
        check_port(port)
        before = baseline.get(_key(port))
        where = VerdictSubject(node, port.hca, port.port, "%s with %s" % (port.rail, peer))
        if not isinstance(before, dict) or not isinstance(before.get("hca"), dict):
            verdicts.append(verdict("port.errors", where, "unknown", "no growth", None, "its counters were not read before the traffic"))
            continue
        after = snapshot(host, port, COUNTERS)
        verdicts.extend(judge_deltas(where, before["hca"], after["hca"], FAULTS if why_not is not None else LINK))
        found = counter_verdicts.traffic(before, after)
        figures.append(counter_verdicts.figures(port, peer, found))
        if why_not is not None:
            verdicts.append(verdict(counter_verdicts.LOSSLESS, where, "skipped", None, None, why_not))
        else:
            verdicts.extend(counter_verdicts.judge_traffic(where, port, peer, lossless, found))
    return verdicts, figures


def _key(port: Watched) -> str:
    return "%s/%d" % (port.hca, port.port)
