# SPDX-License-Identifier: GPL-3.0-or-later
"""The helper that launches a test's programs: what it asks which node for, and what it calls a stray."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import launching
from launching import Launching, Plan
from repo import ROOT

SLURM = Plan("slurm", "srun", {"node1": "alpha", "node2": "beta"}, "bench", ("--partition=rdma",))


class Nodes:
    """Answers steps of the driver by name, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {"stop": {"ended": 1, "notes": []}}

    def __call__(self, node: str, argv: Sequence[str], stdin: str = "") -> str:
        if launching.DRIVER not in argv:
            return ""
        request = json.loads(stdin)
        self.asked.append((node, request))
        answer = self.answers.get(request["step"])
        return json.dumps(answer if isinstance(answer, dict) and "error" in answer else {"answer": answer})


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def test_every_node_is_prepared_before_the_first_one_launches(nodes: Nodes) -> None:
    Launching(nodes, SLURM).begin("run-1", ("true",), {"COMMAS": "a,b"})
    assert [(node, request["step"]) for node, request in nodes.asked] == [("node1", "prepare"), ("node2", "prepare"), ("node1", "begin")]
    argv = nodes.asked[-1][1]["argv"]
    assert argv[0] == "srun"
    assert nodes.asked[-1][1]["environment"] == {"COMMAS": "a,b", "RAILWRIGHT_BENCH": "run-1"}
    assert argv[argv.index("--nodelist") + 1] == "alpha,beta"
    assert argv[argv.index("--job-name") + 1] == "railwright-run-1"
    assert argv[-2:] == ["--partition=rdma", "true"]


def test_open_mpis_daemons_carry_the_marker(nodes: Nodes) -> None:
    Launching(nodes, Plan("openmpi4", "mpirun", {"node1": "node1", "node2": "node2"}, "mpi", interface="eth1")).begin("run-1", ("true",))
    assert "env RAILWRIGHT_BENCH=run-1 orted" in nodes.asked[-1][1]["argv"]
    assert nodes.asked[0][1]["hosts"] == "node1 slots=1\nnode2 slots=1\n"


def test_slurms_job_is_cancelled_where_it_was_asked_for(nodes: Nodes) -> None:
    made = Launching(nodes, SLURM)
    made.run = "run-1"
    assert made.stop() == {"node1": 1, "node2": 1}
    assert {node: request["cancel"] for node, request in nodes.asked} == {"node1": "railwright-run-1", "node2": None}


def test_a_note_of_stop_is_a_failure(nodes: Nodes) -> None:
    nodes.answers["stop"] = {"ended": 0, "notes": ["scancel: no"]}
    with pytest.raises(AssertionError):
        Launching(nodes, SLURM).stop()


def test_an_error_on_a_node_is_told_with_its_name(nodes: Nodes) -> None:
    nodes.answers["prepare"] = {"error": "no such user"}
    with pytest.raises(AssertionError, match="node1: prepare: no such user"):
        Launching(nodes, SLURM).begin("run-1", ("true",))


def test_waiting_for_words_ends_with_the_job(nodes: Nodes) -> None:
    nodes.answers["poll"] = {"ended": True, "status": 1, "text": "rank 0\n"}
    made = Launching(nodes, SLURM)
    assert made.says("rank ", 1) == "rank 0\n"
    with pytest.raises(AssertionError):
        made.says("rank ", 2)
    assert (made.wait().rc, made.wait().text) == (1, "rank 0\n")


def listing(*rows: str) -> Callable[..., str]:
    return lambda _node, _argv, _stdin="": "".join(f"{row}\n" for row in rows)


OLD = "1 Sat Nov 21 06:00:00 2026 cron /usr/sbin/cron -f"
OURS = "7 Sat Nov 21 06:00:01 2026 ps ps -e -ww -o pid=,lstart=,comm=,args="
KERNEL = "9 Sat Nov 21 06:00:01 2026 kworker/0:1 [kworker/0:1]"
STRAY = "12 Sat Nov 21 06:00:02 2026 all_reduce_perf /opt/all_reduce_perf -b 8"


def test_a_stray_is_what_was_not_there_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "SETTLE_SECONDS", 0)
    rows = [OLD]
    with launching.strays(lambda *_arguments: listing(*rows)("", ()), ("node1",)) as left:
        rows += [OURS, KERNEL, STRAY]
    assert left == {"node1": ["/opt/all_reduce_perf -b 8"]}


def test_a_number_that_is_used_again_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "SETTLE_SECONDS", 0)
    rows = [STRAY]
    with launching.strays(lambda *_arguments: listing(*rows)("", ()), ("node1",)) as left:
        rows[0] = STRAY.replace("06:00:02", "06:00:03")
    assert left == {"node1": ["/opt/all_reduce_perf -b 8"]}


def test_the_driver_runs_the_modules_code_and_tells_its_errors(tmp_path: Path) -> None:
    archive = tmp_path / "core.zip"
    archive.write_bytes(launching.core())
    request = {"step": "poll", "run": "../etc", "user": "root", "name": "probe", "wait": 0}
    argv = (sys.executable, "-I", str(ROOT / "tests/lib/launch_driver.py"), str(archive))
    done = subprocess.run(argv, input=json.dumps(request), capture_output=True, text=True, check=True, timeout=60)
    assert "'../etc' is no name of a run" in json.loads(done.stdout)["error"]


def test_the_stand_in_is_no_benchmark() -> None:
    """bench takes it for a program that starts, and it cannot give a single figure."""
    program = ROOT / "tests/lib/stand_in_perf.py"
    shown = subprocess.run((sys.executable, str(program), "-h"), capture_output=True, text=True, check=True, timeout=60)
    assert "--minbytes" in shown.stdout
    ran = subprocess.run((sys.executable, str(program), "-b", "8"), capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout) == (1, "")
