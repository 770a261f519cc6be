# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a job, as its scheduler says them, among those of the inventory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.slurm import SELECTION, expand
from railwright.events import HostOutcome
from railwright.exitcodes import CommandError, InputError
from railwright.limits import NODES, SHOWN, slurm_parts

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
    from railwright.cli.session import Judged
    from railwright.inventory import Inventory
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
    given = {"mode": "job", "scheduler": scheduler, "job": job}
    strictest = max(judged.specs.values(), key=lambda spec: bool(spec["ssh_post_quantum"]))
    found = _answer_of(where, given, strictest, judged.inventory.connection)
    names = {str(spec["upgrade_node_name"] or host): host for host, spec in judged.specs.items()}
    hosts = {names[node["name"]]: f"{scheduler} says {node['raw']}" if node["down"] else ""
             for node in found["nodes"] if node["name"] in names}
    if not hosts:
        on = ", ".join(node["name"] for node in found["nodes"][:5])
        where = f"on {on}: no node of this inventory" if on else "and no node"
        raise CommandError(f"job {job}: {scheduler} says {found['state']}, {where}")
    beyond = {node["name"]: "not in this inventory, or beyond its limit" for node in found["nodes"] if node["name"] not in names}
    return {**found, "names": {node["name"] for node in found["nodes"]}}, hosts, beyond


def slurm_hosts(limit: str, inventory: Inventory) -> dict[str, set[str]]:
    """The hosts of each ``slurm:`` part of a limit. A process asks once, however often it opens the inventory. Raises InputError."""
    key = str(inventory.path), limit
    if key not in _ASKED:
        names = {str(values.get("upgrade_node_name") or host): host for host, values in inventory.hosts.items()}
        nodes = {part: _slurm_nodes(inventory, part) for part in slurm_parts(limit)}
        for part, named in nodes.items():
            if beyond := [name for name in named if name not in names]:
                raise InputError(f"--limit {part}: {first_of(beyond, SHOWN)}: no host of group rdma has this name or upgrade_node_name")
        _ASKED[key] = {part: {names[name] for name in named} for part, named in nodes.items()}
    return _ASKED[key]


_ASKED: dict[tuple[str, str], dict[str, set[str]]] = {}


def _slurm_nodes(inventory: Inventory, part: str) -> list[str]:
    """Slurm's names of the nodes. Raises InputError."""
    select = part.removeprefix("slurm:")
    try:
        if part.startswith(NODES):
            return expand(part.removeprefix(NODES))
        where, spec = _place(inventory, select)
        nodes: list[str] = _answer_of(where, {"mode": "nodes", "select": select}, spec, inventory.connection)["nodes"]
    except (CommandError, ValueError) as error:
        raise InputError(f"--limit {part}: {error}") from error
    return nodes


def _place(inventory: Inventory, select: str) -> tuple[str, Spec]:
    """Where Slurm is asked, before anything is linted, and with which wishes. Raises ValueError."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import NOBODYS
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec

    if SELECTION.fullmatch(select) is None:
        raise ValueError("allowed behind slurm: job=ID, reservation=NAME, state=STATE or nodes=LIST")
    keys = ("upgrade_scheduler_host", "rdma_ssh_post_quantum")
    first, *more = ({key: host[key] for key in keys if host.get(key) is not None} for host in inventory.hosts.values())
    where = str(first.get(keys[0], "localhost"))
    if any(other != first for other in more) or (where != "localhost" and where not in inventory.connection):
        raise ValueError("allowed: one upgrade_scheduler_host for all nodes, a host of the inventory or localhost")
    spec, findings = build_spec(NOBODYS | first, "")
    if spec is None:
        raise ValueError(f"{findings[0].key}: {findings[0].message}")
    return where, spec


def _answer_of(where: str, given: dict[str, Any], spec: Spec, connection: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The scheduler's answer, from the host that has its commands."""
    from ansible_collections.railwright.rdma.plugins.module_utils.entry.inspection import answer
    from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import NAMESPACE, passed
    from railwright.scan.scan import Node, scan

    if where == "localhost":
        said = passed(f"{NAMESPACE}rdma_facts", given["mode"], answer({}, {"module": "rdma_facts", "given": given, "derived": {}}))
        outcome = HostOutcome(where, job=said.get("job"), message=str(said.get("msg") or ""))
    else:
        node = Node(where, spec, connection[where], {})
        scanned = scan(facts_question(given, "Ask the scheduler"), [node], None, None)
        outcome = scanned.outcome.hosts.get(where) or HostOutcome(where, message=scanned.by_ansible.get(where, ""))
    if outcome.job is None:
        raise CommandError(f"{where}, where the scheduler is asked (upgrade_scheduler_host): {outcome.message or 'no answer'}")
    return outcome.job
