# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller is killed, again and again, at moments that nobody chose; each time somebody resumes. RAILWRIGHT_SEED repeats the draw."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from rollout import UPGRADE_SECONDS, Done, Rollout

KILLS = 20
MOST_STEPS = 2  # that a call may begin before it is killed in the last one of these; 0: while it finds out where it was
LOOKS = 1.0  # and how long after that: at most so many times as long as an inspection of all nodes takes here
PLACES = 4  # the least kinds of moments that twenty draws must have met, or they have shown too little
NOWHERE = "nowhere"


class Moment(NamedTuple):
    """So many seconds after the call has begun so many steps. By the clock alone a busy machine would die in the first step each time."""

    steps: int
    seconds: float


@pytest.fixture(scope="module")
def moments(rollout: Rollout) -> Iterator[Moment]:
    seed = os.environ.get("RAILWRIGHT_SEED") or secrets.token_hex(4)
    release, _mark = rollout.begin()
    begin = time.monotonic()
    done = rollout.call("upgrade", "--to", rollout.release(release), "--dry-run")
    assert done.code == 0, done
    longest = LOOKS * (time.monotonic() - begin)
    print(f"RAILWRIGHT_SEED={seed}, up to {MOST_STEPS} steps and {longest:.0f} s", flush=True)

    def draw(number: int) -> Moment:
        digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
        return Moment(digest[0] % (MOST_STEPS + 1), int.from_bytes(digest[1:5], "big") / 2**32 * longest)

    return map(draw, itertools.count())


class Cut:
    """An upgrade whose controller does not live long, call by call. ``place``: what the nodes under way are at, by the journal."""

    def __init__(self, rollout: Rollout, release: str) -> None:
        self.rollout, self.release = rollout, release
        self.place = self.look()

    def look(self) -> str:
        done = self.rollout.call("upgrade", "--status", "--format", "json")
        if done.code != 0 or done.document["finished"]:
            return NOWHERE
        busy = Counter(state for state in done.states.values() if state not in ("waiting", "done"))
        return ", ".join(f"{many} {state}" for state, many in sorted(busy.items())) or "between batches"

    def begun(self) -> int:
        """How many steps the journals have; the nodes of a batch begin one together. The last line may not be whole yet."""
        found = 0
        for path in self.rollout.state.glob("railwright/upgrades/*/journal.jsonl"):
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
            kinds = [(row["kind"], row.get("step")) for row in rows]
            found += sum(row[0] == "begin" and row != before for before, row in itertools.pairwise(kinds))
        return found

    def options(self) -> tuple[str, ...]:
        """Resume what there is to resume: a call that was killed early has written nothing down yet."""
        return ("--to", self.rollout.release(self.release)) if self.place == NOWHERE else ("--resume",)

    def over(self) -> bool:
        """A call may be killed after its last line in the journal, too."""
        return self.place == NOWHERE and set(self.rollout.witness.installed().values()) == {self.release}

    def killed(self, moment: Moment) -> bool:
        """Start a call and kill it then; False when it was at its end before, which must be a good one."""
        known = self.begun()
        with self.rollout.started("upgrade", *self.options()) as call:
            self.rollout.until(lambda: call.process.poll() is not None or self.begun() - known >= moment.steps,
                               f"{moment.steps} steps are begun", UPGRADE_SECONDS)
            try:
                done: Done | None = call.done(moment.seconds)
            except subprocess.TimeoutExpired:
                done = None
        self.place = self.look()
        assert done is None or done.code == 0, done
        return done is None

    def finished(self) -> None:
        done = self.rollout.call("upgrade", *self.options(), "--format", "json")
        assert (done.code, set(done.states.values())) == (0, {"done"}), done


def test_killed_twenty_times_and_resumed(rollout: Rollout, moments: Iterator[Moment]) -> None:
    """Nothing is lost and nothing repeated: each way is one drain, one reboot, each package once on every node; no job is cut short."""
    places: list[str] = []
    for way in itertools.count(1):
        release, mark = rollout.begin()
        upgrade = Cut(rollout, release)
        while len(places) < KILLS and not upgrade.over() and upgrade.killed(moment := next(moments)):
            places.append(upgrade.place)
            print(f"way {way}: kill {len(places)}, {moment.steps} steps and {moment.seconds:.1f} s: {upgrade.place}", flush=True)
        if not upgrade.over():
            upgrade.finished()
        assert rollout.complaints(mark, release) == [], f"way {way}, after {len(places)} kills"
        assert [name for batch in rollout.order() for name in batch] == rollout.nodes
        if len(places) == KILLS:
            break
    assert len(set(places)) >= PLACES, Counter(places)
