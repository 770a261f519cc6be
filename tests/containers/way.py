# SPDX-License-Identifier: GPL-3.0-or-later
"""One upgrade from its beginning to its end, however often it stops on the way: a test puts a node in need, looks, fixes it, and goes on.

So one way costs one upgrade and has room for several faults, and what is true at its end is true in spite of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rollout import Done, Rollout, Started

REPAIR = "restart,reload,downgrade,reboot,repair"  # --consent: what the inventory consents to, and what dpkg left behind
CODES = {"failed": 1, "unreachable": 3}


class Way:
    """``old`` to ``release``. Its calls begin it first, and resume it from then on."""

    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout
        self.release, self.mark = rollout.begin()
        self.old = {"A": "B", "B": "A"}[self.release]
        self._begun = False

    def say(self, hosts: Mapping[str, dict[str, Any]] | None = None, **values: Any) -> None:
        """The inventory from now on, beside the old release, which it names to the end."""
        self._rollout.say(self.old, hosts, **values)

    def _options(self) -> tuple[str, ...]:
        options = ("--resume",) if self._begun else ("--to", self._rollout.release(self.release))
        self._begun = True
        return (*options, "--format", "json")

    @contextmanager
    def going(self, *options: str) -> Iterator[Started]:
        with self._rollout.started("upgrade", *self._options(), *options) as call:
            yield call

    def go(self, *options: str) -> Done:
        return self._rollout.call("upgrade", *self._options(), *options)

    def refused(self) -> Done:
        """A call after which nothing has begun."""
        return self._rollout.call("upgrade", "--to", self._rollout.release(self.release), "--format", "json")

    def to_its_end(self, *options: str) -> Done:
        done = self.go(*options)
        assert (done.code, set(done.states.values())) == (0, {"done"}), done
        return done


def stopped_at(rollout: Rollout, done: Done, node: str, step: str, status: str) -> dict[str, Any]:
    """This one is in need, is said to be, with what leads on from there, and stays drained by us; who was in a batch up to then is done,
    and nobody after it began. What the report has of it."""
    assert done.code == CODES[status], done
    document = done.document
    found: dict[str, dict[str, Any]] = document["nodes"]
    assert (found[node]["state"], found[node]["step"], found[node]["status"]) == ("failed", step, status), done
    assert found[node]["message"]
    assert any("--resume" in line for line in found[node]["help"])
    assert any(f"--limit {node}" in line for line in found[node]["help"])
    assert node in document["stopped"]
    assert not document["finished"]
    begun = {name for batch in document["batches"] for name in batch}
    others = {name: row["state"] for name, row in found.items() if name != node}
    assert others == {name: "done" if name in begun else "waiting" for name in others}, done
    assert rollout.witness.away_now() == [node]
    assert rollout.witness.reason(node).startswith("railwright upgrade ")
    assert [name for name in rollout.nodes if not rollout.witness.leased(name)] == [], "whoever asks next is told who works here"
    return found[node]
