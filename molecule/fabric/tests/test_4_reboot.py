# SPDX-License-Identifier: GPL-3.0-or-later
"""After a reboot everything is there again, with no apply."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from railwright import lab


def test_a_rebooted_node_validates_with_no_apply(railwright: Any, on: Any, wait_for_ssh: Any) -> None:
    before = on("node1", "cat", "/proc/sys/kernel/random/boot_id")
    # The connection dies with the node: its exit status says nothing.
    subprocess.run(lab.ssh_argv("node1", ["systemctl", "reboot"]), capture_output=True, timeout=60, check=False)
    time.sleep(10)
    wait_for_ssh("node1")
    on("node1", "systemctl", "is-system-running", "--wait")
    assert on("node1", "cat", "/proc/sys/kernel/random/boot_id") != before
    assert railwright("plan").document["summary"]["changes"] == 0
    run = railwright("validate")
    assert run.code == 0, [verdict for verdict in run.document["verdicts"] if verdict["status"] != "pass"]
