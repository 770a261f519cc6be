# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines of every launcher: the same ranks on the same hosts, the environment whole and beside them."""

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import SEARCH_PATH
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import (
    COLLECTIVES,
    LAUNCHERS,
    PURPOSES,
    Job,
    Sizes,
    command,
    hostfile,
    nccl_environment,
    options_of,
    purpose,
)

JOB = Job(("node1", "node2"), 8, "eth0", {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}, None)
PROGRAM = ["/opt/nccl-tests/all_reduce_perf", "-b", "8"]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_program_comes_last_and_its_options_are_untouched(launcher: str) -> None:
    assert command(launcher, JOB, PROGRAM, "/tmp/hosts").argv[-3:] == PROGRAM


@pytest.mark.parametrize(("launcher", "words"), [
    ("openmpi4", ["mpirun", "--hostfile", "hosts", "-np", "16", "--map-by", "ppr:8:node"]),
    ("openmpi5", ["mpirun", "--hostfile", "hosts", "-np", "16", "--map-by", "ppr:8:node"]),
    ("mpich", ["mpiexec", "-launcher", "ssh", "-f", "hosts", "-n", "16", "-ppn", "8", "-iface", "eth0"]),
])
def test_sixteen_ranks_on_two_nodes(launcher: str, words: list[str]) -> None:
    argv = command(launcher, JOB, PROGRAM, "hosts").argv
    start = argv.index(words[0])
    assert argv[start:start + len(words)] == words


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_values_are_in_no_command_line_and_reach_the_launcher_whole(launcher: str) -> None:
    """Everybody on a node reads command lines."""
    values = {"NCCL_IB_HCA": "=mlx5_0,mlx5_1", "HF_TOKEN": "s3cret", "LD_LIBRARY_PATH": "/opt/own/lib"}
    for mpi in (None, "/opt/railwright/hpcx/2.25.1/ompi/bin/mpirun"):
        made = command(launcher, JOB._replace(environment=values, mpi=mpi), PROGRAM, "hosts")
        assert not [word for word in made.argv if any(value in word for value in values.values())]
        assert {name: made.environment[name].partition(":")[0] for name in values} == values


@pytest.mark.parametrize(("launcher", "words"), [
    ("openmpi4", ["-x", "HF_TOKEN", "-x", "NCCL_IB_HCA"]), ("openmpi5", ["-x", "HF_TOKEN", "-x", "NCCL_IB_HCA"]), ("mpich", ["-genvall"]),
    ("slurm", ["--export", "ALL"]),
])
def test_each_launcher_is_told_to_hand_them_on(launcher: str, words: list[str]) -> None:
    argv = command(launcher, JOB._replace(environment={**JOB.environment, "HF_TOKEN": "s3cret"}), PROGRAM, "hosts").argv
    assert any(argv[at:at + len(words)] == words for at in range(len(argv)))


def parameters(argv: list[str]) -> dict[str, tuple[str, str]]:
    """Open MPI's parameters: name -> (option, value)."""
    return {argv[at + 1]: (word, argv[at + 2]) for at, word in enumerate(argv) if word in ("--mca", "--prtemca")}


@pytest.mark.parametrize(("launcher", "option", "names"), [
    ("openmpi4", "--mca", ("plm_rsh_agent", "orte_launch_agent", "oob_tcp_if_include")),
    ("openmpi5", "--prtemca", ("plm_ssh_agent", "prte_launch_agent", "prte_if_include")),
])
def test_each_open_mpi_has_the_parameters_of_its_own_runtime(launcher: str, option: str, names: tuple[str, str, str]) -> None:
    """As 4.1.4 and 5.0.7 obey them: an interface that is not there stops both, the marker is in the environment of orted and prted."""
    agent, launch_agent, interface = names
    found = parameters(command(launcher, JOB._replace(marker="RAILWRIGHT_BENCH=r1"), PROGRAM, "hosts").argv)
    assert found[agent] == (option, "ssh -oBatchMode=yes -oConnectTimeout=15")
    assert found[launch_agent] == (option, f"env RAILWRIGHT_BENCH=r1 {'orted' if launcher == 'openmpi4' else 'prted'}")
    assert found[interface] == (option, "eth0")
    assert found["btl_tcp_if_include"] == ("--mca", "eth0")


def test_without_a_marker_the_daemons_are_started_as_they_are() -> None:
    for launcher in ("openmpi4", "openmpi5"):
        assert not any(name.endswith("launch_agent") for name in parameters(command(launcher, JOB, PROGRAM, "hosts").argv))


def test_mpichs_transport_uses_the_interface_unless_the_operator_sets_it() -> None:
    def values(job: Job) -> dict[str, str]:
        found = command("mpich", job, PROGRAM, "hosts").environment
        return {name: value for name, value in found.items() if not name.startswith("HYDRA_")}

    assert values(JOB) == {"NCCL_IB_HCA": "=mlx5_0,mlx5_1", "FI_TCP_IFACE": "eth0", "UCX_NET_DEVICES": "eth0"}
    assert values(JOB._replace(environment={"UCX_NET_DEVICES": "mlx5_0:1"}))["UCX_NET_DEVICES"] == "mlx5_0:1"
    assert values(JOB._replace(interface=None)) == JOB.environment


def test_nobody_is_asked_for_a_password() -> None:
    for launcher in ("openmpi4", "openmpi5", "mpich"):
        made = command(launcher, JOB, PROGRAM, "hosts")
        assert any("-oBatchMode=yes" in word for word in (*made.argv, made.environment.get("HYDRA_LAUNCHER_EXTRA_ARGS", "")))


def test_hpcx_gets_its_prefix_and_its_libraries_follow_those_of_the_run() -> None:
    mpirun = "/opt/railwright/hpcx/2.25.1/ompi/bin/mpirun"
    job = JOB._replace(mpi=mpirun, environment={"LD_LIBRARY_PATH": "/opt/nccl/lib"})
    made = command("openmpi4", job, PROGRAM, "hosts")
    libraries = "/opt/nccl/lib:" + ":".join(f"/opt/railwright/hpcx/2.25.1/{part}/lib" for part in ("ompi", "ucx", "ucc", "hcoll", "sharp"))
    assert made.argv[0] == mpirun
    home = "/opt/railwright/hpcx/2.25.1"
    assert made.environment.pop("PATH") == f"{home}/ompi/bin:{home}/ucx/bin:{home}/ucc/bin:{home}/hcoll/bin:{home}/sharp/bin:{SEARCH_PATH}"
    own = dict.fromkeys(("HPCX_MPI_DIR", "OPAL_PREFIX", "PMIX_INSTALL_PREFIX"), f"{home}/ompi")
    assert made.environment == {"LD_LIBRARY_PATH": libraries, "HPCX_DIR": home, **own}
    assert {"LD_LIBRARY_PATH", "HPCX_DIR", "PATH"} <= set(made.argv), "the ranks need them too"
    job = JOB._replace(mpi=mpirun, environment={"PATH": "/opt/own/bin"})
    assert command("openmpi4", job, PROGRAM, "hosts").environment["PATH"].endswith("/sharp/bin:/opt/own/bin")


def test_another_mpi_gets_nothing_of_hpcxs() -> None:
    made = command("openmpi4", JOB._replace(mpi="/usr/bin/mpirun"), PROGRAM, "hosts")
    assert made.environment == JOB.environment


def test_no_interface_no_option() -> None:
    job = JOB._replace(interface=None)
    for launcher in LAUNCHERS:
        assert not any("if_include" in word or word == "-iface" for word in command(launcher, job, PROGRAM, "hosts").argv)


def test_hostfiles() -> None:
    assert hostfile(JOB, "openmpi4") == "node1 slots=8\nnode2 slots=8\n"
    assert hostfile(JOB, "mpich") == "node1:8\nnode2:8\n"


def test_sizes_are_plain_bytes() -> None:
    assert options_of(Sizes(8, 1 << 34, 2, 20, 5, 1, 1)) == [
        "-b", "8", "-e", "17179869184", "-f", "2", "-n", "20", "-w", "5", "-c", "1", "-g", "1"]


def test_a_promised_network_is_named_so_that_nothing_falls_back_in_silence() -> None:
    assert nccl_environment({}, "ib")["NCCL_NET"] == "IB"
    assert "NCCL_NET" not in nccl_environment({}, "")
    assert nccl_environment({"NCCL_DEBUG": "WARN"}, "ib", "log.%h.%p") == {
        "NCCL_DEBUG": "WARN", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH", "NCCL_DEBUG_FILE": "log.%h.%p", "NCCL_NET": "IB"}


def test_purposes_check_values_and_begin_below_their_end() -> None:
    for row in PURPOSES:
        assert purpose(row.name) == row
        assert row.begin < row.end
        assert row.check > 0
    assert set(COLLECTIVES.values()) == {name + "_perf" for name in COLLECTIVES}
