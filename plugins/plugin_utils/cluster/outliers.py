# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements that stand out among their like, and ranks that come late to collectives: a warning with by how much, never a failure. Pure.

Median and MAD, since a mean and a deviation would be those of the outlier. What is alike: the same test over HCAs of one type and rate.

All ranks leave a collective together: the one that was in it for the shortest time came last, and no clocks are compared. A rank is late
against those that waited longest, the larger half, so that one slow node of two has all of its ranks named.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median, median_high
from typing import Any, NamedTuple, TypeVar

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


LIKE = 4  # that are the same at least, before the others are what one is held against
NEARLY_ALL = 0.75  # of all
Value = TypeVar("Value")


def usual(values: Sequence[Value]) -> tuple[Value, int] | None:
    """What nearly all of them are, and how many; None where there is no such value."""
    value, count = Counter(values).most_common(1)[0]
    return (value, count) if count >= LIKE and count >= NEARLY_ALL * len(values) else None


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


LEAST = WORSE["write_bw"]  # of the step: less is nobody's loss
# Milliseconds. Two healthy H100 of one node, whose steps take two: one was 0.24 late, by how fast its host launches kernels.
LEAST_MS = 0.5
# Of the collectives. Two ranks that are alike come last in so many of 64 once in 10,000 runs (binomial distribution).
MOSTLY = 0.75
FEWEST = 16  # collectives; of fewer the share says little


class Late(NamedTuple):
    """``often``: in so many collectives by at least ``LEAST`` of a step and ``LEAST_MS``; ``ms``, ``most``: median and most."""

    rank: int
    ms: float
    most: float
    often: int


def late_ranks(waits: Mapping[int, Sequence[float]], step: float) -> list[Late] | None:
    """``waits``: milliseconds in each collective, the same ones of every rank; the latest first. None where there are too few to tell."""
    count = min(map(len, waits.values()), default=0)
    if len(waits) < 2 or count < FEWEST or step <= 0:
        return None
    longest = longest_waits(waits)
    late = {rank: [longest[at] - own[at] for at in range(count)] for rank, own in waits.items()}
    middle = {rank: median(own) for rank, own in late.items()}
    # The spread of those that come in time: among many that are well some are a little later than others every time.
    spread = SCALE * median(-value for value in middle.values() if value <= 0) if len(waits) >= PEERS else 0.0
    least = max(LEAST * step, LEAST_MS)
    found = [Late(rank, middle[rank], max(own), sum(value >= least for value in own)) for rank, own in late.items()
             if middle[rank] > DISTANCE * spread]
    return sorted((item for item in found if item.often >= MOSTLY * count), key=lambda item: -item.ms)[:MOST]


def longest_waits(waits: Mapping[int, Sequence[float]]) -> list[float]:
    """Of each collective: what the larger half waited at least."""
    return [median_high(own[at] for own in waits.values()) for at in range(min(map(len, waits.values()), default=0))]


def judge_arrivals(
    check: str, where: VerdictSubject, what: str, waits: Mapping[int, Sequence[float]], own: Mapping[int, Sequence[float]],
    places: Mapping[int, tuple[str, str]],
) -> tuple[list[Verdict], list[dict[str, Any]]]:
    """The verdicts, and the late ranks for the document. ``what``: the collectives; ``own``: milliseconds of work before each, where told,
    else a step is a collective as those see it that come first; ``places``: node and GPU of each rank."""
    steps = [wait + before for rank, before_all in own.items() for wait, before in zip(waits[rank], before_all, strict=True)]
    step = median(steps or longest_waits(waits) or [0.0])
    expected = f"no rank late by {LEAST:.0%} of {step:.3f} ms, and {LEAST_MS:g} ms, in {MOSTLY:.0%} of the {what}"
    found = late_ranks(waits, step)
    if found is None:
        return [verdict(check, where, "unknown", expected, None, f"{len(waits)} ranks told too little of their {what}")], []
    if not found:
        return [verdict(check, where, "pass", expected, None, f"no rank of {len(waits)} comes late again and again")], []
    count = min(map(len, waits.values()))
    work = {rank: median(before) for rank, before in own.items() if before}
    verdicts, rows = [], []
    for item in found:
        node, gpu = places[item.rank]
        mine = work.get(item.rank)
        more = "" if mine is None else f"; its own work takes {mine:.3f} ms, {median(work.values()):.3f} in the median of all"
        verdicts.append(verdict(check, where._replace(node=node), "warn", expected, round(item.ms, 3), (
            f"rank {item.rank} on {node} ({gpu}) comes late to {item.often} of {count} {what}: {item.ms:.3f} ms in the median, "
            f"{item.most:.3f} at most, {item.ms / step:.0%} of a {'step' if own else 'call'}{more}")))
        rows.append({"rank": item.rank, "node": node, "gpu": gpu, "collective": what, "ms": round(item.ms, 3),
                     "most_ms": round(item.most, 3), "share": round(item.ms / step, 3), "late": item.often, "of": count, "own_ms": mine})
    return verdicts, rows
