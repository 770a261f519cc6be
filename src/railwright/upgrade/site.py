# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory says about an upgrade: how many nodes at a time, in which order, who is asked for them. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.kubernetes import NOTE
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from railwright.upgrade.order import Rules, most_unavailable

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
    """``members``: hosts of the whole group, which a share is of. The specs agree on what holds for all: lint has seen to it."""
    first = next(iter(specs.values()))
    rules = Rules(
        most_unavailable(first["upgrade_max_unavailable"], members),
        tuple(first["upgrade_canary"]),
        {name: spec["upgrade_failure_domain"] or "" for name, spec in specs.items()},
    )
    scheduled = any(spec["upgrade_scheduler"] != "none" for spec in specs.values())
    reboot_s = max(int(spec["reboot_timeout_s"]) for spec in specs.values())
    return Site(rules, first["upgrade_gate"], scheduled, reboot_s, {name: _undrain(name, spec) for name, spec in specs.items()})


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
        other: dict[str, list[str]] = {}
        for name, own in hosts.items():
            if own.get(key) != value:
                other.setdefault(json.dumps(own.get(key), sort_keys=True, default=str), []).append(name)
        found += [Leftover(key, json.loads(text), value, tuple(names)) for text, names in other.items()]
    return found
