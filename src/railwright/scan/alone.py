# SPDX-License-Identifier: GPL-3.0-or-later
"""One question to hosts of no inventory: each is reached by what ssh's configuration says of its name."""

from collections.abc import Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec
from railwright.check import MODULE, Host, Outcomes
from railwright.events import Echo, HostOutcome, Listener
from railwright.inventory import connection_variables, ready_plugins
from railwright.scan.questions import QUESTIONS, Question, module_step
from railwright.scan.scan import Node, scan

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
