# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU governor: live on every policy, and a unit for the next boot."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import cpu

UNIT = "railwright-cpu-governor.service"
PATH = f"/etc/systemd/system/{UNIT}"
POLICY = "/sys/devices/system/cpu/cpufreq/policy%d/scaling_governor"


def test_a_bare_node_needs_all_and_then_nothing(planner: Callable[..., Any], node: Any) -> None:
    plans = planner()
    assert plans.keys("cpu") == ["CPU governor", f"file {PATH}", f"unit {UNIT} enabled"]
    assert plans.plan("cpu")[0].before == {"schedutil": 12}
    plans.converge("cpu")
    assert {node.line(POLICY % index) for index in range(12)} == {"performance"}


def test_one_policy_alone(planner: Callable[..., Any], node: Any) -> None:
    plans = planner()
    plans.converge("cpu")
    node.put(POLICY % 10, "schedutil\n")
    (change,) = plans.plan("cpu")
    assert (change.what, change.before, change.after) == ("CPU governor", {"performance": 11, "schedutil": 1}, {"performance": 12})
    assert [op.path for op in change.ops] == [POLICY % 10]


def test_boot_state_alone(planner: Callable[..., Any], node: Any) -> None:
    plans = planner()
    plans.converge("cpu")
    (node.base / "etc/systemd/system/multi-user.target.wants" / UNIT).unlink()
    assert plans.keys("cpu") == [f"unit {UNIT} enabled"]
    plans.converge("cpu")
    node.remove(PATH)
    assert plans.keys("cpu") == [f"file {PATH}"]


def test_nothing_where_there_is_nothing_to_set(planner: Callable[..., Any], node: Any) -> None:
    assert planner(host_tuning_governor="keep").plan("cpu") == []
    node.put("/run/.containerenv", "")
    assert planner().plan("cpu") == []
    node.remove("/run/.containerenv")
    for index in range(12):
        node.remove(POLICY % index)
    assert planner().plan("cpu") == []


def test_a_governor_that_the_driver_lacks(planner: Callable[..., Any]) -> None:
    assert planner(host_tuning_governor="ondemand").problems("cpu") == [
        "host_tuning_governor: this node has no governor 'ondemand'; policy0 offers performance, schedutil"
    ]


def test_the_unit_s_command_sets_every_governor(planner: Callable[..., Any], node: Any, tmp_path: Path) -> None:
    """Run the very command of the unit, as systemd would hand it to sh, against the tree."""
    for index in range(3):
        node.put(f"/sys/devices/system/cpu/cpu{index}/cpufreq/scaling_governor", "schedutil\n")
    found = re.search(r"^ExecStart=/bin/sh -c '([^']+)'$", cpu.unit_text("performance"), re.MULTILINE)
    assert found is not None
    script = found.group(1).replace("$$", "$").replace("/sys/", f"{tmp_path}/sys/")
    subprocess.run(["/bin/sh", "-c", script], check=True)
    assert {node.line(f"/sys/devices/system/cpu/cpu{index}/cpufreq/scaling_governor") for index in range(3)} == {"performance"}
