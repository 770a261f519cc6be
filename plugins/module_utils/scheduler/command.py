# SPDX-License-Identifier: GPL-3.0-or-later
"""Draining by commands of the site: drain, is it empty, undrain. What they say is their exit code, and their last line.

They have no word for who drained a node before; a site whose scheduler has one lets its undrain command inspect it.
"""

import re
from typing import List, Mapping, NamedTuple, Sequence, Tuple

from ..formats.text import last_line
from ..host.host import Host
from .model import NodeState

SECONDS = 120.0
NOT_YET = 75  # EX_TEMPFAIL of sysexits.h
_PLACE = re.compile(r"\{(node|reason)\}")


class Commands(NamedTuple):
    """Words of each; {node} and {reason} are still in them."""

    drain: Tuple[str, ...]
    drained: Tuple[str, ...]
    undrain: Tuple[str, ...]


def command_for_node(command: Sequence[str], node: str, reason: str) -> Tuple[str, ...]:
    """The command for this node. One pass, so that a name that holds ``{reason}`` stays what it is."""
    values = {"node": node, "reason": reason}
    return tuple(_PLACE.sub(lambda match: values[match.group(1)], word) for word in command)


def inspect_nodes(host: Host, commands: Commands, names: Sequence[str], reason: str, begun: bool) -> List[NodeState]:
    """Whether work runs on the nodes. Whether new work may come only who has ``begun`` to drain knows: till then it is assumed."""
    return [_ask(host, commands, name, reason, begun) for name in names]


def drain(host: Host, commands: Commands, names: Sequence[str], reason: str) -> Tuple[List[NodeState], bool]:
    return close(host, commands, dict.fromkeys(names, reason))


def close(host: Host, commands: Commands, reasons: Mapping[str, str]) -> Tuple[List[NodeState], bool]:
    """Run again by a resumed upgrade, and by another search: the command must allow that."""
    ordered = [_order(host, commands.drain, name, reason, "upgrade_drain_command") for name, reason in reasons.items()]
    asked = [_ask(host, commands, seen.node, reasons[seen.node], True) if seen.message is None else seen for seen in ordered]
    return asked, bool(reasons)


def undrain(host: Host, commands: Commands, names: Sequence[str], reason: str) -> Tuple[List[NodeState], bool]:
    return [_order(host, commands.undrain, name, reason, "upgrade_undrain_command") for name in names], bool(names)


def _order(host: Host, command: Sequence[str], name: str, reason: str, key: str) -> NodeState:
    """Available; unknown, and what was wrong, where the command failed."""
    answer = host.run(command_for_node(command, name, reason), SECONDS)
    if answer.ok:
        return NodeState("command", name, "available")
    said = "%s ended with %d for %s: %s" % (key, answer.rc, name, last_line(answer.err.strip() or answer.out))
    return NodeState("command", name, "unknown", message=said)


def _ask(host: Host, commands: Commands, name: str, reason: str, closed: bool) -> NodeState:
    answer = host.run(command_for_node(commands.drained, name, reason), SECONDS)
    if answer.rc not in (0, NOT_YET):
        message = "upgrade_drained_command ended with %d for %s; allowed: 0 (empty), %d (not yet). It said: %s" % (
            answer.rc, name, NOT_YET, last_line(answer.err.strip() or answer.out))
        return NodeState("command", name, "unknown", message=message)
    empty = answer.ok
    holders = () if empty else (last_line(answer.err.strip() or answer.out),)
    if not closed:
        return NodeState("command", name, "available", (), holders, empty=empty)
    return NodeState("command", name, "drained" if empty else "draining", (), holders, reason, "us", closed=True, empty=empty)
