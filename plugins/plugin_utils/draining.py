# SPDX-License-Identifier: GPL-3.0-or-later
"""Who asks the scheduler for whom, and what an answer means for a host: the controller's side of rdma_drain, without Ansible's connection.

Of the hosts that share a scheduler (and the host where it is asked) the first one asks for all, so that 400 nodes cost one call. Each host
finds its leader by itself: usually the first host of the list, so that nobody reads the variables of all others but the leader.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import ISOLATED, KEPT, LONGEST_REASON, OURS, STATES, is_of_run

from .results import BATCH, names, variable_of
from .spec.check_jobs import COMMANDS
from .spec.schema import BY_NAME

Drain = dict[str, Any]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ASKED = "__railwright_drains"  # an extra variable: what the scheduler said to the controller, by host, just before this run
SHOWN = 5  # holders of a node in one message
# What a reason may hold: nothing that Ansible, Slurm's scontrol or a shell reads as more than text.
ODD = re.compile(r"[^A-Za-z0-9 ._:;,/()+-]")


class Place(NamedTuple):
    """Where a host's jobs come from."""

    scheduler: str
    host: str  # where it is asked
    commands: str = ""  # of upgrade_scheduler command: another host's would drain by other rules


class Unfit(ValueError):
    """The inventory cannot be used; the text says why."""


def drain_place(variables: dict[str, Any], host: str) -> Place:
    scheduler, where = (str(_value(variables, host, name)) for name in ("upgrade_scheduler", "upgrade_scheduler_host"))
    return Place(scheduler, where, repr([_value(variables, host, name) for name in COMMANDS]) if scheduler == "command" else "")


def _value(variables: dict[str, Any], host: str, name: str) -> Any:
    found = variable_of(variables, host, name)
    return BY_NAME[name].default if found is None else found


def leader_of(variables: dict[str, Any], hosts: Sequence[str], host: str) -> str:
    """The first host of the same place; a host without a scheduler is its own."""
    mine = drain_place(variables, host)
    if mine.scheduler == "none":
        return host
    return next((other for other in hosts if other == host or drain_place(variables, other) == mine), host)


def members(variables: dict[str, Any], hosts: Sequence[str], leader: str) -> dict[str, str]:
    """The hosts that a leader asks for, each with its name at the scheduler."""
    mine = drain_place(variables, leader)
    named: dict[str, str] = {}
    for host in hosts:
        if host != leader and drain_place(variables, host) != mine:
            continue
        name = str(_value(variables, host, "upgrade_node_name") or host)
        if not NAME.fullmatch(name):
            raise Unfit(f"upgrade_node_name of {host} is no name; allowed: a name of letters, digits and . _ -; nothing was drained")
        twin = next((other for other, used in named.items() if used == name), None)
        if twin is not None:
            raise Unfit(f"upgrade_node_name is the same for {twin} and {host}; allowed: a name of its own for each host")
        named[host] = name
    return named


def reason_of(run: str | None) -> str:
    if run is None or not NAME.fullmatch(run):
        raise Unfit(f"run: {run!r}; allowed: the id of an upgrade, letters, digits and . _ -")
    return OURS + run


def isolation_reason(run: str, text: str) -> str:
    """``railwright isolate RUN: rail2 41 of 392 Gb/s with 3 partners``."""
    return plain_reason(f"{ISOLATED}{run}: {text}")


def plain_reason(text: str) -> str:
    """One line of plain characters that every scheduler keeps whole."""
    whole = " ".join(ODD.sub("-", text).split())
    return (whole if len(whole) <= LONGEST_REASON else whole[: LONGEST_REASON - 3] + "...").strip()


def without_scheduler(host: str, mode: str) -> Drain:
    """Nobody puts jobs there that we could know of."""
    closed = mode in ("drain", "wait", "verify")
    return {**_drain("none", host), "state": "drained" if closed else "available", "closed": closed, "empty": closed, "done": closed}


def _drain(scheduler: str, node: str) -> Drain:
    return {"scheduler": scheduler, "node": node, "state": "unknown", "jobs": [], "holders": [], "reason": None, "by": None,
            "message": None, "raw": "", "closed": False, "empty": False, "done": False}


def by_host(named: Mapping[str, str], answer: Any, scheduler: str) -> dict[str, Drain] | None:
    """The module's answer in the inventory's names, each value of the kind it must have; None for what is no answer to the question."""
    if not isinstance(answer, list) or len(answer) != len(named) or not all(isinstance(item, dict) for item in answer):
        return None
    found: dict[str, Drain] = {}
    for (host, name), item in zip(named.items(), answer, strict=True):
        if item.get("node") != name or item.get("state") not in STATES:
            return None
        clean = _drain(scheduler, name)
        clean.update(state=item["state"], by=item.get("by") if item.get("by") in ("us", "other") else None)
        clean.update({field: str(item[field]) for field in ("reason", "message", "raw") if item.get(field) is not None})
        clean.update({field: item.get(field) is True for field in ("closed", "empty", "done")})
        clean.update({field: [str(entry) for entry in item.get(field) or []][:KEPT] for field in ("jobs", "holders")})
        found[host] = clean
    return found


def draining(drains: Mapping[str, Drain]) -> list[str]:
    """Hosts that are worth waiting for: not empty yet, and nothing says that they will not be."""
    return [host for host, drain in drains.items() if not drain["done"] and not drain["message"]]


def late(drains: Mapping[str, Drain]) -> list[str]:
    return [host for host, drain in drains.items() if not drain["done"]]


def returning(drains: Mapping[str, Drain], reason: str) -> list[str]:
    """Hosts that this run is still to give back: their node does not answer the scheduler yet."""
    return [host for host, drain in drains.items()
            if drain["state"] != "available" and not drain["message"] and (not drain["closed"] or _of_run(drain, reason))]


def _of_run(drain: Drain, reason: str) -> bool:
    return drain["by"] == "us" and is_of_run(drain["reason"], reason)


def drain_refusal(host: str, drain: Drain, expect: str, taken: Mapping[str, Drain] | None, seconds: int) -> str | None:
    """Why a host may not go on; None where it may."""
    if expect == "answer":
        return None
    if drain["message"]:
        return str(drain["message"])
    if expect == "closed" and not drain["closed"]:
        return f"{host} " + ("is not drained: upgrade_scheduler is none" if drain["scheduler"] == "none" else _not_empty(drain, 0))
    if expect == "drained" and not drain["done"]:
        return f"{host} {_not_empty(drain, seconds)}{_what_became(drain['node'], (taken or {}).get(host))}"
    if expect == "available" and drain["state"] != "available" and not (drain["closed"] and drain["by"] == "other"):
        return f"{host} was to take jobs again and is {drain['state']} at the scheduler ({drain['raw']}): its daemon does not answer there"
    return None


def _not_empty(drain: Drain, seconds: int) -> str:
    if not drain["closed"] and drain["scheduler"] != "command":
        return f"takes new jobs ({drain['state']}, {drain['raw']}): it is not drained"
    after = f" {seconds} s after its drain began" if seconds else ""
    if not drain["holders"]:
        return f"was not empty{after}: the scheduler says {drain['raw'] or drain['state']}"
    shown = drain["holders"][:SHOWN]
    more = f" and {len(drain['holders']) - SHOWN} more" if len(drain["holders"]) > SHOWN else ""
    return f"was not empty{after}: {', '.join(shown)}{more}"


def _what_became(node: str, taken: Drain | None) -> str:
    if taken is None:
        return ""
    if taken["message"]:
        return f"; it stays drained: {taken['message']}"
    if taken["closed"]:
        return f"; it stays drained, by {'us' if taken['by'] == 'us' else 'somebody else'} ({taken['reason']})"
    return f"; nothing was changed on it, and new jobs may start on {node} again"


def present(variables: dict[str, Any]) -> list[str]:
    """The hosts that are at this step: Ansible's batch, or those of it that the role counts (who was rescued is still in Ansible's)."""
    batch = names(variables, "ansible_play_batch") or [str(variables["inventory_hostname"])]
    counted = names(variables, BATCH)
    return [host for host in batch if host in counted] if counted else batch


def asked_for(variables: dict[str, Any], mode: str) -> list[str]:
    """inspect: all of the play, since those that do not answer are away too; the other steps: who is at this step."""
    everybody = names(variables, "ansible_play_hosts_all") if mode == "inspect" else []
    return everybody or present(variables)
