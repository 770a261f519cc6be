# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_ddp: the inventory's wishes, the plan over all nodes, each node's part of it, and the verdicts.

A node that is lost on the way ends the job for all: ``poll`` looks at what the others registered, and stops waiting.
"""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp.launch import PREFIX
from ansible_collections.railwright.rdma.plugins.module_utils.types import VERDICT_STATUSES, as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.ddp import document, judge
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import known_addresses
from ansible_collections.railwright.rdma.plugins.plugin_utils.ddp import PlanError, make_plan, share, wishes
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import names, result_of, variable_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.table import verdict_table

MODES = ["look", "plan", "start", "poll", "stop", "collect", "judge"]
REGISTERED = ("seen", "plan", "started", "polled", "collected")
OPTIONS = {"mode": {"type": "str", "required": True, "choices": MODES}, "age": {"type": "int"},
           **{name: {"type": "str"} for name in REGISTERED}}
MODULE = "railwright.rdma.rdma_ddp"
SCRIPTS = Path(__file__).resolve().parents[2] / "roles" / "ddp_benchmark" / "files"
SCRIPT_NAMES = ("ddp_benchmark.py", "ddp_report.py")


class ActionModule(StepAction):
    """One step of the role."""

    argument_spec = OPTIONS
    fills = True

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        here, mode = str(variables["inventory_hostname"]), options["mode"]
        if mode == "look":
            spec = host_spec(self._templar, variables)
            result.update(self._execute_module(
                module_name=MODULE, module_args={"mode": mode, "node": here, "spec": spec.as_dict()}, task_vars=variables))
            result["wishes"] = wishes(spec)
        elif mode == "plan":
            result.update(changed=False, **plan(variables, str(options["seen"])))
        elif self._task.check_mode:
            result.update(changed=False, skipped=True, skip_reason="nothing is started in check mode")
        elif mode == "judge":
            result.update(changed=False, **self._judged(variables, planned(variables, options), str(options["collected"])))
        else:
            result.update(self._step(variables, here, options))
        return result

    def _step(self, variables: dict[str, Any], here: str, options: dict[str, Any]) -> dict[str, Any]:
        """The module on this node, with its part of the plan; a poll only while there is something to wait for."""
        everything, mode = planned(variables, options), options["mode"]
        arguments: dict[str, Any] = {"mode": mode, "share": share(everything, here)}
        if mode == "start":
            arguments["files"] = {name: (SCRIPTS / name).read_text(encoding="utf-8") for name in SCRIPT_NAMES}
        if mode == "poll":
            before = result_of(variables, here, str(options["polled"]))
            why = finished(variables, here, everything["hosts"], options)
            if why is not None:
                return {"exit": None, **(before or {}), "changed": False, "done": True, "over": True, "why": why}
            started = result_of(variables, here, str(options["started"]))
            arguments.update(process=(started or {}).get("process"), age=options["age"])
        answer: dict[str, Any] = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables)
        return answer

    def _judged(self, variables: dict[str, Any], everything: dict[str, Any], name: str) -> dict[str, Any]:
        collected: dict[str, Any] = {}
        for node in everything["hosts"]:
            found = (result_of(variables, node, name) or {}).get("collected")
            collected[node] = found if isinstance(found, dict) and {"rc", "ranks", "failures", "log"} <= set(found) else None
        verdicts = as_dicts(judge(everything, collected, everything["minimum"]))
        self._display.display(verdict_table(verdicts))
        summary = {status: sum(item["status"] == status for item in verdicts) for status in VERDICT_STATUSES}
        return {"verdicts": verdicts, "summary": summary, "ddp": document(everything, collected)}


def plan(variables: dict[str, Any], seen: str) -> dict[str, Any]:
    """The plan, and a failure when there can be none."""
    hosts = names(variables, "ansible_play_hosts_all")
    results = {node: result_of(variables, node, seen) for node in hosts}
    late = [node for node in names(variables, "ansible_play_hosts") if variable_of(variables, node, seen) is None]
    if late:
        return failed(f"all nodes train together, and {', '.join(late)} is not part of this: run without serial, and with strategy linear")
    missing = [node for node, found in results.items() if found is None]
    if missing:
        return failed(f"{', '.join(missing)} cannot take part (see above), so nothing was started; --limit leaves a node out")
    found = {node: result for node, result in results.items() if result is not None}
    run = f"{PREFIX}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
    try:
        made = make_plan(run, {node: result.get("look", {}) for node, result in found.items()},
                         {node: result["wishes"] for node, result in found.items()}, known_addresses(variables, next(iter(found))))
    except PlanError as error:
        return failed(f"ddp_benchmark: {error}; nothing was started")
    return {"plan": made}


def planned(variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    name = str(options["plan"])
    found = result_of(variables, str(variables["inventory_hostname"]), name)
    if found is None or not isinstance(found.get("plan"), dict):
        raise AnsibleActionFail(f"plan: {name} holds no result of railwright.rdma.rdma_ddp with mode plan")
    return dict(found["plan"])


def finished(variables: dict[str, Any], here: str, hosts: list[str], options: dict[str, Any]) -> str | None:
    """Why there is nothing to wait for here: it ended, or it cannot end well any more."""
    before = result_of(variables, here, str(options["polled"]))
    if before is not None and before.get("done"):
        return str(before.get("why") or "torchrun has ended")
    for node in hosts:
        if result_of(variables, node, str(options["started"])) is None:
            return f"torchrun was not started on {node}"
        said = variable_of(variables, node, str(options["polled"]))
        if said is None:
            continue
        found = result_of(variables, node, str(options["polled"]))
        if found is None:
            return f"{node} was lost"
        if found.get("done") and found.get("exit") != 0:
            return f"torchrun ended badly on {node}"
    return None


def failed(message: str) -> dict[str, Any]:
    return {"failed": True, "msg": message}
