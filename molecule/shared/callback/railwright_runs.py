# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what the modules of railwright.rdma answered in a molecule run, so that tests can compare runs.

One JSON file a run in RAILWRIGHT_RUNS, numbered in order and named by its kind: ``1-check.json``, ``2-apply.json``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: railwright_runs
type: notification
short_description: keeps the answers of railwright's modules
description:
  - Writes the results of the modules of railwright.rdma to the directory that RAILWRIGHT_RUNS names.
requirements:
  - enable in configuration
"""
PREFIX = "railwright.rdma."


class CallbackModule(CallbackBase):
    """Collects during the run, writes at its end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "railwright_runs"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[dict[str, Any]] = []

    def keep(self, result: Any, status: str) -> None:
        if str(result.task.action).startswith(PREFIX):
            answer = json.loads(self._dump_results(result.result))
            module, task = str(result.task.action).removeprefix(PREFIX), str(result.task.name)
            self.answers.append({"host": str(result.host.name), "module": module, "task": task, "status": status, "answer": answer})

    def v2_runner_on_ok(self, result: Any) -> None:
        self.keep(result, "ok")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self.keep(result, "failed")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        directory = os.environ.get("RAILWRIGHT_RUNS")
        if not directory or not self.answers:
            return
        target = Path(directory)
        target.mkdir(parents=True, exist_ok=True)
        number = len(list(target.glob("*.json"))) + 1
        kind = "check" if context.CLIARGS.get("check") else "apply"
        (target / f"{number}-{kind}.json").write_text(json.dumps(self.answers, indent=1), encoding="utf-8")
