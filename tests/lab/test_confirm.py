# SPDX-License-Identifier: GPL-3.0-or-later
"""A change that cuts the controller off is reverted by the node itself, in time, whatever becomes of the controller.

The rail `front` is the management interface. Its new address is one that nothing forwards to: from the moment it is set no
connection comes through, as after a wrong address on a server far away. How long it lasted is in the kernel's own record of the node.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lab_images import FABRIC
from lab_machine import RUN_SECONDS, Machine
from railwright import lab
from railwright.lab import reach

RECIPE = FABRIC
HARDWARE = lab.Hardware()
SECONDS = 40
# Where the controller does confirm, it may take its time: a busy machine that emulates another one is slow.
PATIENCE = 600
# The roll-back starts an interpreter and runs a dozen commands, at emulation speed, and the switch's time begins when the last
# effect is done, not with the address.
SLACK = 60
SITE = {
    "rdma_fabric": "roce",
    "rdma_stack": "soft_roce",
    "rdma_mtu": 9000,
    "rdma_consent": ["link", "restart"],
    "rdma_confirm_timeout_s": SECONDS,
    "validate_perftest": False,
}
CONSENTED = {**SITE, "rdma_consent": ["link", "restart", "management"]}
UNITS = "/etc/systemd/system/railwright-watchdog*"
RECORD = "/run/lab-addresses"
# The roll-back has networkd take up its file again, which sets the address anew: milliseconds, and no connection ends.
BLINK_S = 1.0
HERE, NOWHERE = "10.0.2.15/24", "10.0.2.99/24"
STATE = """
find /etc /var/lib/systemd/timers -xdev -type f -print0 | sort -z | xargs -0 sha256sum
find /etc -xdev -printf '%m %u %g %y %p %l\\n' | sort
ip -o addr show dev eth0 scope global | sed 's/valid_lft.*//'
ip -o link show dev eth0 | sed 's/qlen.*//'
ip route show table all dev eth0 | sort
ip rule show | sort
"""


@dataclass
class Cut:
    """One apply that cut the node off. away: for how long the node was without its address, by its own clock, once for each time."""

    code: int
    document: Any
    err: str
    away: list[float]


def front(machine: Machine, address: str, mtu: int = 9000) -> None:
    machine.rails(
        {"name": "rail0", "match": {"mac": "52:54:00:4d:01:01"}, "address": "10.77.0.11/24", "mtu": mtu},
        {"name": "front", "match": {"mac": "52:54:00:4d:00:01"}, "address": address, "gateway": "10.0.2.2", "mtu": 1500},
    )


def state(machine: Machine) -> list[str]:
    """All of /etc, and the management interface with its routes and rules."""
    return machine.sh(STATE).splitlines()


def answers(machine: Machine) -> bool:
    """Patiently: every attempt costs the emulated machine a process."""
    state = lab.current(machine.state_dir)
    return reach.answers(state.node(machine.node), 10)


def gone(machine: Machine) -> bool:
    """Twice in a row, so that a slow answer is none."""
    time.sleep(3)
    return not answers(machine) and not answers(machine)


def monitor(machine: Machine) -> None:
    """The kernel's own record of addresses that go and come, with its times."""
    machine.sh(f"setsid ip -ts -o monitor address dev eth0 > {RECORD} 2>&1 < /dev/null & sleep 1")


def absences(machine: Machine) -> list[float]:
    """Seconds between the loss of the address and its return."""
    found: list[float] = []
    lost = 0.0
    for line in machine.run("cat", RECORD).splitlines():
        seen = re.match(rf"\[(\S+)\] *(Deleted )?.* inet {HERE} ", line)
        if seen is None:
            continue
        at = datetime.fromisoformat(seen[1]).timestamp()
        if seen[2]:
            lost = lost or at
        elif lost:
            if at - lost > BLINK_S:
                found.append(at - lost)
            lost = 0.0
    assert not lost, "the address is still gone"
    return found


def cut(machine: Machine, tmp_path: Path, *, kill: bool = False) -> Cut:
    """apply in a session of its own. kill: it and all its children are gone as soon as the node is."""
    out, err = tmp_path / "out", tmp_path / "err"
    argv = [str(Path(sys.executable).with_name("railwright")), "apply", "-i", str(machine.inventory), "--format", "json", "--yes"]
    monitor(machine)
    with out.open("w") as stdout, err.open("w") as stderr:
        run = subprocess.Popen(argv, stdout=stdout, stderr=stderr, start_new_session=True)
        if kill:
            while run.poll() is None and not gone(machine):
                pass
            os.killpg(run.pid, signal.SIGKILL)
        code = run.wait(timeout=RUN_SECONDS)
    deadline = time.monotonic() + SECONDS + 300
    while not answers(machine) and time.monotonic() < deadline:
        time.sleep(3)
    seen = Cut(code, json.loads(out.read_text(encoding="utf-8") or "null"), err.read_text(encoding="utf-8"), absences(machine))
    machine.run("pkill", "-f", "ip -ts -o monitor")
    return seen


def in_time(seen: Cut) -> bool:
    return len(seen.away) == 1 and SECONDS - 5 < seen.away[0] <= SECONDS + SLACK


def notes(machine: Machine) -> str:
    return str(machine.railwright("plan").document["nodes"]["node1"]["notes"])


def armed(machine: Machine) -> str:
    """The switch, in systemd or on the disk."""
    return machine.sh(f"systemctl list-units --all --plain --no-legend 'railwright-watchdog*'; ls {UNITS} 2>/dev/null || true")


@pytest.fixture(scope="module")
def node(machine: Machine) -> Machine:
    """railwright configures the management interface, with the address that it has."""
    machine.run("mv", "/etc/systemd/network/10-management.network", "/etc/systemd/network/90-management.network")
    machine.site({**CONSENTED, "rdma_confirm_timeout_s": PATIENCE})
    front(machine, HERE)
    run = machine.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    # Until the next boot the address keeps what is left of DHCP, the metric of its subnet's route.
    machine.reboot()
    again = machine.railwright("plan")
    assert (again.code, again.document["summary"]["changes"]) == (0, 0), again.document
    return machine


def test_without_consent_the_management_address_stays(node: Machine) -> None:
    node.site(SITE)
    front(node, NOWHERE)
    before = state(node)
    run = node.railwright("apply")
    assert run.code == 1
    assert "management" in run.err + json.dumps(run.document)
    assert state(node) == before


@pytest.mark.parametrize("time_in_a_row", [1, 2])
def test_a_node_that_cut_itself_off_comes_back(node: Machine, tmp_path: Path, time_in_a_row: int) -> None:
    node.site(CONSENTED)
    front(node, NOWHERE)
    before = state(node)
    seen = cut(node, tmp_path)
    assert in_time(seen), seen
    assert state(node) == before
    assert seen.code == 1, seen
    (line,) = [line for line in seen.err.splitlines() if "rolled itself back" in line]
    assert "node1" in line, line
    assert "address of front (eth0)" in line, line


def test_a_killed_controller_is_no_obstacle(node: Machine, tmp_path: Path) -> None:
    before = state(node)
    seen = cut(node, tmp_path, kill=True)
    assert seen.code == -signal.SIGKILL
    assert in_time(seen), seen
    assert state(node) == before
    assert "reverted" in notes(node)
    assert armed(node) == ""


def test_a_change_that_cuts_nothing_is_confirmed(node: Machine) -> None:
    node.site({**SITE, "rdma_confirm_timeout_s": PATIENCE})
    front(node, HERE, mtu=8000)
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    assert armed(node) == ""
    assert node.run("cat", "/sys/class/net/eth1/mtu").strip() == "8000"
    assert "reverted" not in notes(node)
