# SPDX-License-Identifier: GPL-3.0-or-later
"""Regions: nodes that a worker host of their own reaches. Ansible runs there; its events come back as if it had run here.

ansible-runner's own streams (transmit, worker, process) go over one ssh connection a region: region_worker.py is its other end. A worker
gets the inventory of its own nodes and no other's, in memory. What it says is believed of its own nodes alone.
"""

from __future__ import annotations

import io
import json
import os
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_runner.streaming import Processor, Transmitter

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from ansible_collections.railwright.rdma.plugins.plugin_utils import saved_plan, scanned
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.values import plain
from railwright import __version__
from railwright.events import Collector, HostOutcome, RunOutcome
from railwright.exitcodes import InputError
from railwright.inventory import GROUP
from railwright.inventory_values import decrypted
from railwright.region_worker import BEATS, GRACE, JOB, LINE_LIMIT, ODD, READY, Job
from railwright.report.text import printable
from railwright.scan.login import ByAnsible, ssh_words

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
    from railwright.inventory import Inventory
    from railwright.run import Stop

COUNTS = ("processed", "dark", "failures", "rescued")  # of a run's statistics: by host
ERRORS_KEPT = 2000  # bytes of what ssh and the worker say on standard error
# What Ansible's own options of the command line say; a path would be another machine's.
OPTIONS = ("ANSIBLE_REMOTE_USER", "ANSIBLE_FORKS", "ANSIBLE_VERBOSITY")
# No question, no forwarding, no connection that outlives this one; to ssh the first word on a matter counts.
PLAIN = ("-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "ClearAllForwardings=yes")
CONNECT_SECONDS = 30.0  # on top of the patience: login, and Python's start


class Region(NamedTuple):
    name: str
    worker: str  # a host of the inventory
    python: str
    patience: float  # seconds
    nodes: tuple[str, ...]


def regions_of(specs: Mapping[str, Spec], nodes: Iterable[str]) -> dict[str, Region]:
    """Of these nodes; one that is in none is in no region of the result."""
    found: dict[str, Region] = {}
    for node in nodes:
        spec = specs[node]
        if spec["region"] is not None:
            others = found[spec["region"]].nodes if spec["region"] in found else ()
            way = (str(spec["region_worker"]), spec["region_python"], float(spec["region_patience"]))
            found[spec["region"]] = Region(spec["region"], *way, (*others, node))
    return found


class Regions:
    """Of a judged inventory. ``specs``: of every node that may be asked."""

    def __init__(self, inventory: Inventory, specs: Mapping[str, Spec]) -> None:
        self.inventory, self._specs = inventory, specs

    def of(self, nodes: Iterable[str]) -> list[Region]:
        return list(regions_of(self._specs, nodes).values())

    @contextmanager
    def running(
        self, chosen: Sequence[Region], playbook: str, variables: Mapping[str, Any], passwords: Mapping[str, str],
        collector: Callable[[str], Collector], stop: Stop,
    ) -> Iterator[list[Running]]:  # fmt: skip
        """All of these regions at once; after the block each has ended, early where the operator stops it or the block fails."""
        jobs = [Running(region, self.command(region), self.job(region, playbook, variables, passwords), collector(region.name), stop)
                for region in chosen]  # fmt: skip
        for one in jobs:
            one.thread.start()
        try:
            yield jobs
        except BaseException:
            stop.asked = True
            raise
        finally:
            for one in jobs:
                while one.thread.is_alive():
                    one.thread.join(0.2)
                    stop.now()

    def job(self, region: Region, playbook: str, variables: Mapping[str, Any], passwords: Mapping[str, str]) -> bytes:
        """What the worker reads: the first line, and the transmit stream."""
        files = {"inventory.json": json.dumps(self._inventory(region)), "nodes": "\n".join(region.nodes) + "\n"}
        own = dict(variables)
        own.pop(scanned.VARIABLE, None)  # no scan of ours has reached these nodes
        if saved_plan.VARIABLE in own:
            files |= {f"saved/{name}": text for name, text in scanned.kept_texts(Path(own[saved_plan.VARIABLE]), region.nodes)}
            own[saved_plan.VARIABLE] = str(JOB / "saved")
        stream = io.BytesIO()
        Transmitter(
            stream, private_data_dir=str(JOB), only_transmit_kwargs=True, project_dir=str(JOB), playbook=playbook,
            inventory=[str(JOB / "inventory.json")], limit=f"@{JOB}/nodes", extravars=own, passwords=dict(passwords),
            envvars={name: os.environ[name] for name in OPTIONS if name in os.environ},
            settings={"suppress_output_file": True, "pexpect_timeout": 0.5}, fact_cache_type="",
        ).run()  # fmt: skip
        head = Job(__version__, region.patience, len(stream.getvalue()), files)
        return json.dumps(head._asdict()).encode("ascii") + b"\n" + stream.getvalue()

    def _inventory(self, region: Region) -> dict[str, Any]:
        """All nodes of the region, whatever the limit: plays look at their like; and where their scheduler is asked."""
        hosts = {name: exported(self.inventory.raw[name]) for name in self.inventory.groups[GROUP]
                 if name in region.nodes or self.inventory.raw[name].get("rdma_region") == region.name}
        groups: dict[str, Any] = {name: {"hosts": {host: {} for host in members if host in hosts}}
                                  for name, members in self.inventory.groups.items() if name not in ("all", "ungrouped")}  # fmt: skip
        asked = {str(self._specs[name]["upgrade_scheduler_host"]) for name in region.nodes} & set(self.inventory.groups["all"]) - set(hosts)
        hosts |= {name: exported(self.inventory.raw[name]) for name in asked}
        return {"all": {"hosts": hosts, "children": {name: group for name, group in groups.items() if group["hosts"]}}}

    def command(self, region: Region) -> list[str]:
        """Raises InputError where ssh alone does not reach the worker."""
        try:
            words, host = ssh_words(self.inventory.connection[region.worker])
        except (ByAnsible, KeyError) as error:
            why = str(error) if isinstance(error, ByAnsible) else "is no host of the inventory"
            raise InputError(f"worker {region.worker} of region {region.name}: {why}; allowed: a host that ssh reaches by a key") from error
        remote = shlex.join((region.python, "-m", "railwright.region_worker"))
        return ["ssh", *PLAIN, *words, "--", host or region.worker, remote]


class Lines:
    """A worker's answer as ansible-runner's Processor reads it: a line at a time, bounded in length and in time. ``why``: what ended it
    before its time; it is the worker's word, and printable."""

    def __init__(self, process: subprocess.Popen[bytes], patience: float, stop: Stop) -> None:
        self._out, self._errors = (stream.fileno() for stream in (process.stdout, process.stderr) if stream is not None)
        self._streams, self._over = {self._out: bytearray(), self._errors: bytearray()}, set[int]()
        self._patience, self._stop = patience, stop
        self._heard = time.monotonic() + CONNECT_SECONDS
        self._searched = 0
        self.why = ""

    def readline(self) -> bytes:
        """b'' at the end."""
        buffer = self._streams[self._out]
        while (end := buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(buffer)
            if len(buffer) > LINE_LIMIT:
                return self._end(f"sent a line of more than {LINE_LIMIT >> 20} MiB")
            if self._stop.asked:
                return self._end("was interrupted")
            if time.monotonic() - self._heard > self._patience:
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
        lines = self._streams[self._errors].decode("utf-8", "replace").strip().splitlines()
        return f": {printable(lines[-1])[:300]}" if lines else ""


class Events(Processor):
    """Hands on what is about the region's nodes, and keeps nothing on disk."""

    def __init__(self, lines: Lines, nodes: Sequence[str], take: Callable[[Mapping[str, Any]], bool], private: str) -> None:
        super().__init__(_input=lines, private_data_dir=private, quiet=True, settings={})
        self._nodes, self._take = frozenset(nodes), take
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
        stats = {key: {name: count for name, count in data[key].items() if name in self._nodes}
                 for key in COUNTS if isinstance(data.get(key), dict)}  # fmt: skip
        self._take({**event_data, "event_data": {**data, **stats}})


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
        except (RailwrightError, *ODD) as error:
            self._why = f"cannot be understood ({type(error).__name__}: {printable(str(error))[:200]})"

    def _held(self) -> str:
        """Why there is no end of it; '' where there is one."""
        over = threading.Event()
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(self._argv, **streams) as process:
            beat = threading.Thread(target=self._beat, args=(process, over), daemon=True)
            beat.start()
            try:
                lines = Lines(process, self.region.patience, self._stop)
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
            events = Events(lines, self.region.nodes, self._collector.handle, private)
            events.run()
        return lines.why or events.trouble

    def _beat(self, process: subprocess.Popen[bytes], over: threading.Event) -> None:
        """The job, and then a sign of life: without one the worker ends what runs there."""
        data = self._job
        with suppress(OSError, ValueError):  # who reads the answer sees that ssh has gone
            while process.stdin is not None and not self._stop.asked:
                process.stdin.write(data)
                process.stdin.flush()
                data = b"\n"
                if over.wait(self.region.patience / BEATS):
                    break

    def outcome(self) -> RunOutcome:
        """Of the region's nodes and no other; once the thread has ended."""
        found = self._collector.finish()
        nodes = self.region.nodes
        said = {name: host for name, host in found.hosts.items() if name in nodes}
        found.verdicts = [verdict for verdict in found.verdicts if verdict.get("node") in nodes]
        end = self._why or ("" if found.finished else f"ended before its time: {printable(' '.join(found.output[-3:]))[:300]}")
        for name in nodes if end and not found.finished else ():
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


def exported(values: Mapping[str, Any]) -> dict[str, Any]:
    """Variables of a host for another Ansible: templates as they are written, what was in a vault as it is read."""
    return {name: _exported(value) for name, value in values.items()}


def _exported(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _exported(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exported(item) for item in value]
    found = plain(decrypted(value))
    return found if found is None or isinstance(found, (str, int, float)) else str(found)
