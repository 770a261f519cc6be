# SPDX-License-Identifier: GPL-3.0-or-later
"""A burn-in as rows of text, as cases, and as a section of report.md. Its record passes the form of documents.py again."""

from collections.abc import Iterator
from typing import Any

from railwright import documents
from railwright.report.bench import figure
from railwright.report.text import markdown_cell, markdown_section
from railwright.runs import Run

Object = dict[str, Any]
Rows = list[tuple[str, ...]]
ROUNDS = ("round", "began", "minutes", "end", "fail", "warn", "unknown", "same bits", "figures")
PARTS = ("serial", "what", "node", "name", "failures", "warnings")
SHOWN = 200  # rounds and parts; report.json has all


def document_of(run: Run) -> Object | None:
    found: Object | None = documents.burn_in_document(run.burn_in)
    return found


def summary(document: Object) -> str:
    failed = sum(bool(round_["failed"]) for round_ in document["rounds"])
    stopped = f"; it ended early: {document['stopped']}" if document["stopped"] else ""
    return (f"{len(document['rounds'])} rounds, {failed} failed, {figure(document['spent_hours'])} of {figure(document['hours'])} h; "
            f"the same bits in all rounds: {document['repeatable']}{stopped}")


def round_rows(document: Object) -> Rows:
    """The last ones, and those that failed."""
    every = document["rounds"]
    chosen = [round_ for at, round_ in enumerate(every) if round_["failed"] or at >= len(every) - SHOWN][-SHOWN:]
    return [(str(round_["number"]), str(round_["began"]), figure(round_["seconds"] / 60, ".1f"), "FAILED" if round_["failed"] else "well",
             *(str(round_["counts"].get(status, 0)) for status in ("fail", "warn", "unknown")), round_["repeatable"] or "unknown",
             ", ".join(f"{name} {figure(value)}" for name, value in round_["figures"].items()) or "-") for round_ in chosen]


def part_rows(document: Object) -> Rows:
    """Those with something against them, by serial number."""
    return [(*(part[key] or "-" for key in PARTS[:4]), _counts(part["failures"]), _counts(part["warnings"]))
            for part in document["parts"] if part["failures"] or part["warnings"]][:SHOWN]


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{check} {many}" for check, many in found.items()) or "-"


def cases(document: Object) -> Iterator[tuple[str, str, str, str]]:
    """(node or '', what, result, message): a case of each round, of each part, and of the bits."""
    for round_ in document["rounds"]:
        away = "".join(f"; {name} {status}: {message}" for name, (status, message) in round_["away"].items())
        message = f"{_counts(round_['counts'])} after {figure(round_['seconds'] / 60, '.1f')} min{away}"
        yield "", f"round {round_['number']}", "failed" if round_["failed"] else "passed", message
    for part in document["parts"]:
        result = "failed" if part["failures"] else "warning" if part["warnings"] else "passed"
        message = f"failures: {_counts(part['failures'])}; warnings: {_counts(part['warnings'])}"
        yield part["node"] or "", f"{part['what']} {part['serial']}", result, "" if result == "passed" else message
    bits = {"yes": "passed", "no": "failed"}.get(document["repeatable"] or "", "unknown")
    yield "", "the same bits in all rounds", bits, "" if bits == "passed" else f"the same bits: {document['repeatable']}"
    if document["stopped"]:
        yield "", "the time was spent", "failed", document["stopped"]


def section(document: Object) -> list[str]:
    """Of report.md."""
    tables = markdown_section("### Rounds", ROUNDS, round_rows(document)) + markdown_section("### Parts", PARTS, part_rows(document))
    return ["", "## Burn-in", "", markdown_cell(summary(document)), *tables]
