# SPDX-License-Identifier: GPL-3.0-or-later
"""The training benchmark over all nodes: who is which rank, where they meet. Pure; what a node said is checked before others are told."""

from collections.abc import Collection
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import usable_addresses
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp.launch import is_old
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

SAME = ("backend", "steps", "warmup", "batch", "port", "timeout_s", "repeatable")  # ddp_benchmark_*: one job has one of each
FIRST_ROUND_S = 20
MARGIN_S = 60  # after the time limit: KILL comes ten seconds after TERM, and a node may be slow
LOOPBACK = "127.0.0.1"


class PlanError(Exception):
    """Why there can be no job; nothing was started."""


def wishes(spec: Spec) -> dict[str, Any]:
    """What the inventory says about a host's part."""
    environment = {**spec["nccl_tests_environment"], **spec["ddp_benchmark_environment"]}
    network = spec["nccl_tests_network"]
    promise = {"fabric": spec.fabric, "network": network, "gdr": spec["gpudirect_path"] != "none" and network == "promised"}
    own = {name: spec[f"ddp_benchmark_{name}"] for name in (*SAME, "min_samples_per_s")}
    return {**own, "environment": environment, "promise": promise}


def make_plan(
    run: str, looks: dict[str, dict[str, Any]], wanted: dict[str, dict[str, Any]], known: Collection[str] | None = None
) -> dict[str, Any]:
    """``looks`` and ``wanted``: by node, in the inventory's order. ``known``: where the inventory knows the first one, where all others
    connect to; None: not asked. Raises PlanError."""
    hosts = list(looks)
    common = agreed(wanted)
    first = hosts[0]
    if looks[first].get("port_taken"):
        raise PlanError(f"TCP port {common['port']} on {first} is taken; set ddp_benchmark_port to a free one")
    nodes: dict[str, dict[str, Any]] = {}
    rank = 0
    for number, node in enumerate(hosts):
        seen = looks[node]
        nodes[node] = {"user": seen["user"], "python": seen["python"], "node_rank": number, "processes": seen["processes"],
                       "first_rank": rank, "interface": interface(node, seen, alone=len(hosts) == 1),
                       "environment": wanted[node]["environment"], "old_torch": is_old(seen["torch"])}
        rank += seen["processes"]
    master = LOOPBACK if len(hosts) == 1 else address(first, looks[first], known)
    return {"run": run, "hosts": hosts, "nodes": nodes, "processes": {node: nodes[node]["processes"] for node in hosts}, "world_size": rank,
            "master": master, **common, "rounds": rounds(common["timeout_s"])}


def agreed(wanted: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The values that one job has one of; the floor is that of the first node that has one."""
    for name in SAME:
        if len({repr(item[name]) for item in wanted.values()}) > 1:
            each = ", ".join(f"{node} has {item[name]}" for node, item in wanted.items())
            raise PlanError(f"ddp_benchmark_{name} must be the same on every node: {each}")
    first = next(iter(wanted.values()))
    floors = [item["min_samples_per_s"] for item in wanted.values() if item["min_samples_per_s"] is not None]
    return {**{name: first[name] for name in (*SAME, "promise")}, "minimum": floors[0] if floors else None}


def interface(node: str, seen: dict[str, Any], *, alone: bool) -> str:
    """A node by itself needs no network: its ranks meet over loopback, whatever becomes of its uplink."""
    if alone:
        return "lo"
    if seen["interface"] is None:
        raise PlanError(f"no interface of {node} carries the default route or the controller's connection; set rdma_bootstrap_interface")
    return str(seen["interface"]["name"])


def address(node: str, seen: dict[str, Any], known: Collection[str] | None = None) -> str:
    """Where the other nodes find the first one: on its bootstrap interface, IPv4 before IPv6. A node is believed no address but its own."""
    name = interface(node, seen, alone=False)
    good = usable_addresses(seen["interface"]["addresses"])
    if not good:
        raise PlanError(f"interface {name} of {node} has no address that other nodes could reach; set rdma_bootstrap_interface")
    if known is not None:
        good = [text for text in good if text in known]
        if not good:
            raise PlanError(f"the addresses that {node} says of {name} are none that the inventory has of it; name one in "
                            "ssh_mesh_addresses, or set rdma_bootstrap_interface")
    return min(good, key=lambda text: ":" in text)


def share(plan: dict[str, Any], node: str) -> dict[str, Any]:
    """One node's part, as module_utils/measure/ddp/launch.py wants it."""
    own = plan["nodes"][node]
    common = {name: plan[name] for name in ("run", "master", "port", "backend", "steps", "warmup", "batch", "timeout_s", "repeatable")}
    return {**own, **common, "nodes": len(plan["hosts"])}


def rounds(timeout_s: int) -> list[int]:
    """How old the job is at the end of each round of polls, every one twice as old as before; the last lies after its time limit.

    All nodes meet after a round, so what went wrong on one is noticed on all at the latest when the job is twice as old.
    """
    found = [FIRST_ROUND_S]
    while found[-1] < timeout_s + MARGIN_S:
        found.append(min(found[-1] * 2, timeout_s + MARGIN_S))
    return found
