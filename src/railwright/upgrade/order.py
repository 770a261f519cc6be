# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory says about an upgrade: how many nodes at a time, which go next, who is asked for them. Pure.

Canaries first, then one failure domain after the other, each in the order of the inventory. At any moment at most so many nodes are
away as ``upgrade_max_unavailable`` says, whatever they are away for: one that somebody else has drained takes the place of one of ours.
"""

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.kubernetes import NOTE
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.cross_host import site_value


class Rules(NamedTuple):
    """What the inventory says about the whole roll-out."""

    most: int  # nodes that may be away at the same time
    canary: tuple[str, ...]
    domains: Mapping[str, str]  # node -> failure domain; '' where it has none
    batch: int = 0  # nodes of a batch, where that is less than ``most``; 0: as many as may be away
    failures: int = 0  # nodes that may fail before no further batch begins
    limit: str = "upgrade_max_unavailable"  # what set ``most``, as a message names it

    @property
    def largest(self) -> int:
        """Nodes of a batch at most."""
        return min(self.batch or self.most, self.most)


def share_of(text: str, nodes: int) -> int:
    """``5`` or ``10%`` as a number of nodes: a share is rounded down, and at least 1."""
    return max(1, nodes * int(text[:-1]) // 100) if text.endswith("%") else int(text)


def ordered(nodes: Sequence[str], rules: Rules) -> list[str]:
    """Every node once. Without a canary the first node is one."""
    domains = list(dict.fromkeys(rules.domains.get(node, "") for node in nodes))
    by_domain = sorted(nodes, key=lambda node: domains.index(rules.domains.get(node, "")))  # stable: the inventory's order within one
    first = canaries(by_domain, rules)
    return [*first, *(node for node in by_domain if node not in first)]


def canaries(nodes: Sequence[str], rules: Rules) -> list[str]:
    """The canaries among these nodes; the first node where the inventory names none of them."""
    return [node for node in nodes if node in rules.canary] or list(nodes[:1])


def next_batch(waiting: Sequence[str], first: Collection[str], rules: Rules, away: Collection[str]) -> list[str]:
    """The nodes that go next, out of those that wait in their order; [] when too many are away already.

    ``first``: the canaries. ``away``: every node that takes no work for another reason than this upgrade, waiting ones too. To upgrade one
    of these takes nothing from anybody.
    """
    room = rules.most - len(away)
    batch: list[str] = []
    for node in waiting:
        head = batch[0] if batch else node
        alike = (node in first) == (head in first) and rules.domains.get(node, "") == rules.domains.get(head, "")
        if not alike or len(batch) == rules.largest:
            break
        if node not in away:
            room -= 1
        if room < 0:
            break  # the order holds: nobody is taken before the one that has no place yet
        batch.append(node)
    return batch


def batches(waiting: Sequence[str], first: Collection[str], rules: Rules, away: Collection[str]) -> list[list[str]]:
    """All that is to come, if nothing changes meanwhile; what can never go is left out."""
    left, found = list(waiting), []
    while batch := next_batch(left, first, rules, away):
        found.append(batch)
        left = [node for node in left if node not in batch]
    return found


# With the note that says whose the cordon was: left there, the next cordon by anybody would be taken for ours, and lifted.
UNDRAIN = {
    "slurm": "scontrol update nodename={node} state=resume",
    "kubernetes": "kubectl uncordon {node} && kubectl annotate node {node} " + NOTE + "-",
}


class Site(NamedTuple):
    rules: Rules
    gate: str
    scheduled: bool  # some node has a scheduler
    reboot_s: int  # the longest reboot of a node
    undrain: Mapping[str, str]  # node -> how an operator gives it back to its jobs; '' where nobody was asked


def site_of(specs: Mapping[str, Spec], members: int) -> Site:
    """``members``: hosts of the whole group, which a share is of."""
    rules = Rules(
        min(share_of(spec["upgrade_max_unavailable"], members) for spec in specs.values()),
        tuple(site_value(specs.values(), "upgrade_canary")),
        {name: spec["upgrade_failure_domain"] or "" for name, spec in specs.items()},
    )
    scheduled = any(spec["upgrade_scheduler"] != "none" for spec in specs.values())
    reboot_s = max(int(spec["reboot_timeout_s"]) for spec in specs.values())
    gate = site_value(specs.values(), "upgrade_gate")
    return Site(rules, gate, scheduled, reboot_s, {name: _undrain(name, spec) for name, spec in specs.items()})


def _undrain(name: str, spec: Spec) -> str:
    node = spec["upgrade_node_name"] or name
    scheduler = spec["upgrade_scheduler"]
    if scheduler == "none":
        return ""
    if scheduler == "command":
        words = [word.replace("{node}", node).replace("{reason}", "") for word in spec["upgrade_undrain_command"]]
        command = shlex.join(words)
    else:
        command = UNDRAIN[scheduler].format(node=shlex.quote(node))
    where = spec["upgrade_scheduler_host"]
    return f"{command}  (on {where})" if where != "localhost" else command


class Leftover(NamedTuple):
    """A key of the inventory that does not say what the cluster has now."""

    key: str
    found: Any
    write: Any
    nodes: tuple[str, ...]


def leftovers(hosts: Mapping[str, Mapping[str, Any]], pins: Mapping[str, Any]) -> list[Leftover]:
    """What must be written into the inventory, or drift reports it. ``hosts``: their variables as the inventory has them."""
    found = []
    for key, value in pins.items():
        said = ((name, own.get(key)) for name, own in hosts.items() if own.get(key) != value)
        other = grouped((json.dumps(own, sort_keys=True, default=str), name) for name, own in said)
        found += [Leftover(key, json.loads(text), value, tuple(names)) for text, names in other.items()]
    return found
