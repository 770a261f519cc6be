# SPDX-License-Identifier: GPL-3.0-or-later
"""The next round: disjoint pairs for what is still open. Pure, and the same for the same seed and history.

The first round pairs everybody, mostly across leaves, so that a slow leaf shows on each of its nodes; some pairs stay within a leaf, which
tells a slow spine from slow nodes. Later rounds measure suspects with partners that proved good, behind other leaves, never met before.
"""

import hashlib
from collections.abc import Iterable

from railwright.isolate.judge import FEW, Judgement, Want
from railwright.isolate.model import Ask, Fleet, Options, Round, Trial
from railwright.isolate.readings import SAMPLES, History

INSIDE = 4  # pairs within leaves that the first round has at least, where there are so many nodes
CONTROLS, NODES_A_CONTROL = 3, 128  # good pairs, so that the suspects' figures of each rail have a like


def next_round(history: History, judgement: Judgement, options: Options) -> Round | None:
    """None when nothing is open that a measurement could close."""
    number = history.rounds + 1
    if history.again is not None:
        return Round(number, history.again.trials, apart=True)
    salt = f"{options.seed} {number} "
    pairs = later_pairs(history, judgement, salt) if history.trials else first_pairs(history, salt)
    few = len(history.fleet.nodes) <= FEW
    samples = options.samples or SAMPLES[history.fleet.tool]
    trials = tuple(Trial(pair, asks(history.fleet, pair, judgement, first=not history.trials and not few), samples) for pair in pairs)
    return Round(number, trials, history.apart) if trials else None


def asks(fleet: Fleet, pair: tuple[str, str], judgement: Judgement, *, first: bool) -> tuple[Ask, ...]:
    """perftest: each rail, each way. nccl-tests: all rails at once; of suspects each rail too, and slow ones each way."""
    if fleet.tool == "perftest":
        return tuple(Ask((rail,), way) for rail in fleet.rails for way in ("forth", "back"))
    whole = (Ask(fleet.rails, "both"),)
    if first and len(fleet.rails) > 1:
        return whole
    rails = tuple(Ask((rail,), "both") for rail in fleet.rails)
    slow = dict.fromkeys(rail for node in pair for rail in judgement.suspect_rails.get(node, ()))
    ways = tuple(Ask((rail,), way) for rail in slow for way in ("forth", "back"))
    return (*whole, *rails, *ways) if len(fleet.rails) > 1 else (*rails, *ways)


def first_pairs(history: History, salt: str) -> list[tuple[str, str]]:
    """Everybody once (of an odd number all but one)."""
    groups: dict[str, list[str]] = {}
    for node in shuffled(history.fleet.nodes, salt):
        groups.setdefault(leaf_of(history, node), []).append(node)
    pairs: list[tuple[str, str]] = []
    inside = -(-INSIDE // len(groups)) if len(groups) > 1 else 0
    for members in groups.values():
        for _each in range(min(inside, (len(members) - 2) // 2)):
            pairs.append((members.pop(), members.pop()))
    ordered = [node for members in sorted(groups.values(), key=len, reverse=True) for node in members]
    half = len(ordered) // 2
    pairs += list(zip(ordered[:half], ordered[half:], strict=False))
    return pairs


def later_pairs(history: History, judgement: Judgement, salt: str) -> list[tuple[str, str]]:
    free = set(history.fleet.nodes)
    pairs: list[tuple[str, str]] = []

    def take(one: str, other: str) -> None:
        pairs.append((one, other))
        free.discard(one)
        free.discard(other)

    for want in judgement.wants:
        if want.partner and want.node in free and want.partner in free:
            take(want.node, want.partner)
    wanted = {want.node for want in judgement.wants}
    partners, waiting, everyone = (shuffled(nodes, salt) for nodes in (judgement.good - wanted, wanted, history.fleet.nodes))
    open_ = {want.node: want for want in judgement.wants if not want.partner}
    for want in sorted((open_[node] for node in waiting if node in open_), key=lambda want: len(history.by_node[want.node])):
        if want.node in free:
            other = partner(history, want, partners, free) or partner(history, want, waiting, free)
            other = other or partner(history, want, partners, free, again=True) or partner(history, want, everyone, free)
            other = other or partner(history, want, everyone, free, again=True)
            if other:
                take(want.node, other)
    if history.fleet.tool == "nccl" and pairs and history.rounds == 1:
        rest = [node for node in partners if node in free]
        count = max(CONTROLS, len(history.fleet.nodes) // NODES_A_CONTROL)
        for one, other in zip(rest[:count], rest[count : 2 * count], strict=False):
            take(one, other)
    return pairs


def shuffled(nodes: Iterable[str], salt: str) -> list[str]:
    """An order that any Python draws alike, so that a resumed search plans what the first one planned."""
    return sorted(nodes, key=lambda node: hashlib.blake2b((salt + node).encode(), digest_size=8).digest())


def partner(history: History, want: Want, nodes: list[str], free: set[str], *, again: bool = False) -> str:
    """The first that is free and was not met; behind another leaf where one is (the same, where the spine is in doubt)."""
    met = {history.views[place].other(want.node) for place in history.by_node[want.node]}
    own, second = leaf_of(history, want.node), ""
    for node in nodes:
        if node in free and node != want.node and (again or node not in met):
            if not own or (leaf_of(history, node) == own) is want.near:
                return node
            second = second or ("" if want.near else node)  # another time, when one of its leaf is free
    return second


def leaf_of(history: History, node: str) -> str:
    """By the first rail: where each rail has its own switches, nodes of one row share all of them."""
    return history.fleet.leaves.get((node, history.fleet.rails[0]), "")
