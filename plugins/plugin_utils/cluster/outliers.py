# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements that stand out among their like: a warning with the distance, never a failure. Pure.

Median and MAD, since a mean and a deviation would be those of the outlier. What is alike: the same test over HCAs of one type and rate.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import BANDWIDTHS, CHECK, UNIT
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, number_text, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

PEERS = 8  # with fewer a median says little
DISTANCE = 5.0  # scaled MADs
SCALE = 1.4826  # of a MAD to the deviation of a normal distribution
WORSE = {"write_bw": 0.03, "together": 0.03, "read_lat": 0.10, "write_lat": 0.10}  # of the median, at least: less is nobody's loss
MOST = 16  # that are named, of one kind


class Found(NamedTuple):
    """``distance``: in scaled MADs, None where all others are alike."""

    at: int
    distance: float | None


def outliers(values: Sequence[float], least: float, *, low_is_bad: bool, floor: float = 0.0) -> list[Found] | None:
    """The places of values that are worse than their like, the worst first; None where there are too few to tell.

    ``least``: of the median, and ``floor``: in the values' own unit: what is worse by less is nobody's loss."""
    if len(values) < PEERS:
        return None
    middle = median(values)
    spread = SCALE * median(abs(value - middle) for value in values)
    worse = [(middle - value if low_is_bad else value - middle) for value in values]
    found = [Found(at, gap / spread if spread else None) for at, gap in enumerate(worse)
             if gap > 0 and gap >= max(floor, least * abs(middle)) and gap > DISTANCE * spread]
    return sorted(found, key=lambda item: -worse[item.at])


def judge_outliers(nodes: Mapping[str, Mapping[str, Any]], verdicts: Iterable[Mapping[str, Any]]) -> list[Verdict]:
    """``nodes``: facts by node; ``verdicts``: of perftest, with what was measured. One verdict for each kind, and for each outlier."""
    tests = {check: test for test, check in CHECK.items()}
    kinds = grouped(((tests[item["check"]], _hardware(nodes.get(item["node"], {}), item)), item) for item in verdicts
                    if item["check"] in tests and isinstance(item["found"], int | float) and not isinstance(item["found"], bool))
    found: list[Verdict] = []
    for (test, kind), alike in sorted(kinds.items()):
        found += judge_alike(Kind(CHECK[test], kind, UNIT[test], WORSE[test], low_is_bad=test in BANDWIDTHS), alike)
    return found


class Kind(NamedTuple):
    """What was measured and over which things that are alike; how it is judged, as ``outliers`` has it."""

    name: str
    over: str
    unit: str
    least: float
    low_is_bad: bool
    floor: float = 0.0


def judge_alike(kind: Kind, alike: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """``alike``: measurements as verdicts have them (node, hca, port, subject, found)."""
    where = VerdictSubject("", None, None, f"{kind.name} over {kind.over}")
    values = [float(item["found"]) for item in alike]
    middle = number_text(median(values))
    odd = outliers(values, kind.least, low_is_bad=kind.low_is_bad, floor=kind.floor)
    if odd is None:
        return [verdict("cluster.outlier", where, "skipped", PEERS, len(alike), f"{len(alike)} measurements alike: not enough to tell")]
    if not odd:
        text = f"{len(alike)} measurements are alike: {middle} {kind.unit} in the median"
        return [verdict("cluster.outlier", where, "pass", None, len(alike), text)]
    return [_standing_out(kind, alike[item.at], item, middle, len(alike)) for item in odd[:MOST]]


def _standing_out(kind: Kind, item: Mapping[str, Any], odd: Found, middle: str, count: int) -> Verdict:
    away = "where all others are alike" if odd.distance is None else f"{odd.distance:.1f} scaled MADs away"
    text = f"{kind.name}: {number_text(item['found'])} {kind.unit}, {middle} in the median of {count} alike: {away}"
    return verdict("cluster.outlier", VerdictSubject(item["node"], item["hca"], item["port"], item["subject"]), "warn", middle,
                   item["found"], text)


def _hardware(view: Mapping[str, Any], item: Mapping[str, Any]) -> str:
    for hca in rows((view.get("facts") or {}).get("hcas")):
        for port in rows(hca.get("ports")) if hca.get("name") == item["hca"] else ():
            if port.get("number") == item["port"]:
                return f"{hca.get('hca_type') or hca.get('driver') or 'an HCA'} of {port.get('rate_gbps') or 'unknown'} Gb/s"
    return "HCAs of no known type"
