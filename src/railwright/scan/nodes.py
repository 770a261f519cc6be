# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes that a scan asks: those of a judged inventory, with the lines that say which way each was asked, or hosts of none, each of
which is reached by what ssh's configuration says of its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import derive, joined
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec
from railwright.check import MODULE, Host, Outcomes
from railwright.events import Echo, HostOutcome, Listener, RunOutcome
from railwright.inventory import GROUP, Inventory, Untemplated, connection_variables, load_inventory, ready_plugins
from railwright.scan.questions import QUESTIONS, Question, module_step
from railwright.scan.scan import Keep, Node, scan

if TYPE_CHECKING:
    from railwright.cli.session import Judged

SHOWN = 3  # reasons in a line


class ScannedInventory(NamedTuple):
    """``by_ansible``: nodes that are still to be asked. ``lines``: for stderr."""

    outcome: RunOutcome
    by_ansible: list[str]
    lines: list[str]


def scan_inventory(
    question: Question, judged: Judged, listener: Listener | None, echo: Echo | None, keep: Keep | None = None
) -> ScannedInventory:  # fmt: skip
    """Ask all nodes of the inventory that our own ssh can reach."""
    inventory = judged.inventory
    reasons: dict[str, str] = {}
    nodes = []
    for node in nodes_of(inventory, judged.specs):
        why = next((f"{name}: {value.why}" for name, value in node.variables.items() if isinstance(value, Untemplated)), None)
        if node.spec["region"] is not None:
            why = f"region {node.spec['region']}"
        if why is not None:
            reasons[node.name] = why
        else:
            nodes.append(node)
    found = scan(question, nodes, listener, echo, keep)
    reasons |= found.by_ansible
    if reasons and any(spec.fabric == "erdma" for spec in judged.specs.values()) and question.probe_task:
        # Whether all nodes' modes go together is judged over all of their plans at once.
        reasons |= {name: "the others of its eRDMA site do" for name in inventory.hosts if name not in reasons}
    for name in reasons:
        found.outcome.hosts.pop(name, None)
    return ScannedInventory(found.outcome, list(reasons), list(spoken(len(inventory.hosts), reasons, found.classical)))


def nodes_of(inventory: Inventory, specs: Mapping[str, Spec]) -> Iterator[Node]:
    """With the addresses of the whole cluster, whatever the limit, where a node's firewall is ours."""
    derived: dict[str, Any] = {}
    if any(spec["firewall_manage"] for spec in specs.values()):
        derived["firewall_derived"] = joined(inventory_addresses(inventory))
    for name in inventory.hosts:
        yield Node(name, specs[name], inventory.connection[name], derived)


def inventory_addresses(inventory: Inventory, hosts: Iterable[str] | None = None) -> dict[str, Any]:
    """What cluster_addresses.derive makes of these hosts, or of all that are managed: they need not be within the limit."""
    wanted = sorted(inventory.groups.get(GROUP, ())) if hosts is None else list(hosts)
    whole = inventory if all(name in inventory.hosts for name in wanted) else load_inventory(inventory.path)
    return derive({name: {**whole.hosts[name], "ansible_host": whole.connection[name].get("ansible_host")} for name in wanted})


def spoken(nodes: int, reasons: Mapping[str, str], classical: Iterable[str]) -> Iterator[str]:
    """Which way the nodes were asked, and what of it an operator should know."""
    why = [f"{reason}: {number}" for reason, number in Counter(reasons.values()).most_common(SHOWN)]
    ways = [f"{nodes - len(reasons)} by ssh"] if len(reasons) < nodes else []
    ways += [f"{len(reasons)} by Ansible ({'; '.join(why)})"] if reasons else []
    yield f"nodes asked: {', '.join(ways)}"
    if many := len(list(classical)):
        yield (f"note: {many} of them have an sshd older than OpenSSH 9.9, so their key exchange is not post-quantum; "
               "rdma_ssh_post_quantum: true sends such nodes by OpenSSH (docs/security.md)")


UNKNOWN_WAY = "railwright's own ssh cannot reach it ({}); run the file of `railwright check --emit FILE` there"


def ask_hosts(
    mode: str, hosts: Sequence[Host], listener: Listener | None, echo: Echo | None, *, sudo: bool
) -> Outcomes:  # fmt: skip
    """Raises KeyboardInterrupt."""
    ready_plugins()  # of Ansible's ssh and sudo come the options that hold without an inventory
    spec = nobodys_spec()
    question = QUESTIONS["facts"] if mode == "facts" else Question(
        MODULE, "Check without an inventory", lambda node, _spec: {"mode": mode, "node": node}, module_step)
    nodes, extra = [], connection_variables()
    for host in hosts:
        variables: dict[str, Any] = {"ansible_become": sudo, "ansible_host": host.address}
        nodes.append(Node(host.name, spec, variables | ({"ansible_user": host.user} if host.user else {}) | extra, {}))
    found = scan(question, nodes, listener, echo)
    for name, why in found.by_ansible.items():
        found.outcome.hosts[name] = HostOutcome(name, "unreachable", message=UNKNOWN_WAY.format(why))
    missing = "the check ended before this node"
    return {host.name: found.outcome.hosts.get(host.name) or HostOutcome(host.name, "failed", message=missing) for host in hosts}, [
        dict(verdict) for verdict in found.outcome.verdicts]
