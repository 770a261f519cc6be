# SPDX-License-Identifier: GPL-3.0-or-later
"""What anybody's log of a job proves: nccl-tests' table where there is one, and by NCCL's INFO lines which way the data went. Pure.

No inventory stands behind it: wanted is RDMA between nodes, of every rank.
"""

import re
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import transport
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.text_report import parse
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict, as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.judge import wrong_values

NCCL_TESTS = "# nThread "  # of the head that every version prints (src/common.cu)
TOO_SLOW = re.compile(r"Avg bus bandwidth[ \t]*:[ \t]*[^\s]{1,32} FAILED")  # src/common.cu: with NCCL_TESTS_MIN_BW alone
SILENT = "no line of NCCL's in it (NCCL_DEBUG=INFO)"
JOB = VerdictSubject("", None, None, "the job of this log")
PROVEN = ("pass", "warn", "skipped")


def judge_log(text: str, *, gdr: bool) -> dict[str, Any]:
    """The form of docs/bench.md. ``gdr``: data through host memory is a failure."""
    ways = transport.parse_log(text)
    tests = NCCL_TESTS in text or "busbw" in text or not ways["lines"]
    table = parse(text if tests else "")
    return {
        **table, "failures": failures(table, text) if tests else [], "nccl": ways["versions"], "lines": ways["lines"],
        "ranks": max((size for _name, size in ways["communicators"]), default=None), "nodes": transport.nodes_of(ways) or None,
        "chosen_by": transport.chosen_by(ways) if ways["lines"] else None, "transport": transport.summary(ways),
        "verdicts": as_dicts([_ranks(ways), _transport(ways, gdr=gdr)]),
    }  # fmt: skip


def proves(found: dict[str, Any]) -> bool:
    """A table by itself is judged by itself; where NCCL spoke, what it said must prove the way too."""
    return not found["failures"] and (not found["lines"] or all(item["status"] in PROVEN for item in found["verdicts"]))


def failures(found: dict[str, Any], text: str) -> list[str]:
    """Why the run of nccl-tests is no good, each in a line."""
    incomplete = None if found["complete"] else "the run is not complete"
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
