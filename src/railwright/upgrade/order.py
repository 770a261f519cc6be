# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes go next. Pure.

Canaries first, then one failure domain after the other, each in the order of the inventory. At any moment at most so many nodes are
away as ``upgrade_max_unavailable`` says, whatever they are away for: one that somebody else has drained takes the place of one of ours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Rules(NamedTuple):
    """What the inventory says about the whole roll-out."""

    most: int  # nodes that may be away at the same time
    canary: tuple[str, ...]
    domains: Mapping[str, str]  # node -> failure domain; '' where it has none


def most_unavailable(text: str, nodes: int) -> int:
    """``upgrade_max_unavailable`` as a number of nodes: a share is rounded down, and at least 1."""
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
        if not alike or len(batch) == rules.most:
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
