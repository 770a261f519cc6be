# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that needs all hosts at once; runs once, on the controller, and contacts nobody.

``mode: schedule`` decides who pings and measures whom among the nodes that answered.
``mode: judge`` compares the nodes, collects every verdict and shows what did not pass.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import pairs
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import peers_of
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict, as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import cables_of, judge_cabling, planned_ends
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cluster import judge_cluster
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.mesh import judge_mesh
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.outliers import judge_outliers
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.reach import judge_reach, rail_by_mac, rail_names
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import judged_together, result_of, variable_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.table import own_verdict, summarise, verdict_table

OPTIONS = {
    "mode": {"type": "str", "default": "judge", "choices": ["schedule", "judge"]},
    "check": {"type": "str", "required": True},
    "ping": {"type": "str"},
    "mesh": {"type": "str"},
    "collect": {"type": "list", "elements": "str", "default": []},
    "ping_peers": {"type": "int", "default": 4},
    "perftest": {"type": "bool", "default": True},
}
PAIRS = 64  # with their matrix; in a large cluster those with a failure are of interest
SEEN = ("full", "small", "none", "unknown")


class ActionModule(StepAction):
    """The only inspection across hosts."""

    _requires_connection = False
    argument_spec = OPTIONS

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        everybody, alive = judged_together(variables)
        results = {node: result_of(variables, node, options["check"]) for node in everybody}
        views = {node: view for node, view in results.items() if view is not None}
        result["changed"] = False
        if options["mode"] == "schedule":
            late = not_inspected(variables, alive, options["check"])
            if late:
                raise AnsibleActionFail(f"the nodes of a fabric are judged together, and {', '.join(late)} were not inspected before this: "
                                        "run the play without serial, and with strategy linear")
            ordered = sorted(views)
            result["peers"] = {node: peers_of(node, ordered, options["ping_peers"]) for node in ordered}
            result["rounds"] = pairs(ordered) if options["perftest"] else []
            return result
        cluster = judge_cluster(views, [node for node in everybody if node not in views])
        cluster.extend(judge_cabling({node: planned_ends(variable_of(variables, node, "rdma_cabling")) for node in everybody}, {
            node: cables_of(view["rails"], view["neighbours"]) for node, view in views.items()}))
        pings = pinged(variables, list(views), options["ping"])
        cluster.extend(judge_reach(views, pings))
        result["reachability"] = reachability(views, pings)
        if options["mesh"] is not None:
            cluster.extend(logins(variables, list(views), options["mesh"]))
        cluster.extend(lost(node) for node in views if node not in alive)
        sources = [options["check"], *options["collect"]]
        collected = [item for node in everybody for name in sources for item in verdicts_in(variables, node, name)]
        cluster.extend(judge_outliers(views, collected))
        result["verdicts"] = as_dicts(cluster)
        result["summary"] = summarise(everybody, [*collected, *result["verdicts"]])
        self._display.display("\n".join([verdict_table([*collected, *result["verdicts"]]), *reachability_lines(result["reachability"])]))
        return result


def not_inspected(variables: dict[str, Any], alive: list[str], name: str) -> list[str]:
    """Nodes still in the play that have no result at all, not even a failed one: a later batch, or a strategy without barriers."""
    return [node for node in alive if variable_of(variables, node, name) is None]


def pinged(variables: dict[str, Any], nodes: list[str], name: str | None) -> dict[str, dict[str, Any]]:
    """What rdma_measure's action plugin registered, of the nodes that are judged. Its form is that plugin's own."""
    found = {node: result_of(variables, node, name) for node in nodes} if name is not None else {}
    return {node: value for node, value in found.items() if value is not None and "pings" in value}


def logins(variables: dict[str, Any], nodes: list[str], name: str) -> list[Verdict]:
    """On the ssh mesh; a node without ``login`` in its result is none of it by the inventory."""
    found = {node: result_of(variables, node, name) for node in nodes}
    asked = {node: value for node, value in found.items() if value is None or value.get("login") is not None}
    return judge_mesh({node: value["peers"] if value else [] for node, value in asked.items()},
                      {node: value["login"] if value else None for node, value in asked.items()})


def lost(node: str) -> Verdict:
    return verdict("cluster.node", VerdictSubject(node, None, None, node), "unknown", "an answer to the end", None,
                   "the node was lost or failed during the validation: its verdicts are incomplete")


def verdicts_in(variables: dict[str, Any], node: str, name: str) -> list[dict[str, Any]]:
    """The verdicts in a registered result, or in a list of verdicts that a task file collected.

    A node speaks for itself only, and in our words: it must not pass another one, nor stop the judgement of all.
    """
    value = variable_of(variables, node, name)
    found = value.get("verdicts") if isinstance(value, dict) else value
    return [own_verdict(node, item) for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def reachability(nodes: Mapping[str, Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """``{"rails": [{"rail", "asked", "full", "small", "none", "unknown"}], "pairs": [{"node", "peer", "cells": [{"rail", "peer_rail",
    "seen"}]}], "pairs_left_out"}``. ``heard``: by ARP or neighbour discovery, where the ping of this interface had failed."""
    by_mac = rail_by_mac(nodes)
    counts: dict[str, Counter[str]] = {name: Counter() for name in rail_names(nodes)}
    pairs: dict[tuple[str, str], list[dict[str, str]]] = {}
    for node in sorted(results):
        for ping in results[node]["pings"]:
            result = seen(ping)
            counts[ping["name"]][result] += 1
            cells = pairs.setdefault((node, ping["peer"]), [])
            cells.append({"rail": ping["name"], "peer_rail": ping["name"], "seen": result})
            macs = {mac for heard in ping["heard"].values() for mac in heard}
            others = {by_mac[mac][1] for mac in macs if by_mac.get(mac, ("", ""))[0] == ping["peer"]} - {ping["name"]}
            cells += [{"rail": ping["name"], "peer_rail": other, "seen": "heard"} for other in sorted(others)]
    # Sorted in a stable way: failures first, then by name.
    order = sorted(pairs, key=lambda pair: (all(cell["seen"] == "full" for cell in pairs[pair]), pair))
    shown = [{"node": node, "peer": peer, "cells": pairs[node, peer]} for node, peer in order[:PAIRS]]
    rails = [{"rail": name, "asked": found.total(), **{what: found[what] for what in SEEN}} for name, found in counts.items() if found]
    return {"rails": rails, "pairs": shown, "pairs_left_out": len(order) - len(shown)}


def seen(ping: Mapping[str, Any]) -> str:
    if ping["full"] is None:
        return "unknown"
    return "full" if ping["full"] else "small" if ping["small"] else "none"


def reachability_lines(document: Mapping[str, Any]) -> list[str]:
    """One line a rail."""
    return [f"{row['rail']}: {row['full']} of {row['asked']} pings between nodes came back at full MTU" for row in document["rails"]]
