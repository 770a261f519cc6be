# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on measured bandwidth and latency. The threshold comes from the inventory or the catalogue, or there is none. Pure."""

from typing import Mapping, NamedTuple, Optional

from ..rules.comparisons import Where, at_least, at_most, number, verdict
from ..types import Verdict
from .perftest import TOOLS, UNIT, Measurement

CHECK = {"write_bw": "perftest.write_bw", "read_lat": "perftest.read_lat"}
KEY = {"write_bw": "validate_min_bandwidth_gbps", "read_lat": "validate_max_latency_us"}


class Limits(NamedTuple):
    """By inventory key: the threshold, and what the catalogue says where the inventory has none (its source, or why there is none)."""

    thresholds: Mapping[str, Optional[float]]
    sources: Mapping[str, str]


def where_of(node: str, test: Measurement, peer: str) -> Where:
    return Where(node, test.hca, test.port, "%s to %s" % (test.rail, peer))


def judge_figure(node: str, peer: str, test: Measurement, limits: Limits, found: Optional[float], why: str) -> Verdict:
    """One test. Without a figure it failed, and ``why`` says how: a connection that does not come up needs no threshold."""
    check, where, limit = CHECK[test.name], where_of(node, test, peer), limits.thresholds.get(KEY[test.name])
    source = limits.sources.get(KEY[test.name])
    if found is None:
        expected = number(limit) if limit is not None else "a result"
        return verdict(check, where, "fail", expected, None, "%s: %s" % (TOOLS[test.name], why))
    if limit is None:
        return verdict(check, where, "skipped", None, found, "%s %s measured; no threshold in the inventory (%s)%s" % (
            number(found), UNIT[test.name], KEY[test.name], ", and " + source if source else ""))
    judge = at_least if test.name == "write_bw" else at_most
    judged = judge(check, where, limit, found, KEY[test.name], "%s average in %s" % (TOOLS[test.name], UNIT[test.name]))
    return judged._replace(message="%s (%s)" % (judged.message, source)) if source else judged
