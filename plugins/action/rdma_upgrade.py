# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_upgrade: who we are and what time it is, the report, and a node that a reboot has swallowed."""

import getpass
import hashlib
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import UPGRADE
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction

MODULE = "railwright.rdma.rdma_upgrade"
# Products of rdma_prefix, and what people call them.
PREFIXES = {"nccl": "NCCL", "hpcx": "HPC-X"}


class ActionModule(StepAction):
    """Only the lease is on the node; everything else is known here."""

    argument_spec = UPGRADE

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
        error = options["error"] or {}
        said = str(error.get("msg") or "the task gave no reason")
        try:
            if not self._local:
                self._connection.reset()
            self._low_level_execute_command("true")
        except AnsibleConnectionFailure as lost:
            self._away = True
            waited = f" within {options['waited_s']} s (rdma_reboot_timeout_s)" if options["waited_s"] else ""
            raise AnsibleConnectionFailure(
                f"{node} did not come back from its reboot{waited}: {' '.join(str(lost).split())[:300]}"
            ) from None  # said once, in one line
        if error.get("unreachable"):  # away for a moment: whether it has rebooted is another question, and asked next
            return {**result, "changed": False}
        return {**result, "failed": True, "changed": False, "msg": said}


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


def report(options: Mapping[str, Any]) -> dict[str, Any]:
    """``options``: of rdma_upgrade with mode report. A task that was skipped has registered nothing that counts."""
    plan = options["plan"]
    changes = [change for change in plan["plan"] if isinstance(change, dict)]
    dry_run = registered(options["dry_run"], "resolved") or {}
    missing = [line for prefix in options["prefixes"] for line in missing_prefixes(prefix)]
    return {
        "run": options["run"],
        "pending": bool(changes or missing),
        "plan": [str(change["key"]) for change in changes],
        "classes": sorted({str(change["disruption"]) for change in changes} - {"none"}),
        "before": plan.get("drivers") or {},
        "packages": [{name: row.get(name) for name in ("name", "from", "to")} for row in dry_run.get("resolved", [])],
        "proved": bool(dry_run),
        "later": bool(dry_run.get("later")),
        "prefixes": missing,
        "notes": [*(plan.get("notes") or []), *(str(prefix["msg"]) for prefix in options["prefixes"] if prefix.get("msg"))],
        "scheduler": scheduler_state(options["scheduler"]),
        "lease": (registered(options["lease"], "lease") or {}).get("lease"),
    }


def registered(result: Mapping[str, Any] | None, has: str) -> Mapping[str, Any] | None:
    return result if result and has in result else None


def missing_prefixes(prefix: Mapping[str, Any]) -> list[str]:
    """``NCCL 2.30.7-1``, where the inspection says that it has to be made, or the link current has to be moved."""
    wanted = prefix.get("release")
    if not isinstance(wanted, dict) or not wanted.get("needed"):
        return []
    return [f"{PREFIXES.get(str(prefix.get('product')), 'release')} {wanted.get('version')}"]


def scheduler_state(result: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """rdma_drain's answer on this node; the registered result has it under ``drain``."""
    state = (result or {}).get("drain", result)
    return state if isinstance(state, dict) and "state" in state else None
