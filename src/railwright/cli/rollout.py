# SPDX-License-Identifier: GPL-3.0-or-later
"""One verb's change in batches: the words for them, and a run of the engine of upgrade with this one step.

Its journal is on this controller before a batch begins, with the plan beside it: a run that stopped, or was killed, goes on with --resume.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from railwright import __version__
from railwright.cli import console
from railwright.cli.options import option
from railwright.cli.session import Session
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import InputError
from railwright.inventories import Given
from railwright.runs import site_path

if TYPE_CHECKING:
    from railwright.upgrade.journal import Journal, State
    from railwright.upgrade.order import Rules

BATCH = re.compile(r"[1-9][0-9]{0,5}|(100|[1-9][0-9]?)%", re.ASCII)
FAILURES_HELP = "How many nodes may fail before no further batch begins."
UNAVAILABLE_HELP = "How many nodes may be away at a time, those counted that do not answer: a number, or a share."
Batch = Annotated[str | None, option("--batch", metavar="N[%]", help="How many nodes at a time: a number, or a share of the nodes.")]
Canary = Annotated[int | None, option("--canary", metavar="N", min=0, max=100_000, help="First this many nodes as a batch of their own.")]
MaxFailures = Annotated[int | None, option("--max-failures", metavar="N", min=0, max=100_000, help=FAILURES_HELP)]
MaxUnavailable = Annotated[str | None, option("--max-unavailable", metavar="N[%]", help=UNAVAILABLE_HELP)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the last run in batches on this inventory.")]


class Asked(NamedTuple):
    """What the command line says of batches; None: nothing."""

    batch: str | None = None
    canary: int | None = None
    failures: int | None = None
    unavailable: str | None = None

    def given(self) -> bool:
        return any(part is not None for part in self)


NONE_ASKED = Asked()


def asked(batch: str | None, canary: int | None, failures: int | None, unavailable: str | None) -> Asked:
    """Raises InputError for what is no number of nodes."""
    for name, text in (("--batch", batch), ("--max-unavailable", unavailable)):
        if text is not None and not BATCH.fullmatch(text):
            raise InputError(f"{name} {text}: allowed: a number from 1 on, or 1% to 100%")
    return Asked(batch, canary, failures, unavailable)


def rules_of(said: Asked, nodes: Sequence[str]) -> Rules:
    """``nodes`` in their order: the first are the canaries."""
    from railwright.upgrade.order import Rules, share_of

    many = max(1, len(nodes))
    return Rules(
        share_of(said.unavailable or "100%", many), tuple(nodes[: said.canary or 0]), {}, batch=share_of(said.batch or "100%", many),
        failures=said.failures or 0, limit="--max-unavailable",
    )  # fmt: skip


def overruled(rules: Rules, said: Asked, nodes: Sequence[str]) -> Rules:
    """What the inventory says, where the command line says nothing else."""
    given = rules_of(said, nodes)
    if said.canary is not None:
        rules = rules._replace(canary=given.canary)
    if said.unavailable is not None:
        rules = rules._replace(most=given.most, limit=given.limit)
    return rules._replace(batch=given.batch if said.batch is not None else 0, failures=given.failures)


Work = Callable[[Sequence[str], Sequence[str]], RunOutcome]  # these nodes, of which those were under way when a run before was cut off


class Rollout:
    """A run of ``verb`` on nodes, a batch at a time. ``work`` changes some nodes; what became of all is in ``outcome``."""

    def __init__(self, verb: str, inventory: Given, work: Work) -> None:
        self.verb, self._inventory, self._work = verb, inventory, work
        self.outcome = RunOutcome()
        self._begun: list[str] = []

    def begin(
        self, run: str, head: Mapping[str, Any], nodes: Sequence[str], said: Asked, away: Mapping[str, str], keep: Callable[[Path], None]
    ) -> State:  # fmt: skip
        """``away``: nodes that do not answer, and why. ``keep`` writes the plan beside the journal before anything else happens."""
        from railwright.upgrade.journal import create, locked

        with locked(self._inventory, run):
            whole = {"verb": self.verb, "inventory": site_path(self._inventory), "nodes": list(nodes), "steps": ["change"],
                     "asked": list(said), "railwright": __version__, **head}  # fmt: skip
            journal = create(run, whole)
            with closing(journal):
                keep(journal.path.parent)
                rules = rules_of(said, nodes)
                journal.add({"kind": "away", "nodes": dict(away)}, {"kind": "ready", "canary": list(rules.canary)})
                return self._go(journal, rules, resumed=False)

    def resume(self, path: Path) -> State:
        """Nodes that are done are not touched again."""
        from railwright.upgrade.journal import locked, reopen

        with locked(self._inventory, path.parent.name):
            journal = reopen(path)
            with closing(journal):
                self._begun = [node.name for node in journal.state.nodes.values() if node.under_way]
                return self._go(journal, rules_of(Asked(*journal.state.head["asked"]), list(journal.state.nodes)), resumed=True)

    def _go(self, journal: Journal, rules: Rules, *, resumed: bool) -> State:
        from railwright.upgrade.engine import Engine

        engine = Engine(self, journal, rules, "none", lambda text: console.note(f"{self.verb}: {text}"), scheduled=False)
        engine.roll_out(resumed=resumed)
        return journal.state

    def execute(self, step: str, nodes: Sequence[str], variables: Mapping[str, Any]) -> RunOutcome:
        """The engine's one step."""
        del step, variables
        found = self._work(nodes, [name for name in nodes if name in self._begun])
        self.outcome.add(found)
        return found


def in_batches(session: Session, said: Asked, ask: Callable[[Session], RunOutcome]) -> RunOutcome:
    """What only asks or measures, a batch after the other; too many nodes without an answer end it, and the others are not asked."""
    from railwright.upgrade.order import batches

    if not said.given():
        return ask(session)
    names = list(session.judge().inventory.hosts)
    rules = rules_of(said, names)
    found, bad = RunOutcome(), 0
    for batch in batches(names, rules.canary, rules, ()):
        found.add(ask(session.part(batch)))
        bad = sum(host.status != "ok" for host in found.hosts.values())
        if bad > rules.failures:
            break
    late = [name for name in names if name not in found.hosts]
    why = f"not asked: {console.count(bad, 'node')} before it gave no result"
    found.hosts |= {name: HostOutcome(name, "failed", message=why) for name in late}
    return found


def unfinished(verb: str, inventory: Given) -> tuple[Path, State]:
    """The journal to go on with. Raises InputError."""
    from railwright.upgrade.journal import newest, read_state

    path = newest(inventory, verb)
    state = read_state(path) if path is not None else None
    if path is None or state is None or state.finished:
        raise InputError(f"--resume: no {verb} in batches on this inventory was interrupted; allowed: a new one, without --resume")
    return path, state


def left_of(state: State) -> list[str]:
    return [node.name for node in state.nodes.values() if node.state != "done"]
