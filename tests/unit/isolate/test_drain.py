# SPDX-License-Identifier: GPL-3.0-or-later
"""Which findings drain a node, with which reason; what is refused before anything is measured; what became of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.lib.simulated_fabric import Fault
from tests.lib.small_fleets import fleet_of, run

from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import InputError, RunError
from railwright.inventory_index import Origin
from railwright.isolate.drain import check_drain, drain, reasons_of
from railwright.isolate.model import KINDS, TOOLS, Evidence, Finding

START = "railwright isolate r1: "
ROWS = (*(Evidence(1, f"n{place}", 41.0, 392.0, False) for place in range(3)), Evidence(2, "n1", 390.0, 392.0, True))


@pytest.mark.parametrize(("finding", "text"), [
    (Finding("rail", "t", ("n9",), "rail2", evidence=ROWS), "rail2 41 of 392 Gb/s with 3 partners"),
    (Finding("node", "t", ("n9",), evidence=ROWS[:1]), "node 41 of 392 Gb/s with 1 partner"),
    (Finding("direction", "t", ("n9",), "rail2", "out", evidence=ROWS), "rail2 outwards 41 of 392 Gb/s with 3 partners"),
    (Finding("flapping", "t", ("n9",), "rail2", evidence=ROWS), "rail2 flaps, 41 of 392 Gb/s with 3 partners"),
    (Finding("late gpu", "t", ("n9",), gpu=0, evidence=ROWS), "GPU 0 is late, 41 of 392 Gb/s with 3 partners"),
    (Finding("hang", "t", ("n9",), evidence=ROWS), "node hangs with 3 partners")])
def test_reasons(finding: Finding, text: str) -> None:
    assert reasons_of("r1", [finding]) == {"n9": START + text}


def test_who_is_drained() -> None:
    found = {kind: reasons_of("r1", [Finding(kind, "t", ("n9", "n8"), "rail2", evidence=ROWS)]) for kind in KINDS}
    assert {kind for kind, reasons in found.items() if reasons} == {"node", "rail", "direction", "flapping", "late gpu", "hang"}
    assert all(set(reasons) <= {"n9"} for reasons in found.values())


def test_a_node_with_several_findings_has_one_reason() -> None:
    rails = [Finding("rail", "t", ("n9",), f"rail{number}", evidence=ROWS) for number in range(9)]
    [reason] = reasons_of("r1", rails).values()
    assert reason.startswith(START + "rail0 41 of 392 Gb/s with 3 partners; rail1 41") and len(reason) == 200 and reason.endswith("...")


@pytest.mark.parametrize("tool", TOOLS)
def test_the_reasons_of_a_search(tool: str) -> None:
    faults = [Fault("rail", 0.1, "node17", "rail2"), Fault("leaf", 0.6, leaf="leaf0"), Fault("pair", 0.5, "node9", "rail1", other="node20")]
    reasons = reasons_of("r1", run(fleet_of(32, tool, per_leaf=8), faults).findings)
    assert list(reasons) == ["node17"]
    assert reasons["node17"].startswith(START + "rail2 ") and " Gb/s with " in reasons["node17"]


def judged(**specs: Mapping[str, Any]) -> Any:
    empty = {"upgrade_scheduler": "none", "upgrade_drain_command": [], "upgrade_undrain_command": []}
    written = {"upgrade_scheduler": Origin(Path("hosts.yml"), 7)}
    inventory = SimpleNamespace(path="inv", origin=lambda _host, key: written.get(key))
    return SimpleNamespace(specs={name: {**empty, **spec} for name, spec in specs.items()}, inventory=inventory)


SLURM = {"upgrade_scheduler": "slurm"}
OWN = {"upgrade_scheduler": "command", "upgrade_drain_command": ["d", "{node}", "{reason}"],
       "upgrade_undrain_command": ["u", "{node}", "why={reason}"]}  # fmt: skip


@pytest.mark.parametrize(("specs", "said"), [
    ({"a": SLURM, "b": {}, "c": {}}, "hosts.yml:7: upgrade_scheduler of b, c is none: --drain needs a scheduler"),
    ({"a": {**OWN, "upgrade_drain_command": ["d", "{node}"]}}, "inv: upgrade_drain_command of a has no word with {reason}: by it alone"),
    ({"a": {**OWN, "upgrade_undrain_command": ["u", "{node}"]}}, "inv: upgrade_undrain_command of a has no word with {reason}: by it")])
def test_what_is_refused_before_anything_is_measured(specs: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        check_drain(judged(**specs))
    assert str(error.value).startswith(said)


def test_schedulers_that_can() -> None:
    check_drain(judged(a=SLURM, b={"upgrade_scheduler": "kubernetes"}, c=OWN))


class Session:
    def __init__(self, hosts: Mapping[str, HostOutcome] | Exception) -> None:
        self.hosts = hosts
        self.asked: list[tuple[str, Mapping[str, Any], Sequence[str]]] = []

    def run(self, playbook: str, variables: Mapping[str, Any], only: Sequence[str]) -> RunOutcome:
        self.asked.append((playbook, variables, only))
        if isinstance(self.hosts, Exception):
            raise self.hosts
        return RunOutcome(dict(self.hosts))


def outcome(session: Any, reasons: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(item.state, item.text) for item in drain(session, reasons)]


@pytest.mark.parametrize(("host", "state", "text"), [
    ({"drain": {"reason": START + "x", "jobs": []}}, "drained", "n1 takes no new jobs (railwright isolate r1: x)"),
    ({"drain": {"reason": START + "x (it was down before)", "jobs": ["1", "default/web"]}}, "drained",
     "n1 takes no new jobs (railwright isolate r1: x (it was down before)); still on it: 1, default/web"),
    ({"drain": {"reason": "railwright isolate r0: y"}}, "kept",
     "n1 takes no new jobs; the reason of an earlier search stays: railwright isolate r0: y"),
    ({"drain": {"reason": "railwright upgrade 7"}}, "kept",
     "n1 takes no new jobs; the reason of an upgrade, which opens it, stays: railwright upgrade 7"),
    ({"drain": {"reason": None}}, "kept", "n1 takes no new jobs; the reason stays: (none)"),
    ({"status": "failed", "message": "Slurm refused"}, "failed", "n1 is NOT drained: Slurm refused"),
    ({}, "failed", "n1 is NOT drained: its scheduler did not say")])
def test_what_became_of_a_node(host: dict[str, Any], state: str, text: str) -> None:
    session = Session({"n1": HostOutcome("n1", **host)})
    reasons = {"n1": START + "x"}
    assert outcome(session, reasons) == [(state, text)]
    assert session.asked == [("isolate_drain", {"rdma_isolate_reasons": reasons}, ["n1"])]


def test_findings_are_not_lost_to_a_scheduler_that_cannot_be_asked() -> None:
    assert outcome(Session(RunError("no playbook")), {"n1": START + "x"}) == [("failed", "n1 is NOT drained: no playbook")]


def test_nobody_is_asked_about_nobody() -> None:
    session = Session({})
    assert (outcome(session, {}), session.asked) == ([], [])
