# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of a test, launched over several nodes by the steps of rdma_bench: prepare, begin, poll, stop, with the same code.

How a command gets onto a node (podman, ssh) is the caller's: ``on(node, argv, stdin)`` returns what it printed and raises when it failed.
"""

from __future__ import annotations

import base64
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import launch
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.processes import MARKER
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.run_directory import HOSTS, directory_of
from command_lines import assert_kept, command_lines

ROOT = Path(__file__).resolve().parents[2]
PLACE = "/var/lib/railwright-test"  # not /tmp: everybody may write there
CORE, DRIVER = f"{PLACE}/core.zip", f"{PLACE}/driver.py"
STORE = "import base64, os, sys; os.makedirs({place!r}, 0o755, True); open({path!r}, 'wb').write(base64.b64decode(sys.stdin.read()))"
POLL_SECONDS = 300
POLL_WAIT = 0.5
SETTLE_SECONDS = 20
OTHERS = ("ps", "sshd", "sftp-server", "systemd", "(sd-pam)", "systemd-userwor", "systemd-journal", "systemd-timesyn", "sudo")

On = Callable[[str, Sequence[str], str], str]


class Plan(NamedTuple):
    """Who launches, and how. ``nodes``: inventory name -> the name that the launcher knows, in rank order; the first one launches."""

    kind: str
    path: str
    nodes: Mapping[str, str]
    user: str
    options: tuple[str, ...] = ()
    interface: str | None = None
    per_node: int = 1


class Outcome(NamedTuple):
    """A run that has ended: the launcher's exit status and all that it and the ranks said."""

    rc: int | None
    text: str
    seconds: float


def core() -> bytes:
    """module_utils as an archive that Python imports from."""
    stream = io.BytesIO()
    base = ROOT / "plugins"
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((base / "module_utils").rglob("*.py")):
            archive.write(path, path.relative_to(base))
    return stream.getvalue()


class Launching:
    """Runs one after the other; each is a run of its own, with a marker of its own."""

    def __init__(self, on: On, plan: Plan) -> None:
        self.on, self.plan = on, plan
        self.caller = next(iter(plan.nodes))
        self.run = ""
        for node in plan.nodes:
            self.bring(node, CORE, core())
            self.bring(node, DRIVER, (ROOT / "tests/lib/launch_driver.py").read_bytes())

    def bring(self, node: str, path: str, content: bytes) -> None:
        """A file that every user of the node can read."""
        store = STORE.format(place=path.rpartition("/")[0], path=path)
        self.on(node, ("python3", "-I", "-c", store), base64.b64encode(content).decode())

    def ask(self, node: str, step: str, **more: Any) -> Any:
        request = {"step": step, "run": self.run, "user": self.plan.user, **more}
        said = json.loads(self.on(node, ("python3", "-I", DRIVER, CORE), json.dumps(request)))
        if "error" in said:
            raise AssertionError(f"{node}: {step}: {said['error']}")
        return said["answer"]

    def begin(self, run: str, program: Sequence[str], environment: Mapping[str, str] | None = None, *, seconds: int = 120) -> None:
        """Start it on every node, as plan_jobs does: the marker goes with the ranks, and Slurm's job bears the run's name."""
        self.run = run
        options = (("--job-name", self.job) if self.plan.kind == "slurm" else ()) + self.plan.options
        marker = f"{MARKER}={run}"
        job = launch.Job(
            tuple(self.plan.nodes.values()), self.plan.per_node, self.plan.interface, {**(environment or {}), MARKER: run}, self.plan.path,
            options, marker if self.plan.kind.startswith("openmpi") else None,
        )  # fmt: skip
        hosts = launch.hostfile(job, self.plan.kind)
        for node in self.plan.nodes:
            self.ask(node, "prepare", hosts=hosts)
        made = launch.command(self.plan.kind, job, program, f"{directory_of(run)}/{HOSTS}")
        self.ask(self.caller, "begin", name="probe", argv=made.argv, environment=made.environment, seconds=seconds)

    @property
    def job(self) -> str:
        return f"railwright-{self.run}"

    def poll(self) -> dict[str, Any]:
        return dict(self.ask(self.caller, "poll", name="probe", wait=POLL_WAIT))

    def says(self, words: str, times: int) -> str:
        """Wait until the ranks have said so, each of them."""
        deadline = time.monotonic() + POLL_SECONDS
        while True:
            found = self.poll()
            if found["text"].count(words) >= times:
                return str(found["text"])
            assert not found["ended"], found
            assert time.monotonic() < deadline, found

    def wait(self) -> Outcome:
        begun = time.monotonic()
        while True:
            found = self.poll()
            if found["ended"]:
                return Outcome(found["status"], found["text"], time.monotonic() - begun)
            assert time.monotonic() - begun < POLL_SECONDS, found

    def stop(self) -> dict[str, int]:
        """On every node; how many processes there were."""
        cancel = self.job if self.plan.kind == "slurm" else None

        def one(node: str) -> Any:
            return self.ask(node, "stop", cancel=cancel if node == self.caller else None)

        with ThreadPoolExecutor() as pool:  # side by side, as Ansible does
            answers = dict(zip(self.plan.nodes, pool.map(one, self.plan.nodes), strict=True))
        assert [note for answer in answers.values() for note in answer["notes"]] == []
        return {node: answer["ended"] for node, answer in answers.items()}

    def marked(self) -> dict[str, list[str]]:
        """Command lines of what carries the run's marker, node by node."""
        return {node: self.ask(node, "marked") for node in self.plan.nodes}

    def assert_kept(self, runs: str) -> None:
        """Nobody reads what was planted in a command line of any node, though each has one with ``runs`` in it."""
        for node in self.plan.nodes:
            assert_kept(command_lines(self.on, node), runs)

    def remove(self) -> None:
        for node in self.plan.nodes:
            assert self.ask(node, "remove") == []


@contextmanager
def strays(on: On, nodes: Sequence[str]) -> Iterator[dict[str, list[str]]]:
    """What runs on the nodes at the end and did not at the beginning: command lines, node by node, filled in when the block ends.

    What ends by itself within a moment is none: connections of Ansible, Slurm's own bookkeeping.
    """
    left: dict[str, list[str]] = {node: [] for node in nodes}
    before = {node: processes(on, node) for node in nodes}
    yield left
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        for node in nodes:
            left[node] = [words for key, words in processes(on, node).items() if key not in before[node]]
        if not any(left.values()) or time.monotonic() > deadline:
            return
        time.sleep(1)


def processes(on: On, node: str) -> dict[tuple[str, str], str]:
    """(pid, start time) -> command line, without the kernel's threads, systemd's own, sshd and this question itself."""
    found = {}
    for line in on(node, ("ps", "-e", "-ww", "-o", "pid=,lstart=,comm=,args="), "").splitlines():
        pid, *start, name, words = line.split(None, 7)
        if name not in OTHERS and not words.startswith("["):
            found[pid, " ".join(start)] = words
    return found
