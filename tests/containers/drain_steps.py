# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as its operator sees it, jobs of alice, and steps of the role upgrade over ssh."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cluster import Cluster
from playbook import BIN, SETTINGS

ROOT = Path(__file__).resolve().parents[2]
NODES = ("node1", "node2")
RUN = "20261121T180000Z-upgrade-1"
STEP_SECONDS = 400
WAIT_SECONDS = 120


class Step(NamedTuple):
    """What became of every host: what the scheduler says of it, and why it failed (None where it did not)."""

    drains: dict[str, dict[str, Any]]
    failed: dict[str, str]


class Slurm:
    def __init__(self, scenario: str) -> None:
        self.cluster = Cluster(scenario)
        self.number = 0

    def on(self, node: str, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.cluster.container(node).run(*argv, check=check)

    def say(self, *argv: str) -> str:
        return self.on("controller", *argv).stdout.strip()

    def state(self, node: str) -> str:
        return re.findall(r"State=(\S+)", self.say("scontrol", "show", "node", node))[0]

    def answers(self, node: str) -> bool:
        """Older releases say it by a star, newer ones by a word."""
        return "*" not in self.state(node) and "NOT_RESPONDING" not in self.state(node)

    def reason(self, node: str) -> str:
        return "".join(re.findall(r"Reason=(.*?) \[", self.say("scontrol", "show", "node", node)))

    def submit(self, node: str, script: str) -> str:
        options = ("--parsable", "--partition=rdma", "--chdir=/tmp", "--output=/dev/null", f"--nodelist={node}", "--wrap", script)
        return self.say("runuser", "-u", "alice", "--", "sbatch", *options)

    def job(self, number: str) -> dict[str, str]:
        return dict(word.partition("=")[::2] for word in self.say("scontrol", "--oneliner", "show", "job", number).split() if "=" in word)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"not within {WAIT_SECONDS} s: {what}; {[self.state(node) for node in NODES]}"
            time.sleep(0.5)

    def runs(self, number: str) -> None:
        self.until(lambda: self.job(number)["JobState"] == "RUNNING", f"job {number} runs")

    def begin(self, step: str, *, limit: str = "", **values: Any) -> tuple[subprocess.Popen[str], Path]:
        self.number += 1
        answers = self.cluster.directory / f"steps-{os.getpid()}-{self.number}"
        given = {"step": step, "rdma_upgrade_run": RUN, "__upgrade_drain_poll_s": 1, "upgrade_drain_timeout_s": 120, **values}
        argv = [str(BIN / "ansible-playbook"), "-i", str(self.cluster.inventory), str(self.cluster.source / "step.yml")]
        argv += ["-e", json.dumps(given), *(["--limit", limit] if limit else [])]
        env = {**os.environ, **SETTINGS, "RAILWRIGHT_RUNS": str(answers), "ANSIBLE_CALLBACKS_ENABLED": "railwright_runs"}
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd=ROOT), answers

    def end(self, begun: tuple[subprocess.Popen[str], Path]) -> Step:
        process, answers = begun
        text = process.communicate(timeout=STEP_SECONDS)[0]
        files = list(answers.glob("*.json"))
        assert files, text[-3000:]
        rows = [row for row in json.loads(files[0].read_text(encoding="utf-8")) if row["module"] == "rdma_drain"]
        drains = {row["host"]: row["answer"]["drain"] for row in rows if "drain" in row["answer"]}
        failed = {row["host"]: str(row["answer"].get("msg")) for row in rows if row["status"] == "failed"}
        assert (process.returncode == 0) is not bool(failed), text[-3000:]
        return Step(drains, failed)

    def step(self, step: str, *, limit: str = "", **values: Any) -> Step:
        return self.end(self.begin(step, limit=limit, **values))

    def clean(self) -> None:
        """No job, both nodes idle; whatever a test that failed has left."""
        self.on("controller", "systemctl", "start", "slurmctld")
        self.until(lambda: self.on("controller", "scontrol", "ping", check=False).returncode == 0, "slurmctld answers")
        self.on("controller", "scancel", "--user=alice")
        for node in NODES:
            self.on(node, "systemctl", "start", "slurmd")
        self.until(lambda: not self.say("squeue", "--noheader"), "the queue is empty")
        for node in NODES:
            self.until(lambda node=node: self.answers(node), f"{node} answers")
            if any(word in self.state(node) for word in ("DRAIN", "DOWN", "FAIL")):  # Slurm refuses to resume what only answers late
                self.say("scontrol", "update", f"nodename={node}", "state=resume")
            self.until(lambda node=node: self.state(node) == "IDLE", f"{node} is idle")
