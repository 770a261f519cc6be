# SPDX-License-Identifier: GPL-3.0-or-later
"""The next round: disjoint pairs for what is still open. Pure, and the same for the same seed and history.

The first round pairs everybody, mostly across leaves, so that a slow leaf shows on each of its nodes; some pairs stay within a leaf, which
tells a slow spine from slow nodes. Later rounds measure suspects with partners that proved good, behind other leaves, never met before.
"""

import hashlib
from collections.abc import Iterable

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from railwright.isolate.judge import FEW, Judgement
from railwright.isolate.model import Ask, Fleet, Options, Round, Trial
from railwright.isolate.readings import SAMPLES, History

Pairs = list[tuple[str, str]]
INSIDE = 4  # pairs within leaves that the first round has at least, where there are so many nodes
CONTROLS, NODES_A_CONTROL = 3, 128  # good pairs, so that the suspects' figures of each rail have a like


def next_round(history: History, judgement: Judgement, options: Options) -> Round | None:
    """None when nothing is open that a measurement could close."""
    number = history.rounds + 1
    order = shuffled(history.fleet.nodes, f"{options.seed} {number} ")
    pairs = later_pairs(history, judgement, order) if history.trials else first_pairs(history, order)
    first = not history.trials and len(order) > FEW
    samples = options.samples or SAMPLES[history.fleet.tool]
    trials = tuple(Trial(pair, asks(history.fleet, pair, judgement, first=first), samples) for pair in pairs)
    return Round(number, trials) if trials else None


def asks(fleet: Fleet, pair: tuple[str, str], judgement: Judgement, *, first: bool) -> tuple[Ask, ...]:
    """perftest: each rail, each way. nccl-tests: all rails at once; of suspects each rail too, and slow ones each way."""
    if fleet.tool == "perftest":
        return tuple(Ask((rail,), way) for rail in fleet.rails for way in ("forth", "back"))
    whole = (Ask(fleet.rails, "both"),) if len(fleet.rails) > 1 else ()
    if first and whole:
        return whole
    slow = dict.fromkeys(rail for node in pair for rail in judgement.suspect_rails.get(node, ()))
    ways = (Ask((rail,), way) for rail in slow for way in ("forth", "back"))
    return (*whole, *(Ask((rail,), "both") for rail in fleet.rails), *ways)


def shuffled(nodes: Iterable[str], salt: str) -> list[str]:
    """An order that any Python draws alike, so that a resumed search plans what the first one planned."""
    return sorted(nodes, key=lambda node: hashlib.blake2b((salt + node).encode(), digest_size=8).digest())


def first_pairs(history: History, order: list[str]) -> Pairs:
    """Everybody once (of an odd number all but one)."""
    groups = grouped((history.leaf_of(node), node) for node in order)
    pairs: Pairs = []
    inside = -(-INSIDE // len(groups)) if len(groups) > 1 else 0
    for members in groups.values():
        for _each in range(min(inside, (len(members) - 2) // 2)):
            pairs.append((members.pop(), members.pop()))
    rest = [node for members in sorted(groups.values(), key=len, reverse=True) for node in members]
    return pairs + list(zip(rest[: len(rest) // 2], rest[len(rest) // 2 :], strict=False))


def later_pairs(history: History, judgement: Judgement, order: list[str]) -> Pairs:
    """Each suspect with a good partner that it has not met; else with another suspect, with one that it has met, with anybody."""
    free = dict.fromkeys(order)
    pairs: Pairs = []
    wanted = {want.node: want for want in judgement.wants}
    good = judgement.good - wanted.keys()

    def take(one: str, other: str) -> None:
        pairs.append((one, other))
        del free[one], free[other]

    for want in judgement.wants:
        if want.partner and want.node in free and want.partner in free:
            take(want.node, want.partner)
    for node in sorted((node for node in order if node in wanted), key=lambda node: len(history.by_node.get(node, ()))):
        if node in free and not wanted[node].partner:
            own, met = history.leaf_of(node), {view.other(node) for view in history.by_node.get(node, ())}
            ranks = {other: (other in met, other not in good, bool(own) and (history.leaf_of(other) == own) is not wanted[node].near)
                     for other in free if other != node and (not wanted[node].near or history.leaf_of(other) == own)}  # fmt: skip
            if ranks:
                take(node, min(ranks, key=lambda other: ranks[other]))
    if history.fleet.tool == "nccl" and pairs and all(len(view.scopes) == 1 for view in history.views) and history.fleet.rails[1:]:
        rest = [node for node in free if node in good]
        count = max(CONTROLS, len(order) // NODES_A_CONTROL)
        for one, other in zip(rest[:count], rest[count : 2 * count], strict=False):
            take(one, other)
    return pairs
