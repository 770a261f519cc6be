# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent on a machine: real flaps of a link under a Soft-RoCE device, the kernel's own log, kills, a full disk, a clock that jumps, a
reboot. The tests are one story and run in this order.

Links may come and go in the half hour after a boot: ``look`` runs in a time namespace whose boot was two hours earlier.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lab_images import LOGGED
from lab_machine import Machine, plain_playbook
from railwright import lab

RECIPE = LOGGED
HARDWARE = lab.Hardware()
SITE: dict[str, Any] = {
    "rdma_fabric": "roce", "rdma_mtu": 1500, "rdma_stack": "soft_roce", "agent_mode": "observe",
    "agent_textfile_directory": "/var/lib/node-exporter"}  # fmt: skip
MEMORY, STATUS = "/var/lib/railwright/agent", "/run/railwright/agent"
RUN = "unshare --time --boottime 7200 --fork python3 /usr/local/libexec/railwright/agent"
ONCE = f"{RUN} look || {{ {RUN} whole && {RUN} look; }}"
RAIL = ("modprobe rdma_rxe; ip link add r0 type veth peer name r1; ip link set r0 up; ip link set r1 up; "
        "rdma link add rxe0 type rxe netdev r0")
FLAP = "for flap in 1 2 3; do ip link set r1 down; sleep 1; ip link set r1 up; sleep 1; done"
XID = "NVRM: Xid (PCI:0000:00:01): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
MCE = "mce: [Hardware Error]: CPU 0: Machine Check Exception: 5 Bank 7: be00000000800400"


def look(machine: Machine) -> dict[str, Any]:
    machine.sh(ONCE)
    found: dict[str, Any] = json.loads(machine.run("cat", f"{STATUS}/status.json"))
    return found


def checks(document: dict[str, Any], status: str = "fail") -> set[str]:
    return {row["check"] for row in document["findings"] if row["status"] == status}


@pytest.fixture(scope="module")
def node(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A rail over a pair of interfaces, the one of which is the switch's port; the timer has been started by the role, and is stopped:
    each look is the test's."""
    machine.sh("mkdir -p /etc/systemd/system.conf.d; printf '[Manager]\\nDefaultLimitMEMLOCK=infinity\\n' > "
               f"/etc/systemd/system.conf.d/memlock.conf; systemctl daemon-reexec; mkdir -p /var/lib/node-exporter; {RAIL}")
    machine.site(SITE)
    assert plain_playbook(machine, tmp_path_factory.mktemp("role"), "agent") > 0
    assert machine.run("systemctl", "is-active", "railwright-agent.timer").strip() == "active"
    assert plain_playbook(machine, tmp_path_factory.mktemp("again"), "agent") == 0
    return machine


def test_the_timer_looks_and_nothing_stays(node: Machine) -> None:
    """Under its own unit, whose file systems are read-only to it."""
    node.sh(f"for second in $(seq 180); do grep -q '^ok ' {STATUS}/status && exit 0; sleep 1; done; cat {STATUS}/status* >&2; exit 1")
    node.sh("systemctl stop railwright-agent.timer; while systemctl is-active -q railwright-agent.service; do sleep 1; done")
    assert node.sh("cat /var/lib/node-exporter/railwright-agent.prom").count("railwright_agent_last_look_timestamp_seconds") == 3
    assert node.sh("pgrep -f '[l]ibexec/railwright/agent' || true") == "", "nothing of it lives between two looks"
    assert node.run("systemctl", "show", "-P", "Result", "railwright-agent.service").strip() == "success"


def test_real_flaps_are_counted_and_three_refuse(node: Machine) -> None:
    node.sh(FLAP)
    assert checks(look(node)) == set(), "an apply has ended a moment ago: it may have moved links"
    node.sh("find /var/lib/railwright/restore -mindepth 1 -maxdepth 1 -exec touch -d '-2 hours' {} +")
    node.sh(FLAP)
    document = look(node)
    assert checks(document) == {"port.flaps"}
    assert node.run("cat", f"{STATUS}/status").startswith("shared ")
    text = node.run("python3", "/usr/local/libexec/railwright/agent", "events")
    assert re.search(r"rxe0 \(r0\) went down 3 times in 12 hours, last .*; 7 days before: never", text), text


def test_what_the_kernel_logs_is_found_and_said_once(node: Machine) -> None:
    for line in (XID, XID, MCE):
        node.run("sh", "-euc", 'modprobe lab_log; printf %s "$1" > /sys/module/lab_log/parameters/line', "sh", line)
    look(node)
    document = look(node)
    assert checks(document) == {"port.flaps", "gpu.xid", "node.machine_check"}
    history = node.sh(f"cat {MEMORY}/*.log")
    assert history.count('"event":"xid"') == 1, "two lines within a minute are one event, with their number"


def test_twenty_kills_while_it_works_lose_nothing(node: Machine) -> None:
    before = node.sh(f"cat {MEMORY}/*.log").splitlines()
    kill = "pkill -9 -f '^python3 /usr/local/libexec/railwright/agent'"
    node.sh(f"for kill in $(seq 20); do ({ONCE} &) ; sleep 0.$((kill * 7 % 90 + 10)); {kill}; done; true")
    document = look(node)
    assert checks(document) == {"port.flaps", "gpu.xid", "node.machine_check"}
    assert node.sh(f"cat {MEMORY}/*.log").splitlines()[: len(before)] == before


def test_a_clock_that_jumps_moves_no_window(node: Machine) -> None:
    node.sh("timedatectl set-ntp false || true; date -s '+400 days'")
    try:
        assert "port.flaps" in checks(look(node))
        node.sh("date -s '-800 days'")
        assert "port.flaps" in checks(look(node))
    finally:
        node.sh("date -s '+400 days'")
    assert "port.flaps" in checks(look(node))


def test_a_full_disk_keeps_the_status_up_to_date(node: Machine) -> None:
    node.sh(f"cp -a {MEMORY} /root/kept; mount -t tmpfs -o size=128k tmpfs {MEMORY}; cp -a /root/kept/. {MEMORY}; "
            f"dd if=/dev/zero of={MEMORY}/fill bs=4k 2>/dev/null || true")
    try:
        document = look(node)
        assert document["trouble"], document
        assert "port.flaps" in checks(document)
    finally:
        node.sh(f"umount {MEMORY}")
    assert look(node)["trouble"] == ""


def test_a_reboot_loses_no_history(node: Machine, tmp_path: Path) -> None:
    """The Xid is over, as the GPU was reset with the node; flaps count on, and a machine check waits for somebody's word."""
    node.reboot()
    assert node.run("systemctl", "is-active", "railwright-agent.timer").strip() == "active", "it comes by itself"
    node.sh(f"systemctl stop railwright-agent.timer railwright-agent; {RAIL}")
    document = look(node)
    assert "node.machine_check" in checks(document)
    assert "went down 3 times in 12 hours" in node.run("python3", "/usr/local/libexec/railwright/agent", "events")
    (known,) = [row["id"] for row in document["findings"] if row["check"] == "node.machine_check"]
    node.run("python3", "/usr/local/libexec/railwright/agent", "ack", known, "CPU ordered")
    assert "node.machine_check" not in {row["check"] for row in look(node)["findings"] if not row["known"]}


def test_off_takes_it_away_and_leaves_the_history(node: Machine, tmp_path: Path) -> None:
    node.site({**SITE, "agent_mode": "off"})
    plain_playbook(node, tmp_path, "agent")
    assert node.sh(f"ls {MEMORY}/*.log /usr/local/libexec/railwright/agent 2>/dev/null || true").split()[-1].endswith(".log")
    assert "could not be found" in node.fails("systemctl", "status", "railwright-agent.timer")
