# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports: every verdict in every format, and no way for a node's text to be more than text."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from railwright.report.cases import as_junit, cases_of
from railwright.report.files import write_report
from railwright.report.markdown import as_markdown
from railwright.runs import Run

HOSTILE = [
    '<script>alert("x")</script>',
    "a|b|c",
    "]]> & </failure> <!-- -->",
    "\x00\x08\x1b[31mred\x1b[0m\ufffe\ud800",
    "line one\nline | two\n\n# heading",
    "[link](http://example.invalid) ![img](x) `code` *bold* {{ 7*7 }}",
    '"; rm -rf / #',
    "\\| back\\\\| @everybody &lt;",
    "\u202eevil",
]


def verdict(status: str, **more: Any) -> dict[str, Any]:
    base = {
        "check": "port.state",
        "node": "n1",
        "hca": "mlx5_0",
        "port": 1,
        "subject": "rail0 (eth1)",
        "expected": "ACTIVE",
        "found": "DOWN",
        "message": "is down",
    }
    return base | {"status": status} | more


def change(**more: Any) -> dict[str, Any]:
    return {
        "key": "k",
        "area": "network",
        "what": "MTU of rail0 (eth1)",
        "before": 1500,
        "after": 9000,
        "disruption": "link",
        "why": "jumbo",
        "source": "s",
    } | more


def run(verb: str = "validate", **more: Any) -> Run:
    fields = {"nodes": {"n1": {"status": "ok", "message": ""}}, "finished": "f"} | more
    return Run("20260101T000000Z-" + verb, verb, "/inv", None, "2026-01-01T00:00:00+00:00", "0.1.0", **fields)


def junit(one: Run) -> ET.Element:
    return ET.fromstring(as_junit(one, cases_of(one)).encode())


def test_junit_has_a_suite_a_node_and_a_case_a_verdict() -> None:
    verdicts = [
        verdict("pass", subject="a"),
        verdict("fail", subject="b"),
        verdict("unknown", subject="c"),
        verdict("warn", subject="d"),
        verdict("skipped", subject="e"),
    ]
    root = junit(run(verdicts=[*verdicts, verdict("fail", node="", subject="mtu")]))
    assert {suite.get("name") for suite in root} == {"n1", "cluster"}
    suite = root.find("testsuite[@name='n1']")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped"), suite.get("errors")) == ("6", "1", "2", "0")
    assert (root.get("tests"), root.get("failures")) == ("7", "2")
    failed = suite.find("testcase[@name='mlx5_0 port 1 b']")
    assert failed is not None
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == "is down"
    assert "expected: ACTIVE\nfound: DOWN" in str(failure.text)


def test_unknown_and_unproven_stay_apart_from_skipped() -> None:
    one = run(verdicts=[verdict(status, subject=status, message="m") for status in ("unknown", "unproven", "skipped")])
    root = junit(one)
    assert (root.get("failures"), root.get("skipped")) == ("0", "3")
    assert [element.get("message") for element in root.iter("skipped")] == ["unknown: m", "unproven: m", "m"]
    text = as_markdown(one, cases_of(one))
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Nodes", "## Unknown (1)", "## Unproven (1)", "## Skipped (1)", "## Passed (1)"]
    assert "| Node | Error | Failed | Warning | Unknown | Unproven | Skipped | Passed |" in text


def test_an_unreachable_node_is_an_error_not_a_pass() -> None:
    root = junit(run(nodes={"n1": {"status": "ok"}, "n2": {"status": "unreachable", "message": "timed out"}}))
    error = root.find("testsuite[@name='n2']/testcase/error")
    assert error is not None
    assert error.get("message") == "unreachable: timed out"
    assert root.get("errors") == "1"


def test_drift_fails_and_applied_changes_pass() -> None:
    drift = junit(run("plan", nodes={"n1": {"status": "ok", "changes": [change()]}}))
    assert drift.get("failures") == "1"
    done = junit(
        run(
            "apply",
            nodes={"n1": {"status": "failed", "message": "x", "changes": [change(applied=True), change(what="other", applied=False)]}},
        )
    )
    assert (done.get("failures"), done.get("errors")) == ("1", "1")


def test_a_status_that_is_not_known_does_not_pass() -> None:
    assert junit(run(verdicts=[verdict("wonderful")])).get("failures") == "1"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_in_xml(text: str) -> None:
    one = run(
        nodes={text: {"status": "failed", "message": text}},
        verdicts=[verdict("fail", node=text, subject=text, message=text, found=text, check=text)],
    )
    document = as_junit(one, cases_of(one))
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", document)
    root = ET.fromstring(document.encode())
    assert {element.tag for element in root.iter()} == {"testsuites", "testsuite", "testcase", "failure", "error"}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_in_its_markdown_cell(text: str) -> None:
    harmless = as_markdown(*_with("x"))
    document = as_markdown(*_with(text))
    assert document.count("\n") == harmless.count("\n")
    assert re.sub(r"\\\\|\\\|", "", document).count("|") == re.sub(r"\\\\|\\\|", "", harmless).count("|")
    assert not re.search(r"(?<!\\)[<>`\x00-\x09\x1b]", document)
    assert not re.search(r"(?<!\\)\]\(", document)
    assert "@" not in document


def _with(text: str) -> tuple[Run, list[Any]]:
    one = run(
        nodes={"n1": {"status": "failed", "message": text}},
        verdicts=[verdict("fail", subject=text, message=text, found=text, expected=[text])],
    )
    return one, cases_of(one)


def test_write_report_writes_four_files_and_json_is_the_record(tmp_path: Path) -> None:
    one = run(verdicts=[verdict("fail", message="\ud800 \x00")])
    paths, plots = write_report(one, tmp_path / "out" / "deep")
    assert plots == []
    assert {path.name for path in paths.values()} == {"report.json", "report.xml", "report.md", "report.html"}
    assert json.loads(paths["json"].read_text()) == one.as_dict()
    ET.parse(paths["junit"])
    assert "## Failed (1)" in paths["markdown"].read_text()


def test_markdown_of_a_plan_calls_it_drift() -> None:
    one = run("plan", nodes={"n1": {"status": "ok", "changes": [change()]}})
    document = as_markdown(one, cases_of(one))
    assert "## Drift (1)" in document
    assert "MTU of rail0 (eth1)" in document.replace("\\", "")


def test_what_is_unproven_is_never_a_pass_and_never_a_failure() -> None:
    """Every report says that it was not judged, and says which kind of not judged it is."""
    one = run(verdicts=[verdict("unproven", check="gpudirect.traffic", message="perftest is built without CUDA")])
    suite = junit(one)[0]
    assert {key: suite.attrib[key] for key in ("failures", "errors", "skipped")} == {"failures": "0", "errors": "0", "skipped": "1"}
    [message] = [element.attrib["message"] for element in suite.iter("skipped")]
    assert message == "unproven: perftest is built without CUDA"
    text = as_markdown(one, cases_of(one))
    assert "## Unproven (1)" in text
    assert "perftest is built without CUDA" in text
