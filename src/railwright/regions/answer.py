# SPDX-License-Identifier: GPL-3.0-or-later
"""A region's job while it runs: its stream to the worker, and what comes back, which is believed of the region's own nodes alone."""

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ansible_runner.streaming import Processor

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in, read_json
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import forms
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import DATA, Map, Misfit, fitted
from railwright.events import Collector, HostOutcome, RunOutcome, is_ours
from railwright.region_worker import BEATS, GRACE, ODD, READY
from railwright.report.text import printable
from railwright.run import Stop

COUNTS = ("processed", "dark", "failures", "rescued")  # of a run's statistics: by host
ERRORS_KEPT = 2000  # bytes of what ssh and the worker say on standard error
# What of an answer a report is made of has the form that it has of a node: here the gate of the plays stood on the worker.
ANSWERS: dict[str, Any] = {
    "plan": [forms.CHANGE], "remaining": [forms.CHANGE], "refused": [forms.CHANGE], "problems": [forms.PROBLEM],
    "verdicts": [forms.VERDICT], "notes": [str],
    "drivers": Map(str), "reboot_needed": [str], "reverted": [str], "rdma": forms.FACTS, "explanation": Map(DATA), "container": Map(DATA),
    "ranks": forms.SEEN_RANKS, "health": forms.HEALTH, "bundle": forms.BUNDLE, "agent": forms.AGENT, "erdma": forms.PLAN["erdma"],
}  # fmt: skip
CHUNK = 1 << 16  # bytes of a job that are sent at a time
ANSWER_LINE, ANSWER, LINE_SECONDS = 96 << 20, 16 << 30, 300.0  # bytes of a line (MAX_EVENT_RES is 64 MiB) and of all; a line's time
CONNECT_SECONDS = 30.0  # on top of the patience: login, and Python's start


class Region(NamedTuple):
    name: str
    worker: str  # a host of the inventory
    python: str
    patience: float  # seconds
    nodes: tuple[str, ...]


class Lines:
    """A worker's answer as ansible-runner's Processor reads it: a line at a time, bounded in length, in time and altogether. ``why``: what
    ended it before its time; it is the worker's word, and printable."""

    def __init__(self, process: subprocess.Popen[bytes], patience: float, stop: Stop) -> None:
        self._out, self._errors = (stream.fileno() for stream in (process.stdout, process.stderr) if stream is not None)
        self._streams, self._over = {self._out: bytearray(), self._errors: bytearray()}, set[int]()
        self._patience, self._stop = patience, stop
        self._heard = time.monotonic() + CONNECT_SECONDS
        self._searched = self._read_in_all = 0
        self.why = ""

    def alive(self) -> None:
        """Whoever takes the job is not silent."""
        self._heard = max(self._heard, time.monotonic())

    def readline(self) -> bytes:
        """b'' at the end."""
        buffer, begun = self._streams[self._out], time.monotonic()
        while (end := buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(buffer)
            now = time.monotonic()
            begun = begun if buffer else now
            if self._stop.asked:
                return self._end("was interrupted")
            if len(buffer) > ANSWER_LINE or self._read_in_all > ANSWER:
                return self._end(f"sent more than {(ANSWER if self._read_in_all > ANSWER else ANSWER_LINE) >> 20} MiB")
            if now - self._heard > self._patience or now - begun > LINE_SECONDS:
                return self._end(f"is silent for {self._patience:.0f} s")
            self._read(0.2)
            if self._out in self._over:
                self._read_errors(time.monotonic() + 1.0)
                return self._end("went away" + self._said())
        line = bytes(buffer[: end + 1])
        del buffer[: end + 1]
        self._searched = 0
        return line

    def _read(self, seconds: float) -> None:
        for number in select.select(self._streams.keys() - self._over, [], [], seconds)[0]:
            data = os.read(number, 1 << 20)
            self._streams[number] += data
            self._read_in_all += len(data)
            if not data:
                self._over.add(number)
            elif number == self._out:
                self._heard = time.monotonic()
            else:
                del self._streams[number][:-ERRORS_KEPT]

    def _read_errors(self, deadline: float) -> None:
        """What ssh says as it goes may come after the end of its output."""
        while self._errors not in self._over and time.monotonic() < deadline:
            self._read(0.1)

    def _end(self, why: str) -> bytes:
        self.why = self.why or why
        return b""

    def _said(self) -> str:
        lines = lines_in(self._streams[self._errors].decode("utf-8", "replace").strip())
        return f": {printable(lines[-1])[:300]}" if lines else ""


class Events(Processor):
    """Hands on what is about the region's nodes, in the forms that a node's own answers have, and keeps nothing on disk."""

    def __init__(self, lines: Lines, nodes: frozenset[str], take: Callable[[Mapping[str, Any]], bool], private: str) -> None:
        super().__init__(_input=lines, private_data_dir=private, quiet=True, settings={})
        self._nodes, self._take = nodes, take
        self.trouble = ""  # why the stream has no end that counts

    def status_callback(self, status_data: Mapping[str, Any]) -> None:
        self.status = str(status_data.get("status"))
        if self.status == "error":
            self.trouble = f"says: {printable(str(status_data.get('job_explanation')))[:300]}"

    def artifacts_callback(self, artifacts_data: Mapping[str, Any]) -> None:
        del artifacts_data
        raise ValueError("it sends files, which nobody asked for")

    def event_callback(self, event_data: Mapping[str, Any]) -> None:
        data = event_data.get("event_data")
        if not isinstance(data, dict):
            data = {}
        if data.get("host") is not None and data["host"] not in self._nodes:
            return
        kind = event_data.get("event")
        stats = {key: {name: count for name, count in data[key].items() if name in self._nodes}
                 for key in COUNTS if isinstance(data.get(key), dict)}  # fmt: skip
        data = {**data, **stats}
        if isinstance(data.get("res"), dict) and is_ours(data):
            try:
                data["res"] = data["res"] | {key: fitted(ANSWERS[key], data["res"][key]) for key in ANSWERS if key in data["res"]}
            except Misfit as misfit:
                kind, data["res"] = "runner_on_failed", {"msg": f"what its worker says of it cannot be: {misfit}"}
        self._take({**event_data, "event": kind, "event_data": data})


class Running:
    """One region's job, in a thread of its own."""

    def __init__(self, region: Region, argv: list[str], job: bytes, collector: Collector, stop: Stop) -> None:
        self.region, self._argv, self._job, self._stop = region, argv, job, stop
        self._collector = collector
        self._why = ""
        self.thread = threading.Thread(target=self._run, name=f"region {region.name}", daemon=True)

    def _run(self) -> None:
        try:
            self._why = self._held()
        except (RailwrightError, MemoryError, *ODD) as error:
            self._why = f"cannot be understood ({type(error).__name__}: {printable(str(error))[:200]})"

    def _held(self) -> str:
        """Why there is no end of it; '' where there is one."""
        over = threading.Event()
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(self._argv, **streams) as process:
            lines = Lines(process, self.region.patience, self._stop)
            beat = threading.Thread(target=self._beat, args=(process, lines, over), daemon=True)
            beat.start()
            try:
                said = lines.readline()
                if not said:
                    return lines.why
                word = str(read_json(said.decode("utf-8", "replace"))["railwright"])
                return f"refused: {printable(word)[:400]}" if word != READY else self._heard(lines)
            finally:
                over.set()
                beat.join(1.0)
                _ended(process, heard=not beat.is_alive())

    def _heard(self, lines: Lines) -> str:
        with TemporaryDirectory(prefix="railwright-") as private:
            events = Events(lines, frozenset(self.region.nodes), self._collector.handle, private)
            events.run()
        return lines.why or events.trouble

    def _beat(self, process: subprocess.Popen[bytes], lines: Lines, over: threading.Event) -> None:
        """The job, and then a sign of life: without one the worker ends what runs there."""
        data = self._job
        with suppress(OSError, ValueError):  # who reads the answer sees that ssh has gone
            while process.stdin is not None and not self._stop.asked:
                for place in range(0, len(data), CHUNK):
                    process.stdin.write(data[place : place + CHUNK])
                    process.stdin.flush()
                    if len(data) > CHUNK:
                        lines.alive()
                data = b"\n"
                if over.wait(self.region.patience / BEATS):
                    break

    def outcome(self, *, alone: bool, joint: bool) -> RunOutcome:
        """Of the region's nodes and no other; once the thread has ended. ``alone``: nobody else is in the run. ``joint``: it measured them
        together."""
        found, nodes = self._collector.finish(), frozenset(self.region.nodes)
        said = {name: host for name, host in found.hosts.items() if name in nodes}
        own = [verdict for verdict in found.verdicts if verdict.get("node") in nodes]
        # What is said of the cluster as a whole is said of each node of the region: elsewhere nobody was asked.
        of_all = [verdict for verdict in found.verdicts if not verdict.get("node")]
        found.verdicts = own + (of_all if alone else [{**verdict, "node": name} for verdict in of_all for name in self.region.nodes])
        found.traffic = [row for row in found.traffic if row.get("node") in nodes]
        found.reachability = reached_within(found.reachability, nodes)
        if not (alone and joint):
            found.bench = found.ddp = None
        end = self._why or ("" if found.finished else f"ended before its time: {printable(' '.join(found.output[-3:]))[:300]}")
        for name in self.region.nodes if end and not found.finished else ():
            host = said.setdefault(name, HostOutcome(name))
            if host.status == "ok":
                host.status, host.message = "unreachable", f"worker {self.region.worker} of region {self.region.name} {end}"
        return replace(found, hosts=said)


def _ended(process: subprocess.Popen[bytes], *, heard: bool) -> None:
    """The end of its input tells the worker; ssh gets the time that it takes there to end the job. Not where nobody reads it."""
    if not heard:
        process.kill()
    if process.stdin is not None:
        with suppress(OSError, ValueError):
            process.stdin.close()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()


def reached_within(document: dict[str, Any] | None, nodes: frozenset[str]) -> dict[str, Any] | None:
    """Of who reached whom the pairs of these nodes."""
    if document is None:
        return None
    return {**document, "pairs": [pair for pair in document.get("pairs") or [] if {pair.get("node"), pair.get("peer")} <= nodes]}
