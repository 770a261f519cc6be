# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's answer is held to, and the forms for machines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from railwright.cli import drift as verb
from railwright.documents import drift_document
from railwright.drift import as_prometheus
from railwright.events import Collector, HostOutcome
from railwright.exitcodes import InputError
from railwright.report.cases import as_junit, cases_of
from railwright.runs import Run

FINDING: dict[str, Any] = {
    "key": "network: MTU of rail0 (eth1)",
    "kind": "setting",
    "area": "network",
    "what": "MTU of rail0 (eth1)",
    "expected": 9000,
    "found": 1500,
    "severity": "critical",
    "disruption": "link",
    "why": "w",
    "since": 1763640000.0,
    "by": "",
}
ANSWER: dict[str, Any] = {"findings": [FINDING], "judged": ["network"], "unknown": [], "unasked": [], "drivers": {"kernel": "6.1"},
                          "notes": []}
# Prometheus' text format: name, labels with escapes, value.
SAMPLE = re.compile(r'[a-z_]+(\{([a-z_]+="([^"\\\n]|\\\\|\\"|\\n)*",?)*\})? [0-9.]+\Z')


def test_an_answer_keeps_its_form_and_nothing_else() -> None:
    answer = {**ANSWER, "secret": "x", "findings": [{**FINDING, "extra": 1}, {"key": "no area"}, "text"]}
    assert drift_document(answer) == ANSWER


@pytest.mark.parametrize("answer", [None, [], {}, {"findings": None}, {"findings": {"a": 1}}])
def test_what_is_no_answer_is_not_a_clean_node(answer: Any) -> None:
    assert drift_document(answer) is None


def test_a_large_value_is_cut() -> None:
    document = drift_document({"findings": [{**FINDING, "found": ["x" * 1000] * 1000}]})
    assert document is not None
    (found,) = document["findings"]
    assert len(found["found"]) < 530_000
    assert found["found"].endswith("(cut)")


def test_the_collector_takes_it_from_our_module_only() -> None:
    def event(action: str) -> dict[str, Any]:
        data = {"host": "n1", "task": "t", "task_action": action, "resolved_action": action, "res": ANSWER}
        return {"event": "runner_on_ok", "event_data": data}

    for action, expected in (("railwright.rdma.rdma_check", ANSWER), ("railwright.rdma.rdma_facts", None)):
        collector = Collector()
        collector.handle(event(action))
        assert collector.finish().hosts["n1"].drift == expected


def test_prometheus_tells_clean_from_not_asked() -> None:
    nodes = {
        "clean": {"status": "ok", "findings": []},
        'bad"\n\\\x07': {"status": "ok", "findings": [FINDING, {**FINDING, "area": "hca"}]},
        "away": {"status": "unreachable", "findings": []},
    }
    text = as_prometheus(nodes, 1763640000.6)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in lines if not SAMPLE.match(line)] == []
    assert 'railwright_drift_findings{node="clean",severity="critical",area=""} 0' in lines
    assert 'railwright_drift_findings{node="bad\\"\\n\\\\",severity="critical",area="network"} 1' in lines
    assert 'railwright_drift_node_answered{node="away",status="unreachable"} 0' in lines
    assert not [line for line in lines if "findings" in line and "away" in line]
    assert lines[-1] == "railwright_drift_last_run_timestamp_seconds 1763640001"


def test_junit_has_a_failure_a_finding() -> None:
    node = {"status": "ok", "message": "", "findings": [{**FINDING, "since": "2025-11-20", "by": "upgrade of x"}]}
    run = Run("id", "drift", "inv", None, "2026", "0", nodes={"n1": node})
    root = ET.fromstring(as_junit(run, cases_of(run)))
    (failure,) = root.iter("failure")
    assert failure.get("message") == "drift (critical, since 2025-11-20, upgrade of x): w"
    assert (root.get("tests"), root.get("failures")) == ("2", "1")


def test_areas_and_severities_are_filters_and_history_is_not_filtered() -> None:
    minor = {**FINDING, "key": "k2", "area": "packages", "severity": "minor"}
    host = HostOutcome("n1", drift={**ANSWER, "findings": [FINDING, minor]})
    seen = {FINDING["key"]: "t1", "k2": "t2"}

    def keys(areas: list[str], worst: verb.Severity) -> list[str]:
        return [item["key"] for item in verb._node(host, seen, areas, worst)["findings"]]

    assert keys([], verb.Severity.MINOR) == [FINDING["key"], "k2"]
    assert keys([], verb.Severity.MAJOR) == [FINDING["key"]]
    assert keys(["packages"], verb.Severity.MINOR) == ["k2"]
    (found, _other) = verb._node(host, seen, [], verb.Severity.MINOR)["findings"]
    assert (found["first_seen"], found["since"]) == ("t1", "2025-11-20T12:00:00+00:00")


@pytest.mark.parametrize("odd", [1732168809000.0, 1e300, -1e300, pytest.param(10**400, id="huge")])
def test_a_time_that_is_no_date_is_no_time_and_the_finding_stays(odd: float) -> None:
    host = HostOutcome("n1", drift=drift_document({**ANSWER, "findings": [{**FINDING, "since": odd}]}))
    (found,) = verb._node(host, {FINDING["key"]: "t1"}, [], verb.Severity.MINOR)["findings"]
    assert (found["since"], found["first_seen"]) == (None, "t1")


def test_a_file_for_others_is_whole_readable_and_leaves_nothing_beside(tmp_path: Path) -> None:
    for text in ("1\n", "2\n"):
        verb.print_result(text, tmp_path / "a.prom")
    assert [(path.name, path.read_text(), path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [("a.prom", "2\n", 0o644)]
    with pytest.raises(InputError, match="No such file"):
        verb.print_result("x", tmp_path / "missing" / "a.prom")


def test_where_nothing_can_be_written_no_node_is_contacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "Session", None)  # the only way to a node
    for output, said in ((tmp_path / "none" / "d.json", f"there is no directory {tmp_path / 'none'}"), (tmp_path, "is a directory")):
        with pytest.raises(InputError, match=re.escape(f"--output {output}: {said}")):
            verb.command([tmp_path], form=verb.DriftFormat.JSON, output=output)
