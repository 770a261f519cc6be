# SPDX-License-Identifier: GPL-3.0-or-later
"""JUnit XML, as CI systems read it: one suite a node, one case a verdict or change."""

from __future__ import annotations

from collections import defaultdict
from xml.etree import ElementTree as ET

from railwright.report.cases import Case
from railwright.report.text import xml_text
from railwright.runs import Run

NOT_JUDGED = ("unknown", "unproven", "skipped")


def as_junit(run: Run, cases: list[Case]) -> str:
    """The whole document. JUnit has no warning, which passes and carries its text, and one word for all that was not judged."""
    suites: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        suites[case.node].append(case)
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
