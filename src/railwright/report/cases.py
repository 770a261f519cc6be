# SPDX-License-Identifier: GPL-3.0-or-later
"""A run as a list of cases, each on one node with one result: what every report format shows; and JUnit XML of them for CI systems."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from ansible_collections.railwright.rdma.plugins.module_utils.checks.check_report import next_command
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import COMMANDS
from railwright.isolate.model import QUIET
from railwright.report import burn_in
from railwright.report import isolate as search
from railwright.report.text import CLUSTER, value_text, xml_text
from railwright.runs import Run


class Case(NamedTuple):
    """One judged thing. ``result`` is passed, failed, error, warning, unknown, unproven or skipped."""

    node: str
    group: str  # the check's id, or the area of a change
    name: str
    result: str
    message: str
    expected: str
    found: str
    next: str = ""  # a command that shows more


RESULT_OF_STATUS = {
    "pass": "passed", "fail": "failed", "warn": "warning", "unknown": "unknown", "unproven": "unproven", "skipped": "skipped",
}  # fmt: skip


def cases_of(run: Run) -> list[Case]:
    """Every node has at least one case: whether it answered."""
    cases = []
    for name, node in sorted(run.nodes.items()):
        cases.append(_answered(name, node))
        cases.extend(
            Case(name, str(problem.get("area")), str(problem.get("subject")), "failed", str(problem.get("message")), "", "")
            for problem in node.get("problems", [])
        )
        cases.extend(_change(name, change, run.verb) for change in node.get("changes", []))
        cases.extend(_finding(name, finding) for finding in node.get("findings", []))
        cases.extend(Case(name, str(row.get("area")), str(row.get("what")), "passed", "fixed", "", "") for row in node.get("fixed", []))
    cases.extend(_verdict(verdict) for verdict in run.verdicts)
    if (burnt := burn_in.document_of(run)) is not None:
        cases += [Case(node or CLUSTER, "burn-in", name, result, message, "", "") for node, name, result, message in burn_in.cases(burnt)]
    found = search.document_of(run)
    return cases if found is None else cases + list(_searched(found))


def _searched(document: dict[str, Any]) -> Iterator[Case]:
    """What a search found; of all other nodes, whether they were measured at all."""
    for row in document["findings"]:
        node = row["nodes"][0] if len(row["nodes"]) == 1 else CLUSTER
        name = f"{row['kind']} {row['rail'] or row['leaf'] or ' and '.join(row['nodes'][:2])}".strip()
        yield Case(node, "isolate", name, "unknown" if row["kind"] in QUIET else "failed", row["text"], "", "")
    measured = {node for ends in search.pairs(document) for node in ends}
    for node in sorted({*document["nodes"]} - {node for row in document["findings"] for node in row["nodes"]}):
        result, message = ("passed", "") if node in measured else ("unknown", "was not measured")
        yield Case(node, "isolate", "as fast as its like", result, message, "", "")
    if document["stopped"]:
        yield Case(CLUSTER, "isolate", "the search", "unknown", f"it ended before everything was told: {document['stopped']}", "", "")


def _answered(name: str, node: dict[str, Any]) -> Case:
    status, message = str(node.get("status")), str(node.get("message") or "")
    if status == "unreachable":
        return Case(name, "node", "answers", "error", f"unreachable: {message}", "an answer", "none")
    if status == "failed":
        return Case(name, "node", "answers", "error", message, "every task ok", str(node.get("task") or "a failed task"))
    return Case(name, "node", "answers", "passed", "", "", "")


def _change(name: str, change: dict[str, Any], verb: str) -> Case:
    before, after = value_text(change.get("before")), value_text(change.get("after"))
    if verb == "plan":
        result, message = "failed", f"drift ({change.get('disruption')}): {change.get('why')}"
    elif change.get("applied"):
        result, message = "passed", "applied"
    else:
        result, message = "failed", "not applied"
    return Case(name, str(change.get("area")), str(change.get("what")), result, message, after, before)


def _finding(name: str, finding: dict[str, Any]) -> Case:
    """A difference that `drift` found; all of them fail, its severity is in the text."""
    since, by = finding.get("since") or finding.get("first_seen"), finding.get("by")
    message = f"drift ({finding.get('severity')}, since {since}{f', {by}' if by else ''}): {finding.get('why')}"
    expected, found = _value(finding.get("expected"), finding.get("found")), _value(finding.get("found"), finding.get("expected"))
    return Case(name, str(finding.get("area")), str(finding.get("what")), "failed", message, expected, found)


def _verdict(verdict: dict[str, Any]) -> Case:
    port = verdict.get("port")
    parts = [str(verdict.get("hca") or ""), f"port {port}" if port is not None else "", str(verdict.get("subject") or "")]
    status = str(verdict.get("status"))
    return Case(
        node=str(verdict.get("node") or CLUSTER),
        group=str(verdict.get("check")),
        name=" ".join(part for part in parts if part) or str(verdict.get("check")),
        # An unknown status is a newer check's word for something; it must not count as passed.
        result=RESULT_OF_STATUS.get(status, "failed"),
        message=str(verdict.get("message") or status),
        expected=_value(verdict.get("expected"), verdict.get("found")),
        found=_value(verdict.get("found"), verdict.get("expected")),
        next="" if status == "pass" else next_command(verdict, COMMANDS),
    )


def _value(value: Any, other: Any) -> str:
    """A verdict without a value says so only where the other side has one."""
    if value is None:
        return "" if other is None else "-"
    return value_text(value)


NOT_JUDGED = ("unknown", "unproven", "skipped")


def as_junit(run: Run, cases: list[Case]) -> str:
    """The whole document. JUnit has no warning, which passes and carries its text, and one word for all that was not judged."""
    suites = grouped((case.node, case) for case in cases)
    root = ET.Element("testsuites", _counts(cases) | {"name": xml_text(f"railwright {run.verb}")})
    for node, members in suites.items():
        attributes = {"name": xml_text(node), "hostname": xml_text(node), "timestamp": xml_text(run.started)} | _counts(members)
        suite = ET.SubElement(root, "testsuite", attributes)
        for case in members:
            _append(suite, case)
    ET.indent(root)
    # Not tostring(xml_declaration=True): its declaration would name the locale's encoding.
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _counts(cases: list[Case]) -> dict[str, str]:
    counted = {"tests": len(cases)}
    for attribute, results in (("failures", ("failed",)), ("errors", ("error",)), ("skipped", NOT_JUDGED)):
        counted[attribute] = sum(case.result in results for case in cases)
    return {key: str(value) for key, value in counted.items()}


def _append(suite: ET.Element, case: Case) -> None:
    attributes = {"classname": xml_text(f"{case.node}.{case.group}"), "name": xml_text(case.name), "time": "0"}
    element = ET.SubElement(suite, "testcase", attributes)
    details = f"expected: {case.expected}\nfound: {case.found}" if case.expected or case.found else ""
    if case.result in ("failed", "error"):
        tag = "failure" if case.result == "failed" else "error"
        child = ET.SubElement(element, tag, {"message": xml_text(case.message), "type": xml_text(case.group)})
        child.text = xml_text(f"{case.message}\n{details}".strip())
    elif case.result in NOT_JUDGED:
        kind = "" if case.result in ("skipped", case.message) else f"{case.result}: "
        ET.SubElement(element, "skipped", {"message": xml_text(kind + case.message)})
    elif case.result == "warning":
        ET.SubElement(element, "system-out").text = xml_text(f"warning: {case.message}\n{details}".strip())
