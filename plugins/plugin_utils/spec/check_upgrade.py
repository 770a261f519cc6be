# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of rolling upgrades: commands that name the node, and what all nodes of a site must agree on. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec

from .findings import Findings, did_you_mean

COMMANDS = ("upgrade_drain_command", "upgrade_drained_command", "upgrade_undrain_command")
PLACES = ("node", "reason")
AGREED = ("upgrade_max_unavailable", "upgrade_canary", "upgrade_gate")


def check_upgrade(values: Mapping[str, Any], findings: Findings) -> None:
    """Rules over several keys; runs after each is well-formed."""
    scheduler = values.get("upgrade_scheduler")
    for name in COMMANDS if scheduler is not None else ():
        command = values.get(name)
        if command is None:
            continue  # not well-formed, which is said already
        if scheduler == "command" and not command:
            findings.error(name, None, "is missing: upgrade_scheduler is command",
                           "a list of words, such as [/usr/local/sbin/drain, '{node}']")
        elif scheduler != "command" and command:
            findings.error(name, command, f"is for upgrade_scheduler: command; it is {scheduler}", "unset, or upgrade_scheduler: command")
        elif command:
            _check_command(name, command, findings)
    if scheduler == "slurm" and values.get("upgrade_gate") == "nccl_tests" and values.get("nccl_tests_launcher") == "slurm":
        findings.error("nccl_tests_launcher", "slurm", "would wait for ever: upgrade_gate nccl_tests runs on nodes that the upgrade has "
                       "drained, and Slurm starts no job there", "auto, mpi or local; or upgrade_gate: validate")
    twice = sorted({name for name in values.get("upgrade_canary") or [] if values["upgrade_canary"].count(name) > 1})
    if twice:
        findings.error("upgrade_canary", values["upgrade_canary"], f"names {', '.join(twice)} twice", "each host once")


def _check_command(name: str, command: list[str], findings: Findings) -> None:
    """A command that does not name the node would drain another one, or all."""
    for index, word in enumerate(command):
        if re.search(r"[\x00-\x1f\x7f]", word):
            findings.error(f"{name}[{index}]", word, "holds a line break or a control character", "text of one line")
        for place in re.findall(r"\{([^{}]*)\}", word):
            if place not in PLACES:
                findings.error(f"{name}[{index}]", word, f"{{{place}}} stands for nothing{did_you_mean(place, PLACES)}",
                               "{node}, {reason}")
                return
    if not command[0].strip() or "{" in command[0]:
        findings.error(name + "[0]", command[0], "is no program", "the program to run, such as /usr/local/sbin/drain")
    elif not any("{node}" in word for word in command):
        findings.error(name, command, "does not say which node: no word of it holds {node}", "a command with {node} in one of its words")


def check_upgrades(specs: Mapping[str, Spec]) -> list[Finding]:
    """What holds for the whole roll-out is one value, and no two nodes are one node to the scheduler."""
    found: list[Finding] = []
    hosts = sorted(specs)
    for key in AGREED:
        values = [(host, specs[host][key]) for host in hosts]
        other = next(((host, value) for host, value in values if value != values[0][1]), None)
        if other is not None:
            message = f"is the value on {other[0]}, but {_one_word(values[0][1])} is on {hosts[0]}; it holds for the whole upgrade"
            found.append(Finding(other[0], key, other[1], message, "one value for all hosts", "error"))
    names: dict[str, str] = {}
    for host in hosts:
        name = specs[host]["upgrade_node_name"] or host
        if name in names and specs[host]["upgrade_scheduler"] != "none":
            message = f"is the name of {names[name]} at the scheduler too: draining one would upgrade the other under its jobs"
            found.append(Finding(host, "upgrade_node_name", name, message, "a name of its own for each host", "error"))
        names.setdefault(name, host)
    return found


def _one_word(value: Any) -> str:
    return f"[{', '.join(value)}]" if isinstance(value, list) else str(value)
