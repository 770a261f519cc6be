# SPDX-License-Identifier: GPL-3.0-or-later
"""On ibsim's fabric the subnet manager comes back: after a reboot, as Debian enables it and as the role does, and after it has died."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from cluster import Cluster
from playbook import Host, Playbook

NODE, UNIT, INSTANCE = "node3", "opensm.service", "opensm@0x0000000000100001.service"
LINK = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
Until = Callable[[Callable[[], bool]], None]


class Told(NamedTuple):
    """What systemd said of unit and instance, at each moment; and the role's runs between them."""

    states: dict[str, list[str]]
    died: dict[str, Host]
    seldom: dict[str, Host]
    again: dict[str, Host]


@pytest.fixture(scope="module")
def manager(scenario: str) -> Any:
    return Cluster(scenario).container(NODE)


def states(manager: Any) -> list[str]:
    return str(manager.out("systemctl", "show", "--property=ActiveState", "--value", UNIT, INSTANCE)).split()


@pytest.fixture(scope="module")
def told(scenario: str, manager: Any) -> Told:
    playbook, seen = Playbook(scenario), {}
    manager.restart()
    seen["reboot"] = states(manager)
    manager.run("systemctl", "kill", "--signal=KILL", INSTANCE)
    manager.run("sh", "-c", f"until systemctl is-failed --quiet {INSTANCE}; do sleep 0.2; done")
    seen["dead"] = states(manager)
    died = playbook.run(limit=NODE)
    seen["restarted"] = states(manager)
    manager.run("rm", LINK)  # as Debian's package enables it
    manager.restart()
    seen["seldom"] = [manager.run("systemctl", "is-enabled", UNIT, check=False).stdout.strip(), *states(manager)]
    manager.run("systemctl", "start", "ibsim.service", "simulated-umad.service")  # the kernel's part, which a machine has without opensm
    seldom = playbook.run(limit=NODE)
    manager.restart()
    seen["often"] = states(manager)
    return Told(seen, died, seldom, playbook.run(limit=NODE))


def planned(run: dict[str, Host]) -> list[str]:
    return [change["what"] for change in run[NODE].plan]


def test_it_runs_after_a_reboot(told: Told) -> None:
    assert told.states["reboot"] == ["active", "active"]


def test_one_that_died_is_started_again_by_the_role(told: Told) -> None:
    assert told.states["dead"] == ["active", "failed"], "the unit that starts it says nothing"
    assert planned(told.died) == [f"subnet manager of unit {UNIT} running"]
    assert told.died[NODE].failed == []
    assert told.states["restarted"] == ["active", "active"]


def test_enabled_as_debian_does_it_is_not_started_at_boot(told: Told) -> None:
    assert told.states["seldom"] == ["enabled", "inactive", "inactive"]
    assert planned(told.seldom) == [f"unit {UNIT} started at every boot", f"unit {UNIT} running"]
    assert told.seldom[NODE].failed == []
    assert told.states["often"] == ["active", "active"]
    assert (planned(told.again), told.again[NODE].changed) == ([], [])


def test_the_subnet_is_up_again(told: Told, manager: Any, until: Until) -> None:
    until(lambda: "SMINFO_MASTER" in manager.run("env", "SIM_HOST=node1", "timeout", "20", "ibsim-run", "sminfo", check=False).stdout)
