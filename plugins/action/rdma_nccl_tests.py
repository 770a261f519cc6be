# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_nccl_tests: the plan over all nodes, each node's part of a step, and the judgement at the end.

What a node does is decided by the plan alone, never from who happens to be left: a node that is
lost in the middle is missing from the results, and the verdicts say so.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.bench import judged, run_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.node_view import usable
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Node, plan_run
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.verdicts import launch_verdicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import judged_together, result_of, variable_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction

MODES = ["look", "plan", "prepare", "probe", "start", "poll", "stop", "collect", "judge"]
REGISTERED = ("look", "plan", "probe", "polled", "stopped", "collected")
OPTIONS = {
    "mode": {"type": "str", "required": True, "choices": MODES},
    "job": {"type": "int", "default": 0},
    "directory": {"type": "str"},
    "libraries": {"type": "list", "elements": "str", "default": []},
    **{name: {"type": "str"} for name in REGISTERED},
}
MODULE = "railwright.rdma.rdma_nccl_tests"
GAVE_UP = (124, 129, 137, None)  # exit statuses after which the next collective would hang as this one did


class ActionModule(StepAction):
    """One step of the role."""

    argument_spec = OPTIONS
    fills = True

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        mode, node = str(options["mode"]), str(variables["inventory_hostname"])
        result["changed"] = False
        if mode == "look":
            return self._look(result, variables, node, options)
        if mode == "plan":
            result["plan"] = plan(variables, str(options["look"]))
            if result["plan"]["problems"]:
                result.update(failed=True, msg="; ".join(result["plan"]["problems"]))
            return result
        planned = planned_by(variables, node, str(options["plan"]))
        if mode == "judge":
            result.update(judged(variables, planned, {name: str(options[name]) for name in REGISTERED}))
            self._display.display(result.pop("table"))
            return result
        arguments = arguments_of(mode, planned, node, variables, options)
        if arguments is None or self._task.check_mode:
            result.update(skipped=True, skip_reason="nothing to do for this node in this step")
            return result
        common = {"mode": mode, "node": node, "run": planned["run"], "user": planned["user"]}
        result.update(self._execute_module(module_name=MODULE, module_args={**common, **arguments}, task_vars=variables))
        return result

    def _look(self, result: dict[str, Any], variables: dict[str, Any], node: str, options: dict[str, Any]) -> dict[str, Any]:
        spec = host_spec(self._templar, variables)
        if not options["directory"]:
            raise AnsibleActionFail("directory: is not set; allowed: the directory of all_reduce_perf on this node")
        arguments = {"mode": "look", "node": node, "spec": spec.as_dict(), "directory": options["directory"],
                     "libraries": options["libraries"]}
        result.update(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables))
        if not result.get("failed"):
            result["wishes"] = wishes(spec)
        return result


def wishes(spec: Spec) -> dict[str, Any]:
    """What the inventory says about this host's part, for the plan over all of them."""
    own = {key: value for key, value in spec.as_dict().items() if key.startswith("nccl_tests_")}
    return {**own, "fabric": spec.fabric, "gpudirect_path": spec["gpudirect_path"], "rails": len(spec.rails),
            "rate_gbps": spec.expect.get("rate_gbps"), "erdma_instance_type": spec["erdma_instance_type"],
            "nccl_profile": spec["nccl_profile"], "node_name": spec["upgrade_node_name"],
            "transport": spec["nccl_derived"]["transport"]}


def plan(variables: dict[str, Any], look: str) -> dict[str, Any]:
    """The plan over every node of the play; nodes that did not answer are a problem."""
    run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
    nodes, missing = seen_nodes(variables, look)
    alive = judged_together(variables)[1]
    late = [name for name in alive if variable_of(variables, name, look) is None]
    if late:
        raise AnsibleActionFail(f"the nodes run together, and {', '.join(late)} were not looked at before this: "
                                "run the play without serial, and with strategy linear")
    planned = plan_run(nodes, run)
    lost = [f"{name} did not answer as it should: leave it out with --limit" for name in missing]
    return {**planned, "problems": lost + planned["problems"]}


def seen_nodes(variables: dict[str, Any], look: str) -> tuple[list[Node], list[str]]:
    """The nodes that were looked at, in the order of the inventory, and the names of the others."""
    nodes, missing = [], []
    for name in judged_together(variables)[0]:
        found = result_of(variables, name, look)
        seen = (found or {}).get("seen")
        if found is None or not isinstance(seen, dict) or not isinstance(found.get("wishes"), dict) or not usable(seen):
            missing.append(name)
        else:
            nodes.append(Node(name, found["wishes"], seen))
    return nodes, missing


def planned_by(variables: dict[str, Any], node: str, name: str) -> dict[str, Any]:
    found = result_of(variables, node, name)
    if found is None or not isinstance(found.get("plan"), dict):
        raise AnsibleActionFail(f"plan: {name} holds no result of {MODULE} with mode plan")
    return dict(found["plan"])


def arguments_of(
    mode: str, planned: dict[str, Any], node: str, variables: dict[str, Any], options: dict[str, Any]
) -> dict[str, Any] | None:
    """The module's arguments for this node; None where it has no part in the step."""
    everywhere: dict[str, dict[str, Any]] = {
        "prepare": {"hosts": planned["hostfile"]},
        "collect": {"names": [job["name"] for job in planned["jobs"]]},
        "stop": {"cancel": planned["cancel"] if node in planned["launch"] else None},
    }
    if mode in everywhere or node not in planned["launch"]:
        return everywhere.get(mode)
    if mode == "probe":
        return None if planned["probe"] is None else {"launch": launch_of(planned["probe"], node)}
    job = planned["jobs"][options["job"]]
    if mode == "poll":
        return {"launch": {"name": job["name"]}}
    if not launched(variables, planned, {name: str(options[name]) for name in ("look", "probe")}):
        return None
    before = result_of(variables, node, str(options["polled"]))
    if options["job"] > 0 and (before is None or before.get("status") in GAVE_UP):
        return None
    return {"launch": launch_of(job, node)}


def launched(variables: dict[str, Any], planned: dict[str, Any], registered: dict[str, str]) -> bool:
    """Whether every rank answered and has its GPU: a job would only fail later, and with worse words."""
    return not any(item.status == "fail" for item in launch_verdicts(run_of(variables, planned, registered)))


def launch_of(job: dict[str, Any], node: str) -> dict[str, Any]:
    return {"name": job["name"], "argv": job["argv"][node], "environment": job["environment"], "seconds": job["seconds"]}
