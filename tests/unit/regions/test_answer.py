# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes of a region whose worker answers, lies, breaks or falls silent: real processes in the worker's place."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import pytest

from railwright.events import Collector, HostOutcome
from railwright.regions import answer as regions
from railwright.regions.answer import Region, Running
from railwright.run import Stop, children

REGION = Region("east", "bastion", "python3", 1.5, ("e1", "e2"))
READY = {"railwright": "ready"}
EOF = {"eof": True}


def event(kind: str, counter: int = 1, **data: Any) -> dict[str, Any]:
    return {"event": kind, "uuid": f"u{counter}", "counter": counter, "event_data": data}


def done(host: str, **result: Any) -> dict[str, Any]:
    return event("runner_on_ok", host=host, task="t", resolved_action="railwright.rdma.rdma_check", res=result)


STATS = event("playbook_on_stats", 9, processed={"e1": 1, "e2": 1, "h1": 1}, failures={"h1": 3}, dark={}, rescued={})


def held(*lines: Any, after: str = "", job: bytes = b"job\n") -> dict[str, HostOutcome]:
    """``lines``: that the worker sends; what is no text becomes JSON. ``after``: Python that it goes on with."""
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    program = f"import sys, time, os\nsys.stdout.write({text!r})\nsys.stdout.flush()\n{after}"
    running = Running(REGION, [sys.executable, "-c", program], job, Collector(), Stop())
    running.thread.start()
    running.thread.join(60)
    assert not running.thread.is_alive()
    found = running.outcome(alone=False, joint=False)
    assert set(found.hosts) <= set(REGION.nodes), "a worker speaks of its own nodes alone"
    assert {verdict["node"] for verdict in found.verdicts} <= set(REGION.nodes)
    return found.hosts


def told(found: dict[str, HostOutcome]) -> dict[str, tuple[str, str]]:
    return {name: (host.status, host.message) for name, host in found.items()}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "CONNECT_SECONDS", 1.5)
    monkeypatch.setattr(regions, "GRACE", 0.2)
    monkeypatch.setattr(regions, "LINE_SECONDS", 4.0)


def gone(why: str) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(REGION.nodes, ("unreachable", f"worker bastion of region east {why}"))


def test_a_whole_answer() -> None:
    alive = {"event": "keepalive", "counter": 0, "uuid": 0}
    found = held(READY, {"status": "starting"}, done("e1"), alive, done("e2"), STATS, {"status": "successful"}, EOF)
    assert told(found) == dict.fromkeys(REGION.nodes, ("ok", ""))


def test_other_peoples_nodes_are_none_of_its_business() -> None:
    verdict = {"check": "port.state", "node": "h1", "status": "pass", "hca": "x", "port": 1, "subject": "s",
               "expected": 1, "found": 2, "message": "m"}  # fmt: skip
    joint = event("runner_on_ok", 2, host="e1", task="t", resolved_action="railwright.rdma.rdma_cluster", res={"verdicts": [verdict]})
    found = held(READY, done("h1"), event("runner_on_failed", 3, host="h1", task="t", res={"msg": "lie"}), joint, done("e1"),
                 event("playbook_on_stats", 9, processed={"e1": 1, "h1": 1}, failures={"h1": 3}), EOF)  # fmt: skip
    assert told(found) == {"e1": ("ok", "")}, "and of whom it says nothing has no result"


@pytest.mark.parametrize(("lines", "why"), [
    ([], "went away"),
    ([READY], "went away"),
    ([READY, done("e1")], "went away"),
    (["nonsense\n"], "cannot be understood"),
    (["[]\n"], "cannot be understood"),
    ([{"railwright": "here is railwright 0.0"}], "refused: here is railwright 0.0"),
    ([{"railwright": "\x1b[2Jx"}], r"refused: \u001b[2Jx"),
    ([READY, "nonsense\n"], "says: Failed to JSON parse"),
    ([READY, "[" * 50_000 + "\n"], "cannot be understood (RecursionError"),
    ([READY, "[]\n"], "cannot be understood"),
    ([READY, {"zipfile": 10}], "cannot be understood (ValueError: it sends files"),
    ([READY, {"status": "error", "job_explanation": "no\x07thing"}, EOF], r"says: no\u0007thing"),
    ([READY, "x" * 3000], "sent more than 0 MiB"),
])  # fmt: skip
def test_a_broken_answer_makes_its_nodes_unreachable(lines: list[Any], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if lines[-1:] == ["x" * 3000]:
        monkeypatch.setattr(regions, "ANSWER_LINE", 2000)
    found = told(held(*lines))
    assert {status for status, _message in found.values()} == {"unreachable"}
    assert {message.startswith(f"worker bastion of region east {why}") for _status, message in found.values()} == {True}, found
    assert set(found) == set(REGION.nodes)


def test_what_ssh_says_is_said() -> None:
    assert told(held(after="sys.stderr.write('banner\\nPermission denied (publickey).\\n'); sys.exit(255)")) == gone(
        "went away: Permission denied (publickey).")


@pytest.mark.parametrize("job", [b"job\n", b"x" * (8 << 20)], ids=["", "that it does not read"])
def test_silence_ends(job: bytes) -> None:
    begin = time.monotonic()
    assert told(held(READY, done("e1"), after="time.sleep(60)", job=job)) == gone("is silent for 2 s")
    assert time.monotonic() - begin < 20


def test_a_line_that_does_not_end_is_silence() -> None:
    assert told(held(READY, after="for n in range(60):\n    time.sleep(0.3); sys.stdout.write('x'); sys.stdout.flush()\n")) == gone(
        "is silent for 2 s")


@pytest.mark.parametrize("result", [
    {"plan": [{"key": "k", "area": [1]}]}, {"plan": 5}, {"rdma": {"hcas": 5}}, {"verdicts": [{"check": {}, "status": "pass"}]},
    {"notes": [{}]}, {"drivers": {"kernel": []}}, {"ranks": [5]}, {"agent": {"text": 5}}, {"erdma": {"letter": {}}},
])  # fmt: skip
def test_what_no_node_could_say_is_that_nodes_failure(result: dict[str, Any]) -> None:
    found = told(held(READY, done("e1", **result), done("e2"), STATS, EOF))
    assert found["e1"][0] == "failed"
    assert found["e1"][1].startswith("what its worker says of it cannot be: ")
    assert found["e2"] == ("ok", "")


@pytest.mark.parametrize(("others", "nodes"), [(0, ["", "e1"]), (1, ["e1", "e1", "e2"])])
def test_what_is_said_of_the_cluster_is_said_of_the_regions_nodes(others: int, nodes: list[str]) -> None:
    base = {"hca": None, "port": None, "subject": "s", "status": "fail", "expected": 1, "found": 2, "message": "m"}
    verdicts = [{**base, "check": check, "node": node}
                for check, node in (("cluster.address", ""), ("port.state", "e1"), ("port.state", "h1"))]  # fmt: skip
    joint = event("runner_on_ok", 2, host="e1", task="t", resolved_action="railwright.rdma.rdma_cluster", res={"verdicts": verdicts})
    collector = Collector()
    running = Running(REGION, [], b"", collector, Stop())
    nobody: Any = None
    events = regions.Events(nobody, frozenset(REGION.nodes), collector.handle, "/nonexistent")
    for one in (joint, STATS):
        events.event_callback(one)
    assert sorted(verdict["node"] for verdict in running.outcome(alone=not others, joint=False).verdicts) == nodes


def test_signs_of_life_are_no_silence() -> None:
    beat = '{"event": "keepalive", "counter": 0, "uuid": 0}'
    after = f"for n in range(8):\n    time.sleep(0.4); print('{beat}', flush=True)\n"
    end = "".join(json.dumps(line) + "\n" for line in (done("e1"), done("e2"), STATS, EOF))
    assert told(held(READY, after=after + f"sys.stdout.write({end!r})")) == dict.fromkeys(REGION.nodes, ("ok", ""))


def test_a_failure_of_a_node_stays_one_when_its_worker_goes() -> None:
    failed = event("runner_on_failed", 2, host="e1", task="t", res={"msg": "no space left"})
    assert told(held(READY, failed))["e1"] == ("failed", "no space left")


def test_an_ansible_that_does_not_begin_is_quoted() -> None:
    said = {"event": "verbose", "uuid": "u1", "counter": 1, "stdout": "ERROR! the playbook could not be found", "event_data": {}}
    assert told(held(READY, said, EOF)) == gone("ended before its time: ERROR! the playbook could not be found")


def test_who_interrupts_waits_for_no_worker() -> None:
    stop, before = Stop(), set(children(os.getpid()))  # other tests leave some that nobody waits for
    running = Running(REGION, [sys.executable, "-c", "import time; time.sleep(60)"], b"job\n", Collector(), stop)
    running.thread.start()
    time.sleep(0.5)
    stop.ask(signal.SIGINT, None)
    running.thread.join(60)
    assert not running.thread.is_alive()
    assert told(running.outcome(alone=False, joint=False).hosts) == gone("was interrupted")
    assert set(children(os.getpid())) <= before
