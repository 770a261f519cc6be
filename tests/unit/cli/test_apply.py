# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright apply``: the plan that was agreed to, the question, saved plans, batches that stop and go on. The nodes are doubles.

They hold changes; a run makes them, or fails, by the rule that the real action holds a node's part of the saved plan to.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.saved_plan import VARIABLE, departure, part_of
from railwright import saved_plan
from railwright.cli.session import Session
from railwright.events import HostOutcome, RunOutcome
from railwright.upgrade.journal import read_state, upgrades_directory
from verb_said import Said, said_by

Object = dict[str, Any]
NAMES = ("n1", "n2", "n3", "n4")


def change(key: str, disruption: str = "none", before: Any = 1, after: Any = 2) -> Object:
    return {"key": key, "area": "nccl", "what": key, "before": before, "after": after, "disruption": disruption, "why": "", "source": ""}


class Nodes:
    """``wanting``: what each node lacks; ``broken``: those that fail when they are changed; ``silent``: those that do not answer."""

    def __init__(self) -> None:
        self.wanting: dict[str, list[Object]] = {name: [change("a"), change("b", "link")] for name in NAMES}
        self.broken: set[str] = set()
        self.silent: set[str] = set()
        self.asked: list[list[str]] = []
        self.runs: list[list[str]] = []
        self.variables: list[Object] = []

    def scan(self, session: Session, playbook: str, *_rest: Any) -> RunOutcome:
        assert playbook == "plan"
        names = list(session.judge().inventory.hosts)
        self.asked.append(names)
        return RunOutcome({name: self._planned(name) for name in names})

    @staticmethod
    def scanned(session: Session, found: Nodes, *rest: Any) -> RunOutcome:
        return found.scan(session, *rest)

    @staticmethod
    def ran(session: Session, found: Nodes, *rest: Any) -> RunOutcome:
        return found.run(session, *rest)

    def _planned(self, name: str) -> HostOutcome:
        if name in self.silent:
            return HostOutcome(name, "unreachable", message="no route")
        return HostOutcome(name, planned=True, changes=[dict(row) for row in self.wanting[name]])

    def run(self, session: Session, playbook: str, extra: Mapping[str, Any], only: Sequence[str] | None = None) -> RunOutcome:
        assert playbook == "apply"
        names = list(session.judge().inventory.hosts if only is None else only)
        self.runs.append(names)
        self.variables.append(dict(extra))
        return RunOutcome({name: self._applied(name, {**extra, "inventory_hostname": name}) for name in names})

    def _applied(self, name: str, variables: Object) -> HostOutcome:
        host = self._planned(name)
        part = part_of(variables)
        why = departure(part, host.changes) if part is not None else ""
        if host.status == "ok" and (why or name in self.broken):
            host.status, host.message = "failed", why or "broken"
        elif host.status == "ok":
            host.applied, self.wanting[name] = [row["key"] for row in host.changes], []
        return host


Call = Callable[..., Said]


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Nodes:
    found = Nodes()
    monkeypatch.setattr(Session, "scan", partialmethod(Nodes.scanned, found))
    monkeypatch.setattr(Session, "run", partialmethod(Nodes.ran, found))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))  # whoever may write above it is trusted: /tmp would not be
    monkeypatch.chdir(tmp_path)
    site(mtu=9000)
    return found


def site(**values: Any) -> None:
    hosts = {name: {"ansible_host": f"10.0.0.{number}", "rdma_rails": []} for number, name in enumerate(NAMES, 1)}
    common = {"rdma_fabric": "roce", **{f"rdma_{name}": value for name, value in values.items()}}
    Path("site.yml").write_text(json.dumps({"all": {"vars": common, "children": {"rdma": {"hosts": hosts}}}}))


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    def command(*words: str) -> Said:
        return said_by(capfd, *words)

    return command


def saved(call: Call) -> Path:
    assert call("plan", "-i", "site.yml", "-o", "friday.plan").code == 2
    return Path("friday.plan")


def test_without_a_terminal_nothing_is_changed_unless_yes_is_said(nodes: Nodes, call: Call) -> None:
    verbs = ("apply", "remediate", "upgrade --to x.yml", "rollback --to x", "agent drain", "isolate --drain")
    for words in map(str.split, verbs):
        ran = call(*words, "-i", "site.yml")
        assert ran.code == 64
        assert "asks before it changes a node, and there is no terminal to ask on; allowed: --yes" in ran.err
    assert nodes.runs == []
    assert "--format json asks nobody" in call("apply", "-i", "site.yml", "--format", "json").err
    assert call("apply", "-i", "site.yml", "--yes").code == 0
    assert nodes.runs == [list(NAMES)]


def test_a_saved_plan_is_made_exactly_by_its_file_alone(nodes: Nodes, call: Call) -> None:
    saved(call)
    ran = call("apply", "friday.plan", "--yes", "--format", "json")
    document = json.loads(ran.out)
    assert (ran.code, document["summary"]["changes"]) == (0, 8), ran.err
    assert VARIABLE in nodes.variables[0]
    assert nodes.wanting == {name: [] for name in NAMES}


def test_a_node_that_drifted_is_refused_and_no_other(nodes: Nodes, call: Call) -> None:
    saved(call)
    nodes.wanting["n2"].append(change("c"))
    nodes.wanting["n3"][0]["before"] = 7
    del nodes.wanting["n4"][1]
    ran = call("apply", "friday.plan", "--yes", "--format", "json")
    found = json.loads(ran.out)["nodes"]
    assert ran.code == 1
    assert {name: row["status"] for name, row in found.items()} == {"n1": "ok", "n2": "failed", "n3": "failed", "n4": "failed"}
    assert [found[name]["message"].split("(")[1].split(")")[0] for name in NAMES[1:]] == ["new: c", "another: a", "gone: b"]
    assert nodes.wanting["n1"] == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda document: document["nodes"]["n1"]["changes"][0].update(after=3), "is not as it was written (sha256)"),
        (lambda document: document.update(railwright="0.0.1"), "was planned by railwright 0.0.1"),
        (lambda document: document.pop("kind"), "is no plan that plan -o has written"),
        (lambda document: document["nodes"]["n1"].update(changes=7), "is not as it was written"),
    ],
)
def test_a_file_that_was_edited_or_is_of_another_version(nodes: Nodes, call: Call, spoil: Callable[[Object], Any], said: str) -> None:
    file = saved(call)
    document = json.loads(file.read_text())
    spoil(document)
    file.write_text(json.dumps(document))
    ran = call("apply", "friday.plan", "--yes")
    assert (ran.code, said in ran.err, nodes.runs) == (64, True, []), ran.err


def test_a_digest_that_fits_does_not_make_nonsense_a_plan(nodes: Nodes, call: Call) -> None:
    file = saved(call)
    document = json.loads(file.read_text())
    document.pop("sha256")
    whole = json.loads(json.dumps(document))
    nonsense = whole["nodes"]["n1"] | {"changes": [{"key": 7}]}
    for spoilt in ({"nodes": whole["nodes"] | {"n1": nonsense}}, {"batches": ["x", None, None, None]}, {"batches": [None, -1, None, None]},
                   {"batches": [True, "1", None, 7]}, {"areas": 7}, {"areas": ["x"]}, {"inventory": [7]}, {"nodes": []}):  # fmt: skip
        other = whole | spoilt
        file.write_text(json.dumps(other | {"sha256": saved_plan.digest(other)}))
        ran = call("apply", "friday.plan", "--yes")
        assert (ran.code, nodes.runs) == (64, []), (spoilt, ran)
    for text in ("", "{", "[]", "7"):
        file.write_text(text)
        assert call("apply", "friday.plan", "--yes").code == 64
    assert call("apply", "nowhere.plan", "--yes").err == (
        "railwright: error: nowhere.plan: does not exist; allowed: what plan -o has written\n")  # fmt: skip


def test_another_inventory_is_refused_and_one_that_says_the_same_is_not(nodes: Nodes, call: Call) -> None:
    saved(call)
    site(mtu=4000)
    assert "site.yml is not as it was when friday.plan was made" in call("apply", "friday.plan", "--yes").err
    ran = call("apply", "friday.plan", "-i", "site.yml", "--yes")
    assert (ran.code, nodes.runs) == (64, [])
    assert "friday.plan was planned with another inventory: site.yml says something else of n1, n2, n3, n4; plan it again" in ran.err
    site(mtu=9000, consent=["link"])  # in another place, and another consent: neither is part of a plan
    Path("elsewhere.yml").write_text(Path("site.yml").read_text())
    Path("site.yml").unlink()
    assert call("apply", "friday.plan", "-i", "elsewhere.yml", "--yes").code == 0


def test_a_part_of_a_saved_plan(nodes: Nodes, call: Call) -> None:
    saved(call)
    assert call("apply", "friday.plan", "--limit", "n2", "--yes").code == 0
    assert nodes.runs == [["n2"]]
    assert call("plan", "-i", "site.yml", "--limit", "n1", "-o", "one.plan").code == 2
    ran = call("apply", "one.plan", "--limit", "n3", "--yes")
    assert (ran.code, "one.plan has no plan for n3" in ran.err) == (64, True)
    ran = call("apply", "one.plan", "--area", "nccl", "--yes")
    assert (ran.code, "a saved plan is made whole" in ran.err) == (64, True)


def test_a_canary_that_fails_leaves_the_others_and_says_how_to_go_on(nodes: Nodes, call: Call) -> None:
    nodes.broken = {"n1"}
    ran = call("apply", "-i", "site.yml", "--canary", "1", "--batch", "2", "--yes")
    assert (ran.code, nodes.runs) == (1, [["n1"]])
    assert "4 nodes (1 failed): 0 changes, 8 not applied" in ran.out
    assert "not touched: n2, n3, n4" in ran.err
    assert "go on with: railwright apply -i site.yml --resume" in ran.err
    nodes.broken = set()
    ran = call("apply", "-i", "site.yml", "--resume", "--yes", "--format", "json")
    assert (ran.code, nodes.runs[1:]) == (0, [["n1"], ["n2", "n3"], ["n4"]]), ran.err
    assert json.loads(ran.out)["summary"]["changes"] == 8
    assert call("apply", "-i", "site.yml", "--resume", "--yes").code == 64


def test_failures_that_are_allowed_do_not_stop_the_run(nodes: Nodes, call: Call) -> None:
    nodes.broken = {"n1", "n3"}
    ran = call("apply", "-i", "site.yml", "--batch", "1", "--max-failures", "1", "--yes")
    assert (ran.code, nodes.runs) == (1, [["n1"], ["n2"], ["n3"]])
    nodes.broken = {"n3"}
    ran = call("apply", "-i", "site.yml", "--resume", "--yes")
    assert (ran.code, nodes.runs[3:]) == (1, [["n1"], ["n3"], ["n4"]])
    state = read_state(next(upgrades_directory().glob("*/journal.jsonl")))
    assert {node.name: node.state for node in state.nodes.values()} == {"n1": "done", "n2": "done", "n3": "failed", "n4": "done"}


def test_nodes_that_do_not_answer_count_as_away(nodes: Nodes, call: Call) -> None:
    nodes.silent = {"n4"}
    ran = call("apply", "-i", "site.yml", "--batch", "3", "--max-unavailable", "2", "--yes")
    assert (ran.code, nodes.runs) == (3, [["n1"], ["n2"], ["n3"]])
    nodes.wanting = {name: [change("z")] for name in NAMES}
    ran = call("apply", "-i", "site.yml", "--max-unavailable", "1", "--yes")
    assert (ran.code, len(nodes.runs)) == (3, 3)
    assert "3 nodes wait, and none may go: --max-unavailable allows 1 away, and away already: n4 no route" in ran.err


def test_a_resumed_run_takes_what_is_left_of_a_node_and_nothing_new(nodes: Nodes, call: Call) -> None:
    """n1 was cut off half-way: of its changes one is made already. n2 has one that nobody agreed to."""
    nodes.broken = {"n1"}
    call("apply", "-i", "site.yml", "--batch", "1", "--yes")
    nodes.broken = set()
    del nodes.wanting["n1"][0]
    nodes.wanting["n2"].append(change("new"))
    ran = call("apply", "-i", "site.yml", "--resume", "--yes")
    assert (ran.code, nodes.runs[1:], nodes.wanting["n1"]) == (1, [["n1"], ["n2"]], [])
    assert "new: new" in ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--batch", "0"), "--batch 0: allowed: a number from 1 on, or 1% to 100%"),
        (("--max-unavailable", "101%"), "--max-unavailable 101%: allowed"),
        (("--canary", "-1"), "--canary"),
        (("--area", "hca"), "--area hca: no such area; allowed: repositories"),
        (("--resume", "--batch", "1"), "--batch has no meaning with --resume"),
        (("--resume",), "--resume: no apply in batches on this inventory was interrupted"),
    ],
)
def test_bad_words(nodes: Nodes, call: Call, words: tuple[str, ...], said: str) -> None:
    ran = call("apply", "-i", "site.yml", *words, *(() if "--area" not in words else ("--batch", "1")), "--yes")
    assert (ran.code, said in ran.err, nodes.runs) == (64, True, []), ran.err


@pytest.mark.parametrize(("answer", "asked"), [("y", True), ("n", False), ("", False)])
def test_the_question_on_a_real_terminal(tmp_path: Path, answer: str, asked: bool) -> None:
    """A process of its own with a terminal of its own."""
    script = "from railwright.cli import console; console.expect_answers('x', yes=False); console.agree('?', yes=False); print('made')"
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", script], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        out = process.communicate(timeout=60)[0]
    os.close(ours)
    assert (out == b"made\n", process.returncode == 0) == (asked, asked)


def test_a_plan_again_without_a_node(nodes: Nodes, call: Call) -> None:
    saved(call)
    nodes.wanting = {}
    ran = call("plan", "--recorded", "friday.plan")
    assert (ran.code, "4 nodes: 8 changes (link 4, none 4)" in ran.out) == (0, True), ran
    assert "# railwright plan" in call("plan", "--recorded", "friday.plan", "--format", "markdown").out
    run = next(path.name for path in (Path("state") / "railwright/runs").iterdir())
    assert json.loads(call("plan", "--recorded", run, "--format", "json").out)["summary"]["changes"] == 8
    assert call("plan", "--recorded", "friday.plan", "-i", "site.yml").code == 64


def test_the_diff_has_one_block_a_plan_and_what_hurts_first(nodes: Nodes, call: Call) -> None:
    old, new = "a\nb\nc\n", "a\nB\nc\nd\n"
    nodes.wanting = {name: [change("file", before=old, after=new), change("mtu", "link", 1500, 9000)] for name in NAMES}
    nodes.wanting["n4"] = [change("one", before=None, after="x"), change("two", before="y", after=None)]
    ran = call("plan", "-i", "site.yml", "--diff")
    lines = [line.rstrip() for line in ran.out.splitlines()]
    begin = lines.index("n[1-3] (3) 2 changes (none 1, link 1)")
    assert lines[begin : begin + 10] == [
        "n[1-3] (3) 2 changes (none 1, link 1)", "  link", "  ~ nccl: mtu  1500 → 9000", "  none", "  ~ nccl: file",
        "       @@ -1,3 +1,4 @@", "        a", "       -b", "       +B", "        c"]  # fmt: skip
    assert ran.out.count("nccl: file") == 1
    assert "  + nccl: one  x" in lines
    assert "  - nccl: two  y" in lines


def test_a_plan_in_batches_is_asked_and_made_in_them(nodes: Nodes, call: Call) -> None:
    assert call("plan", "-i", "site.yml", "--canary", "1", "--batch", "2", "-o", "friday.plan").code == 2
    assert nodes.asked == [["n1"], ["n2", "n3"], ["n4"]]
    assert call("apply", "friday.plan", "--yes").code == 0
    assert nodes.runs == [["n1"], ["n2", "n3"], ["n4"]]


def test_nodes_without_an_answer_end_the_asking(nodes: Nodes, call: Call) -> None:
    nodes.silent = {"n2"}
    ran = call("plan", "-i", "site.yml", "--batch", "1", "--format", "json")
    found = json.loads(ran.out)["nodes"]
    assert (ran.code, nodes.asked) == (3, [["n1"], ["n2"]])
    assert [found[name]["message"] for name in ("n3", "n4")] == ["not asked: 1 node before it gave no result"] * 2
    assert call("plan", "-i", "site.yml", "--batch", "1", "--max-failures", "1").code == 3
    assert nodes.asked[2:] == [["n1"], ["n2"], ["n3"], ["n4"]]
