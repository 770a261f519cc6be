# SPDX-License-Identifier: GPL-3.0-or-later
"""One upgrade from release A to B, as an operator starts it, while people work on the cluster and two others want to upgrade it, too."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from rollout import Done, Rollout
from witness import MOST, Mark


class Moved(NamedTuple):
    """The upgrade, what stood before it, and what the others were told while it waited for the long job."""

    mark: Mark
    done: Done
    job: str
    same_machine: Done
    status: Done
    other_machine: Done


@pytest.fixture(scope="module")
def moved(rollout: Rollout, tmp_path_factory: pytest.TempPathFactory) -> Moved:
    _release, mark = rollout.begin()
    with ExitStack() as upgrading, ExitStack() as working:
        job = working.enter_context(rollout.job("node1"))
        upgrade = upgrading.enter_context(rollout.started("upgrade", "--to", rollout.release("B"), "--format", "json"))
        rollout.until(lambda: rollout.witness.away_now() == ["node1"], "node1 is drained first")
        same = rollout.call("upgrade", "--to", rollout.release("B"))
        status = rollout.call("upgrade", "--status", "--format", "json")
        other = rollout.call("upgrade", "--to", rollout.release("B"), state=Path(tmp_path_factory.mktemp("other")))
        assert rollout.witness.job(job) == "RUNNING"
        assert "DRAIN" in rollout.witness.states()["node1"]
        working.close()
        done = upgrade.done()
    return Moved(mark, done, job, same, status, other)


def test_every_node_is_done(moved: Moved) -> None:
    assert moved.done.code == 0, moved.done
    assert set(moved.done.states.values()) == {"done"}


def test_every_node_has_the_new_set_after_one_drain_and_one_reboot(moved: Moved, rollout: Rollout) -> None:
    """And nobody's job was cut short, at most so many nodes were away, and all of them take work again."""
    assert rollout.complaints(moved.mark, "B") == []


def test_the_job_on_the_first_node_ran_to_its_end(moved: Moved, rollout: Rollout) -> None:
    rows = rollout.controller.out("grep", f"^JobId={moved.job} ", "/var/log/slurm/jobs")
    assert "JobState=COMPLETED" in rows
    assert rollout.cluster.container("node1").out("tail", "-n", "1", f"/var/lib/jobs/{moved.job}.log") == "end\n"


def test_the_order_is_the_journals(moved: Moved, rollout: Rollout) -> None:
    """The canary, then one rack after the other, as many at a time as are allowed."""
    batches = rollout.order()
    assert batches == [["node1"], ["node2"], ["node3", "node4"]]
    assert max(map(len, batches)) == MOST
    place = {name: number for number, batch in enumerate(batches) for name in batch}
    seen = rollout.witness.order(moved.mark)
    assert set(seen) == set(rollout.nodes)
    assert [place[name] for name in seen] == sorted(place.values()), "those of one batch may go in either order"


def test_what_is_to_be_written_into_the_inventory(moved: Moved, rollout: Rollout) -> None:
    rows = {row["key"]: row["write"] for row in moved.done.document["inventory_changes"]}
    assert rows["rdma_stack_version"] == "3.2.3"
    rollout.say("B")
    done = rollout.call("plan", "--format", "json")
    assert (done.code, done.document["summary"]["changes"]) == (0, 0)


def test_a_second_one_on_this_machine_is_told_who_is_at_work(moved: Moved) -> None:
    run = moved.done.document["run"]
    assert moved.same_machine.code == 1
    assert f"run {run}" in moved.same_machine.err
    assert "is being changed on this controller already" in moved.same_machine.err
    status = moved.status.document
    assert (status["run"], status["nodes"]["node1"]["state"]) == (run, "draining")


def test_one_on_another_machine_is_told_whose_lease_it_is(moved: Moved) -> None:
    assert moved.other_machine.code == 1, moved.other_machine
    said = moved.other_machine.err + moved.other_machine.out
    assert f"is being upgraded by run {moved.done.document['run']}" in said
    assert "--take-over" in said
