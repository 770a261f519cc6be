# SPDX-License-Identifier: GPL-3.0-or-later
"""Which MPI starters a node has: told by their own words, each once, the preferred one first."""

from pathlib import Path

import pytest
from tests.lib.starter_host import StarterHost

from ansible_collections.railwright.rdma.plugins.module_utils.observe import mpi
from ansible_collections.railwright.rdma.plugins.module_utils.observe.mpi import (
    found_mpi,
    hpcx_libraries,
    hpcx_variables,
    opal_prefix,
    version_of,
)

REPORT4 = "\n\nReport bugs to http://www.open-mpi.org/community/help/\n"
REPORT5 = "\n\nReport bugs to https://www.open-mpi.org/community/help/\n"
HYDRA = """HYDRA build details:
    Version:                                 {}
    Release Date:                            Thu Apr  7 12:34:45 CDT 2022
    CC:                              gcc -Wdate-time -D_FORTIFY_SOURCE=2 -g -O2
    Configure options:                       '--with-hwloc-prefix=/usr' '--with-device=ch4:ucx'
    Process Manager:                         pmi
"""
# Recorded on Debian 12 (openmpi-bin 4.1.4-3+b1, mpich 4.0.2-3+b1) and Debian 13 (openmpi-bin 5.0.7-1, mpich 4.3.0+really4.2.1-1).
RECORDED = [
    ("mpirun (Open MPI) 4.1.4" + REPORT4, ("openmpi4", "4.1.4")),
    ("mpirun.openmpi (OpenRTE) 4.1.4" + REPORT4, ("openmpi4", "4.1.4")),
    ("mpiexec (OpenRTE) 4.1.4" + REPORT4, ("openmpi4", "4.1.4")),
    ("mpirun (Open MPI) 5.0.7" + REPORT5, ("openmpi5", "5.0.7")),
    ("mpirun.openmpi (Open MPI) 5.0.7" + REPORT5, ("openmpi5", "5.0.7")),
    ("prterun (PRRTE) 3.0.8\n\nReport bugs to: https://github.com/openpmix/prrte\n", None),
    (HYDRA.format("4.0.2"), ("mpich", "4.0.2")),
    (HYDRA.format("4.2.1"), ("mpich", "4.2.1")),
]
WRITTEN = [  # in the forms that their documentation shows; not recorded
    ("mpirun (Open MPI) 4.1.9a1" + REPORT5, ("openmpi4", "4.1.9a1")),
    ("mpirun (Open MPI) 5.0.11" + REPORT5, ("openmpi5", "5.0.11")),
    ("mpirun (Open MPI) 3.1.6" + REPORT4, ("openmpi4", "3.1.6")),
    ("mpirun (Open MPI) 1.10.7" + REPORT4, None),
    ("mpirun (IBM Spectrum MPI) 10.3.1.00rtm0" + REPORT4, None),
    ("Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307 (id: d82b3071db)\nCopyright 2003-2023, Intel Corporation.\n", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "told"), RECORDED)
def test_recorded_answers_of_real_starters(text: str, told: tuple[str, str] | None) -> None:
    assert version_of(text) == told


@pytest.mark.parametrize(("text", "told"), WRITTEN)
def test_written_answers_of_starters_that_are_not_here(text: str, told: tuple[str, str] | None) -> None:
    assert version_of(text) == told


@pytest.fixture
def node(tmp_path: Path) -> StarterHost:
    return StarterHost(tmp_path)


def told(node: StarterHost, prefix: str | None = None, install: str = "none") -> list[tuple[str, str, str]]:
    return [(row.kind, row.version, row.mpirun) for row in found_mpi(node, prefix, install)]


def test_debians_alternative_is_one_mpi_and_the_other_is_found_too(node: StarterHost) -> None:
    node.link("/bin", "usr/bin")
    node.program("/usr/bin/orterun", RECORDED[0][0])
    node.link("/usr/bin/mpirun.openmpi", "orterun")
    for name in ("mpirun", "mpiexec"):
        node.link(f"/etc/alternatives/{name}", "/usr/bin/mpirun.openmpi")
        node.link(f"/usr/bin/{name}", f"/etc/alternatives/{name}")
    node.program("/usr/bin/mpiexec.hydra", HYDRA.format("4.0.2"))
    node.link("/usr/bin/mpirun.mpich", "mpiexec.hydra")
    assert told(node) == [("openmpi4", "4.1.4", "/usr/bin/mpirun"), ("mpich", "4.0.2", "/usr/bin/mpirun.mpich")]
    assert {row.prefix for row in found_mpi(node)} == {"/usr"}


def test_red_hats_directories_and_a_vendors_are_off_path_and_found(node: StarterHost) -> None:
    node.program("/usr/lib64/openmpi/bin/mpirun", WRITTEN[0][0])
    node.program("/usr/lib64/mpich/bin/mpirun", HYDRA.format("4.1.1"))
    node.program("/usr/mpi/gcc/openmpi-4.1.5rc2/bin/mpirun", "mpirun (Open MPI) 4.1.5rc2")
    assert [(kind, path) for kind, _version, path in told(node)] == [
        ("openmpi4", "/usr/lib64/openmpi/bin/mpirun"), ("mpich", "/usr/lib64/mpich/bin/mpirun"),
        ("openmpi4", "/usr/mpi/gcc/openmpi-4.1.5rc2/bin/mpirun")]


def test_hpcx_comes_first_newest_first_and_is_told_where_it_lies(node: StarterHost) -> None:
    node.program("/usr/bin/mpirun", RECORDED[0][0])
    for version in ("2.9.0", "2.25.1"):
        node.program(f"/opt/railwright/hpcx/{version}/ompi/bin/mpirun", "mpirun (Open MPI) 4.1.9a1\n{prefix}")
    paths = [path for _kind, _version, path in told(node)]
    assert paths == ["/opt/railwright/hpcx/2.25.1/ompi/bin/mpirun", "/opt/railwright/hpcx/2.9.0/ompi/bin/mpirun", "/usr/bin/mpirun"]
    assert found_mpi(node)[0].prefix == "/opt/railwright/hpcx/2.25.1/ompi"
    node.link("/opt/railwright/hpcx/current", "2.9.0")
    assert [path for _kind, _version, path in told(node)] == [paths[1], paths[0], paths[2]]


@pytest.mark.parametrize(("install", "first"), [
    ("none", "/opt/railwright/hpcx/2.25.1/ompi/bin/mpirun"), ("hpcx", "/opt/railwright/hpcx/2.25.1/ompi/bin/mpirun"),
    ("openmpi", "/usr/bin/mpirun"), ("mpich", "/usr/bin/mpirun.mpich"),
])
def test_what_the_inventory_installs_is_preferred_though_others_are_there(node: StarterHost, install: str, first: str) -> None:
    node.program("/usr/bin/mpirun", RECORDED[0][0])
    node.program("/usr/bin/mpirun.mpich", HYDRA.format("4.0.2"))
    node.program("/opt/railwright/hpcx/2.25.1/ompi/bin/mpirun", WRITTEN[0][0])
    paths = [path for _kind, _version, path in told(node, install=install)]
    assert len(paths) == 3
    assert paths[0] == first


def test_what_is_still_being_unpacked_is_no_hpcx(node: StarterHost) -> None:
    node.program("/opt/railwright/hpcx/.2.25.1.new/ompi/bin/mpirun", WRITTEN[0][0])
    assert told(node) == []


def test_a_prefix_is_looked_into_and_nothing_else(node: StarterHost) -> None:
    node.program("/usr/bin/mpirun", RECORDED[0][0])
    node.program("/opt/openmpi-5.0.8/bin/mpirun", "mpirun (Open MPI) 5.0.8")
    node.program("/opt/hpcx-v2.24/ompi/bin/mpirun", WRITTEN[0][0])
    assert told(node, "/opt/openmpi-5.0.8/") == [("openmpi5", "5.0.8", "/opt/openmpi-5.0.8/bin/mpirun")]
    assert told(node, "/opt/hpcx-v2.24") == [("openmpi4", "4.1.9a1", "/opt/hpcx-v2.24/ompi/bin/mpirun")]
    assert told(node, "/opt/none") == []


def test_what_does_not_run_or_is_no_starter_that_we_know_is_left_out(node: StarterHost) -> None:
    node.program("/usr/bin/mpirun", RECORDED[0][0], code=1)
    node.program("/usr/bin/mpiexec", WRITTEN[5][0].replace("(R)", ""))
    node.link("/usr/bin/mpirun.openmpi", "mpirun.mpich")
    node.link("/usr/bin/mpirun.mpich", "mpirun.openmpi")
    assert told(node) == []


def test_only_hpcxs_layout_is_taken_for_hpcx() -> None:
    assert opal_prefix("/opt/hpcx/ompi/bin/mpirun") == "/opt/hpcx/ompi"
    assert hpcx_libraries("/opt/hpcx/ompi/bin/mpirun")[0] == "/opt/hpcx/ompi/lib"
    assert not any("plugin" in path for path in hpcx_libraries("/opt/hpcx/ompi/bin/mpirun"))
    for path in ("/usr/bin/mpirun", "/opt/openmpi/bin/mpirun", "/usr/lib64/openmpi/bin/mpirun"):
        assert opal_prefix(path) is None
        assert hpcx_libraries(path) == ()
        assert hpcx_variables(path, "/usr/bin") == {}
    assert mpi.HPCX_TAIL in f"{mpi.HPCX_PREFIX}/2.25.1/ompi/bin/mpirun"
