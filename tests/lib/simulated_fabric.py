# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric that is only numbers, behind the launcher's interface: nodes, rails, leaves, spine planes, and faults that nobody is told.

It imports the interface's types and nothing else of railwright.isolate. A path carries what its slowest part lets through. Each sample
has noise of its own; an outlier hits a whole trial. What is drawn depends on the seed, the round and the pair alone, so a round that is
measured again after a kill gives the same figures.
"""

from __future__ import annotations

import hashlib
import random
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from railwright.isolate.model import Ask, Fleet, Result, Round, Trial

SPEED = 392.0
GPUS = 8
KINDS = ("node", "rail", "direction", "pair", "leaf", "plane", "spine", "flapping", "late gpu", "hang")


class Fault(NamedTuple):
    kind: str  # of KINDS
    share: float = 0.5  # of a healthy part's speed
    node: str = ""
    rail: str = ""  # "": all of them
    way: str = ""  # out, in
    other: str = ""  # of a pair
    leaf: str = ""
    gpu: int = 0
    planes: int = 4  # of a spine: one of so many carries each path


@dataclass
class Noise:
    sigma: float = 0.03
    outliers: float = 0.005
    launches: float = 0.005  # trials that are not launched


@dataclass
class Fabric:
    fleet: Fleet
    faults: Sequence[Fault] = ()
    seed: int = 1
    noise: Noise = field(default_factory=Noise)
    now: float = 0.0
    launched: list[Round] = field(default_factory=list)
    stopped: int = 0

    def __post_init__(self) -> None:
        self.of_node: dict[str, list[Fault]] = {}
        self.of_leaf = {fault.leaf: fault for fault in self.faults if fault.kind == "leaf"}
        self.wide = [fault for fault in self.faults if fault.kind in ("plane", "spine")]
        for fault in self.faults:
            for node in {fault.node, fault.other} - {""}:
                self.of_node.setdefault(node, []).append(fault)

    def clock(self) -> float:
        return self.now

    def stop(self) -> None:
        self.stopped += 1

    def run(self, round_: Round) -> list[Result]:
        used = [node for trial in round_.trials for node in trial.nodes]
        assert len(used) == len(set(used)), "a node is in two trials"
        assert set(used) <= set(self.fleet.nodes)
        self.launched.append(round_)
        results = [self._trial(round_.number, trial) for trial in round_.trials]
        hung = any(result.failure == "hang" for result in results)
        self.now += random.Random(f"{self.seed} {round_.number} launch").uniform(60, 120) + self._busy(round_) + (60 if hung else 0)
        return results

    def _busy(self, round_: Round) -> float:
        """perftest measures all rails at once, a second a sample and way; nccl-tests one question after the other."""
        if self.fleet.tool == "perftest":
            return max(2.0 * trial.samples for trial in round_.trials)
        return max(len(trial.asks) * (2 + 0.5 * trial.samples) for trial in round_.trials)

    def _trial(self, number: int, trial: Trial) -> Result:
        one, other = trial.nodes
        draw = random.Random(zlib.crc32(f"{self.seed} {number} {one} {other}".encode()) ^ self.seed << 32)
        if draw.random() < self.noise.launches:
            return Result((), "launch") if draw.random() < 0.5 else Result((), "unreachable", draw.choice(trial.nodes))
        faults = [*self.of_node.get(one, ()), *self.of_node.get(other, ())]
        if any(fault.kind == "hang" for fault in faults):
            return Result((), "hang")
        odd = draw.uniform(0.2, 0.9) if draw.random() < self.noise.outliers else 1.0
        gauss, sigma = draw.gauss, self.noise.sigma
        figures = []
        slow = bool(faults) or bool(self.wide) or bool(self.of_leaf)
        late = self._late(trial, faults)
        for ask in trial.asks:
            share = self._ask(number, ask, one, other, faults) if slow else 1.0
            base = SPEED * share * odd * len(ask.rails) * (min(late.values(), default=1.0))
            figures.append(tuple([round(base * (1 + gauss(0, sigma)), 2) for _sample in range(trial.samples)]))
        times: Mapping[str, tuple[float, ...]] = {}
        if self.fleet.tool == "nccl":
            times = self._times(trial, late, sum(figures[0]) / len(figures[0]), draw)
        return Result(tuple(figures), times=times)

    def _late(self, trial: Trial, faults: Sequence[Fault]) -> dict[tuple[str, int], float]:
        if self.fleet.tool != "nccl":
            return {}
        return {(fault.node, fault.gpu): fault.share for fault in faults if fault.kind == "late gpu" and fault.node in trial.nodes}

    def _times(
        self, trial: Trial, late: Mapping[tuple[str, int], float], figure: float, draw: random.Random
    ) -> dict[str, tuple[float, ...]]:
        """A GPU that is late waits for nobody; the others are in the collective until it has come."""
        usual = 1e6 / figure
        sigma = self.noise.sigma / trial.samples**0.5
        found = {}
        for node in trial.nodes:
            found[node] = tuple(round(usual * late.get((node, gpu), 1.0) * (1 + draw.gauss(0, sigma)), 3) for gpu in range(GPUS))
        return found

    def _ask(self, number: int, ask: Ask, one: str, other: str, faults: Sequence[Fault]) -> float:
        share = 1.0
        for rail in ask.rails:
            if ask.way != "back":
                share = min(share, self._flow(number, one, other, rail, faults))
            if ask.way != "forth":
                share = min(share, self._flow(number, other, one, rail, faults))
        return share

    def _flow(self, number: int, source: str, target: str, rail: str, faults: Sequence[Fault]) -> float:
        share = 1.0
        for fault in faults:
            if (not fault.rail or fault.rail == rail) and self._meets(fault, number, source, target, rail):
                share = min(share, fault.share)
        near, far = self.fleet.leaves.get((source, rail), ""), self.fleet.leaves.get((target, rail), "")
        for leaf in (near, far):
            if leaf in self.of_leaf:
                share = min(share, self.of_leaf[leaf].share)
        if near != far:
            for fault in self.wide:
                if fault.kind == "plane" and fault.rail in ("", rail):
                    share = min(share, fault.share)
                if fault.kind == "spine" and self._plane(source, target, rail) % fault.planes == 0:
                    share = min(share, fault.share)
        return share

    def _plane(self, source: str, target: str, rail: str) -> int:
        """Which of the spines carries a flow: as a switch's hash of its addresses, the same every time."""
        return hashlib.blake2b(f"{self.seed} {source} {target} {rail}".encode(), digest_size=4).digest()[0]

    def _meets(self, fault: Fault, number: int, source: str, target: str, rail: str) -> bool:
        if fault.kind in ("node", "rail"):
            return True
        if fault.kind == "direction":
            return fault.node == (source if fault.way == "out" else target)
        if fault.kind == "pair":
            return {fault.node, fault.other} == {source, target}
        if fault.kind == "flapping":
            return random.Random(f"{self.seed} {fault.node} {fault.rail} {number}").random() < 0.5
        return False


def drawn_fleet(draw: random.Random, count: int, tool: str = "", rails: int = 0, leaves: str = "") -> Fleet:
    """``leaves``: node, rail or none: whether a leaf has all rails of its nodes, or each rail switches of its own, or nobody knows."""
    nodes = tuple(f"node{number:04d}" for number in range(count))
    names = tuple(f"rail{number}" for number in range(rails or draw.choice((1, 2, 4, 8))))
    kind = leaves or draw.choice(("node", "rail", "none"))
    size = draw.choice([size for size in (4, 8, 16, 32, 64) if size * 4 <= count] or [max(2, count // 2)])
    order = list(nodes)
    if draw.random() < 0.5:
        draw.shuffle(order)
    found = {}
    for place, node in enumerate(order):
        for rail in names if kind != "none" else ():
            found[node, rail] = f"leaf{place // size}" + (f"-{rail}" if kind == "rail" else "")
    return Fleet(nodes, names, found, tool or draw.choice(("perftest", "perftest", "nccl")))


def drawn_faults(
    draw: random.Random, fleet: Fleet, count: int, kinds: Sequence[str], slowest: float = 0.2, fastest: float = 0.9
) -> list[Fault]:
    """On different parts; a kind that the fleet cannot have becomes a slow node."""
    faults: list[Fault] = []
    ends = {rail: Counter(leaf for (_node, own), leaf in fleet.leaves.items() if own == rail) for rail in fleet.rails}
    leaves = sorted({leaf for found in ends.values() for leaf, count in found.items() if count >= 3})
    most = len({leaf.partition("-")[0] for leaf in leaves}) // 4  # so that most nodes are good
    nodes, switches = draw.sample(fleet.nodes, count * 2), draw.sample(leaves, min(count, most))
    for number in range(count):
        kind, share, node = draw.choice(list(kinds)), draw.uniform(slowest, fastest), nodes[number]
        rail = draw.choice(fleet.rails)
        if kind == "leaf" and switches:
            faults.append(Fault(kind, share, leaf=switches.pop()))
        elif kind in ("plane", "spine") and fleet.leaves and not any(fault.kind in ("plane", "spine") for fault in faults):
            faults.append(Fault(kind, share, rail=rail if kind == "plane" else "", planes=draw.choice((2, 4, 8))))
        elif kind == "direction":
            faults.append(Fault(kind, share, node, rail, draw.choice(("out", "in"))))
        elif kind == "pair":
            faults.append(Fault(kind, share, node, draw.choice(("", rail)), other=nodes[count + number]))
        elif kind in ("rail", "flapping"):
            faults.append(Fault(kind, share, node, rail))
        elif kind == "late gpu" and fleet.tool == "nccl":
            faults.append(Fault(kind, share, node, gpu=draw.randrange(GPUS)))
        elif kind == "hang":
            faults.append(Fault(kind, 0.0, node))
        else:
            faults.append(Fault("node", share, node))
    return faults
