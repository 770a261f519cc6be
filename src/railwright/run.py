# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one playbook of the collection; the only file that imports ansible_runner.
Import it where a run begins: ansible_runner takes half a second.

The operator's own Ansible configuration stays in force: what the runner would override
(host key checking, above all) is handed back, and what we add (time limits of ssh, forks)
is added only where the operator said nothing. Nothing of a run is left on disk: the
runner's working directory, which holds the environment, is private and removed.

A run is stopped politely first, completely in the end: ansible_runner kills the process group of ansible-playbook with SIGKILL, but
Ansible's workers have sessions of their own, so they would outlive it and go on with their task. Here ansible-playbook is interrupted
as on a terminal and gets a moment to end its workers; what is left of our own descendants is ended after that.
"""

import os
import re
import shlex
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ansible_runner.interface import init_runner

from ansible_collections.railwright.rdma.plugins.plugin_utils.draining import ASKED
from railwright.ansible_env import NAMESPACE, ansible_environment
from railwright.events import Collector, Echo, HostOutcome, Listener, RunOutcome, Update
from railwright.exitcodes import CommandError, InputError, RunError
from railwright.given import given
from railwright.inventories import Given, inventories

if TYPE_CHECKING:
    from railwright.regions import Regions

GRACE_SECONDS = 5.0


class Stop:
    """Asked by the runner at every poll; True tells it to kill what is left."""

    def __init__(self) -> None:
        self.asked = False
        self._since: float | None = None
        self._seen: dict[int, str] = {}  # process -> its start time: a pid alone may be another's by then

    def ask(self, number: int, frame: FrameType | None) -> None:
        """The handler of SIGINT, SIGTERM and SIGHUP."""
        del number, frame
        self.asked = True

    def now(self) -> bool:
        """Whether the time for a polite end is over. The first call after `ask` interrupts ansible-playbook."""
        if not self.asked:
            return False
        self._seen.update(descendants(os.getpid()))
        if self._since is None:
            self._since = time.monotonic()
            for pid in children(os.getpid()):
                _signal(pid, signal.SIGINT)
        return time.monotonic() - self._since > GRACE_SECONDS

    def sweep(self) -> None:
        """End every process of the run that is still there, wherever it was reparented to."""
        if not self.asked:
            return
        self._seen.update(descendants(os.getpid()))
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 1
            while (left := [pid for pid, started in self._seen.items() if _started(pid) == started]) and time.monotonic() < deadline:
                for pid in left:
                    _signal(pid, number)
                time.sleep(0.1)


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Turn the signals into a question while the block runs, so that the runner's files are cleaned up."""
    stop = Stop()
    before = {number: signal.signal(number, stop.ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    finally:
        stop.sweep()
        for number, handler in before.items():
            signal.signal(number, handler)


def children(pid: int) -> list[int]:
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat") if _fields(path)[1:2] == [str(pid)]]


def descendants(pid: int) -> dict[int, str]:
    """All processes below a process, each with its start time."""
    found: dict[int, str] = {}
    pending = children(pid)
    while pending:
        current = pending.pop()
        started = _started(current)
        if started is not None:
            found[current] = started
            pending.extend(children(current))
    return found


def _fields(path: Path) -> list[str]:
    """What follows the command name in a stat file: state, parent, …; [] when the process is gone."""
    with suppress(OSError):
        return path.read_bytes().decode("utf-8", "replace").rpartition(") ")[2].split()
    return []


def _started(pid: int) -> str | None:
    """Start time in clock ticks since boot; None when the process is gone or only waits to be reaped."""
    fields = _fields(Path(f"/proc/{pid}/stat"))
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else None


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


# The runner inspects its child this often; a Ctrl-C waits at most so long.
POLL_SECONDS = 0.5
JOINT = ("nccl_tests", "ddp_benchmark")  # playbooks whose nodes work together
# What only the scheduler is asked for; and what begins with a question to it: which one.
ALONE = ("scheduler_state", "isolate_drain", "agent_open", "upgrade_step/scheduler", "upgrade_step/drain", "upgrade_step/drained",
         "upgrade_step/undrain")  # fmt: skip
BEFORE = {"upgrade_preflight": "scheduler", "upgrade_step/hold": "drained", "upgrade_step/change": "drained",
          "upgrade_step/validate": "drained", "upgrade_step/gate": "drained"}  # fmt: skip
STEP = "rdma_upgrade_step"
HERE = "controller"  # what progress calls the nodes of no region
# Phrases of ansible-core for "nothing to run on"; they come as plain output, not as events.
NO_HOSTS = ("leaves us with no hosts to target", "no hosts matched", "Could not match supplied host pattern")


def part_of(playbook: str, variables: Mapping[str, Any]) -> str:
    """The playbook, and of an upgrade its step."""
    name = playbook.rpartition(".")[2]
    return f"{name}/{variables.get(STEP)}" if name == "upgrade_step" else name


def run_playbook(
    playbook: str, inventory: Given, limit: str | None = None, extra_vars: Mapping[str, Any] | None = None,
    listener: Listener | None = None, echo: Echo | None = None, nodes: Sequence[str] | None = None, regions: "Regions | None" = None,
) -> RunOutcome:  # fmt: skip
    """Run ``railwright.rdma.<playbook>``, on these nodes alone if they are given; on those of a region (``nodes`` names them) by its
    worker. Raises InputError or RunError when no host was reached at all, KeyboardInterrupt when the operator stopped it."""
    variables = dict(extra_vars or {})
    part = part_of(playbook, variables)
    chosen = regions.of(nodes, part) if regions is not None and nodes is not None else []
    asked = [name for region in chosen if part in BEFORE and regions and regions.asked_here(region) for name in region.nodes]
    if asked:
        said = run_playbook("upgrade_step", inventory, None, variables | {STEP: BEFORE[part]}, None, echo, asked, regions).hosts
        variables[ASKED] = {name: said[name].drain if name in said else None for name in asked}  # there, None fails the node
    if regions is None or not chosen:
        with stoppable() as stop:
            return _run_here(playbook, inventory, limit, variables, Collector(listener, echo), nodes, stop)
    away = {name for region in chosen for name in region.nodes}
    here = [name for name in nodes or () if name not in away]
    lock, passwords = threading.Lock(), {pattern.pattern: text for pattern, text in answers().items()}
    found = RunOutcome(finished=True)
    with stoppable() as stop:
        def collector(place: str) -> Collector:
            return Collector(in_turn(listener, lock, place), echo)

        with regions.running(chosen, f"{NAMESPACE}.{playbook}", variables, passwords, collector, stop) as jobs:
            if here:
                try:
                    found = _run_here(playbook, inventory, limit, variables, collector(HERE), here, stop)
                except CommandError as error:  # the regions go on
                    found = RunOutcome({name: HostOutcome(name, "failed", message=str(error)) for name in here}, finished=True)
        if stop.asked:
            raise KeyboardInterrupt
    for job in jobs:
        found.add(job.outcome(alone=len(jobs) == 1 and not here, joint=playbook in JOINT))
    if listener is not None:
        listener(Update("end"))
    return found


def in_turn(listener: Listener | None, lock: threading.Lock, place: str) -> Listener | None:
    """Each region tells its progress from a thread of its own, under its name, and none of them the end of all."""
    if listener is None:
        return None

    def tell(update: Update) -> None:
        with lock:
            if update.kind != "end":
                listener(update._replace(task=f"{place}: {update.task}") if update.kind == "task" else update)

    return tell


def _run_here(
    playbook: str, inventory: Given, limit: str | None, variables: dict[str, Any], collector: Collector, nodes: Sequence[str] | None,
    stop: Stop,
) -> RunOutcome:  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="railwright-") as private:
        if nodes is not None:
            (Path(private) / "nodes").write_text("\n".join(nodes) + "\n", encoding="utf-8")
            limit = f"@{private}/nodes"
        status = _run(Path(private), f"{NAMESPACE}.{playbook}", inventory, limit, variables, collector, stop)
    outcome = collector.finish()
    outcome.canceled = status == "canceled" or stop.asked
    if outcome.canceled:
        raise KeyboardInterrupt
    _judge(outcome, playbook, inventory, limit)
    for host in outcome.hosts.values():
        # ansible-playbook died (the kernel took it for its memory, somebody killed it): what no task failed on has not passed for that.
        if not outcome.finished and host.seen and host.status == "ok":
            host.status, host.message = "failed", f"ansible-playbook ended in the middle of the run: {explain(outcome.output)}"
    return outcome


def _run(
    private: Path, playbook: str, inventory: Given, limit: str | None, extra_vars: dict[str, Any], collector: Collector, stop: Stop,
) -> str:  # fmt: skip
    private.chmod(0o700)
    environment = ansible_environment(os.environ, Path.cwd())
    _expect_utf8(inventory, {**os.environ, **environment})
    runner = init_runner(
        private_data_dir=str(private),
        project_dir=str(Path.cwd()),  # relative paths in the inventory mean what they mean to ansible-playbook
        playbook=playbook,
        inventory=[str(path.absolute()) for path in inventories(inventory)],
        limit=limit,
        cmdline=shlex.join(given.arguments()) or None,
        extravars=extra_vars,  # after those of the command line, so these win
        envvars=environment,
        settings={"suppress_output_file": True, "pexpect_timeout": POLL_SECONDS},
        fact_cache_type="",  # the operator's own cache, if any
        quiet=True,
        event_handler=collector.handle,
        cancel_callback=stop.now,
    )
    if "ANSIBLE_HOST_KEY_CHECKING" not in os.environ:
        # The runner switches host key checking off unless told otherwise; Ansible's default, and the operator's file, decide.
        runner.config.env.pop("ANSIBLE_HOST_KEY_CHECKING", None)
    # Given as an argument they would be written into a file.
    runner.config.expect_passwords = {**answers(), **runner.config.expect_passwords}
    runner.run()
    return str(runner.status)


def _expect_utf8(inventory: Given, environment: Mapping[str, str]) -> None:
    """ansible-runner encodes and stores in strict UTF-8 what it starts. Raises InputError without a value, which may be a secret."""
    texts = {str(path): str(path) for path in inventories(inventory)} | {"the working directory": str(Path.cwd())}
    texts |= {f"variable {name} of the environment": name + value for name, value in environment.items()}
    for what, text in (texts | {"an option's value": " ".join(given.arguments())}).items():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{what} is not UTF-8, and ansible-runner takes nothing else; rename or unset it") from error


def answers() -> dict[re.Pattern[str], str]:
    """To ansible-playbook's two questions, which come before all else; as patterns of whole lines, which no node can print."""
    found = {r"^SSH password: $": given.password, r"^BECOME password(\[defaults to SSH password\])?: $": given.become_password}
    return {re.compile(pattern, re.MULTILINE): text for pattern, text in found.items() if text is not None}


def _judge(outcome: RunOutcome, playbook: str, inventory: Given, limit: str | None) -> None:
    """A run without any per-host result is about the input or the playbook, never about a node."""
    if any(host.seen for host in outcome.hosts.values()):
        return
    text = " ".join(outcome.output)
    if outcome.no_hosts or any(phrase in text for phrase in NO_HOSTS):
        wanted = f"--limit {limit} matches" if limit else "the group rdma holds"
        raise InputError(f"{wanted} no host of {inventories(inventory)}")
    raise RunError(f"playbook {NAMESPACE}.{playbook} could not be run: {explain(outcome.output)}")


COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def explain(coloured: list[str]) -> str:
    """Ansible's own error out of its output, on one line."""
    output = [COLOUR.sub("", line) for line in coloured]
    for index, line in enumerate(output):
        head, mark, rest = line.partition("ERROR")
        if mark and not head.strip(" ["):
            first = rest.lstrip("!]: ").strip()
            following = " ".join(part.strip() for part in output[index + 1 : index + 3])
            return (first + " " + following).strip() if len(first) < 30 else first
    return " ".join(line.strip() for line in output[-3:]) or "Ansible ended without a word; run again with --debug"
