# SPDX-License-Identifier: GPL-3.0-or-later
"""bench without a GPU: two machines, Open MPI that `apply` installed, the ssh mesh of its role, and no more.

`bench` has the real mpirun put the probe on both and says what is missing. That launcher, hostfile, time limit and clean-up work is
shown with an MPI program of the test, compiled there and launched by the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from command_lines import PLANTED
from lab_images import MPI
from lab_pair import NODES, Bench, Pair
from launching import Launching
from railwright import lab

RECIPE = MPI
HARDWARE = lab.Hardware()
NONE: dict[str, list[str]] = {node: [] for node in NODES}
COMMAS = "^lo,docker0,=eth 1"


@pytest.fixture(scope="module")
def mpi(pair: Pair) -> Launching:
    return pair.launching()


@pytest.fixture(scope="module")
def bench(pair: Pair, mpi: Launching) -> Bench:
    return pair.bench(tuple(mpi.plan.nodes))


@pytest.fixture
def clean(mpi: Launching) -> Iterator[None]:
    """What a failed test leaves must not be the next one's."""
    yield
    mpi.stop()
    mpi.remove()


def test_one_line_a_node_says_that_there_is_no_cuda_device(bench: Bench) -> None:
    assert bench.code == 1, bench.err
    failed = [item["message"] for item in bench.document["verdicts"] if item["status"] == "fail"]
    assert sorted(failed) == [f"no CUDA device on {node}: libcuda.so.1 is not there" for node in NODES]
    for message in failed:
        assert bench.err.count(message) == 1, bench.err


def test_mpirun_reached_both_nodes(bench: Bench) -> None:
    found = {item["check"]: (item["status"], item["found"]) for item in bench.document["verdicts"] if item["check"] == "nccl.launch"}
    assert found == {"nccl.launch": ("pass", 2)}
    assert bench.document["bench"]["launcher"] == "mpi"
    assert all("4.1" in bench.document["bench"]["versions"][node]["mpi"] for node in NODES)


def test_bench_leaves_no_process_and_no_file(bench: Bench, pair: Pair) -> None:
    assert bench.strays == NONE
    assert {node: pair.on(node, ("ls", "/run/railwright/bench")).split() for node in NODES} == NONE


@pytest.mark.usefixtures("clean")
def test_values_over_both_nodes(pair: Pair, mpi: Launching) -> None:
    mpi.begin("values-1", (pair.program,), {"COMMAS": COMMAS})
    outcome = mpi.wait()
    assert outcome.rc == 0, outcome.text
    lines = sorted(line for line in outcome.text.splitlines() if line.startswith("rank "))
    right = f"4096 values are right; COMMAS={COMMAS}"
    assert lines == [f"rank {place} of 2 on {pair.hostname(node)}: {right}" for place, node in enumerate(NODES)]
    assert mpi.stop() == dict.fromkeys(NODES, 0), "it ended by itself, wholly"


@pytest.mark.usefixtures("clean")
def test_a_program_that_hangs_is_ended_by_the_time_limit(pair: Pair, mpi: Launching) -> None:
    mpi.begin("hangs-1", (pair.program, "hang"), {"HF_TOKEN": PLANTED}, seconds=pair.limit)
    mpi.says("values are right", 2)
    mpi.assert_kept(pair.program)
    assert all(any(pair.program in line for line in lines) for lines in mpi.marked().values())
    outcome = mpi.wait()
    assert outcome.rc == 124
    mpi.stop()
    assert mpi.marked() == NONE
    assert pair.ranks() == NONE


@pytest.mark.usefixtures("clean")
def test_what_a_killed_mpirun_leaves_is_ended_and_nothing_else(pair: Pair, mpi: Launching) -> None:
    strangers = {node: pair.stranger(node) for node in NODES}
    try:
        mpi.begin("killed-1", (pair.program, "helper"))
        mpi.says("values are right", 2)
        pair.on(NODES[0], ("pkill", "-KILL", "-x", "mpirun"))
        outcome = mpi.wait()
        assert outcome.rc not in (0, None)
        left = mpi.marked()
        assert all("sleep 3600" in lines for lines in left.values()), left
        ended = mpi.stop()
        assert {node: count >= len(left[node]) for node, count in ended.items()} == dict.fromkeys(NODES, True)
        assert mpi.marked() == NONE
        assert pair.ranks() == NONE
        alive = {node: pair.on(node, ("cat", f"/proc/{pid}/comm")).strip() for node, pid in strangers.items()}
        assert alive == dict.fromkeys(NODES, "sleep")
    finally:
        for node, pid in strangers.items():
            pair.on(node, ("kill", pid))
