# SPDX-License-Identifier: GPL-3.0-or-later
"""After a reboot everything is there again, with no apply; and an apply finds nothing to do."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from railwright import lab


def test_a_rebooted_node_validates_with_no_apply(railwright: Any, on: Any, wait_for_ssh: Any, lossless: Any) -> None:
    before = on("node1", "cat", "/proc/sys/kernel/random/boot_id")
    # The connection dies with the node: its exit status says nothing.
    subprocess.run(lab.ssh_argv("node1", ["systemctl", "reboot"]), capture_output=True, timeout=300, check=False)
    time.sleep(10)
    wait_for_ssh("node1")
    on("node1", "systemctl", "is-system-running", "--wait")
    assert on("node1", "cat", "/proc/sys/kernel/random/boot_id") != before
    run = railwright("validate")
    failed = [f"{item['node']} {item['check']}: {item['message']}" for item in run.document["verdicts"] if item["status"] == "fail"]
    assert run.code == 0, "\n".join(failed)
    passed = {verdict["check"] for verdict in run.document["verdicts"] if verdict["status"] == "pass"}
    assert {"perftest.write_bw", "perftest.read_lat", "ping.mtu", "port.active_mtu", "rail.gid"} <= passed, passed
    assert {node: item["status"] for node, item in lossless(run.document).items()} == {"node1": "pass", "node2": "pass"}


def test_a_second_apply_changes_nothing(railwright: Any) -> None:
    """Neither on the rebooted node nor on the other one, which has not been down since it was repaired."""
    run = railwright("apply")
    assert run.code == 0, run.document
    assert (run.document["summary"]["changes"], run.document["summary"]["not_applied"]) == (0, 0)
