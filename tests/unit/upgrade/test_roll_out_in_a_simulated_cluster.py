# SPDX-License-Identifier: GPL-3.0-or-later
"""What a roll-out does when nodes fail, disappear, or are away for other reasons."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from railwright.events import RunOutcome
from railwright.exitcodes import ExitCode
from railwright.upgrade.engine import Engine
from railwright.upgrade.journal import Damaged, Journal, newest, read_state, reopen
from railwright.upgrade.order import Rules
from railwright.upgrade.report import code_of, upgrade_document
from simulated_cluster import Cluster, Killed, Machine, Playing, Switch, again, names_of, new_journal, roll_out

RULES = Rules(2, (), {})
STEPS = ("drain", "change", "validate", "gate", "undrain")
Wrong = Mapping[tuple[str, str], tuple[str, str]]


def fresh(many: int = 4, other: str = "") -> Cluster:
    return Cluster({name: Machine("other" if name == other else "") for name in names_of(many)})


def states(journal: Journal) -> dict[str, str]:
    return {name: node.state for name, node in journal.state.nodes.items()}


def test_every_node_in_its_batch() -> None:
    cluster, told = fresh(), list[str]()
    journal = new_journal(list(cluster.machines), RULES)
    through, playing = roll_out(cluster, journal, RULES, told=told)
    assert through
    assert states(journal) == dict.fromkeys(cluster.machines, "done")
    assert [call for call in playing.calls if call[0] == "drain"] == [("drain", ["n01"]), ("drain", ["n02", "n03"]), ("drain", ["n04"])]
    assert playing.calls[-1] == ("release", names_of(4)), "the leases go last"
    assert code_of(journal.state) is ExitCode.OK
    alone = ["perftest between nodes is unproven: it was validated alone"]
    assert [node.notes for node in journal.state.nodes.values()] == [alone, [], [], alone]
    assert "n01: draining (0 of 4 done, time left not known before the first node is done)" in told
    assert any("n02: drained (1 of 4 done, about " in line for line in told)


@pytest.mark.parametrize("step", STEPS)
def test_a_node_that_fails_stays_and_stops_all_but_its_batch(step: str) -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    through, playing = roll_out(cluster, journal, RULES, wrong={(step, "n02"): ("failed", "no space left")})
    assert not through
    assert states(journal) == {"n01": "done", "n02": "failed", "n03": "done", "n04": "waiting"}
    assert ("release", names_of(4)) not in playing.calls, "the leases stay with an upgrade that is not finished"
    assert cluster.machines["n02"].drained_by == ("" if step == "drain" else "us")
    found = upgrade_document(journal.state, {"n02": "scontrol update nodename=n02 state=resume"})
    assert found["stopped"] == "n02 did not come through; no further node is taken"
    node = found["nodes"]["n02"]
    assert (node["state"], node["step"], node["message"]) == ("failed", step, "no space left")
    assert node["help"][0] == "railwright upgrade -i /inv --resume"
    assert ("railwright rollback -i /inv --to RUN --limit n02" in node["help"]) == (step != "drain")
    assert node["help"][-1] == "scontrol update nodename=n02 state=resume"
    assert found["summary"]["exit_code"] == ExitCode.FAILED

    journal = again(journal)
    through, playing = roll_out(cluster, journal, RULES, resumed=True)
    assert through
    assert states(journal) == dict.fromkeys(cluster.machines, "done")
    touched = [name for call, names in playing.calls if call in STEPS for name in names]
    assert set(touched) == {"n02", "n04"}, "who is done is not touched again"
    assert [machine.installed for machine in cluster.machines.values()] == [["new"]] * 4
    assert cluster.most_away <= 2


def test_a_node_that_does_not_answer_is_another_thing() -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    roll_out(cluster, journal, RULES, wrong={("change", "n01"): ("unreachable", "did not come back within 1200 s")})
    assert code_of(journal.state) is ExitCode.UNREACHABLE
    assert states(journal)["n02"] == "waiting", "a canary stops the rest"


def test_rolled_back_when_asked_and_left_drained() -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    _through, playing = roll_out(cluster, journal, RULES, wrong={("gate", "n02"): ("failed", "slow")}, back=True)
    assert states(journal) == {"n01": "done", "n02": "rolled_back", "n03": "done", "n04": "waiting"}
    assert cluster.machines["n02"].version == "old"
    assert cluster.machines["n02"].drained_by == "us"
    assert playing.calls[-3:] == [("hold", ["n02"]), ("rollback", ["n02"]), ("revalidate", ["n02"])]
    assert playing.variables[-2] == {"rdma_rollback_to": "RUN", "rdma_run_id": "RUN-rollback"}, "it is a run of its own"
    assert journal.state.nodes["n02"].message == "slow"
    assert code_of(journal.state) is ExitCode.FAILED
    assert upgrade_document(journal.state, {})["nodes"]["n02"]["help"] == ["railwright upgrade -i /inv --resume"]

    journal = again(journal)
    assert roll_out(cluster, journal, RULES, resumed=True)[0]
    assert cluster.machines["n02"].installed == ["new", "new"], "it was reverted, so it is made again"
    assert cluster.machines["n02"].drained_by == ""


def test_a_roll_back_that_fails_is_said() -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    wrong = {("gate", "n01"): ("failed", "slow"), ("rollback", "n01"): ("failed", "no old version to be had")}
    roll_out(cluster, journal, RULES, wrong=wrong, back=True)
    node = journal.state.nodes["n01"]
    assert (node.state, node.message) == ("failed", "slow; the roll-back failed: no old version to be had")


@pytest.mark.parametrize(
    ("step", "why"), [("change", "half-way"), ("undrain", "n02 did not come back to its scheduler within 300 s")])
def test_a_node_that_jobs_may_come_to_is_not_rolled_back(step: str, why: str) -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    roll_out(cluster, journal, RULES, wrong={(step, "n02"): ("failed", why)})
    cluster.machines["n02"].drained_by = ""  # somebody gave it back by hand, or its scheduler did after all
    journal = again(journal)
    _through, playing = roll_out(cluster, journal, RULES, resumed=True, back=True, wrong={(step, "n02"): ("failed", why)})
    assert "rollback" not in [step for step, _names in playing.calls]
    node = journal.state.nodes["n02"]
    assert (node.state, node.message) == ("failed", f"{why}; not rolled back: n02 takes new jobs (available): it is not drained")


def test_a_node_of_another_upgrade_is_not_rolled_back() -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    roll_out(cluster, journal, RULES, wrong={("change", "n02"): ("failed", "half-way")})
    journal = again(journal)
    theirs = ("failed", "the node is being upgraded by run R2")
    wrong = {("lease", "n02"): theirs, ("hold", "n02"): theirs}
    _through, playing = roll_out(cluster, journal, RULES, resumed=True, back=True, wrong=wrong)
    assert "rollback" not in [step for step, _names in playing.calls]
    assert journal.state.nodes["n02"].message.endswith("; not rolled back: the node is being upgraded by run R2")


@pytest.mark.parametrize("failed", ["validate", "gate"])
def test_a_roll_back_that_does_not_validate_is_upgraded_anew_when_resumed(failed: str) -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    wrong = {(failed, "n02"): ("failed", "slow"), ("revalidate", "n02"): ("failed", "no link")}
    roll_out(cluster, journal, RULES, wrong=wrong, back=True)
    assert cluster.machines["n02"].version == "old"
    journal = again(journal)
    assert roll_out(cluster, journal, RULES, resumed=True)[0]
    assert cluster.machines["n02"] == Machine("", "new", ["new", "new"], validated=True)


def test_a_roll_back_that_was_cut_off_is_upgraded_anew_when_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    execute = Playing.execute

    def dying(playing: Playing, step: str, nodes: Sequence[str], variables: Mapping[str, Any]) -> RunOutcome:
        if step == "revalidate":
            raise Killed
        return execute(playing, step, nodes, variables)

    with monkeypatch.context() as patched:
        patched.setattr(Playing, "execute", dying)
        with pytest.raises(Killed):
            roll_out(cluster, journal, RULES, wrong={("gate", "n02"): ("failed", "slow")}, back=True)
    journal = again(journal)
    assert roll_out(cluster, journal, RULES, resumed=True)[0]
    assert cluster.machines["n02"] == Machine("", "new", ["new", "new"], validated=True)


def test_a_node_rolled_back_by_hand_is_upgraded_again_by_resume() -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    roll_out(cluster, journal, RULES, wrong={("gate", "n02"): ("failed", "slow")})
    cluster.machines["n02"].version = "old"
    journal = again(journal)
    assert roll_out(cluster, journal, RULES, resumed=True)[0]
    assert cluster.machines["n02"].installed == ["new", "new"]


def test_nothing_is_rolled_back_that_was_not_changed() -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    _through, playing = roll_out(cluster, journal, RULES, wrong={("drain", "n01"): ("failed", "jobs")}, back=True)
    assert "rollback" not in [step for step, _names in playing.calls]


def test_what_others_drained_meanwhile_makes_the_batch_smaller() -> None:
    cluster = fresh(6)
    journal = new_journal(list(cluster.machines), RULES)

    def somebody() -> None:
        cluster.machines["n06"].drained_by = "other"

    through, playing = roll_out(cluster, journal, RULES, before_look=somebody)
    assert through
    drains = [names for step, names in playing.calls if step == "drain"]
    assert drains == [["n01"], ["n02"], ["n03"], ["n04"], ["n05", "n06"]]
    assert cluster.most_away == 2
    assert cluster.machines["n06"].drained_by == "other"
    assert cluster.machines["n06"].version == "new"
    assert journal.state.nodes["n06"].notes[-1:] == [
        "not given back to its jobs, since it was not the upgrade that took it (drained: bad fan)"
    ]


def test_no_room_at_all_stops_in_one_line() -> None:
    cluster, looks = fresh(5), []
    journal = new_journal(list(cluster.machines), RULES)

    def somebody() -> None:
        looks.append(1)
        for name in ("n01", "n05"):
            cluster.machines[name].drained_by = "other"

    through, playing = roll_out(cluster, journal, RULES, before_look=somebody)
    assert not through
    assert journal.state.stopped == (
        "4 nodes wait, and none may go: upgrade_max_unavailable allows 2 away, and away already: n01 drained (bad fan), "
        "n05 drained (bad fan)"
    )
    assert len(looks) > 2, "a node that has only just come back gets some time"
    assert [names for step, names in playing.calls if step == "drain"] == [["n01"]]


def test_a_scheduler_that_says_nothing_stops_before_the_next_drain() -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    through, playing = roll_out(cluster, journal, RULES, wrong={("inspect", "n01"): ("failed", "slurmctld is down")})
    assert not through
    assert journal.state.stopped == "the scheduler did not say whether n01 takes work: slurmctld is down"
    assert [names for step, names in playing.calls if step == "drain"] == [["n01"]]


def test_a_gate_of_none_proves_nothing_and_is_not_run() -> None:
    cluster = fresh(1)
    for machine in cluster.machines.values():
        machine.validated = True  # the double wants a proof before a node comes back
    journal = new_journal(list(cluster.machines), RULES)
    assert roll_out(cluster, journal, RULES, gate="none", scheduled=False)[1].calls == [
        ("drain", ["n01"]),
        ("change", ["n01"]),
        ("undrain", ["n01"]),
        ("release", ["n01"]),
    ]


def test_a_lost_lease_is_the_nodes_failure_and_the_others_come_back() -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    roll_out(cluster, journal, RULES, wrong={("change", "n02"): ("failed", "x"), ("validate", "n03"): ("failed", "y")})
    journal = again(journal)
    through, playing = roll_out(cluster, journal, RULES, resumed=True, wrong={("lease", "n02"): ("failed", "another run has it")})
    assert not through
    assert states(journal) == {"n01": "done", "n02": "failed", "n03": "done", "n04": "waiting"}
    assert journal.state.nodes["n02"].message == "another run has it"
    assert ("change", ["n02"]) not in playing.calls


@pytest.mark.parametrize(("seconds", "through"), [(120, True), (60, False)])
def test_a_node_that_was_cut_off_in_its_reboot_gets_the_time_of_one(seconds: int, through: bool) -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    roll_out(cluster, journal, RULES, wrong={("change", "n02"): ("unreachable", "no route")})
    journal = again(journal)
    playing = Playing(cluster, Switch(), journal.path)
    playing.wrong = {("lease", "n02"): ("unreachable", "no route")}
    told, pauses = list[str](), list[float]()

    def pause(number: float) -> None:
        pauses.append(number)
        if len(pauses) == 3:
            playing.wrong.clear()

    engine = Engine(playing, journal, RULES, "nccl_tests", told.append, reboot_s=seconds, pause=pause)
    assert engine.roll_out(resumed=True) is through
    assert len(pauses) == (3 if through else 2)
    assert "waiting for n02 to come back: no route" in told
    assert states(journal)["n02"] == ("done" if through else "failed")
    assert code_of(journal.state) is (ExitCode.OK if through else ExitCode.UNREACHABLE)


def test_who_waits_and_was_taken_over_is_not_drained() -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    roll_out(cluster, journal, RULES, wrong={("change", "n02"): ("failed", "x")})
    journal = again(journal)
    through, playing = roll_out(cluster, journal, RULES, resumed=True, wrong={("lease", "n04"): ("failed", "another run has it")})
    assert not through
    assert states(journal) == {"n01": "done", "n02": "done", "n03": "done", "n04": "waiting"}
    assert journal.state.stopped == "nothing begins: n04: another run has it"
    assert ("drain", ["n04"]) not in playing.calls


def test_a_torn_last_line_is_cut_off_and_a_damaged_one_refused() -> None:
    cluster = fresh()
    journal = new_journal(list(cluster.machines), RULES)
    journal.close()
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + b'{"time":1,"kind":"be')
    reopened = reopen(journal.path)
    reopened.add({"kind": "stop", "why": "x"})
    reopened.close()
    assert journal.path.read_bytes().startswith(whole)
    assert [json.loads(line)["kind"] for line in journal.path.read_bytes().splitlines()] == ["start", "away", "ready", "stop"]
    journal.path.write_bytes(whole.replace(b'"kind":"away"', b'"kind":"aw', 1) + whole)
    with pytest.raises(Damaged, match=r"journal\.jsonl:2: is damaged"):
        read_state(journal.path)


def test_the_newest_of_this_inventory() -> None:
    from pathlib import Path

    assert newest(Path("/inv")) is None
    journal = new_journal(["n01"], RULES)
    assert newest(Path("/inv")) == journal.path
    assert newest(Path("/other")) is None
