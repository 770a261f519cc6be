# SPDX-License-Identifier: GPL-3.0-or-later
"""A subnet manager where the inventory wants one, and nothing done where it does not."""

from __future__ import annotations

from typing import Any

UNIT = "opensm.service"
MANAGERS = ("node1", "node3")  # node3 has a simulated fabric: test_fabric.py


def test_the_package_is_there(host: Any) -> None:
    assert host.package("opensm").is_installed


def test_the_unit_starts_at_boot_in_group_opensm_alone(host: Any, node: str) -> None:
    assert host.service(UNIT).is_enabled == (node in MANAGERS)


def test_without_umad_it_is_not_started_and_nothing_has_failed(host: Any, applied: Any, node: str) -> None:
    """In a container modules belong to the machine below: systemd would skip the start."""
    simulated = node == "node3"
    assert host.file("/sys/class/infiniband_mad/abi_version").exists == simulated
    assert host.check_output(f"systemctl show -p ActiveState --value {UNIT}") == ("active" if simulated else "inactive")
    notes = [note for item in applied.of("rdma_state", node) for note in item["answer"]["notes"]]
    assert len([note for note in notes if note.startswith("opensm: ")]) == (node == "node1")


def test_it_is_still_enabled_after_a_reboot(container: Any, node: str) -> None:
    container.restart()
    assert container.run("systemctl", "is-enabled", UNIT, check=False).stdout.strip() == ("enabled" if node in MANAGERS else "disabled")
    wants = container.run("test", "-h", f"/etc/systemd/system/multi-user.target.wants/{UNIT}", check=False)
    assert (wants.returncode == 0) == (node in MANAGERS)
