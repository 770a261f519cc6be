# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured, what came of it, and what is said about it. A launcher needs these types and nothing else of this package.

A trial is a group of nodes that no other trial of its round touches; today a group is a pair. It asks for figures in turn: of some rails,
one way or both. A result has one figure list for each question, and what a launcher can know of a failure. Nothing here knows a cause.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from railwright.exitcodes import InputError

# From the first node to the second, back, or both at once. perftest measures each way alone (ib_write_bw from either end); nccl-tests
# both at once (sendrecv_perf), and one way where it is asked to (broadcast_perf, root on the first or the second node).
WAYS = ("forth", "back", "both")
TOOLS = ("perftest", "nccl")
# Why a question has no figure. `hang`: it was stopped when its time was up. The other two say nothing about speed.
FAILURES = ("", "hang", "launch", "unreachable")


class Fleet(NamedTuple):
    nodes: tuple[str, ...]
    rails: tuple[str, ...]  # names that all nodes share
    leaves: Mapping[tuple[str, str], str]  # (node, rail) -> leaf switch; {} where the inventory does not say
    tool: str  # of TOOLS


class Ask(NamedTuple):
    rails: tuple[str, ...]  # NCCL_IB_HCA, or the HCA of perftest
    way: str  # of WAYS


class Trial(NamedTuple):
    nodes: tuple[str, ...]
    asks: tuple[Ask, ...]
    samples: int  # how often each question is measured, one after the other; their median counts


class Round(NamedTuple):
    number: int  # from 1
    trials: tuple[Trial, ...]  # disjoint: all of them run at once


class Result(NamedTuple):
    """``figures``: for each question its samples in Gb/s (busbw with nccl-tests), () where there is none."""

    figures: tuple[tuple[float, ...], ...]
    failure: str = ""  # of FAILURES
    where: str = ""  # the node that did not answer, where the launcher knows it
    # node -> for each of its GPUs how long it was in the collective (the first question), in us. nccl-tests alone knows; else {}.
    times: Mapping[str, tuple[float, ...]] = {}


class Launcher(Protocol):
    def run(self, round_: Round) -> Sequence[Result]:
        """One result for each trial, in their order. It returns when all have ended or were stopped, and leaves no process behind."""
        ...

    def stop(self) -> None:
        """End everything that is still running; called when the user interrupts, and at the end."""
        ...


class Evidence(NamedTuple):
    """One measurement behind a finding."""

    round: int
    partner: str
    figure: float  # Gb/s; 0 of a hang
    like: float  # Gb/s of its like
    good: bool


def rate_text(figure: float) -> str:
    """Gb/s for people: whole, or three digits of what is below ten."""
    return f"{figure:.0f}" if figure >= 10 else f"{figure:.3g}"


class Finding(NamedTuple):
    kind: str  # of KINDS
    text: str
    nodes: tuple[str, ...] = ()  # one; the two of a pair; every suspect where it is unclear
    rail: str = ""
    way: str = ""  # out, in
    leaf: str = ""
    gpu: int | None = None
    share: float = 0.0  # of its like
    evidence: tuple[Evidence, ...] = ()


QUIET = ("unclear", "unmeasured")  # they blame nobody
KINDS = ("leaf", "plane", "node", "rail", "direction", "pair", "flapping", "late gpu", "hang", *QUIET)


class Options(NamedTuple):
    """What the user may choose; the journal holds it."""

    minutes: float = 20.0
    rounds: int = 8
    seed: int = 1
    samples: int = 0  # 0: as many as the tool needs


def make_fleet(nodes: Sequence[str], rails: Sequence[str], leaves: Mapping[str, Collection[str | tuple[str, str]]], tool: str) -> Fleet:
    """``leaves``: leaf -> its nodes, or its (node, rail) where each rail has switches of its own. Raises InputError."""
    names = tuple(dict.fromkeys(nodes))
    if len(names) < 2:
        raise InputError(f"a part is found by measuring nodes against each other: this group has {len(names)} of the two that it takes")
    if not rails or tool not in TOOLS:
        raise InputError(f"{tool}: no such tool, or no rail to measure" if rails else f"{names[0]} has no rail")
    found: dict[tuple[str, str], str] = {}
    for leaf, members in leaves.items():
        ends = [(member, rail) for member in members if isinstance(member, str) for rail in rails]
        ends += [member for member in members if not isinstance(member, str)]
        ends = [end for end in ends if end[0] in names and end[1] in rails]
        if not ends:
            raise InputError(f"leaf {leaf}: no node of this group is at it")
        if other := next((found[end] for end in ends if found.get(end, leaf) != leaf), ""):
            raise InputError(f"leaf {leaf}: a node of it is at {other} too")
        found.update(dict.fromkeys(ends, leaf))
    return Fleet(names, tuple(rails), found, tool)
