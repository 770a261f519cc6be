# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a scenario's converge.yml from a test, with inventory values of the moment, and says what became of each host.

For scenarios that are a story: the inventory changes between runs, and what the run before left on the node matters.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
RUN_SECONDS = 600  # on a busy machine
SETTINGS = {
    "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev"),
    "ANSIBLE_HOME": str(ROOT / "build" / "ansible"),
    "ANSIBLE_PIPELINING": "true",
    "ANSIBLE_INTERPRETER_PYTHON": "auto_silent",
    "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "molecule" / "shared" / "callback"),
    "ANSIBLE_CALLBACKS_ENABLED": "railwright_runs,railwright_outcome",
}


class Host(NamedTuple):
    """One host in one run. ``answers`` are those of our modules: {host, module, task, status, answer}."""

    changed: list[str]
    failed: list[tuple[str, str]]
    answers: list[dict[str, Any]]

    def of(self, module: str) -> list[dict[str, Any]]:
        return [item["answer"] for item in self.answers if item["module"] == module]

    @property
    def plan(self) -> list[dict[str, Any]]:
        """The first plan of the run: what was shown before anything changed."""
        return list(self.of("rdma_state")[0]["plan"])


class Playbook:
    """One scenario: its inventory, and runs numbered in order below build/molecule/SCENARIO."""

    def __init__(self, scenario: str) -> None:
        self.source = ROOT / "molecule" / scenario
        self.build = ROOT / "build" / "molecule" / scenario
        self.inventory = self.build / "inventory"

    def say(self, values: dict[str, Any], hosts: Mapping[str, dict[str, Any]]) -> None:
        """What the inventory says from now on, beside the scenario's own group_vars; ``hosts`` have values of their own."""
        shutil.rmtree(self.inventory / "host_vars", ignore_errors=True)
        rows = {"group_vars/all": values, **{f"host_vars/{name}": own for name, own in hosts.items()}}
        for place, content in rows.items():
            path = self.inventory / place / "story.yml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content, indent=1), encoding="utf-8")

    def artifacts(self) -> list[dict[str, str]]:
        """What ``railwright artifacts`` lists for this inventory."""
        argv = (str(BIN / "railwright"), "artifacts", "-i", str(self.inventory), "--format", "json")
        done = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=ROOT, timeout=RUN_SECONDS)
        return list(json.loads(done.stdout))

    def run(self, *, check: bool = False, limit: str | None = None, play: str = "") -> dict[str, Host]:
        """Every host's part in the scenario's own play, or in another one by its name.

        That a host failed is an answer; that the run itself could not start is not.
        """
        number = len(list(self.build.glob("story-*.log"))) + 1
        runs, outcome = self.build / f"story-{number}", self.build / f"story-{number}.json"
        argv = [
            str(BIN / "ansible-playbook"), "-i", str(self.inventory), play or str(self.source / "converge.yml"),
            *(["--check"] if check else []), *(["--limit", limit] if limit else []),
        ]
        env = dict(os.environ, **SETTINGS, RAILWRIGHT_RUNS=str(runs), RAILWRIGHT_OUTCOME=str(outcome))
        done = subprocess.run(argv, check=False, capture_output=True, text=True, env=env, cwd=ROOT, timeout=RUN_SECONDS)
        (self.build / f"story-{number}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
        hosts = json.loads(outcome.read_text(encoding="utf-8")) if outcome.is_file() else {}
        if not hosts or any(entry["unreachable"] for entry in hosts.values()):
            raise AssertionError(f"run {number} did not run: {(done.stdout + done.stderr)[-3000:]}")
        answers = [item for path in runs.glob("*.json") for item in json.loads(path.read_text(encoding="utf-8"))]
        return {
            name: Host(entry["changed"], [tuple(item) for item in entry["failed"]], [item for item in answers if item["host"] == name])
            for name, entry in hosts.items()
        }
