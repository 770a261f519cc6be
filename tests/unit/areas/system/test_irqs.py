# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupts of the rails: on their own NUMA node, live and for the next boot, and no irqbalance that moves them."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import irqs

UNIT = f"/etc/systemd/system/{irqs.BOOT_UNIT}"
ENABLED = f"unit {irqs.BOOT_UNIT} enabled"
DEVICES = "/sys/bus/pci/devices/0000:00:0%d.0/"


@pytest.fixture
def numa(node: Any) -> Any:
    """Two rails on the second NUMA node; of the first rail's interrupts one is where it should be."""
    for slot in (4, 5):
        node.put(DEVICES % slot + "local_cpulist", "6-11\n")
        for number in range(2):
            node.put(DEVICES % slot + f"msi_irqs/{slot}{number}", "msix\n")
            node.put(irqs.MASK % f"{slot}{number}", "7\n" if slot == 4 and number else "0-11\n")
    return node


def test_only_what_is_elsewhere_is_moved(planner: Callable[..., Any], numa: Any) -> None:
    plans = planner(host_tuning_irqs="local")
    first, second, *boot = plans.plan("irqs")
    assert (first.before, first.after, [op.path for op in first.ops]) == ("1 on other CPUs", "on CPUs 6-11", [irqs.MASK % "40"])
    assert second.before == "2 on other CPUs"
    assert [change.what for change in boot] == [f"file {UNIT}", ENABLED]
    plans.converge("irqs")
    assert [numa.line(irqs.MASK % number) for number in ("40", "41", "50", "51")] == ["6-11", "7", "6-11", "6-11"]


def test_kept_unless_somebody_asks(planner: Callable[..., Any], numa: Any) -> None:
    assert planner().plan("irqs") == []
    numa.put("/run/.containerenv", "")
    assert planner(host_tuning_irqs="local").plan("irqs") == []


def test_taken_back_when_nobody_asks_any_more(planner: Callable[..., Any], numa: Any) -> None:
    planner(host_tuning_irqs="local").converge("irqs")
    (change,) = planner().plan("irqs")
    assert change.what == f"unit {irqs.BOOT_UNIT} removed"


def test_irqbalance_is_stopped_where_it_runs(planner: Callable[..., Any], numa: Any) -> None:
    numa.put("/lib/systemd/system/irqbalance.service", "[Service]\n")
    link = numa.base / "etc/systemd/system/multi-user.target.wants/irqbalance.service"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/lib/systemd/system/irqbalance.service")
    change = planner(host_tuning_irqs="local").plan("irqs")[0]
    assert change.what == "unit irqbalance.service off"
    assert ("systemctl", "disable", "irqbalance.service") in [op.argv for op in change.ops]


@pytest.mark.parametrize("said", ["", "6-11; reboot", "0-99999999999", "-1"])
def test_a_list_that_is_none_moves_nothing(planner: Callable[..., Any], numa: Any, said: str) -> None:
    for slot in (4, 5):
        numa.put(DEVICES % slot + "local_cpulist", said)
    plans = planner(host_tuning_irqs="local")
    assert [change.what for change in plans.plan("irqs")] == [f"file {UNIT}", ENABLED]
    assert len(plans.notes("irqs")) == 2


def test_the_unit_s_command_moves_them(planner: Callable[..., Any], numa: Any, tmp_path: Path) -> None:
    """Run the very command of the unit, as systemd would hand it to sh, against the tree."""
    planner(host_tuning_irqs="local").converge("irqs")
    numa.put(irqs.MASK % "50", "0-11\n")
    found = re.search(r"^ExecStart=/bin/sh -c '([^']+)'$", numa.read(UNIT).replace("\\\n", ""), re.MULTILINE)
    assert found is not None
    script = found.group(1).replace("$$", "$").replace("/sys/", f"{tmp_path}/sys/").replace("/proc/", f"{tmp_path}/proc/")
    subprocess.run(["/bin/sh", "-c", script], check=True)
    assert {numa.line(irqs.MASK % number) for number in ("40", "41", "50", "51")} == {"6-11"}
