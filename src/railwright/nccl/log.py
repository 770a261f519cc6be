# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job's log proves: nccl-tests' table, which way the data went by NCCL's INFO lines, and what the job died of. Pure.

No inventory stands behind it: wanted is RDMA between nodes, of every rank, and an end without an error.
"""

import re
from collections.abc import Iterable
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import transport
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.text_report import parse
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict, as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.judge import wrong_values
from railwright.exitcodes import ExitCode
from railwright.nccl.errors import DESTROYED, ErrorReader, as_rows, judge_errors

NCCL_TESTS = "# nThread "  # of the head that every version prints (src/common.cu)
TOO_SLOW = re.compile(r"Avg bus bandwidth[ \t]*:[ \t]*[^\s]{1,32} FAILED")  # src/common.cu: with NCCL_TESTS_MIN_BW alone
SILENT = "no line of NCCL's in it (NCCL_DEBUG=INFO)"
JOB = VerdictSubject("", None, None, "the job of this log")
PROVEN = ("pass", "warn", "skipped")
INCOMPLETE = "the run is not complete"
TABLE_TEXT = 8 * 1024 * 1024  # characters that are kept of what NCCL did not write; a table of every size has some 10 kB
# A line of NCCL's alone, perhaps behind a launcher's tag and a time; before another one part of a table's row may stand.
_PLAIN = re.compile(r"(?:\[[^\]\n]{1,60}\](?:<\w{1,12}>)?:? ?|\d{1,7}: |\d[\d:.T+-]{7,40}Z? ){0,3}\w[\w.-]{0,254}:\d{1,18}:\d{1,18} ?"
                    r"(?:\[-?\d{1,9}\] )?(?:\S{1,120}:\d{1,6} (?:\(\w{1,64}\) )?)?")


class _TableText:
    """The lines that may belong to a table of nccl-tests, bounded."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.room = TABLE_TEXT

    def feed(self, line: str) -> None:
        at = line.find("NCCL ")
        if at > 0 and _PLAIN.fullmatch(line, max(0, at - 600), at) and line[at + 5:at + 9] in ("INFO", "WARN", "ATTN"):
            return
        self.room -= len(line) + 1
        if self.room >= 0:
            self.kept.append(line)


def judge_log(text: str, *, gdr: bool) -> dict[str, Any]:
    """The form of docs/bench.md. ``gdr``: data through host memory is a failure."""
    return judge_files([text.split("\n")], gdr=gdr)


def judge_files(files: Iterable[Iterable[str]], *, gdr: bool) -> dict[str, Any]:
    """Judge the lines of the files of one job. Each line is read once."""
    ways_reader, table_text, reader = transport.LogReader(), _TableText(), ErrorReader()
    for lines in files:
        reader.begin()
        for line in lines:
            ways_reader.feed(line)
            table_text.feed(line)
            reader.feed(line)
    ways, text = ways_reader.result(), "\n".join(table_text.kept)
    headed = NCCL_TESTS in text or "busbw" in text
    tests = headed or not (ways["lines"] or reader.errors)
    table = parse(text if tests else "")
    ranks = max((size for _name, size in ways["communicators"]), default=0)
    end = DESTROYED if table["complete"] else "" if headed else reader.end(ranks)
    errors = reader.result(end)
    return {
        **table, "failures": failures(table, text) if tests else [], "nccl": ways["versions"], "lines": ways["lines"],
        "ranks": ranks or None, "nodes": transport.nodes_of(ways) or None, "ended": bool(end),
        "chosen_by": transport.chosen_by(ways) if ways["lines"] else None, "transport": transport.summary(ways),
        "errors": as_rows(reader, errors), "errors_left_out": reader.dropped,
        "verdicts": as_dicts([_ranks(ways), _transport(ways, gdr=gdr), judge_errors(reader, JOB, errors, end)]),
    }  # fmt: skip


def proves(found: dict[str, Any]) -> bool:
    """A table by itself is judged by itself; where NCCL spoke, what it said must prove the way too."""
    return exit_code(found) is ExitCode.OK


def exit_code(found: dict[str, Any]) -> ExitCode:
    """FAILED needs a cause: a failed verdict, wrong values, a speed below nccl-tests' own floor. A missing answer is UNJUDGED."""
    judged = [item["status"] for item in found["verdicts"] if found["lines"] or item["check"] == "nccl.error"]
    if "fail" in judged or set(found["failures"]) - {INCOMPLETE}:
        return ExitCode.FAILED
    if found["failures"] or not all(status in PROVEN for status in judged):
        return ExitCode.UNJUDGED
    return ExitCode.OK


def failures(found: dict[str, Any], text: str) -> list[str]:
    """Why the run of nccl-tests is no good, each in a line."""
    incomplete = None if found["complete"] else INCOMPLETE
    slow = "nccl-tests says that busbw is below NCCL_TESTS_MIN_BW" if TOO_SLOW.search(text) else None
    return [line for line in (incomplete, wrong_values(found), slow) if line is not None]


def _ranks(ways: dict[str, Any]) -> Verdict:
    """``nccl.ranks``: whether every rank of the job is in the log, and all have one NCCL."""
    wanted = "every rank, one NCCL"
    sizes = [size for _name, size in ways["communicators"]]
    missing = [text for text in transport.gaps(ways) if "ranks" in text]
    if not ways["lines"] or not sizes or missing:
        why = SILENT if not ways["lines"] else (missing or ["no line says how many ranks the job has (Init COMPLETE)"])[0]
        return verdict("nccl.ranks", JOB, "unknown", wanted, None, why)
    versions = sorted({version.partition("+")[0] for version in ways["versions"]})
    found = f"ranks: {max(sizes)}, nodes: {transport.nodes_of(ways) or '?'}, NCCL {' and '.join(versions) or '?'}"
    return verdict("nccl.ranks", JOB, "fail" if len(versions) > 1 else "pass", wanted, found, found)


def _transport(ways: dict[str, Any], *, gdr: bool) -> Verdict:
    wanted = f"RDMA between nodes{', with GPUDirect RDMA' if gdr else ''}"
    if not ways["lines"]:
        return verdict("nccl.transport", JOB, "unknown", wanted, None, SILENT)
    if {size for _name, size in ways["communicators"]} == {1}:
        return verdict("nccl.transport", JOB, "skipped", wanted, None, "one rank sends nothing")
    missing = transport.gaps(ways)
    net = any(channel.kind == "NET" for channel in ways["channels"])
    if transport.nodes_of(ways) == 1 and not net:
        return transport.judge_run_transport(ways, JOB, {}, missing, alone=True)
    status, found, message = transport.judge(ways, "", gdr=gdr, missing=missing)
    staged = sum(channel.kind == "NET" and not channel.gdr for channel in ways["channels"])
    if status == "pass" and staged:
        message += f"; {staged} of them through host memory, without GPUDirect RDMA"
    chosen = f"; chosen by {transport.chosen_by(ways)}" if net or ways["networks"] else ""
    return verdict("nccl.transport", JOB, status, wanted, found, message + chosen)
