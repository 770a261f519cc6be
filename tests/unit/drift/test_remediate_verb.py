# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright remediate``: what it says of each node, the commands for what is left, and its exit code. The run itself is a double."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from ansible_collections.railwright.rdma.plugins.plugin_utils.remediation import Scope, choose_fixes, judge
from drift_findings import BURNT, CONF, LINE, MTU, PORT, SYSCTL, seen
from railwright.cli import console
from railwright.cli import remediate as verb
from railwright.cli.options import Format
from railwright.cli.session import Session
from railwright.documents import remediation_document
from railwright.drift import Asked, read_history, remedy
from railwright.events import Collector, HostOutcome, RunOutcome
from railwright.exitcodes import InputError
from railwright.report.cases import cases_of
from railwright.runs import load_run

Object = dict[str, Any]
SCOPE = Scope((), "minor", ("restart",))


def chosen(drift: Object, scope: Scope = SCOPE) -> Object:
    return {**choose_fixes(drift, scope, {}, {}), "consent": list(scope.consent)}


def judged(before: Object, after: Object, error: str = "", scope: Scope = SCOPE) -> Object:
    return {**judge(before, after, scope, choose_fixes(before, scope, {}, {}), error), "consent": list(scope.consent)}


def host(name: str, said: Object, after: Object, **more: Any) -> HostOutcome:
    found = HostOutcome(name, remediation=remediation_document({"remediation": said}), **more)
    found.drift = {"findings": after["findings"]}
    return found


@pytest.fixture
def remediate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the verb on these outcomes; returns exit code, output, and the extra variables that the playbook got."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    inventory = tmp_path / "site"
    inventory.mkdir()

    def call(*hosts: HostOutcome, form: Format = Format.JSON, **options: Any) -> tuple[int, str, Object]:
        given: Object = {}

        def run(_self: Session, playbook: str, extra: Object) -> RunOutcome:
            given.update(extra, playbook=playbook)
            return RunOutcome({item.name: item for item in hosts})

        monkeypatch.setattr(Session, "run", run)
        console.out.cache_clear()
        with pytest.raises(typer.Exit) as ended:
            verb.command(inventory, form=form, yes=True, **options)
        console.out.cache_clear()
        return int(ended.value.exit_code), capsys.readouterr().out, given

    return call


def test_everything_fixed_ends_0_and_is_kept(remediate: Any, tmp_path: Path) -> None:
    node = host("n1", judged(seen(SYSCTL, CONF), seen()), seen(), restore_point="/var/lib/railwright/restore/x/journal.json")
    code, out, given = remediate(node, host("n2", chosen(seen()), seen()), batch="1", consent="link")
    document = json.loads(out)
    assert code == document["summary"]["exit_code"] == 0
    assert [row["key"] for row in document["nodes"]["n1"]["fixed"]] == [SYSCTL["key"], CONF["key"]]
    assert {name: row["result"] for name, row in document["nodes"].items()} == {"n1": "fixed", "n2": "no drift"}
    assert given == {"playbook": "remediate", "rdma_remediate_areas": [], "rdma_remediate_severity": "minor", "rdma_batch": "1",
                     "rdma_consent": ["link"]}
    run = load_run()
    assert run.verb == "remediate"
    assert {case.result for case in cases_of(run)} == {"passed"}
    assert [case.name for case in cases_of(run) if case.message == "fixed"] == [SYSCTL["what"], CONF["what"]]
    assert read_history(tmp_path / "site") == {"n1": {}, "n2": {}}, "what was fixed and comes back is new"


def test_what_is_left_has_its_command_and_ends_2(remediate: Any) -> None:
    code, out, _given = remediate(host("n1", chosen(seen(MTU, BURNT, LINE, PORT)), seen(MTU, BURNT, LINE, PORT)))
    node = json.loads(out)["nodes"]["n1"]
    assert (code, node["result"]) == (2, "left as it is")
    commands = {row["key"]: (row["command"] or "").rpartition(" --limit ")[2] for row in node["findings"]}
    assert commands == {
        MTU["key"]: "n1 --consent link,restart", BURNT["key"]: "n1 --consent link,reboot,restart", LINE["key"]: "", PORT["key"]: "",
    }  # fmt: skip


def test_what_nobody_asked_for_is_named_and_counts_for_nothing(remediate: Any) -> None:
    scope = SCOPE._replace(severity="critical")
    code, out, _given = remediate(host("n1", chosen(seen(SYSCTL), scope), seen(SYSCTL)))
    document = json.loads(out)
    assert (code, document["summary"]["left"], document["summary"]["left_out"]) == (0, 0, 1)
    assert document["nodes"]["n1"]["left_out"][0]["cause"] == "severity"


def test_the_run_that_stopped_names_who_was_not_touched(remediate: Any) -> None:
    bad = host("n1", judged(seen(SYSCTL), seen(SYSCTL), "read-only"), seen(SYSCTL), status="failed", message="read-only", task="Apply")
    away = HostOutcome("n3", "unreachable", message="no route")
    code, out, _given = remediate(bad, host("n2", chosen(seen(CONF)), seen(CONF)), away)
    document = json.loads(out)
    assert code == 3
    assert {name: row["result"] for name, row in document["nodes"].items()} == {"n1": "not clean", "n2": "not touched", "n3": ""}
    assert [row["key"] for row in document["nodes"]["n2"]["waiting"]] == [CONF["key"]]
    assert document["summary"]["not_touched"] == 1
    assert remediate(bad, host("n2", chosen(seen(CONF)), seen(CONF)))[0] == 1


def test_a_node_that_was_lost_half_way_is_not_called_untouched(remediate: Any) -> None:
    code, out, _given = remediate(host("n1", chosen(seen(CONF)), seen(CONF), status="unreachable", message="gone"))
    node = json.loads(out)["nodes"]["n1"]
    assert (code, node["status"], node["result"], node["waiting"], node["fixed"]) == (3, "unreachable", "", [], [])


def test_people_read_each_difference_and_each_command_once(remediate: Any) -> None:
    nodes = [host(f"gpu{number:03}", judged(seen(SYSCTL, MTU), seen(MTU)), seen(MTU)) for number in range(1, 41)]
    code, out, _given = remediate(*nodes, form=Format.TEXT)
    assert code == 2
    assert out.count(SYSCTL["what"]) == out.count(MTU["what"]) == 1
    assert "gpu[001-040] (40)" in out
    assert out.count("railwright remediate -i ") == 1
    assert out.splitlines()[-1] == "40 nodes: 40 fixed, 40 left"


def test_a_node_without_a_look_has_not_passed(remediate: Any) -> None:
    assert remediate(HostOutcome("n1"))[0] == 1


@pytest.mark.parametrize("batch", ["0", "-1", "0%", "101%", "ten", "10 %", "", "1.5", "٣"])
def test_a_batch_that_is_none_is_refused(remediate: Any, batch: str) -> None:
    with pytest.raises(InputError, match=r"--batch .* allowed: a number from 1 on, or 1% to 100%"):
        remediate(batch=batch)


@pytest.mark.parametrize("batch", ["1", "250", "1%", "100%"])
def test_a_batch(remediate: Any, batch: str) -> None:
    assert remediate(host("n1", chosen(seen()), seen()), batch=batch)[2]["rdma_batch"] == batch


def test_an_area_that_does_not_exist_is_refused(remediate: Any) -> None:
    with pytest.raises(InputError, match="--area ncl: no such area"):
        remediate(area=["ncl"])


def test_names_are_quoted_in_commands() -> None:
    row = {"cause": "consent", "disruption": "link"}
    found = remedy(row, Asked(), ["", "restart"], [row])
    assert found is not None
    assert found.line("my site", ["a;b"]) == "railwright remediate -i 'my site' --limit 'a;b' --consent link,restart"
    assert remedy({"cause": "state"}, Asked(), [], []) is None


def commands(out: str) -> list[str]:
    """What is printed to be run, without the inventory's path."""
    lines = [line.split() for line in out.splitlines() if line.startswith("  railwright ")]
    return [" ".join([words[1], *words[4:]]) for words in lines]


def test_the_same_command_with_consent_does_no_more_than_this_run(remediate: Any) -> None:
    scope = Scope(("network", "sysctl"), "critical", ())
    node = host("n1", chosen(seen(MTU, SYSCTL, CONF), scope), seen(MTU, SYSCTL, CONF))
    options = {"area": ["network", "sysctl"], "severity": verb.Severity.CRITICAL, "batch": "1"}
    _code, out, _given = remediate(node, form=Format.TEXT, **options)
    wanted = "--limit n1 --area network --area sysctl --severity critical --batch 1 --consent link"
    assert commands(out) == [f"remediate {wanted}"]
    _code, out, _given = remediate(node, **options)
    assert [row["command"].partition(" --limit ")[2] for row in json.loads(out)["nodes"]["n1"]["findings"]] == [wanted[8:]]


NEEDS = {"key": "k", "area": "nccl", "severity": "major", "cause": "needs", "needs": "packages: package x"}
GROUND = {"key": "packages: package x", "area": "packages", "severity": "minor", "disruption": "restart"}


@pytest.mark.parametrize(("cause", "asked", "options"), [
    (None, Asked(("nccl",), "major", "2"), "remediate --area nccl --severity major --batch 2"),
    (None, Asked(consent=("link",)), "remediate --consent link"),  # given in this run, it is not the inventory's
    (None, Asked(consent=()), "remediate --consent "),
    ("area", Asked(("nccl",), "minor", "2"), "remediate --batch 2"),
    ("severity", Asked((), "major", "2"), "remediate --batch 2"),
    ("consent", Asked(("nccl", "packages")), "remediate --area nccl --area packages --consent link,restart"),
    ("reboot", Asked(("nccl",)), "apply --consent link,reboot,restart"),
])  # fmt: skip
def test_what_needs_another_change_has_the_command_that_fixes_that_one(cause: str | None, asked: Asked, options: str) -> None:
    """Options of the run stand in the command, but for those that left the other change out."""
    found = remedy(NEEDS, asked, ["link"], [NEEDS, *([{**GROUND, "cause": cause}] if cause else [])])
    assert found is not None
    assert " ".join([found.verb, *found.options]) == options


def test_rows_that_need_each_other_end() -> None:
    other = {**NEEDS, "key": "packages: package x", "needs": "k"}
    assert remedy(NEEDS, Asked(), [], [NEEDS, other]) == ("remediate", ())


def test_what_one_node_allows_is_not_granted_to_another(remediate: Any) -> None:
    nodes = [host(name, chosen(seen(MTU, BURNT), SCOPE._replace(consent=allowed)), seen(MTU, BURNT))
             for name, allowed in (("n1", ("restart",)), ("n2", ()), ("n3", ()))]  # fmt: skip
    _code, out, _given = remediate(*nodes, form=Format.TEXT)
    assert commands(out) == [
        "remediate --limit n1 --consent link,restart", "apply --limit n1 --consent link,reboot,restart",
        "remediate --limit n2,n3 --consent link", "apply --limit n2,n3 --consent link,reboot",
    ]  # fmt: skip


def test_the_collector_takes_it_from_our_action_only_and_bounds_it() -> None:
    said = {**chosen(seen(SYSCTL)), "secret": "x"}
    data = {"host": "n1", "task": "t", "res": {"remediation": said}}
    for action, wanted in (("railwright.rdma.rdma_consent", True), ("community.x.rdma_consent", False)):
        collector = Collector()
        collector.handle({"event": "runner_on_ok", "event_data": {**data, "task_action": action, "resolved_action": action}})
        found = collector.finish().hosts["n1"].remediation
        assert (found is not None) == wanted
        assert "secret" not in (found or {})


@pytest.mark.parametrize("result", [None, {}, {"remediation": None}, {"remediation": {"fix": []}}, {"lost": []}])
def test_what_is_no_answer_is_none(result: Any) -> None:
    assert remediation_document(result) is None
