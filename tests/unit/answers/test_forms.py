# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that answers anything but an inspection has not answered; an inspection that passes never breaks the plan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import Misfit, fitted
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.forms import SEEN
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Node, plan_run
from bench_nodes import node, seen, wishes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["name", "devices", "kind", "path", "networks"]), inner, max_size=3), max_leaves=6)


def usable(said: Any) -> bool:
    try:
        return bool(fitted(SEEN, said))
    except Misfit:
        return False


def test_a_look_is_usable() -> None:
    assert usable(seen("n1"))
    assert usable(seen("n1", 0, interface=None))
    assert usable(seen("n1", affinity=[{"gpu": "0000:1b:00.0", "hca": "mlx5_0", "port": 1, "path": "PIX", "near": True}]))


@pytest.mark.parametrize("key", sorted(set(seen("n1"))))
def test_each_part_has_its_form(key: str) -> None:
    assert not usable({**seen("n1"), key: 7})
    assert not usable({name: value for name, value in seen("n1").items() if name != key})


@pytest.mark.parametrize(
    "said",
    [
        {"hostname": "n1,n2"}, {"hostname": "-w"}, {"hostname": "n1\nn2"}, {"python": "python3"}, {"python": "/x y"},
        {"mpi": [{"kind": "openmpi4", "version": "4", "prefix": "/usr", "mpirun": "mpirun"}]},
        {"mpi": [{"kind": "intel", "version": "4", "prefix": "/usr", "mpirun": "/usr/bin/mpirun"}]},
        {"interface": {"name": "--eth0", "networks": []}}, {"interface": {"name": "eth0", "networks": ["0/0 --x"]}},
        {"slurm": {"srun": "srun -x"}}, {"cuda": {"devices": [["a", None, "many"]]}}, {"problems": [7]}, {"libraries": [None]},
    ],
)
def test_what_would_become_a_command_line_is_checked(said: dict[str, Any]) -> None:
    assert not usable({**seen("n1"), **said})


@settings(max_examples=150, deadline=None)
@given(key=st.sampled_from(sorted(seen("n1"))), value=JSON)
def test_what_passes_can_be_planned(key: str, value: Any) -> None:
    said = {**seen("n1"), key: value}
    if usable(said):
        plan_run([Node("n1", wishes(), said), node("n2")], "run-1")
