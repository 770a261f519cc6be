# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes every result of every host to a file, as callbacks get them."""

import json
import os
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: recorder
type: notification
short_description: results into a file
description: for a test
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "recorder"
    CALLBACK_NEEDS_ENABLED = True

    def _keep(self, status, result):
        row = {"status": status, "host": result._host.get_name(), "task": result._task.get_name(), "result": result._result}
        with Path(os.environ["HOSTILE"], "results.jsonl").open("a") as stream:
            stream.write(json.dumps(row, default=str) + "\n")

    def v2_runner_on_ok(self, result):
        self._keep("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._keep("failed", result)

    def v2_runner_on_unreachable(self, result):
        self._keep("unreachable", result)

    def v2_runner_on_skipped(self, result):
        self._keep("skipped", result)
