# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node passed a step: a failure of one is not that of all, and silence is no pass."""

from typing import Any

from railwright.events import HostOutcome, RunOutcome
from railwright.upgrade.judge import ending, inspection_of, no_room, ready, unavailable
from railwright.upgrade.order import Rules, leftovers


def verdict(node: str, status: str, **more: Any) -> dict[str, Any]:
    return {"check": "hca.state", "node": node, "hca": "mlx5_0", "status": status, "expected": "ACTIVE", "found": "DOWN", **more}


def asserted(name: str, *, judged: bool = True) -> HostOutcome:
    """As the role validate leaves a node: its assertion fails all of them for the verdict of one."""
    return HostOutcome(name, "failed", task="Assert", action="ansible.builtin.assert", message="1 verdict failed", judged=judged)


def test_the_assertion_of_validate_fails_only_whom_the_verdicts_fail() -> None:
    outcome = RunOutcome({"n1": asserted("n1"), "n2": asserted("n2")}, [verdict("n1", "fail"), verdict("n2", "pass")])
    assert ending("validate", "n1", outcome)["message"] == ("1 of 1 verdicts failed: hca.state mlx5_0: expected ACTIVE, found DOWN")
    assert ending("validate", "n1", outcome)["status"] == "failed"
    assert ending("validate", "n2", outcome)["status"] == "ok"


def test_a_verdict_on_the_cluster_is_one_on_every_node() -> None:
    outcome = RunOutcome({"n1": HostOutcome("n1", judged=True)}, [verdict("", "fail")])
    assert ending("gate", "n1", outcome)["status"] == "failed"


def test_silence_is_no_pass() -> None:
    assert ending("validate", "n1", RunOutcome({"n1": HostOutcome("n1")}))["status"] == "failed"
    assert ending("validate", "n1", RunOutcome())["message"] == "the run ended before this node"
    assert ending("validate", "n1", RunOutcome({"n1": asserted("n1")}))["status"] == "failed", "another assertion than that of verdicts"
    away = RunOutcome({"n1": HostOutcome("n1", "unreachable", message="no route")}, [verdict("n1", "pass")])
    assert ending("validate", "n1", away)["status"] == "unreachable"


def test_what_is_unproven_is_said_and_passes() -> None:
    outcome = RunOutcome({"n1": HostOutcome("n1", judged=True)}, [verdict("n1", "unproven", expected=None, message="no peer")])
    end = ending("validate", "n1", outcome)
    assert (end["status"], end["notes"]) == ("ok", ["unproven: hca.state mlx5_0: no peer"])


def test_who_is_away() -> None:
    assert unavailable(None) == unavailable({"scheduler": "none", "state": "unknown"}) == ""
    assert unavailable({"scheduler": "slurm", "state": "available"}) == ""
    assert unavailable({"scheduler": "slurm", "state": "down", "reason": "fan"}) == "down (fan)"


def upgrade(*, pending: bool = True, state: str = "available", by: str | None = None, step: str = "preflight") -> dict[str, Any]:
    scheduler = {"scheduler": "slurm", "state": state, "by": by}
    return {"pending": pending, "classes": [], "before": {"kernel": "6.1"}, "scheduler": scheduler, "lease": {"run": "R", "step": step}}


def test_the_scan_of_all_nodes() -> None:
    outcome = RunOutcome(
        {
            "n1": HostOutcome("n1", upgrade=upgrade(pending=False)),
            "n2": HostOutcome("n2", upgrade=upgrade(state="down")),
            "n3": HostOutcome("n3", "failed", message="needs consent"),
            "n5": HostOutcome("n5"),
        }
    )
    found = inspection_of(["n1", "n2", "n3", "n4", "n5"], outcome)
    assert found.pending == ["n2"]
    assert found.away == {"n2": "down"}
    assert list(found.refused) == ["n3", "n4", "n5"], "who says nothing cannot be upgraded either"
    assert [record for record in found.records if record["kind"] == "done"] == [
        {"kind": "done", "node": "n1", "why": "has the whole set already"}
    ]
    assert ready(found, Rules(1, ("n1",), {})) == {"kind": "ready", "canary": ["n2"]}
    assert no_room(found._replace(away={"n1": "down"}), Rules(1, (), {})) == (
        "upgrade_max_unavailable allows 1 away, and so many are already: n1 down"
    )


def test_what_an_earlier_upgrade_left_behind_is_not_done() -> None:
    """Its plan is empty, but nobody has validated it, and it waits for somebody to give it back to its jobs."""
    hosts = {
        "n1": upgrade(pending=False, state="drained", by="other"),
        "n2": upgrade(pending=False, state="drained", by="us"),
        "n3": upgrade(pending=False, step="change"),
    }
    found = inspection_of(list(hosts), RunOutcome({name: HostOutcome(name, upgrade=said) for name, said in hosts.items()}))
    assert found.pending == ["n2", "n3"]
    assert [record["node"] for record in found.records if record["kind"] == "done"] == ["n1"]
    assert no_room(found._replace(away={"n3": "drained (railwright upgrade R1)"}), Rules(1, (), {})) == (
        "upgrade_max_unavailable allows 1 away, and so many are already: n3 drained (railwright upgrade R1); "
        "begin with what is away itself: --limit n3"
    )


def test_what_the_inventory_must_say_in_the_end() -> None:
    hosts = {"n1": {"cuda_version": "13.0"}, "n2": {"cuda_version": "12.8"}, "n3": {}}
    rows = leftovers(hosts, {"cuda_version": "13.0"})
    assert [(row.key, row.found, row.write, row.nodes) for row in rows] == [
        ("cuda_version", "12.8", "13.0", ("n2",)),
        ("cuda_version", None, "13.0", ("n3",)),
    ]
