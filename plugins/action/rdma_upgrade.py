# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_upgrade: who we are and what time it is, the report, and a node that a reboot has swallowed."""

from __future__ import annotations

import getpass
import hashlib
import socket
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.upgrade_report import report

MODULE = "railwright.rdma.rdma_upgrade"
LOCAL = ("local", "ansible.builtin.local")
OPTIONS = {
    "mode": {"type": "str", "choices": ["lease", "release", "report", "after_reboot"], "required": True},
    "run": {"type": "str"},
    "take_over": {"type": "bool", "default": False},
    "step": {"type": "str", "choices": ["preflight", "change"], "default": "preflight"},
    "plan": {"type": "dict"},
    "lease": {"type": "dict"},
    "scheduler": {"type": "dict"},
    "proof": {"type": "dict"},
    "prefixes": {"type": "list", "elements": "dict", "default": []},
    "error": {"type": "dict", "default": {}},
    "waited_s": {"type": "int"},
}


class ActionModule(StepAction):
    """Only the lease is on the node; everything else is known here."""

    argument_spec = OPTIONS
    _away = False

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        mode = options["mode"]
        if mode == "after_reboot":
            return self._after_reboot(result, str(variables.get("inventory_hostname", "")), options)
        if not options["run"]:
            raise AnsibleActionFail(f"rdma_upgrade: mode {mode} needs run, the name of the upgrade")
        if mode == "report":
            if "plan" not in (options["plan"] or {}):
                raise AnsibleActionFail("rdma_upgrade got no plan: register the result of railwright.rdma.rdma_state and pass it")
            result.update(changed=False, upgrade=report(options))
            return result
        arguments = {
            "mode": mode, "run": options["run"], "take_over": options["take_over"], "step": options["step"],
            "controller": controller(), "user": user(), "now": time.time(),
        }
        result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables))
        return result

    def _after_reboot(self, result: dict[str, Any], node: str, options: dict[str, Any]) -> dict[str, Any]:
        """The reboot task gives up with a failure, whatever became of the node: only one that does not answer is unreachable."""
        said = str(options["error"].get("msg") or "the task gave no reason")
        try:
            if str(self._connection.transport) not in LOCAL:
                self._connection.reset()
            self._low_level_execute_command("true")
        except AnsibleConnectionFailure as error:
            self._away = True
            waited = f" within {options['waited_s']} s (rdma_reboot_timeout_s)" if options["waited_s"] else ""
            raise AnsibleConnectionFailure(
                f"{node} did not come back from its reboot{waited}: {' '.join(str(error).split())[:300]}"
            ) from None  # said once, in one line
        if options["error"].get("unreachable"):  # away for a moment: whether it has rebooted is another question, and asked next
            return {**result, "changed": False}
        return {**result, "failed": True, "changed": False, "msg": said}

    def cleanup(self, force: bool = False) -> None:
        """To clean up on a node that is away would fail as well, and that failure would hide ours."""
        if not self._away:
            super().cleanup(force)


def controller() -> str:
    """Its name, and what tells it from another one of that name: a playbook's run is called by its release, on every controller alike."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        machine = ""  # the name alone then: what is made up would be another one in every task
    return f"{socket.gethostname()}-{hashlib.sha256(f'railwright {machine}'.encode()).hexdigest()[:8]}"


def user() -> str:
    """A container's user may be in no list."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
