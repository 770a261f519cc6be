# SPDX-License-Identifier: GPL-3.0-or-later
"""Who comes late to collectives, how seldom a healthy job names anybody, and the training benchmark itself with a rank that is delayed."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.outliers import FEWEST, Late, late_ranks
from ansible_collections.railwright.rdma.plugins.plugin_utils.ddp import WATCHED, judge
from repo import ROOT

STEP = 12.0
SCRIPT = ROOT / "roles/ddp_benchmark/files/ddp_benchmark.py"
BOTH = ("--redirects", "9:1", "--tee", "9:1")  # as launch.py: torch 1.13 of Debian 12 under Python 3.11 fails without
DELAY_S = 0.1  # a busy machine makes every rank late now and then, and none by so much again and again
# One rank is slow in every step: what is imported first makes its loss take longer.
DELAY = """
import os
if os.environ.get("RANK") == os.environ.get("SLOW_RANK"):
    import time
    from torch import nn
    forward = nn.MSELoss.forward
    def slow(self, *arguments):
        time.sleep(float(os.environ["SLOW_S"]))
        return forward(self, *arguments)
    nn.MSELoss.forward = slow
"""


def waits(own: dict[int, list[float]]) -> dict[int, list[float]]:
    """Of ranks that work so long before each collective."""
    last = [max(times) for times in zip(*own.values(), strict=True)]
    return {rank: [last[at] - value for at, value in enumerate(times)] for rank, times in own.items()}


def job(
    *slower: float, ranks: int, seed: int = 0, spread: float = 0.03, noise: float = 0.03, count: int = FEWEST
) -> dict[int, list[float]]:
    """``slower``: by so many milliseconds the first ranks are; ``spread``: of the ranks, at every step; ``noise``: of each step."""
    draw = random.Random(f"job {seed}")
    many = [draw.gauss(0, 10 * noise) for _at in range(997)]  # a prime, so that ranks do not repeat each other
    found = {}
    for rank in range(ranks):
        base = 10 + draw.gauss(0, 10 * spread) + (slower[rank] if rank < len(slower) else 0.0)
        start = draw.randrange(len(many))
        found[rank] = [base + many[(start + at) % len(many)] for at in range(count)]
    return waits(found)


@pytest.mark.parametrize("seed", range(24))
def test_healthy_ranks_name_nobody(seed: int) -> None:
    assert late_ranks(job(ranks=4000, seed=seed), STEP) == []


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 16])
def test_noise_names_nobody_in_a_small_job(ranks: int) -> None:
    assert [late_ranks(job(ranks=ranks, seed=seed, spread=0.0, count=WATCHED), STEP) for seed in range(50)] == [[]] * 50


@pytest.mark.parametrize("ranks", [2, 3, 8, 16, 64])
def test_a_slow_rank_is_named(ranks: int) -> None:
    found = late_ranks(job(4.0, ranks=ranks, spread=0.005, noise=0.01), STEP)
    assert found is not None
    assert [item.rank for item in found] == [0]
    assert found[0].ms == pytest.approx(4.0, abs=0.5)


def test_a_slow_node_of_two_has_all_of_its_ranks_named() -> None:
    found = late_ranks(job(*[2.0] * 8, ranks=16, spread=0.005, noise=0.01), STEP)
    assert found is not None
    assert {item.rank for item in found} == set(range(8))


def test_one_late_step_is_no_straggler() -> None:
    own = {rank: [10.0] * FEWEST for rank in range(4)}
    own[2][3] = 500.0
    assert late_ranks(waits(own), STEP) == []


def test_by_how_much_and_how_often() -> None:
    own = {0: [10.0] * 16, 1: [10.0] * 4 + [11.0] * 11 + [15.0]}
    assert late_ranks(waits(own), STEP) == [Late(1, 1.0, 5.0, 12)]
    assert late_ranks(waits({0: own[0], 1: [10.0] * 5 + [11.0] * 11}), STEP) == [], "11 of 16 are less than three of four"


def test_less_than_half_a_millisecond_is_how_a_host_launches() -> None:
    """As two healthy H100 of one node were seen: 12 % of a step of two milliseconds."""
    for own, late in ((1.74, []), (2.1, [0])):
        found = late_ranks(waits({0: [own] * FEWEST, 1: [1.5] * FEWEST}), 2.0)
        assert found is not None
        assert [item.rank for item in found] == late


@pytest.mark.parametrize(("told", "step"), [
    ({}, STEP), ({0: [1.0] * 64}, STEP), ({0: [1.0] * 15, 1: [1.0] * 64}, STEP), ({0: [0.0] * 64, 1: [0.0] * 64}, 0.0),
])
def test_too_little_is_not_enough_to_tell(told: dict[int, list[float]], step: float) -> None:
    assert late_ranks(told, step) is None


@cache
def torch_python() -> str:
    """A Python that has torch: TORCH_PYTHON, this one, or the system's (group unit of tools/need has Debian's, without CUDA: 55 MB)."""
    ask = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    paths = [os.environ.get("TORCH_PYTHON"), sys.executable, shutil.which("python3"), shutil.which("/usr/bin/python3")]
    found = next((path for path in paths if path and subprocess.run([path, "-c", ask], check=False).returncode == 0), None)
    if found is None:
        pytest.fail("no Python here has torch: run `tools/need unit`, or name one in TORCH_PYTHON")
    return found


def trained(directory: Path, slow_rank: str, ranks: int = 2) -> list[Any]:
    """The benchmark of the role under real torch with gloo; its verdicts on arrivals."""
    (directory / "first").mkdir()
    (directory / "first/sitecustomize.py").write_text(DELAY, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    own = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(directory / "first"),
           "SLOW_RANK": slow_rank, "SLOW_S": str(DELAY_S), "TMPDIR": str(directory)}
    subprocess.run([torch_python(), "-m", "torch.distributed.run", "--nnodes", "1", "--node_rank", "0", "--nproc_per_node", str(ranks),
                    "--master_addr", "127.0.0.1", "--master_port", port, *BOTH, str(SCRIPT), "--backend", "gloo", "--steps", "10",
                    "--warmup", "1", "--directory", str(directory)], check=True, env=own, timeout=300, capture_output=True)
    rows = [json.loads((directory / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(ranks)]
    plan = {"hosts": ["node1"], "processes": {"node1": ranks}, "nodes": {"node1": {"first_rank": 0}}, "world_size": ranks,
            "backend": "gloo", "steps": 10, "batch": 64, "timeout_s": 300, "port": 1}
    return [item for item in judge(plan, {"node1": {"rc": 0, "ranks": rows, "failures": [], "log": "", "result": None}}, None)
            if item.check == "ddp.straggler"]


@pytest.mark.slow
def test_a_delayed_rank_of_the_real_benchmark_is_named(tmp_path: Path) -> None:
    (found,) = trained(tmp_path, "1")
    assert (found.status, found.node) == ("warn", "node1")
    assert found.message.startswith("rank 1 on node1 (process 1) comes late to ")
    assert found.found == pytest.approx(DELAY_S * 1000, rel=0.3)


@pytest.mark.slow
def test_a_healthy_run_of_the_real_benchmark_names_nobody(tmp_path: Path) -> None:
    assert [item.status for item in trained(tmp_path, "none")] == ["pass"]
