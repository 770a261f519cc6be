# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal of a search (railwright/journal.py).

Its first line names the inventory (a digest of nodes, rails and leaves) and the options. A round is written before it is launched, and its
results behind it; a round without all of them is measured again.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, read_json
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from railwright.exitcodes import InputError
from railwright.isolate.model import FAILURES, WAYS, Ask, Fleet, Options, Result, Round, Trial
from railwright.journal import Lines, begin, damaged, go_on, read

WORK = "search"


class Done(NamedTuple):
    """A round that was measured."""

    round: Round
    results: tuple[Result, ...]
    seconds: float


class Journal(Lines):
    """An open journal: what ``add`` was given is on the disk when it returns."""

    def __init__(self, path: Path, descriptor: int, done: Sequence[Done] = (), begun: Round | None = None) -> None:
        super().__init__(path, descriptor, WORK)
        self.done, self.begun = tuple(done), begun  # of earlier runs: whole rounds, and one that was cut off

    def begin(self, round_: Round) -> None:
        trials = ({"kind": "trial", **trial._asdict()} for trial in round_.trials)
        self.add({"kind": "round", "number": round_.number, "trials": len(round_.trials)}, *trials)

    def end(self, number: int, results: Sequence[Result], seconds: float) -> None:
        self.add(*({"kind": "result", **result._asdict()} for result in results), {"kind": "done", "number": number, "seconds": seconds})


def identity(fleet: Fleet) -> str:
    """A digest of what an inventory says about nodes, rails and leaves."""
    leaves = sorted((node, rail, leaf) for (node, rail), leaf in fleet.leaves.items())
    return hashlib.sha256(json.dumps([sorted(fleet.nodes), fleet.rails, leaves, fleet.tool]).encode()).hexdigest()


def create(path: Path, fleet: Fleet, options: Options) -> Journal:
    """Raises FileExistsError where there is one."""
    head = {"inventory": identity(fleet), "nodes": fleet.nodes, **options._asdict()}
    return Journal(path, begin(path, head, WORK))


def begun_with(path: Path, hosts: Collection[str]) -> tuple[str, ...]:
    """The nodes that a search was begun with: which ones answer and are idle may have changed since. Raises InputError, also where one is
    none of the inventory's ``hosts``."""
    try:
        with path.open(encoding="utf-8") as lines:
            found = tuple(str(node) for node in mapping(read_json(lines.readline()))["nodes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(path, error, WORK) from error
    if strange := [node for node in found if node not in hosts]:
        raise InputError(f"{path}: is the journal of another inventory, which has {first_of(strange)}", path, 1)
    return found


def reopen(path: Path, fleet: Fleet) -> tuple[Journal, Options]:
    """Go on with a journal, with the options that it was begun with. Raises InputError for one of another inventory, and a damaged one."""
    records, good = read(path, WORK)
    try:
        options = _options(records, path, fleet)
        done, begun = _rounds(records[1:])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, error, WORK) from error
    return Journal(path, go_on(path, good), done, begun), options


def _options(records: Sequence[dict[str, Any]], path: Path, fleet: Fleet) -> Options:
    head = records[0]
    if head["inventory"] != identity(fleet):
        raise InputError(f"{path}: is the journal of another inventory ({len(head['nodes'])} nodes, other names, rails or leaves)", path, 1)
    return Options(float(head["minutes"]), int(head["rounds"]), int(head["seed"]), int(head["samples"]))


def _rounds(records: Sequence[dict[str, Any]]) -> tuple[list[Done], Round | None]:
    """Whole rounds, and the last one that was begun and has not all of its results."""
    done: list[Done] = []
    head: dict[str, Any] = {}
    trials: list[Trial] = []
    results: list[Result] = []
    for record in records:
        kind = record["kind"]
        if kind == "round":
            head, trials, results = record, [], []
        elif kind == "trial":
            trials.append(_trial(record))
        elif kind == "result":
            results.append(_result(record))
        elif kind == "done":
            if len(trials) != head["trials"] or record["number"] != head["number"]:
                raise ValueError("a round without its trials")
            done.append(Done(_round(head, trials), tuple(results[-len(trials) :]), float(record["seconds"])))
            head, results = {}, []
    return done, _round(head, trials) if head and len(trials) == head["trials"] else None


def _round(head: dict[str, Any], trials: Sequence[Trial]) -> Round:
    return Round(int(head["number"]), tuple(trials))


def _trial(record: dict[str, Any]) -> Trial:
    found = tuple(Ask(tuple(map(str, rails)), WAYS[WAYS.index(way)]) for rails, way in record["asks"])
    return Trial(tuple(map(str, record["nodes"])), found, int(record["samples"]))


def _result(record: dict[str, Any]) -> Result:
    figures = tuple(tuple(float(figure) for figure in samples) for samples in record["figures"])
    times = {str(node): tuple(float(one) for one in gpus) for node, gpus in record["times"].items()}
    return Result(figures, FAILURES[FAILURES.index(record["failure"])], str(record["where"]), times)
