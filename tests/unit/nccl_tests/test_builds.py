# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node builds nccl-tests, for which GPUs, into which directory; and who gets a copy of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests.install import make_options, manifest
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests.toolchain import gencode, read_manifest
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests import builds

SOURCE = builds.Source("2.19.6", "https://mirror.example/nccl-tests.tar.gz", "a" * 64, None)
WISHES = builds.Wishes("build", None, False, "auto", ("all_reduce",), SOURCE)
H100 = {"pci": "0000:1b:00.0", "device_id": "0x2330", "capability": "9.0"}
A100 = {"pci": "0000:1b:00.0", "device_id": "0x20b2", "capability": "8.0"}
NVCC = {"path": "/usr/local/cuda/bin/nvcc", "home": "/usr/local/cuda", "version": "13.0", "codes": ["sm_80", "sm_90", "sm_100"]}
NCCL = {"library": "/opt/railwright/nccl/2.30.7/lib/libnccl.so.2", "include": "/opt/railwright/nccl/2.30.7/include", "version": "2.30.7",
        "origin": "prefix"}
MPI = {"kind": "openmpi5", "version": "5.0.8", "include": "/usr/include", "library": "/usr/lib/libmpi.so", "directory": "/usr/lib"}
SUMS = {"all_reduce_perf": "1" * 64, "all_gather_perf": "2" * 64}


def node(**changes: Any) -> dict[str, Any]:
    whole = {"arch": "x86_64", "gpus": [H100], "nvcc": NVCC, "nccl": NCCL, "mpi": MPI, "missing_tools": []}
    return {**copy.deepcopy(whole), **changes}


def refused(nodes: dict[str, Any], wishes: builds.Wishes = WISHES) -> str:
    with pytest.raises(RailwrightError) as error:
        builds.plan(nodes, wishes)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_for_the_gpus_of_all_nodes_in_rising_order() -> None:
    b200 = {**H100, "capability": "10.0"}
    planned = builds.plan({"n1": node(), "n2": node(gpus=[A100]), "n3": node(gpus=[b200])}, WISHES)
    assert planned["recipe"]["sm"] == ["sm_80", "sm_90", "sm_100"]
    assert planned["builder"] == "n1"
    assert planned["directory"] == f"/opt/railwright/nccl-tests/2.19.6-{planned['recipe']['key']}"
    assert gencode(["90"]) == "-gencode=arch=compute_90,code=sm_90"
    assert gencode(["sm_80", "sm_100"]) == "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_100,code=sm_100"


def test_the_first_node_that_has_everything_builds() -> None:
    lacking = {"n1": node(gpus=[]), "n2": node(nvcc=None), "n3": node(nccl=None), "n4": node(missing_tools=["make"])}
    assert builds.plan({**lacking, "n5": node(), "n6": node()}, WISHES)["builder"] == "n5"


def test_without_mpi_where_nothing_needs_it() -> None:
    planned = builds.plan({"n1": node(mpi=None)}, WISHES)
    assert planned["recipe"]["mpi"] is None
    assert not [option for option in make_options(planned["recipe"], planned["toolchain"], "/work", True) if option.startswith("MPI")]


@pytest.mark.parametrize(("launcher", "count"), [("mpi", 1), ("slurm", 1), ("auto", 2)])
def test_mpi_is_needed_as_soon_as_ranks_are_started_by_it(launcher: str, count: int) -> None:
    nodes = {f"n{number}": node(mpi=None) for number in range(count)}
    assert "no mpicc with mpi.h" in refused(nodes, WISHES._replace(launcher=launcher))
    nodes["last"] = node()
    assert builds.plan(nodes, WISHES._replace(launcher=launcher))["builder"] == "last"
    assert builds.plan({"n1": node(mpi=None), "n2": node(mpi=None)}, WISHES._replace(launcher="local"))["builder"] == "n1"


def test_make_gets_what_the_makefile_of_nccl_tests_reads() -> None:
    planned = builds.plan({"n1": node()}, WISHES)
    assert make_options(planned["recipe"], planned["toolchain"], "/work", True) == [
        "BUILDDIR=/work/build", "CUDA_HOME=/usr/local/cuda", "NVCC=/usr/local/cuda/bin/nvcc", "NCCL_HOME=/work/nccl",
        "NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90", "CUDARTLIB=cudart_static", "MPI=1", "MPI_HOME=/work/mpi", "CXXSTD=-std=c++17"]
    old = {**planned["toolchain"], "nvcc": {**NVCC, "version": "12.4"}}
    options = make_options(planned["recipe"], old, "/work", False)
    assert not [option for option in options if option.startswith(("CXXSTD", "CUDARTLIB"))]


def test_an_nvcc_that_is_too_old_is_named_with_the_node_and_what_it_knows() -> None:
    old = {**NVCC, "version": "11.5", "codes": ["sm_70", "sm_80"]}
    said = refused({"n1": node(nvcc=old, gpus=[A100]), "n2": node(nvcc=old)})
    assert "n1: nvcc 11.5 does not know sm_90" in said
    assert "it knows sm_70, sm_80" in said
    assert builds.plan({"n1": node(nvcc=old, gpus=[A100]), "n2": node()}, WISHES)["builder"] == "n2"


def test_without_any_gpu_the_nodes_are_named() -> None:
    assert refused({"n1": node(gpus=[]), "n2": node(gpus=[])}).startswith("no CUDA device on n1, n2: ")


def test_a_gpu_that_nobody_knows_is_refused_not_guessed() -> None:
    said = refused({"n1": node(), "n2": node(gpus=[{**H100, "device_id": "0x9999", "capability": None}])})
    assert "n2 (0000:1b:00.0, 0x9999)" in said
    assert "n1 (" not in said


def test_two_architectures_are_refused() -> None:
    said = refused({"n1": node(), "n2": node(arch="aarch64")})
    assert "aarch64: n2; x86_64: n1" in said
    assert builds.plan({"n1": node(), "n2": node(arch="aarch64", gpus=[])}, WISHES)["builder"] == "n1"


def test_a_refusal_of_400_nodes_stays_one_line_that_can_be_read() -> None:
    said = refused({f"n{number}": node(nvcc=None) for number in range(400)})
    assert "and 392 more" in said
    assert len(said) < 1000


@pytest.mark.parametrize(("where", "name", "value"), [
    ("nvcc", "version", "12.8"), ("nccl", "version", "2.29.2"), ("mpi", "version", "5.0.9"), ("mpi", "kind", "mpich"),
])
def test_another_toolchain_gives_another_directory(where: str, name: str, value: str) -> None:
    changed = node()
    changed[where][name] = value
    assert builds.plan({"n1": node()}, WISHES)["directory"] != builds.plan({"n1": changed}, WISHES)["directory"]


def test_gpu_and_source_name_the_build_directory_and_the_builder_does_not() -> None:
    first = builds.plan({"n1": node()}, WISHES)
    assert len(first["recipe"]["key"]) == 12
    assert builds.plan({"n1": node(gpus=[A100])}, WISHES)["directory"] != first["directory"]
    assert builds.plan({"n1": node()}, WISHES._replace(source=SOURCE._replace(sha256="b" * 64)))["directory"] != first["directory"]
    assert builds.plan({"n7": node()}, WISHES)["directory"] == first["directory"]
    elsewhere = builds.plan({"n1": node()}, WISHES._replace(path="/shared/t/"))["directory"]
    assert elsewhere == f"/shared/t/2.19.6-{first['recipe']['key']}"


def state(planned: dict[str, Any], **changed: str) -> dict[str, Any]:
    said = read_manifest(manifest(planned["recipe"], "n1", SUMS))
    return {"manifest": said, "programs": {**SUMS, **changed}}


EMPTY: dict[str, Any] = {"manifest": None, "programs": {}}


@pytest.fixture
def planned() -> dict[str, Any]:
    return builds.plan({"n1": node(), "n2": node(), "n3": node()}, WISHES)


def test_nothing_is_there_so_one_builds_and_the_others_get_it(planned: dict[str, Any]) -> None:
    assert builds.choose_origin(planned, {"n1": EMPTY, "n2": EMPTY, "n3": EMPTY}) == {
        "origin": "n1", "build": True, "receivers": ["n2", "n3"], "programs": None, "warnings": []}


def test_what_is_there_and_whole_is_not_built_again(planned: dict[str, Any]) -> None:
    whole = state(planned)
    assert builds.choose_origin(planned, {"n1": whole, "n2": whole, "n3": whole}) == {
        "origin": "n1", "build": False, "receivers": [], "programs": SUMS, "warnings": []}
    assert builds.choose_origin(planned, {"n1": EMPTY, "n2": whole, "n3": EMPTY}) == {
        "origin": "n2", "build": False, "receivers": ["n1", "n3"], "programs": SUMS, "warnings": []}


def test_a_changed_program_is_replaced_and_told_of(planned: dict[str, Any]) -> None:
    bad = state(planned, all_reduce_perf="f" * 64)
    chosen = builds.choose_origin(planned, {"n1": state(planned), "n2": bad, "n3": state(planned)})
    assert (chosen["origin"], chosen["build"], chosen["receivers"]) == ("n1", False, ["n2"])
    [warning] = chosen["warnings"]
    assert warning.startswith("n2: programs in ")
    on_builder = builds.choose_origin(planned, {"n1": bad, "n2": state(planned), "n3": state(planned)})
    assert (on_builder["origin"], on_builder["receivers"]) == ("n2", ["n1"])


def test_a_program_changed_together_with_its_manifest_is_replaced(planned: dict[str, Any]) -> None:
    other = dict.fromkeys(SUMS, "f" * 64)
    clever = {"manifest": read_manifest(manifest(planned["recipe"], "n2", other)), "programs": other}
    assert builds.choose_origin(planned, {"n1": state(planned), "n2": clever, "n3": state(planned)})["receivers"] == ["n2"]


def test_an_older_build_of_the_same_name_is_not_this_one(planned: dict[str, Any]) -> None:
    old = state(planned)
    old["manifest"]["key"] = "000000000000"
    assert builds.choose_origin(planned, {"n1": old, "n2": old, "n3": old})["build"]


def test_a_shared_directory_is_never_copied_to() -> None:
    shared = builds.plan({"n1": node(), "n2": node()}, WISHES._replace(path="/shared/t", shared=True))
    assert builds.choose_origin(shared, {"n1": EMPTY, "n2": EMPTY})["receivers"] == []
    whole = state(shared)
    assert builds.choose_origin(shared, {"n1": whole, "n2": whole}) == {
        "origin": "n1", "build": False, "receivers": [], "programs": SUMS, "warnings": []}


PREBUILT = builds.Wishes("prebuilt", "/opt/t", False, "auto", ("all_reduce", "alltoall"), None)
PROGRAMS = {"all_reduce_perf": "1" * 64, "alltoall_perf": "2" * 64}


def test_prebuilt_asks_for_no_gpu_and_no_compiler() -> None:
    planned = builds.plan({"n1": node(gpus=[], nvcc=None, nccl=None)}, PREBUILT)
    assert (planned["directory"], planned["builder"]) == ("/opt/t", None)
    chosen = builds.choose_origin(planned, {"n1": {"manifest": None, "programs": PROGRAMS}})
    assert chosen == {"origin": None, "build": False, "receivers": [], "programs": None, "warnings": []}


def test_prebuilt_programs_must_be_there() -> None:
    planned = builds.plan({"n1": node(), "n2": node()}, PREBUILT)
    with pytest.raises(RailwrightError, match=r"/opt/t holds no executable program of that name: n2: alltoall_perf"):
        builds.choose_origin(planned, {"n1": {"manifest": None, "programs": PROGRAMS},
                               "n2": {"manifest": None, "programs": {"all_reduce_perf": "1" * 64}}})


def test_prebuilt_programs_that_differ_are_told_of() -> None:
    planned = builds.plan({"n1": node(), "n2": node()}, PREBUILT)
    chosen = builds.choose_origin(planned, {"n1": {"manifest": None, "programs": PROGRAMS},
                                    "n2": {"manifest": None, "programs": {**PROGRAMS, "alltoall_perf": "3" * 64}}})
    [warning] = chosen["warnings"]
    assert warning == "/opt/t/alltoall_perf is not the same on all nodes (sha256): 222222222222 on n1; 333333333333 on n2"


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"programs": {}}', '{"programs": {"a_perf": 1}}', "[" * 100000])
def test_what_is_no_manifest_is_none(text: str | None) -> None:
    assert read_manifest(text) is None
