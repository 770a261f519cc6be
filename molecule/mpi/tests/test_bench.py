# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright bench`` by topology through the real mpirun over two nodes, with stand-ins for GPUs and programs; one node may hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cluster import Cluster
from launching import strays

NODES = ("node1", "node2")
PROGRAMS, CUDA, HANG = "/opt/stand-in", "/opt/stand-in/lib", "/var/lib/stand-in/hang"
HERE = Path(__file__).resolve().parents[1]
SECONDS = 500

On = Callable[..., str]


class Ended(NamedTuple):
    code: int
    document: dict[str, Any]
    strays: dict[str, list[str]]

    @property
    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.document["bench"]["runs"]
        return found

    def verdicts(self, check: str) -> dict[str, tuple[str, str]]:
        return {item["subject"]: (item["status"], item["message"]) for item in self.document["verdicts"] if item["check"] == check}


@pytest.fixture(scope="module")
def bench(scenario: str, on: On, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ended]:
    """The verb on the scenario's inventory, and one beside it that says which node is behind which leaf."""
    place = tmp_path_factory.mktemp("bench")
    for node in NODES:
        on(node, ("mkdir", "-p", CUDA, str(Path(HANG).parent)))
        on(node, ("tee", f"{CUDA}/cuda.c"), (HERE.parent / "isolate/stand_in_cuda.c").read_text())
        on(node, ("cc", "-shared", "-fPIC", "-DGPUS=2", "-o", "/usr/lib/libcuda.so.1", f"{CUDA}/cuda.c"))
        for program in ("all_reduce_perf", "alltoall_perf"):
            on(node, ("tee", f"{PROGRAMS}/{program}"), (HERE / "collective.py").read_text())
            on(node, ("chmod", "0755", f"{PROGRAMS}/{program}"))
    site = {"nccl_tests_install": "prebuilt", "nccl_tests_path": PROGRAMS, "rdma_leaves": ["rack1", "rack2"], "nccl_tests_timeout_s": 15}
    racks = {f"rack{node[-1]}": {"hosts": {node: {}}} for node in NODES}
    (place / "racks.yml").write_text(json.dumps({"all": {"vars": site, "children": racks}}))

    def run(*options: str) -> Ended:
        argv = (str(Path(sys.executable).with_name("railwright")), "bench", "-i", str(Cluster(scenario).inventory),
                "-i", str(place / "racks.yml"), "--format", "json", *options)
        with strays(on, NODES) as left:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False,
                                  env={**os.environ, "XDG_STATE_HOME": str(place)})
        assert done.stdout, done.stderr[-3000:]
        return Ended(done.returncode, json.loads(done.stdout), left)

    return run


@pytest.fixture(scope="module")
def acceptance(bench: Callable[..., Ended]) -> Ended:
    return bench("--purpose", "acceptance")


def test_acceptance_runs_what_the_nodes_have(acceptance: Ended) -> None:
    # It validates first, and of these nodes only MPI's part was ever applied: that is all that may fail.
    failed = {verdict["check"] for verdict in acceptance.document["verdicts"] if verdict["status"] == "fail"}
    assert acceptance.code == 1
    assert {check for check in failed if not check.startswith("config.")} <= {"node.memlock", "rail.device"}, failed
    assert [(run["collective"], run["group"], run["nodes"], run["ranks"], run["judged_busbw"]) for run in acceptance.runs] == [
        ("all_reduce", "node", ["node1"], 2, 50.0), ("all_reduce", "node", ["node2"], 2, 50.0),
        ("all_reduce", "across", ["node1", "node2"], 4, 50.0), ("all_reduce", "all", ["node1", "node2"], 4, 50.0),
        ("alltoall", "all", ["node1", "node2"], 4, 50.0)]
    assert acceptance.document["bench"]["left_out"] == [
        "leaf: rack1 has one node in this run", "leaf: rack2 has one node in this run", "rail: there are not two rails"]
    assert [run["rows"][0]["size"] for run in acceptance.runs] == [1 << 30] * 3 + [8] * 2


def test_each_launch_had_its_own_hosts(acceptance: Ended, on: On) -> None:
    names = {node: on(node, ("hostname",)).strip() for node in NODES}
    used = [{words.split()[0] for hcas in run["transport"]["hcas"].values() for words in hcas} for run in acceptance.runs]
    assert used[2:] == [set(names.values())] * 3
    assert [run["transport"]["connections"] for run in acceptance.runs[:2]] == [{"P2P": 2}] * 2
    assert acceptance.verdicts("nccl.transport").keys() == {
        "all_reduce within node1", "all_reduce within node2",
        "all_reduce across leaves: node1, node2", "all_reduce of 4 GPUs", "alltoall of 4 GPUs"}


def test_where_one_node_hangs_the_others_are_measured(bench: Callable[..., Ended], on: On) -> None:
    on("node2", ("touch", HANG))
    try:
        found = bench("--purpose", "acceptance")
    finally:
        on("node2", ("rm", "-f", HANG))
    assert found.code == 1
    complete = found.verdicts("nccl.complete")
    assert complete["all_reduce within node1"] == ("pass", "the run ended as it should")
    assert complete["all_reduce within node2"][1].startswith("exit 124: its time was over")
    assert {complete[name][1] for name in ("all_reduce across leaves: node1, node2", "all_reduce of 4 GPUs")} == {
        "not run: the one before it did not end by itself"}
    assert found.strays == {"node1": [], "node2": []}
    for node in NODES:
        assert on(node, ("ls", "/run/railwright/bench")).split() == []
