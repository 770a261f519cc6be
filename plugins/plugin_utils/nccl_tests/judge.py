# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts on one run of nccl-tests: did it end, were the values right, was it fast enough. Pure.

The average that nccl-tests prints is the plain mean over every size, so one small size pulls it down: it is reported
and never judged. Judged is the median of both halves over the largest sizes (1 GiB and up, with B300 4 GiB, else the largest there is).
"""

from collections.abc import Mapping
from statistics import median
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import clean, reason
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.processes import FORSAKEN
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

from ..speed.ceilings import JUDGED_FROM
from .floors import Floor

MOST = 1 << 53  # wrong values: a program can print more than the record of a run can hold


def judge_run(parsed: Mapping[str, Any], node: str, subject: str, floor: Floor) -> list[Verdict]:
    """``subject``: all_reduce of 16 ranks …; a floor without a figure: reported, not judged. ``node`` is '' for a run over several."""
    where = VerdictSubject(node, None, None, subject)
    return [_values(parsed, where), _speed(parsed, where, floor)]


def judged_rows(rows: list[dict[str, Any]], since: int = JUDGED_FROM) -> list[dict[str, Any]]:
    """The rows of the sizes that say something about bandwidth. ``since``: bytes."""
    large = [row for row in rows if row["size"] >= since]
    if large or not rows:
        return large
    top = max(row["size"] for row in rows)
    return [row for row in rows if row["size"] == top]


def judged_busbw(rows: list[dict[str, Any]], since: int = JUDGED_FROM) -> float | None:
    """GB/s: the median over the judged rows and both halves; None without a figure."""
    found = [float(half["busbw"]) for row in judged_rows(rows, since) for half in (row["out_of_place"], row["in_place"])
             if half is not None and half["busbw"] is not None]
    return median(found) if found else None


def wrong_values(parsed: Mapping[str, Any]) -> str | None:
    """What nccl-tests says of data that did not arrive as it was sent; None where it says nothing of the kind.

    The two counts have their own units: ``#wrong`` counts elements, the footer comparisons with any (src/common.cu, ``errors[0]++``).
    """
    halves = [(row["size"], half["wrong"] or 0) for row in parsed["rows"] for half in (row["out_of_place"], row["in_place"]) if half]
    wrong, bounds = min(sum(count for _size, count in halves), MOST), min(parsed["out_of_bounds"] or 0, MOST)
    if not wrong and not bounds:
        return None
    sizes = sorted({size for size, count in halves if count})
    counted = f"{wrong} wrong values" if wrong else f"values out of bounds in {bounds} comparisons"
    return f"{counted}: data was damaged on its way (sizes {', '.join(map(str, sizes[:5])) or 'unknown'})"


def _values(parsed: Mapping[str, Any], where: VerdictSubject) -> Verdict:
    counts = [half["wrong"] for row in parsed["rows"] for half in (row["out_of_place"], row["in_place"]) if half is not None]
    known = [count for count in counts if count is not None]
    damage = wrong_values(parsed)
    if damage is not None:
        return verdict("nccl.values", where, "fail", 0, min(sum(known) or parsed["out_of_bounds"], MOST), damage)
    if not known:
        return verdict("nccl.values", where, "skipped", 0, None, "unchecked: the run compared no value (-c 0)")
    return verdict("nccl.values", where, "pass", 0, 0, f"no wrong value in {len(known)} comparisons")


def _speed(parsed: Mapping[str, Any], where: VerdictSubject, floor: Floor) -> Verdict:
    found = judged_busbw(parsed["rows"], floor.judged_from)
    sizes = sorted({row["size"] for row in judged_rows(parsed["rows"], floor.judged_from)})
    over = "at %s" % (_bytes(sizes[0]) if len(sizes) == 1 else f"{_bytes(sizes[0])} to {_bytes(sizes[-1])}") if sizes else ""
    top = "" if floor.ceiling is None else f"; ceiling {_figure(floor.ceiling)} by {floor.limit}"
    if floor.gbs is None:
        message = f"{_figure(found)} GB/s busbw {over}{top}; not judged: {floor.source}"
        return verdict("nccl.busbw", where, "skipped", None, found, message)
    if found is None:
        return verdict("nccl.busbw", where, "unknown", floor.gbs, None, "no bandwidth in the output")
    status = "pass" if found >= floor.gbs else "fail"
    return verdict("nccl.busbw", where, status, floor.gbs, found, "%s GB/s busbw %s, %s %s%s" % (
        _figure(found), over, "at least" if status == "pass" else "below", _figure(floor.gbs), top))


def _figure(value: float | None) -> str:
    return "no" if value is None else "%.1f" % value


def _bytes(size: int) -> str:
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << power:
            return f"{size / float(1 << power):g} {unit}"
    return f"{size} B"


# How a job ended, in words: what its exit status means, which line of its output says why, and what was left of it. Pure.

# Of nccl-tests from 2.18 on (src/common.h, testResult_t); older ones end every failure with 1. 255: options.
_NCCL_TESTS = {1: "a failure", 2: "a CUDA failure", 3: "a NCCL failure", 4: "nccl-tests' own timeout", 5: "not implemented",
               6: "invalid usage", 7: "wrong values, or less than NCCL_TESTS_MIN_BW", 255: "an option was refused"}
_SHELL = {124: "its time was over", 125: "timeout itself failed", 126: "the program cannot be executed", 127: "the program was not found",
          FORSAKEN: "nobody asked for it any more: the controller was gone"}
_SIGNALS = {1: "HUP", 2: "INT", 4: "ILL", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 11: "SEGV", 13: "PIPE", 15: "TERM"}
_SAID = ("error", "Test NCCL failure", "Test CUDA failure")  # what stands behind a # too, and is no part of the table


def how_it_ended(rc: Any) -> str:
    """``exit 3: a NCCL failure``; None: somebody killed it together with what watched it."""
    if rc is None:
        return "killed from outside"
    code = int(rc)
    if code in _SHELL:
        return "exit %d: %s" % (code, _SHELL[code])
    if code > 128 and code - 128 in _SIGNALS:
        return "exit %d: killed by SIG%s" % (code, _SIGNALS[code - 128])
    return "exit %d%s" % (code, ": " + _NCCL_TESTS[code] if code in _NCCL_TESTS else "")


def why(text: str, log: str) -> str | None:
    """NCCL's own warning first, wherever it was written; then the most telling line of the output that is not the table's."""
    warnings = "\n".join(line for line in lines_in(clean(log)) if "NCCL WARN" in line)
    rest = "\n".join(line for line in lines_in(clean(text)) if not _of_table(line))
    return reason(warnings) or reason(rest)


def _of_table(line: str) -> bool:
    """Whether a line is one of nccl-tests' table: a comment, or a row that begins with two numbers and a type."""
    words = line.split(None, 3)
    if line.lstrip().startswith("#"):
        return not any(word in line for word in _SAID)
    return len(words) > 2 and words[0].isdecimal() and words[1].isdecimal() and "a" <= words[2][0] <= "z"


def leftovers(ended: Mapping[str, int]) -> list[Verdict]:
    """A job that ended by itself leaves nothing. What had to be ended is worth inspecting: it held GPUs."""
    return [verdict("nccl.leftovers", VerdictSubject(node, None, None, "processes of the run"), "warn", 0, count,
                    "%d processes of the run were still there after it and were ended" % count)
            for node, count in sorted(ended.items()) if count]
