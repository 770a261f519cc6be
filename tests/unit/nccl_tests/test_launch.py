# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines of every launcher: the same ranks on the same hosts, the environment whole."""

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.nccl_tests.launch import (
    COLLECTIVES,
    LAUNCHERS,
    PURPOSES,
    Job,
    Sizes,
    command,
    environment,
    hostfile,
    options_of,
    purpose,
)

JOB = Job(("node1", "node2"), 8, "eth0", {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}, None)
PROGRAM = ["/opt/nccl-tests/all_reduce_perf", "-b", "8"]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_program_comes_last_and_its_options_are_untouched(launcher: str) -> None:
    assert command(launcher, JOB, PROGRAM, "/tmp/hosts")[-3:] == PROGRAM


@pytest.mark.parametrize(("launcher", "words"), [
    ("openmpi4", ["mpirun", "--hostfile", "hosts", "-np", "16"]),
    ("openmpi5", ["mpirun", "--hostfile", "hosts", "-np", "16"]),
    ("mpich", ["mpiexec", "-f", "hosts", "-n", "16", "-ppn", "8", "-iface", "eth0"]),
])
def test_sixteen_ranks_on_two_nodes(launcher: str, words: list[str]) -> None:
    assert command(launcher, JOB, PROGRAM, "hosts")[:len(words)] == words


@pytest.mark.parametrize(("launcher", "words"), [
    ("local", ["env", "NCCL_IB_HCA==mlx5_0,mlx5_1"]),
    ("openmpi4", ["-x", "NCCL_IB_HCA==mlx5_0,mlx5_1"]),
    ("mpich", ["-genv", "NCCL_IB_HCA", "=mlx5_0,mlx5_1"]),
    ("slurm", ["env", "NCCL_IB_HCA==mlx5_0,mlx5_1"]),
])
def test_a_value_with_commas_reaches_the_ranks_whole(launcher: str, words: list[str]) -> None:
    argv = command(launcher, JOB, PROGRAM, "hosts")
    at = argv.index(words[0]) if launcher != "openmpi4" else argv.index("-x")
    assert argv[at:at + len(words)] == words


def test_openmpi_5_has_its_runtime_elsewhere() -> None:
    assert "--prtemca" in command("openmpi5", JOB, PROGRAM, "hosts")
    assert "--prtemca" not in command("openmpi4", JOB, PROGRAM, "hosts")


def test_no_interface_no_option() -> None:
    job = JOB._replace(interface=None)
    for launcher in LAUNCHERS:
        assert not any("if_include" in word or word == "-iface" for word in command(launcher, job, PROGRAM, "hosts"))


def test_hostfiles() -> None:
    assert hostfile(JOB, "openmpi4") == "node1 slots=8\nnode2 slots=8\n"
    assert hostfile(JOB, "mpich") == "node1:8\nnode2:8\n"


def test_sizes_are_plain_bytes() -> None:
    assert options_of(Sizes(8, 1 << 34, 2, 20, 5, 1, 1)) == [
        "-b", "8", "-e", "17179869184", "-f", "2", "-n", "20", "-w", "5", "-c", "1", "-g", "1"]


def test_a_promised_network_is_named_so_that_nothing_falls_back_in_silence() -> None:
    assert environment({}, "ib")["NCCL_NET"] == "IB"
    assert "NCCL_NET" not in environment({}, "")
    assert environment({"NCCL_DEBUG": "WARN"}, "ib", "log.%h.%p") == {
        "NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH", "NCCL_DEBUG_FILE": "log.%h.%p", "NCCL_NET": "IB"}


def test_purposes_check_values_and_begin_below_their_end() -> None:
    for row in PURPOSES:
        assert purpose(row.name) == row
        assert row.begin < row.end
        assert row.check > 0
    assert set(COLLECTIVES.values()) == {name + "_perf" for name in COLLECTIVES}
