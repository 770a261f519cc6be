# SPDX-License-Identifier: GPL-3.0-or-later
"""`railwright rollback` from its options to its exit code. The run itself is a stand-in: events as ansible-runner hands them over."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench_documents import event, stats
from railwright.cli.main import run as railwright
from railwright.events import Collector, RunOutcome

ROLLBACK, CHECK = "railwright.rdma.rdma_rollback", "railwright.rdma.rdma_check"
CHANGE = {"key": "network: MTU", "area": "network", "what": "MTU", "before": "9000", "after": "1500", "disruption": "link"}
POINT = {"run": "r1", "points": 3, "when": 1767225600.0, "state": "applied", "files": 4, "values": 2, "commands": 1, "packages": 5,
         "packages_assumed": True, "undid": []}  # fmt: skip
JOURNAL = "/var/lib/railwright/restore/r9/journal.json"


def plan(*changes: dict[str, Any], known: bool = True, **more: Any) -> dict[str, Any]:
    return {"plan": list(changes), "problems": [], "notes": [], "known": known, "to": "r1", "undone": ["r1"] if known else [],
            "restore_points": [] if known else [{"run": "r7"}, {"run": "r6"}], **more}  # fmt: skip


def applied(node: str) -> list[dict[str, Any]]:
    done = plan(CHANGE) | {"changed": True, "restore_point": JOURNAL, "reboot_needed": []}
    return [event("runner_on_ok", node, plan(CHANGE), ROLLBACK), event("runner_on_ok", node, done, ROLLBACK)]


def verdicts(node: str, status: str) -> dict[str, Any]:
    found = {"check": "port.state", "node": node, "hca": None, "port": None, "subject": "", "status": status, "expected": "", "found": "",
             "message": "down"}  # fmt: skip
    return event("runner_on_ok", node, {"verdicts": [found]}, CHECK)


class Runner:
    """Stands in for run_playbook: answers each playbook with its events, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        both = stats("n1", "n2")
        self.events: dict[str, list[dict[str, Any]]] = {
            "rollback": [*applied("n1"), *applied("n2"), both],
            "validate": [verdicts("n1", "pass"), verdicts("n2", "pass"), both],
            "restore_points": [event("runner_on_ok", name, {"restore_points": [POINT]}, ROLLBACK) for name in ("n1", "n2")] + [both],
        }

    def __call__(self, playbook: str, inventory: Path, limit: str | None, variables: Mapping[str, Any], *rest: Any) -> RunOutcome:
        self.calls.append((playbook, dict(variables)))
        collector = Collector()
        for item in self.events[playbook]:
            collector.handle(item)
        return collector.finish()

    @property
    def playbooks(self) -> list[str]:
        return [name for name, _variables in self.calls]


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runner:
    one = Runner()
    monkeypatch.setattr("railwright.run.run_playbook", one)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return one


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Rollback = Callable[..., Ran]


@pytest.fixture
def rollback(tmp_path: Path, capsys: pytest.CaptureFixture[str], runner: Runner) -> Rollback:
    def call(*words: str) -> Ran:
        members = {name: {"rdma_rails": []} for name in ("n1", "n2")}
        path = tmp_path / "hosts.yml"
        site = {"rdma_fabric": "roce", "rdma_mtu": 9000}
        path.write_text(json.dumps({"all": {"vars": site, "children": {"rdma": {"hosts": members}}}}))
        capsys.readouterr()
        code = railwright(["rollback", "-i", str(path), "--yes", *words])
        return Ran(code, *capsys.readouterr())

    return call


def test_it_rolls_back_then_validates_and_says_the_restore_point(rollback: Rollback, runner: Runner) -> None:
    ran = rollback("--to", "r1", "--consent", "link", "--force", "/etc/x", "--force", "pkg")
    assert ran.code == 0, ran
    assert runner.playbooks == ["rollback", "validate"]
    variables = runner.calls[0][1]
    assert (variables["rdma_rollback_to"], variables["rdma_consent"]) == ("r1", ["link"])
    assert variables["rdma_rollback_force"] == ["/etc/x", "pkg"]
    assert JOURNAL in ran.out
    assert "2 nodes: 2 changes (link 2), 2 restored" in ran.out


def test_what_validate_finds_counts(rollback: Rollback, runner: Runner) -> None:
    runner.events["validate"][0] = verdicts("n1", "fail")
    ran = rollback("--to", "r1", "--format", "json")
    assert ran.code == 1
    assert ran.json["summary"]["verdicts"]["fail"] == 1
    assert [change["applied"] for change in ran.json["nodes"]["n1"]["changes"]] == [True]


@pytest.mark.parametrize("word", ["--no-validate", "--dry-run"])
def test_without_validate(rollback: Rollback, runner: Runner, word: str) -> None:
    assert rollback("--to", "r1", word).code == 0
    assert runner.playbooks == ["rollback"]
    assert runner.calls[0][1]["rdma_rollback_plan_only"] is (word == "--dry-run")


def test_nothing_is_validated_where_something_failed(rollback: Rollback, runner: Runner) -> None:
    problem = {"area": "limits", "subject": "/etc/x", "message": "was changed by somebody else"}
    refused = event("runner_on_failed", "n2", {"msg": "limits: /etc/x"}, "railwright.rdma.rdma_consent")
    runner.events["rollback"] = [*applied("n1"), event("runner_on_ok", "n2", plan(CHANGE, problems=[problem]), ROLLBACK), refused,
                                 stats("n1", "n2")]  # fmt: skip
    ran = rollback("--to", "r1")
    assert ran.code == 1
    assert runner.playbooks == ["rollback"]
    assert "was changed by somebody else" in ran.out


def test_a_run_that_no_node_knows_is_an_error_of_input(rollback: Rollback, runner: Runner) -> None:
    runner.events["rollback"] = [event("runner_on_ok", name, plan(known=False), ROLLBACK) for name in ("n1", "n2")] + [stats("n1", "n2")]
    ran = rollback("--to", "r1")
    assert ran.code == 64
    assert "no node has a restore point of this run; n1 has those of r7, r6" in ran.err


@pytest.mark.parametrize(("happened", "code"), [("runner_on_unreachable", 3), ("runner_on_failed", 1)])
def test_a_node_that_has_not_answered_may_know_the_run(rollback: Rollback, runner: Runner, happened: str, code: int) -> None:
    away = event(happened, "n1", {"msg": "no route"}, ROLLBACK)
    stopped = event("runner_on_failed", "n2", {"msg": "no node that answers has it"}, "ansible.builtin.assert")
    runner.events["rollback"] = [away, event("runner_on_ok", "n2", plan(known=False), ROLLBACK), stopped]
    ran = rollback("--to", "r1", "--format", "json")
    assert ran.code == ran.json["summary"]["exit_code"] == code
    assert "no node that answered has a restore point of this run; nobody knows whether n1 has one" in ran.err
    assert [ran.json["nodes"][name]["known"] for name in ("n1", "n2")] == [False, False]
    assert runner.playbooks == ["rollback"]


def test_a_node_that_does_not_know_the_run_is_named(rollback: Rollback, runner: Runner) -> None:
    runner.events["rollback"] = [*applied("n1"), event("runner_on_ok", "n2", plan(known=False), ROLLBACK), stats("n1", "n2")]
    ran = rollback("--to", "r1", "--format", "json")
    assert ran.code == 0
    assert ran.json["summary"]["unknown_on"] == ["n2"]
    assert "has no restore point of run r1; nothing is done there" in rollback("--to", "r1").out


def test_the_list(rollback: Rollback, runner: Runner) -> None:
    ran = rollback("--list")
    assert ran.code == 0
    assert "2026-01-01T00:00:00+00:00" in ran.out
    assert "5 (assumed)" in ran.out
    document = rollback("--list", "--format", "json").json
    assert document["nodes"]["n2"]["restore_points"][0]["run"] == "r1"


def test_a_time_that_is_no_date_does_not_end_the_list(rollback: Rollback, runner: Runner) -> None:
    runner.events["restore_points"][0] = event("runner_on_ok", "n1", {"restore_points": [{**POINT, "when": 1e300}]}, ROLLBACK)
    nodes = rollback("--list", "--format", "json").json["nodes"]
    assert [nodes[name]["restore_points"][0]["when"] for name in ("n1", "n2")] == [None, "2026-01-01T00:00:00+00:00"]
    assert "r1    unknown " in rollback("--list").out


@pytest.mark.parametrize("words", [(), ("--list", "--to", "r1")])
def test_either_a_run_or_the_list(rollback: Rollback, runner: Runner, words: tuple[str, ...]) -> None:
    ran = rollback(*words)
    assert (ran.code, runner.calls) == (64, [])
    assert "give --to RUN, or --list" in ran.err
