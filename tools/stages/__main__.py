# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs test stages: ``python tools/stages STAGE… [-- ARGUMENTS]``. Standard library only.

Every step of every stage runs, its output goes to the terminal and to ``build/tests/STAGE/``. At the end
stand a table, every skip with its reason, and one line ``N passed, N failed, N skipped``.
Exit status: 0 when all passed, 1 when a test failed or a stage ran none, 64 for bad usage.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

from results import Tally, add, judge
from shards import part
from table import BIN, BUILD, ROOT, Stage, Step, stages

TIMED_OUT = 124
PRINTING = threading.Lock()
RUNNING: set[subprocess.Popen[bytes]] = set()
STOPPED = threading.Event()  # somebody interrupts: no step begins any more
CLEANUP_S = 300
T = TypeVar("T")
R = TypeVar("R")


class Outcome(NamedTuple):
    """One stage, run."""

    name: str
    tally: Tally
    seconds: float


def say(line: str, more: bytes = b"") -> None:
    """In one piece: stages that run beside each other share the terminal."""
    with PRINTING:
        sys.stdout.buffer.write(line.encode() + b"\n" + more)
        sys.stdout.buffer.flush()


def run_step(step: Step, directory: Path, extra: list[str], *, alone: bool = True) -> Tally:
    """Run one command; its whole process group ends with it. Beside others its output comes in one piece, at its end."""
    if STOPPED.is_set():
        raise InterruptedError(step.name)
    start = time.monotonic()
    junit = directory / f"{step.name}.xml"
    values = [value for _key, value in step.env]
    counted = any("{junit}" in part for part in (*step.argv, *values))
    argv = [part.replace("{junit}", str(junit)) for part in step.argv if part != "{extra}"]
    argv += extra if "{extra}" in step.argv else []
    env = dict(os.environ, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1")
    env.update({key: value.replace("{junit}", str(junit)) for key, value in step.env})
    say(f"--- {step.name}: {' '.join(argv)}")
    path = directory / f"{step.name}.log"
    with path.open("wb") as log:
        process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        RUNNING.add(process)
        expired = threading.Event()
        timer = threading.Timer(step.timeout, _expire, (process, expired))
        timer.start()
        try:
            assert process.stdout is not None
            for line in iter(process.stdout.readline, b""):
                log.write(line)
                if alone:
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()
            status = process.wait()
        finally:
            timer.cancel()
            _end(process)
            RUNNING.discard(process)
            if process.stdout is not None:
                process.stdout.close()
    if not alone:
        say(f"--- {directory.name}, {step.name}: what it printed", path.read_bytes())
    if expired.is_set():
        say(f"--- {step.name}: ended after its limit of {step.timeout} s")
        if step.cleanup:
            subprocess.run(step.cleanup, cwd=ROOT, env=env, check=False, timeout=CLEANUP_S)
        status = TIMED_OUT
    say(f"--- {step.name}: {time.monotonic() - start:.0f} s")
    return judge(step.name, status, junit if counted else None)


def _expire(process: subprocess.Popen[bytes], expired: threading.Event) -> None:
    expired.set()
    _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what a step left running (a virtual machine, a server), so that the next stage starts clean."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def at_once(number: int, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The results in order; whoever interrupts ends every step that runs."""
    with ThreadPoolExecutor(number) as pool:
        try:
            return list(pool.map(call, items))
        except BaseException:
            STOPPED.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(RUNNING):
                _end(process)
            raise


def run_steps(stage: Stage, directory: Path, extra: list[str], *, alone: bool = True) -> Tally:
    """One after the other, or some together."""
    if stage.together == 1:
        return add(run_step(step, directory, extra, alone=alone) for step in stage.steps)
    return add(at_once(stage.together, lambda step: run_step(step, directory, extra, alone=False), stage.steps))


def shard(stage: Stage, extra: list[str]) -> tuple[Stage, list[str]]:
    """The part of a stage's steps that `--shard I/N` among the arguments asks for; the other arguments go on to the steps."""
    if not stage.sharded or "--shard" not in extra:
        return stage, extra
    at = extra.index("--shard")
    return stage._replace(steps=tuple(part(stage.steps, extra[at + 1]))), extra[:at] + extra[at + 2 :]


def run_stages(work: list[tuple[Stage, list[str]]]) -> list[Outcome]:
    """In order; neighbours that need one core each, two at a time."""
    outcomes: list[Outcome] = []
    for one_core, neighbours in groupby(work, key=lambda item: item[0].one_core):
        group = list(neighbours)
        if one_core and len(group) > 1:
            outcomes += at_once(2, lambda item: run_stage(*item, alone=False), group)
        else:
            outcomes += [run_stage(stage, extra) for stage, extra in group]
    return outcomes


def run_stage(stage: Stage, extra: list[str], *, alone: bool = True) -> Outcome:
    """Run the steps of a stage. A stage without one has failed: nothing is proved by an empty list."""
    directory = BUILD / "tests" / stage.name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    say(f"=== {stage.name}")
    start = time.monotonic()
    tally = run_steps(stage, directory, extra, alone=alone)
    if tally.total == 0:
        tally = Tally(failed=1, failures=(f"{stage.name}: this stage ran no test",))
    return Outcome(stage.name, tally, time.monotonic() - start)


def summarize(outcomes: list[Outcome]) -> Tally:
    """Print the table, what failed, what was skipped, and the one line that counts."""
    total = add(outcome.tally for outcome in outcomes)
    print(f"\n{'stage':<12}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for outcome in outcomes:
        tally = outcome.tally
        print(f"{outcome.name:<12}{tally.passed:>8}{tally.failed:>8}{tally.skipped:>9}{outcome.seconds:>9.1f}")
    for failure in total.failures:
        print(f"failed: {failure}")
    for name, reason in total.skips:
        print(f"skipped: {name}: {reason}")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped", flush=True)
    return total


def main(arguments: list[str]) -> int:
    """Entry point."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    names, extra = arguments[:at], arguments[at + 1 :]
    known = stages()
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        wrong = f"unknown stage {', '.join(unknown)}" if unknown else "no stage named"
        print(f"stages: {wrong}; known: {', '.join(known)}", file=sys.stderr)
        return 64
    try:
        work = [shard(known[name], extra) for name in names]
    except ValueError as error:
        print(f"stages: {error}", file=sys.stderr)
        return 64
    return 1 if summarize(run_stages(work)).failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
