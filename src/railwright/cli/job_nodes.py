# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a job, as its scheduler says them, among those of the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railwright.events import HostOutcome
from railwright.exitcodes import CommandError, InputError

if TYPE_CHECKING:
    from railwright.cli.session import Judged
    from railwright.scan.questions import Question


def facts_question(given: dict[str, Any], task: str) -> Question:
    """What rdma_facts is asked of a node, whatever its wishes are."""
    from railwright.scan.questions import Question, module_step

    return Question("rdma_facts", task, lambda _node, _spec: given, module_step)


def placed_job(judged: Judged, job: str) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """What the scheduler says of the job; its hosts in the inventory, each with the word for it if it is down; nodes beyond it."""
    places = {(str(spec["upgrade_scheduler"]), str(spec["upgrade_scheduler_host"])) for spec in judged.specs.values()}
    scheduler, where = places.pop()
    if places or scheduler not in ("slurm", "kubernetes"):
        raise InputError(f"JOB {job}: upgrade_scheduler is {'not the same everywhere' if places else scheduler}; allowed: slurm or "
                         "kubernetes, and one upgrade_scheduler_host for all of these nodes")
    found = _answer_of(judged, where, {"mode": "job", "scheduler": scheduler, "job": job})
    names = {str(spec["upgrade_node_name"] or host): host for host, spec in judged.specs.items()}
    hosts = {names[node["name"]]: f"{scheduler} says {node['raw']}" if node["down"] else ""
             for node in found["nodes"] if node["name"] in names}
    if not hosts:
        on = ", ".join(node["name"] for node in found["nodes"][:5])
        where = f"on {on}: no node of this inventory" if on else "and no node"
        raise CommandError(f"job {job}: {scheduler} says {found['state']}, {where}")
    beyond = {node["name"]: "not in this inventory, or beyond its limit" for node in found["nodes"] if node["name"] not in names}
    return {**found, "names": {node["name"] for node in found["nodes"]}}, hosts, beyond


def _answer_of(judged: Judged, where: str, given: dict[str, Any]) -> dict[str, Any]:
    """The scheduler's answer, from the host that has its commands."""
    from ansible_collections.railwright.rdma.plugins.module_utils.entry.inspection import answer
    from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import NAMESPACE, passed
    from railwright.scan.scan import Node, scan

    if where == "localhost":
        said = passed(f"{NAMESPACE}rdma_facts", "job", answer({}, {"module": "rdma_facts", "given": given, "derived": {}}))
        outcome = HostOutcome(where, job=said.get("job"), message=str(said.get("msg") or ""))
    else:
        node = Node(where, next(iter(judged.specs.values())), judged.inventory.connection[where], {})
        scanned = scan(facts_question(given, "Ask the scheduler"), [node], None, None)
        outcome = scanned.outcome.hosts.get(where) or HostOutcome(where, message=scanned.by_ansible.get(where, ""))
    if outcome.job is None:
        raise CommandError(f"{where}, where the scheduler is asked (upgrade_scheduler_host): {outcome.message or 'no answer'}")
    return outcome.job
