# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action plugin of bench reads of other hosts is what the roles register, name by name."""

import re

import pytest

import repo

BENCHMARKS = {"NCCL": "nccl_tests", "DDP": "ddp_benchmark"}


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_result_that_is_read_is_registered_by_its_role(benchmark: str) -> None:
    read = set(re.findall(rf'\b{benchmark}\.format\("(\w+)"\)', repo.text("plugins/action/rdma_bench.py")))
    role = BENCHMARKS[benchmark]
    tasks = repo.matching(f"roles/{role}/tasks/", suffix=".yml")
    registered = {name for task in tasks for name in re.findall(rf"register: __{role}_(\w+)", repo.text(task))}
    assert "inspect" in read
    assert read <= registered
