# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL below its prefix: what is not the pinned file leaves the node as it was; the pinned one is put there once, and found there after.

Wheel and source are stand-ins (molecule.yml says why); mirror, download, copy, unzip, tar and make are real.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import nccl_files
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact, located, mirror_path
from cluster import Cluster
from playbook import Host, Playbook

WHEEL, SOURCE = "nccl-wheel-cu13-x86_64", "nccl-source"
MIRROR = "/srv/mirror"
NODES = ("wheel1", "local1", "src1")
LISTED = ("find", "/opt", "/var/cache", "/etc", "-not", "-type", "d", "-printf", "%p %s %m %l\n")
VARIABLES = ("/etc/nccl.conf", "/etc/profile.d/railwright-nccl.sh")  # of the role too, on any node; what is in them is scenario nccl_env's
DIRECTORIES = {"wheel1": "2.30.7-cu13", "local1": "2.30.7-cu13", "src1": "2.30.7-cu13-sm90"}


class Told(NamedTuple):
    """The runs in order, and what lay on every node before and after each."""

    files: list[dict[str, str]]
    runs: dict[str, dict[str, Host]]


def files(cluster: Cluster) -> dict[str, str]:
    return {node.name: "\n".join(sorted(cluster.container(node.name).out(*LISTED).splitlines())) for node in cluster.nodes}


@pytest.fixture(scope="session")
def told(scenario: str) -> Told:
    cluster, playbook = Cluster(scenario), Playbook(scenario)
    wheel, source = playbook.build / "nccl.whl", playbook.build / "nccl.tar.gz"
    pins = {WHEEL: nccl_files.wheel(wheel), SOURCE: nccl_files.source(source)}
    for node, file, name in (("wheel1", wheel, WHEEL), ("src1", source, SOURCE)):
        put(cluster, node, file, name)
    common = {"rdma_artifact_mirror": f"file://{MIRROR}", "rdma_stack": "inbox"}
    hosts = {"local1": {"nccl_archive": str(wheel)}}
    seen, runs = [files(cluster)], {}
    pinned = {"rdma_artifact_pins": pins}
    for name, values, check in (("wrong", {}, False), ("check", pinned, True), ("apply", pinned, False), ("again", pinned, False)):
        playbook.say({**common, **values}, hosts)
        runs[name] = playbook.run(check=check)
        seen.append(files(cluster))
    return Told(seen, runs)


def put(cluster: Cluster, node: str, file: Path, name: str) -> None:
    """Where a mirror keeps what the catalogue has a URL of."""
    row = find_artifact(name)
    assert row is not None
    target = f"{MIRROR}/{mirror_path(located(row))}"
    cluster.container(node).run("mkdir", "-p", target.rpartition("/")[0])
    cluster.container(node).copy_in(file, target)


@pytest.mark.parametrize(("node", "words"), [
    ("wheel1", ": The checksum for"),
    ("src1", ": The checksum for"),
    ("local1", f"which is pinned for {WHEEL}; no node was changed"),
])
def test_a_file_with_another_checksum_is_refused_and_removed(told: Told, node: str, words: str) -> None:
    """The stand-ins are not what the catalogue has a checksum of."""
    assert any(said.startswith("nccl: ") and words in said for _task, said in told.runs["wrong"][node].failed)
    assert told.files[0][node] == told.files[1][node]


def test_check_mode_says_that_it_would_and_does_nothing(told: Told) -> None:
    for node in NODES:
        assert told.runs["check"][node].failed == []
        assert told.runs["check"][node].changed != []
    assert told.files[1] == told.files[2]


@pytest.mark.parametrize("node", NODES)
def test_library_headers_and_link_lie_in_the_directory_of_the_release(told: Told, scenario: str, node: str) -> None:
    assert told.runs["apply"][node].failed == []
    container = Cluster(scenario).container(node)
    prefix = f"/opt/railwright/nccl/{DIRECTORIES[node]}"
    assert container.out("readlink", "-f", "/opt/railwright/nccl/current").strip() == prefix
    assert container.run("cmp", f"{prefix}/lib/libnccl.so", f"{prefix}/lib/libnccl.so.2", check=False).returncode == 0
    assert container.out("cat", f"{prefix}/include/nccl.h") == "/* 2.30.7 */\n"
    said = container.json("cat", f"{prefix}/railwright.json")
    assert (said["version"], said["install"]) == ("2.30.7", "source" if node == "src1" else "wheel")
    new = [line for line in set(told.files[3][node].splitlines()) - set(told.files[2][node].splitlines()) if not line.startswith(VARIABLES)]
    assert {line.split("/")[1:4] == ["opt", "railwright", "nccl"] for line in new} == {True}, "nothing else is left: no file, no cache"


def test_it_was_built_for_the_gpus_of_the_node(told: Told, scenario: str) -> None:
    said = Cluster(scenario).container("src1").json("cat", "/opt/railwright/nccl/current/railwright.json")
    assert (said["gencode"], said["cuda"]) == ("-gencode=arch=compute_90,code=sm_90", "13.0")


def test_the_second_apply_changes_nothing(told: Told) -> None:
    for node, host in told.runs["again"].items():
        assert (host.failed, host.changed) == ([], []), node
    assert told.files[3] == told.files[4]


def test_a_node_without_gpu_gets_variables_only_and_the_reason_is_told(told: Told) -> None:
    assert [run["cpu1"].failed for run in told.runs.values()] == [[]] * 4
    said = [note for module in ("rdma_state", "rdma_prefix") for answer in told.runs["apply"]["cpu1"].of(module)
            for note in answer.get("notes", [])]
    assert "nccl: no NVIDIA GPU on the PCI bus of this node, so NCCL is not installed" in said
    new = set(told.files[4]["cpu1"].splitlines()) ^ set(told.files[0]["cpu1"].splitlines())
    assert [line for line in new if not line.startswith(VARIABLES)] == []
