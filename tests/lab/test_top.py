# SPDX-License-Identifier: GPL-3.0-or-later
"""`top` over two machines under ib_write_bw on both rails: a rail that a shaper slows stands out, who takes no part is not marked, and
nothing stays on the machines when it is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from isolate_lab import RAILS, Fabric, fabric
from railwright import lab

FAST, SLOW = "32mbit", "5mbit"  # of machines that move about 0.1 Gb/s; the ports of Soft-RoCE say 2.5 Gb/s
SAMPLES, SETTLED = 40, 20  # seconds of a run, and of its end that is judged
HALF = "pgrep -fc '[/]dev/null/none' || true"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with fabric("test_top", tmp_path_factory.mktemp("state")) as made:
        for node in range(2):
            for rail in range(RAILS):
                made.port(node, rail, FAST)
        yield made


@contextmanager
def traffic(machines: Fabric) -> Iterator[None]:
    """From node1 to node2 over each rail, until the block ends."""
    state_dir = machines.machines[0].state_dir
    running = []
    try:
        for node, ask in ((1, ""), (0, "10.77.{rail}.12")):
            for rail in range(RAILS):
                find = f"rdma link show | sed -n 's,^link \\([^/]*\\)/1 .*netdev eth{rail + 1}.*,\\1,p'"
                script = f"exec ib_write_bw -d $({find}) -x 1 -F -s 4096 -q 1 -D 600 -p {18515 + rail} {ask.format(rail=rail)}"
                argv = lab.ssh_argv(f"node{node + 1}", ["sh", "-c", script], state_dir=state_dir)
                running.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL))
            time.sleep(10)  # a server takes its time on an emulated machine
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
        for machine in machines.machines[:2]:
            machine.sh("pkill ib_write_bw || true")


def command(machines: Fabric) -> list[str]:
    return [str(Path(sys.executable).with_name("railwright")), "top", "-i", str(machines.inventory), "--format", "json"]


def marked(documents: list[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """In how many documents a rail is behind."""
    found: dict[tuple[str, str], int] = {}
    for document in documents:
        for name, node in document["nodes"].items():
            for rail in node["rails"]:
                found[name, rail["rail"]] = found.get((name, rail["rail"]), 0) + ("behind" in rail["marks"])
    return found


@pytest.mark.parametrize("slow", [False, True], ids=["all alike", "one slow rail"])
def test_a_slow_rail_stands_out(machines: Fabric, slow: bool) -> None:
    machines.port(1, 1, SLOW if slow else FAST)
    with traffic(machines):
        done = subprocess.run([*command(machines), "--for", str(SAMPLES)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    last = [json.loads(line) for line in done.stdout.splitlines()][-SETTLED:]
    found = marked(last)
    behind = {key for key, times in found.items() if times > SETTLED / 2}
    assert behind == ({("node1", "rail1"), ("node2", "rail1")} if slow else set()), found
    assert {name for name, _rail in found} == {"node1", "node2", "node3", "node4"}


def test_nothing_stays_when_it_is_killed(machines: Fabric) -> None:
    with subprocess.Popen(command(machines), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if all(node["status"] == "ok" for node in json.loads(line)["nodes"].values()):
                break
        os.kill(process.pid, signal.SIGKILL)
    time.sleep(5)  # an emulated machine
    assert [machine.sh(HALF).strip() for machine in machines.machines] == ["0"] * 4
