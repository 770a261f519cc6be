# SPDX-License-Identifier: GPL-3.0-or-later
"""One upgrade past two gates that fail: the node stays drained, reverted where that is asked for; the others of its batch do not."""

from __future__ import annotations

import pytest

from playbook import ROOT
from rollout import Rollout
from way import Way, stopped_at

PERF = ROOT / "tests" / "lib" / "stand_in_perf.py"  # knows nccl-tests' options, and no GPU
BENCH = {"nccl_tests_install": "prebuilt", "nccl_tests_path": "/opt/nccl-tests", "nccl_tests_launcher": "local", "nccl_tests_user": "bench"}


@pytest.fixture(scope="module")
def way(rollout: Rollout) -> Way:
    return Way(rollout)


def test_a_gate_that_fails_and_takes_the_node_back(rollout: Rollout, way: Way) -> None:
    """nccl-tests cannot pass where there is no GPU. The canary is brought back to the old release, judged by it, and stays drained."""
    program = f"{BENCH['nccl_tests_path']}/all_reduce_perf"
    rollout.cluster.container("node1").write(program, PERF.read_text(encoding="utf-8"), "0755")
    before = rollout.witness.installed()
    way.say(upgrade_gate="nccl_tests", **BENCH)
    done = way.go("--rollback-failed")
    assert done.code == 1, done
    assert done.states == {"node1": "rolled_back", "node2": "waiting", "node3": "waiting", "node4": "waiting"}
    assert "no CUDA device" in done.document["nodes"]["node1"]["message"], done
    assert "node1" in done.document["stopped"]
    assert rollout.witness.installed() == before
    assert rollout.witness.away_now() == ["node1"]
    assert rollout.witness.reason("node1").startswith("railwright upgrade ")


def test_a_verdict_that_fails_on_one_node(rollout: Rollout, way: Way) -> None:
    """It lacks an HCA that the inventory expects of it. Its neighbour passed, and goes back to its jobs."""
    way.say({"node3": {"rdma_expect": {"hcas": 1}}})
    done = way.go()
    row = stopped_at(rollout, done, "node3", "validate", "failed")
    assert "hcas" in row["message"]
    assert rollout.witness.installed() == dict.fromkeys(rollout.nodes, way.release)


def test_after_both_every_node_is_on_the_new_set(rollout: Rollout, way: Way) -> None:
    """The canary was there twice, and all others once."""
    way.say()
    way.to_its_end()
    assert rollout.complaints(way.mark, way.release, twice=("node1",)) == []
    assert [name for batch in rollout.order() for name in batch] == rollout.nodes
