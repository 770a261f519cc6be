# SPDX-License-Identifier: GPL-3.0-or-later
"""The module's body: what it refuses before it asks anybody, check mode, and patience with a scheduler that restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry import drain, response
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import SchedulerAway, SchedulerError, tool
from module_double import Module
from slurm_double import SlurmHost

RUN = "railwright upgrade 20261121T180000Z-upgrade-1"
PARAMS = {"mode": "inspect", "scheduler": "slurm", "nodes": ["n1"], "reason": RUN, "begun": False, "commands": None, "patience_s": 0.0}


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> SlurmHost:
    host = SlurmHost({"n1": ("IDLE", "")})
    monkeypatch.setattr(response, "Host", lambda: host)
    return host


def call(*, check_mode: bool = False, **params: Any) -> dict[str, Any]:
    given = {**PARAMS, **params}
    return Module(given, check_mode=check_mode).call(drain.answer)


def test_modes(slurm: SlurmHost) -> None:
    assert call()["drains"][0]["state"] == "available"
    drained = call(mode="drain")
    assert (drained["changed"], drained["drains"][0]["state"], drained["drains"][0]["done"]) == (True, "drained", True)
    assert call(mode="undrain")["drains"][0]["state"] == "available"
    assert [order[1] for order in slurm.orders] == ["State=DRAIN", "State=RESUME"]


def test_check_mode_only_looks(slurm: SlurmHost) -> None:
    for mode in ("drain", "undrain"):
        assert call(mode=mode, check_mode=True)["changed"] is False
    assert slurm.orders == []


@pytest.mark.parametrize("params", [
    {"reason": "bad DIMM"}, {"reason": "railwright upgrade "}, {"reason": f"{RUN}\nReason=x"}, {"reason": None, "mode": "drain"},
    {"nodes": ["n1\n"]}, {"nodes": [""]}, {"nodes": [" n1"]}])
def test_what_is_no_name_and_no_reason_of_ours(slurm: SlurmHost, params: dict[str, Any]) -> None:
    result = call(**{"mode": "drain", **params})
    assert result["failed"]
    assert result["msg"].startswith("rdma_drain: ")
    assert slurm.orders == []


def test_commands_that_are_missing() -> None:
    assert "needs upgrade_drain_command" in call(scheduler="command", mode="drain", commands={"drain": ["x"]})["msg"]


def test_a_scheduler_that_comes_back_in_time(slurm: SlurmHost) -> None:
    slurm.away = 2
    naps: list[float] = []
    answer, changed = drain.patiently(lambda: drain.act(slurm, "inspect", PARAMS), 30.0, naps.append, lambda: sum(naps))
    assert (answer[0].state, changed, naps) == ("available", False, [5.0, 5.0])


def test_patience_ends() -> None:
    naps: list[float] = []

    def away() -> None:
        raise SchedulerAway("nobody there")

    with pytest.raises(SchedulerAway):
        drain.patiently(away, 12.0, naps.append, lambda: sum(naps))
    assert naps == [5.0, 5.0]


def test_what_waiting_does_not_fix_is_said_at_once() -> None:
    def broken() -> None:
        raise SchedulerError("cannot be read")

    with pytest.raises(SchedulerError, match="cannot be read"):
        drain.patiently(broken, 1000.0, lambda _seconds: pytest.fail("waited"))


def test_a_tool_is_found_where_sites_put_it(tmp_path: Path) -> None:
    host = TreeHost(str(tmp_path))
    with pytest.raises(SchedulerError, match=r"scontrol is not on this host.*/opt/slurm/bin.*set upgrade_scheduler_host"):
        tool(host, "scontrol", "slurm")
    place = tmp_path / "opt/slurm/bin/scontrol"
    place.parent.mkdir(parents=True)
    place.touch()
    assert tool(host, "scontrol", "slurm") == "/opt/slurm/bin/scontrol"


SLOW = "railwright isolate r1: rail2 41 of 392 Gb/s with 3 partners"


def test_isolate(slurm: SlurmHost) -> None:
    given = {"mode": "isolate", "reason": None, "node_reasons": [SLOW]}
    assert call(**given, check_mode=True)["changed"] is False
    assert slurm.orders == []
    closed = call(**given)
    assert (closed["changed"], closed["drains"][0]["reason"], closed["drains"][0]["closed"]) == (True, SLOW, True)


@pytest.mark.parametrize("reasons", [[RUN], ["railwright isolate r1: a\nb"], [SLOW + "x" * 200]])
def test_what_is_no_reason_to_isolate(slurm: SlurmHost, reasons: list[str]) -> None:
    result = call(mode="isolate", reason=None, node_reasons=reasons)
    assert result["msg"].startswith("rdma_drain: ")
    assert slurm.orders == []
