# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that is upgraded while people work on it: four nodes, and ``railwright upgrade`` as an operator calls it.

What became of it, witness.py says.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import standins
from agreed import agreed
from cluster import Cluster
from playbook import BIN, ROOT, SETTINGS, Playbook
from powercut import kill
from witness import MOST, Mark, Witness

UPGRADE_SECONDS = 1800  # on a busy machine
WAIT_SECONDS = 600
VERSIONS = {"A": "3.2.2", "B": "3.2.3"}
JOB = """#!/bin/bash
trap 'echo killed; exit 143' TERM INT HUP
until [ -e %s ]; do sleep 1; done
echo end
"""
JOBS = "/var/lib/jobs"


class Done(NamedTuple):
    """One call of the command line, and how it ended; a negative code is the signal that ended it."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.out))

    @property
    def states(self) -> dict[str, str]:
        return {name: node["state"] for name, node in self.document["nodes"].items()}

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.out[-6000:]}\n{self.err[-6000:]}"


class Started:
    """A call that goes on meanwhile."""

    def __init__(self, process: subprocess.Popen[str], out: Path, err: Path) -> None:
        self.process, self._out, self._err = process, out, err

    def done(self, seconds: float = UPGRADE_SECONDS) -> Done:
        code = self.process.wait(timeout=seconds)
        return Done(code, self._out.read_text(encoding="utf-8"), self._err.read_text(encoding="utf-8"))

    def said(self) -> str:
        return self._err.read_text(encoding="utf-8")


class Rollout:
    """The operator's files and command line, the people at work, and the witness of it all."""

    def __init__(self, scenario: str, state: Path) -> None:
        self.cluster = Cluster(scenario)
        self.playbook = Playbook(scenario)
        self.state = state
        self.nodes = [node.name for node in self.cluster.nodes if node.managed]
        self.controller = self.cluster.container("controller")
        self.witness = Witness(self.controller, {name: self.cluster.container(name) for name in self.nodes})
        self.fingerprint = json.loads(self.controller.out("cat", f"{standins.NODE_PATH}/keys.json"))["right"]

    # What the operator writes and calls.

    def pins(self, release: str) -> dict[str, str]:
        base = f"http://{self.controller.address()}:8000"
        return {
            "rdma_stack": "doca", "rdma_stack_version": VERSIONS[release],
            "rdma_stack_repository_url": f"{base}/doca-{VERSIONS[release]}",
            "rdma_stack_repository_key_url": f"{base}/right.asc", "rdma_stack_repository_fingerprint": self.fingerprint,
        }

    def say(self, release: str, hosts: Mapping[str, dict[str, Any]] | None = None, **values: Any) -> None:
        """The inventory from now on."""
        self.playbook.say({**self.pins(release), **values}, hosts or {})

    def release(self, release: str) -> str:
        """The release file."""
        path = self.state / f"release-{release}.yml"
        path.write_text(json.dumps({"name": f"release-{release}", "pins": self.pins(release)}, indent=1), encoding="utf-8")
        return str(path)

    def provision(self) -> None:
        """Release A everywhere, and people at work."""
        self.state.mkdir(exist_ok=True)
        self.say("A")
        done = self.call("apply")
        assert done.code == 0, done
        self.people(at_work=True)

    def begin(self, hosts: Mapping[str, dict[str, Any]] | None = None, **values: Any) -> tuple[str, Mark]:
        """The release that the nodes do not have, and how things stand; ``values``: what the inventory says beside the release."""
        found = set(self.witness.installed().values())
        assert len(found) == 1, found
        old = found.pop()
        self.people(at_work=True)
        self.say(old, hosts, **values)
        return {"A": "B", "B": "A"}[old], self.witness.mark()

    def argv(self, verb: str, *options: str) -> tuple[str, ...]:
        return (str(BIN / "railwright"), verb, "-i", str(self.cluster.inventory), *agreed((verb, *options)), *options)

    def environment(self, state: Path | None = None) -> dict[str, str]:
        """``state``: of another machine, which knows nothing of what this one began."""
        collections = SETTINGS["ANSIBLE_COLLECTIONS_PATH"]
        return dict(os.environ, ANSIBLE_COLLECTIONS_PATH=collections, XDG_STATE_HOME=str(state or self.state))

    def call(self, verb: str, *options: str, state: Path | None = None) -> Done:
        done = subprocess.run(self.argv(verb, *options), check=False, capture_output=True, text=True, cwd=ROOT,
                              env=self.environment(state), timeout=UPGRADE_SECONDS)
        return Done(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def started(self, verb: str, *options: str) -> Iterator[Started]:
        """Whatever is left of it at the end is killed, as by a power cut."""
        place = self.state / f"call-{time.monotonic_ns()}"
        out, err = place.with_suffix(".out"), place.with_suffix(".err")
        with out.open("w", encoding="utf-8") as first, err.open("w", encoding="utf-8") as second:
            process = subprocess.Popen(self.argv(verb, *options), stdout=first, stderr=second, text=True, cwd=ROOT,
                                       env=self.environment(), start_new_session=True)
            try:
                yield Started(process, out, err)
            finally:
                kill(process, str(self.cluster.directory))

    def journal(self) -> list[dict[str, Any]]:
        """What the newest upgrade has written down."""
        runs = sorted(self.state.glob("railwright/upgrades/*/journal.jsonl"))
        return [json.loads(line) for line in runs[-1].read_text(encoding="utf-8").splitlines()]

    def order(self) -> list[list[str]]:
        """The batches of the journal, in their order. A drain that was cut off before it began comes again: the last one counts."""
        last = {row["node"]: row["batch"] for row in self.journal() if row["kind"] == "begin" and row["step"] == "drain"}
        return [[node for node in last if last[node] == number] for number in sorted(set(last.values()))]

    # The people who work there.

    def people(self, *, at_work: bool) -> None:
        self.controller.run("systemctl", "start" if at_work else "stop", "crowd.service")

    @contextmanager
    def job(self, node: str) -> Iterator[str]:
        """One that runs on this node until the block has ended, and then comes to its own end; its number."""
        end = f"{JOBS}/end-{time.monotonic_ns()}"
        options = ("--parsable", "--partition=rdma", f"--nodelist={node}", "--job-name=long", "--no-requeue", f"--chdir={JOBS}",
                   "--output=%j.log")
        done = self.controller.run("runuser", "-u", "bench", "--", "sbatch", *options, stdin=JOB % end)
        number = done.stdout.strip()
        try:
            self.until(lambda: self.witness.job(number) == "RUNNING", f"job {number} on {node}")
            yield number
        finally:
            self.cluster.container(node).write(end, "")

    def until(self, holds: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {seconds:.0f} s; Slurm says {self.witness.states()}")
            time.sleep(0.5)

    def quiet(self) -> None:
        """Nobody submits any more, and what ran has ended by itself."""
        self.people(at_work=False)
        self.until(lambda: not self.witness.queue(), "the queue is empty")

    def complaints(self, mark: Mark, release: str, twice: tuple[str, ...] = ()) -> list[str]:
        """What is not as it must be after an upgrade that began at ``mark``; ``twice``: nodes that were rolled back in between."""
        self.quiet()
        self.until(lambda: not self.witness.away_now(), "every node takes work")
        seen = self.witness
        once = [name for name in self.nodes if name not in twice]
        found = [f"{name} has {has}" for name, has in seen.installed().items() if has != release]
        found += [f"{name} rebooted {many} times" for name, many in seen.reboots(mark).items() if many != 1 and name in once]
        found += [f"{name} was drained {many} times" for name, many in seen.drains(mark).items() if many != 1]
        found += [f"{name} had {packages} twice" for name, packages in seen.repeated(mark).items() if packages and name in once]
        found += [f"{name} keeps its lease" for name in self.nodes if seen.leased(name)]
        most = self.witness.most_away(mark)
        found += [f"{most} nodes were away at one moment"] if most > MOST else []
        return found + self.witness.not_whole(mark)
