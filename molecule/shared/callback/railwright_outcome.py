# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what became of every host in one run of a playbook: what changed, what failed and in which words.

One JSON file, RAILWRIGHT_OUTCOME: ``{host: {"changed": [task], "failed": [[task, message]], "unreachable": bool}}``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: railwright_outcome
type: notification
short_description: keeps what became of every host
description:
  - Writes the tasks that changed or failed, host by host, to the file that RAILWRIGHT_OUTCOME names.
requirements:
  - enable in configuration
"""


class CallbackModule(CallbackBase):
    """Collects during the run, writes at its end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "railwright_outcome"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.hosts: dict[str, dict[str, Any]] = {}

    def host(self, result: Any) -> dict[str, Any]:
        return self.hosts.setdefault(str(result.host.name), {"changed": [], "failed": [], "unreachable": False})

    def v2_runner_on_ok(self, result: Any) -> None:
        entry = self.host(result)
        if result.result.get("changed"):
            entry["changed"].append(str(result.task.name))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        said = [str(result.result.get("msg", "")), *map(str, result.result.get("failures", []))]  # dnf names the package only there
        self.host(result)["failed"].append([str(result.task.name), ": ".join(said)])

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self.host(result)["unreachable"] = True

    def v2_playbook_on_stats(self, stats: Any) -> None:
        target = os.environ.get("RAILWRIGHT_OUTCOME")
        if target:
            Path(target).write_text(json.dumps(self.hosts, indent=1), encoding="utf-8")
