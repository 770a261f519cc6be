# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_bench: the inventory's wishes, the plan over all nodes, each node's part in every step, and the judgement.

What a node does is decided by the plan alone, never from who happens to be left: a node that is lost in the middle is missing from the
results, and the verdicts say so. It ends a training for all: ``poll`` inspects what the others registered, and stops waiting.
"""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.entry.bench import USERS
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import BENCH
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp.launch import PREFIX
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import VERDICT_STATUSES, as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils import ddp
from ansible_collections.railwright.rdma.plugins.plugin_utils.bench import judge_bench, judge_grown, run_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import known_addresses
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.groups import leaf_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Node, plan_run, wishes_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.verdicts import launch_verdicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.perftest_round import lossless_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import judged_together, part_of, result_of, variable_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.job_user import root_login
from ansible_collections.railwright.rdma.plugins.plugin_utils.table import verdict_table

MODULE = "railwright.rdma.rdma_bench"
SCRIPTS = Path(__file__).resolve().parents[2] / "roles" / "ddp_benchmark" / "files"
SCRIPT_NAMES = ("ddp_benchmark.py", "ddp_report.py")
GAVE_UP = (124, 129, 137, None)  # exit statuses after which the next collective would hang as this one did
FORKS = 5  # Ansible's own number of nodes that it talks to at once
Result = dict[str, Any]


class Benchmark(NamedTuple):
    """What the two differ in."""

    registered: str  # what a mode gave, in the role
    wishes: Callable[[Spec], Result]
    plan: Callable[[Result], Result]
    arguments: Callable[[str, Result, str, Result, Result], Result | None]  # of a step; None where the node has no part in it
    judge: Callable[[Result, Result], Result]


class ActionModule(StepAction):
    """One step of a role."""

    argument_spec = BENCH

    def answer(self, result: Result, variables: Result, options: Result) -> Result:
        mode, node, benchmark = options["mode"], str(variables["inventory_hostname"]), BENCHMARKS[options["benchmark"]]
        result["changed"] = False
        if mode == "pairs":
            raise AnsibleActionFail("rdma_bench: mode pairs is for railwright isolate; no playbook can ask for it")
        asked = {"benchmark": options["benchmark"], "mode": mode, "node": node}
        if mode == "inspect":
            spec = host_spec(self._templar, variables)
            if options["benchmark"] == "nccl_tests" and not options["directory"]:
                raise AnsibleActionFail("directory: is not set; allowed: the directory of all_reduce_perf on this node")
            refused = root_login(spec, USERS[options["benchmark"]], self._connection)
            if refused is not None:
                raise AnsibleActionFail(refused)
            asked.update(spec=spec.as_dict(), directory=options["directory"], libraries=options["libraries"])
            return result | {"wishes": benchmark.wishes(spec)} | self._execute_module(
                module_name=MODULE, module_args=asked, task_vars=variables)
        if mode == "plan":
            return result | benchmark.plan(variables)
        planned = part_of(variables, node, benchmark.registered.format("plan"), "plan")
        skipped = {**result, "skipped": True, "skip_reason": "nothing to do for this node in this step"}
        if mode == "judge":
            if self._task.check_mode:
                return skipped
            found = benchmark.judge(variables, planned)
            self._display.display(verdict_table(found["verdicts"]))
            return result | found
        arguments = None if self._task.check_mode else benchmark.arguments(mode, planned, node, variables, options)
        if arguments is None:
            return skipped
        if "done" in arguments:
            return result | arguments
        return result | self._execute_module(
            module_name=MODULE, module_args={**asked, "root": planned["root"], **arguments}, task_vars=variables)


def inspected_nodes(variables: Result, name: str) -> tuple[dict[str, Result], list[str]]:
    """What was registered of every node that was inspected, in the order of the inventory, and the names of the others."""
    everybody, alive = judged_together(variables)
    late = [node for node in alive if variable_of(variables, node, name) is None]
    if late:
        raise AnsibleActionFail(f"the nodes run together, and {', '.join(late)} were not inspected before this: "
                                "run the play without serial, and with strategy linear")
    results = {node: result_of(variables, node, name) for node in everybody}
    found = {node: result for node, result in results.items() if result is not None}
    return found, [node for node in everybody if node not in found]


def new_run() -> str:
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"


def watched(variables: Result, node: str, inspect: str, *, between_nodes: bool) -> Result:
    """The ports of the node whose counters are taken; none where the ranks do not talk to another node."""
    own = result_of(variables, node, inspect)
    if own is None:
        return {"watch": {"ports": [], "lossless": [], "why_not": None}}
    ports = own["seen"]["ports"] if between_nodes else []
    return {"watch": {**{key: own["wishes"][key] for key in ("lossless", "why_not")}, "ports": ports}}


def nccl_plan(variables: Result) -> Result:
    """Nodes that did not answer are a problem."""
    found, missing = inspected_nodes(variables, NCCL.format("inspect"))
    nodes = [Node(name, result["wishes"], result["seen"]) for name, result in found.items()]
    leaves = leaf_of(nodes[0].wishes["leaves"] if nodes else (), variables.get("groups", {}))
    planned = plan_run(nodes, new_run(), leaves, int(variables.get("ansible_forks", FORKS)))
    planned["problems"] = [f"{name} did not answer as it should: leave it out with --limit" for name in missing] + planned["problems"]
    return {"plan": planned, **({"failed": True, "msg": "; ".join(planned["problems"])} if planned["problems"] else {})}


def nccl_arguments(mode: str, planned: Result, node: str, variables: Result, options: Result) -> Result | None:
    common = {"run": planned["run"], "user": planned["user"]}
    everywhere: dict[str, Result] = {
        "prepare": {"hosts": planned["hostfile"]},
        "collect": {"names": [job["name"] for job in planned["jobs"] if node in job["argv"] or start_of(job, node)]},
        "stop": {"cancel": planned["cancel"] if node in planned["launch"] else None},
    }
    if mode in everywhere:
        more = {} if mode == "stop" else watched(variables, node, NCCL.format("inspect"), between_nodes=planned["between_nodes"])
        return common | everywhere[mode] | more
    if mode == "probe":
        wanted = planned["probe"] is not None and node in planned["launch"]
        return {**common, "launch": launch_of(planned["probe"], node)} if wanted else None
    job = planned["jobs"][options["job"]]
    members = job["parts"][node]["nodes"] if node in job["argv"] else [node]
    if mode == "start" and any(gave_up(variables, planned, options["job"], member) for member in members):
        return {"done": True, "skipped": True, "gave_up": True}
    if node not in job["argv"]:
        return None
    if mode == "poll":
        return {**common, "launch": {"name": job["name"]}}
    # Whether every rank answered and has its GPU: a job would only fail later, and with worse words.
    if any(item.status == "fail" for item in launch_verdicts(run_of(variables, planned, NCCL))):
        return None
    return {**common, "launch": launch_of(job, node)}


def start_of(job: Result, node: str) -> str | None:
    """The node on which the launch begins that this one is part of."""
    return next((start for start, part in job["parts"].items() if node in part["nodes"]), None)


def gave_up(variables: Result, planned: Result, number: int, node: str) -> bool:
    """Whether a job before this one did not end by itself where this node took part: the next one would hang as it did.

    A result holds what the last job left alone, so that each start hands on what those before it did.
    """
    if number == 0:
        return False
    if (variable_of(variables, node, NCCL.format("start")) or {}).get("gave_up"):
        return True
    start = start_of(planned["jobs"][number - 1], node)
    polled = result_of(variables, start, NCCL.format("poll")) if start is not None else {"status": 0}
    return polled is None or polled.get("status") in GAVE_UP


def launch_of(job: Result, node: str) -> Result:
    return {"name": job["name"], "argv": job["argv"][node], "environment": {node: job["environment"][node]}, "seconds": job["seconds"],
            "hosts": job.get("hosts", {}).get(node)}


def ddp_plan(variables: Result) -> Result:
    """The plan, and a failure when there can be none."""
    found, missing = inspected_nodes(variables, DDP.format("inspect"))
    if missing:
        return {"failed": True, "msg": f"ddp_benchmark: {', '.join(missing)} cannot take part (see above), so nothing was started; "
                                       "--limit leaves a node out"}
    try:
        return {"plan": ddp.make_plan(f"{PREFIX}{new_run()}", {node: result["seen"] for node, result in found.items()},
                                      {node: result["wishes"] for node, result in found.items()},
                                      known_addresses(variables, next(iter(found))))}
    except ddp.PlanError as error:
        return {"failed": True, "msg": f"ddp_benchmark: {error}; nothing was started"}


def ddp_arguments(mode: str, planned: Result, node: str, variables: Result, options: Result) -> Result | None:
    """A poll only while there is something to wait for."""
    arguments: Result = {"share": ddp.share(planned, node)}
    if mode in ("start", "collect"):
        arguments.update(watched(variables, node, DDP.format("inspect"), between_nodes=over_rails(planned)))
    if mode == "start":
        arguments["files"] = {name: (SCRIPTS / name).read_text(encoding="utf-8") for name in SCRIPT_NAMES}
    if mode == "poll":
        why = finished(variables, node, planned["hosts"])
        if why is not None:
            return {"exit": None, **(result_of(variables, node, DDP.format("poll")) or {}), "done": True, "over": True, "why": why}
        started = result_of(variables, node, DDP.format("start")) or {}
        arguments.update(process=started.get("process"), age=options["age"])
    return arguments


def over_rails(planned: Result) -> bool:
    """Whether the training talks to other nodes by NCCL; gloo takes the bootstrap interface."""
    return planned["backend"] == "nccl" and len(planned["hosts"]) > 1


def finished(variables: Result, here: str, hosts: list[str]) -> str | None:
    """Why there is nothing to wait for here: it ended, or it cannot end well any more."""
    polls = DDP.format("poll")
    before = result_of(variables, here, polls)
    if before is not None and before.get("done"):
        return str(before.get("why") or "torchrun has ended")
    for node in hosts:
        if result_of(variables, node, DDP.format("start")) is None:
            return f"torchrun was not started on {node}"
        if variable_of(variables, node, polls) is None:
            continue
        found = result_of(variables, node, polls)
        if found is None:
            return f"{node} was lost"
        if found.get("done") and found.get("exit") != 0:
            return f"torchrun ended badly on {node}"
    return None


def ddp_judge(variables: Result, planned: Result) -> Result:
    results = {node: result_of(variables, node, DDP.format("collect")) for node in planned["hosts"]}
    collected = {node: (found or {}).get("collected") for node, found in results.items()}
    verdicts = as_dicts(ddp.judge(planned, collected, planned["minimum"]))
    verdicts += judge_grown(results, planned["hosts"]) if over_rails(planned) else []
    summary = {status: sum(item["status"] == status for item in verdicts) for status in VERDICT_STATUSES}
    return {"verdicts": verdicts, "summary": summary, "ddp": ddp.ddp_document(planned, collected)}


NCCL, DDP = "__nccl_tests_{}", "__ddp_benchmark_{}"
BENCHMARKS = {
    "nccl_tests": Benchmark(NCCL, lambda spec: {**wishes_of(spec), **lossless_of(spec)}, nccl_plan, nccl_arguments,
                            lambda variables, planned: judge_bench(variables, planned, NCCL)),
    "ddp": Benchmark(DDP, lambda spec: {**ddp.wishes(spec), **lossless_of(spec)}, ddp_plan, ddp_arguments, ddp_judge),
}
