# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker that cannot reach the scheduler takes a step of an upgrade with what the controller was told: real ansible-playbook, no ssh."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.draining import ASKED
from railwright.ansible_env import ansible_environment

DRAIN = {"scheduler": "slurm", "node": "n", "state": "drained", "jobs": [], "holders": [], "reason": "railwright r1", "by": "us",
         "message": None, "raw": "IDLE+DRAIN", "closed": True, "empty": True, "done": True}  # fmt: skip
HOSTS = {
    "drained": (DRAIN, ""),
    "busy": ({**DRAIN, "empty": False, "done": False, "holders": ["job 7 of eve (RUNNING)"]}, "busy was not empty: job 7 of eve (RUNNING)"),
    "silent": (None, "__upgrade_verified says nothing about silent"),
}


@pytest.mark.slow
def test_the_steps_go_on_with_what_the_controller_was_told(tmp_path: Path) -> None:
    own = {"rdma_fabric": "roce", "upgrade_scheduler": "slurm", "upgrade_scheduler_host": "nobody-knows-it.invalid"}
    site = {"all": {"children": {"rdma": {"hosts": {name: {} for name in HOSTS}, "vars": own}}}}
    (tmp_path / "hosts.json").write_text(json.dumps(site))
    told = {"rdma_upgrade_run": "r1", "rdma_upgrade_step": "drained", ASKED: {name: drain for name, (drain, _why) in HOSTS.items()}}
    argv = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(tmp_path / "hosts.json"), "railwright.rdma.upgrade_step",
            "-e", json.dumps(told)]  # fmt: skip
    environment = {**ansible_environment(os.environ, tmp_path), "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}
    done = subprocess.run(argv, env={**os.environ, **environment}, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    said = done.stdout
    assert done.returncode == 2, said + done.stderr
    for name, (_drain, why) in HOSTS.items():
        (recap,) = [line for line in said.split("\n") if line.startswith(f"{name} ") and "ok=" in line]
        assert ("failed=0" in recap) == (not why), said
        assert why in said
    assert "unreachable=0" in said
