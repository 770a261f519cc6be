# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's part of the build: which archive is pinned, and whose checksums every node is held to."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests_build import Delivery, Node, source_of
from field_specs import build_spec

GPU = {"pci": "0000:1b:00.0", "device_id": "0x2330", "capability": "9.0"}
NVCC = {"path": "/c/bin/nvcc", "home": "/c", "version": "13.0", "codes": ["sm_90"]}
NCCL = {"library": "/n/lib/libnccl.so.2", "include": "/n/include", "version": "2.30.7"}
NODE = {"arch": "x86_64", "gpus": [GPU], "nvcc": NVCC, "nccl": NCCL, "mpi": None, "missing_tools": [], "library_path": ["/n/lib"]}
SUMS = {"all_reduce_perf": "1" * 64}


def spec(**values: Any) -> Spec:
    found, findings = build_spec({"fabric": "roce", "mtu": 9000, "nccl_tests_launcher": "local", **values}, "n1")
    assert found is not None, findings
    return found


def delivery(here: str, inventory: Spec | None = None, **by_mode: dict[str, dict[str, Any]]) -> Delivery:
    """On one host; ``by_mode``: what the modes before gave on each."""
    hosts = sorted({host for results in by_mode.values() for host in results})
    hostvars = {
        host: {f"__nccl_tests_build_{mode}": results[host] for mode, results in by_mode.items() if host in results} for host in hosts}
    node = Node(lambda _step, _given: {}, lambda _name, _arguments: {}, None, False)
    return Delivery(node, inventory or spec(), {"inventory_hostname": here, "ansible_play_hosts": hosts, "hostvars": hostvars})


def test_the_pinned_release_is_pinned_by_the_catalogue() -> None:
    artifact = find_artifact("nccl-tests")
    assert artifact is not None
    source = source_of(spec())
    assert (source.version, source.sha256, source.archive) == (artifact.version, artifact.value, None)
    assert source.url == f"https://github.com/NVIDIA/nccl-tests/archive/refs/tags/v{artifact.version}.tar.gz"


def test_another_release_is_refused_until_somebody_pins_it() -> None:
    unproven = Spec({**spec().as_dict(), "nccl_tests_version": "2.18.0"})  # as no inventory gives it: its rules refuse it before
    with pytest.raises(RailwrightError, match=r"nccl-tests 2\.18\.0 is not pinned here: .*artifact_pins: \{nccl-tests: its sha256\}"):
        source_of(unproven)
    source = source_of(spec(nccl_tests_version="2.18.0", artifact_pins={"nccl-tests": "a" * 64}))
    assert source.url.endswith("/v2.18.0.tar.gz")
    assert source.sha256 == "a" * 64


def test_the_operators_checksum_and_mirror_come_first() -> None:
    pins, mirror = {"nccl-tests": "b" * 64}, "http://mirror.example/rw"
    source = source_of(spec(artifact_pins=pins, artifact_mirror=mirror, nccl_tests_archive="/srv/n.tgz"))
    assert source.sha256 == "b" * 64
    assert source.url.startswith("http://mirror.example/rw/github.com/NVIDIA/nccl-tests/")
    assert source.archive == "/srv/n.tgz"


def planned(**values: Any) -> dict[str, Any]:
    return delivery("n1", spec(**values), inspect={"n1": {"node": NODE}, "n2": {"node": NODE}}).plan()


def test_an_nfs_export_is_shared_whether_or_not_the_inventory_says_so() -> None:
    build = planned(nccl_tests_nfs="nfs1:/export", nccl_tests_path="/shared/t")["build"]
    assert build["shared"]
    assert build["directory"].startswith("/shared/t/2.19.6-")
    assert not planned()["build"]["shared"]


def test_a_host_that_failed_to_look_is_no_builder() -> None:
    found = delivery("n2", inspect={"n1": {"failed": True, "msg": "x"}, "n2": {"node": NODE}}).plan()
    assert found["build"]["builder"] == "n2"


def test_every_node_is_held_to_what_the_builder_says_now() -> None:
    built = planned()
    empty: dict[str, Any] = {"manifest": None, "programs": {}}
    states = {"n1": empty, "n2": empty}
    chosen = delivery("n1", plan={"n1": built}, state=states).choose()
    assert chosen["choice"]["build"]
    manifest = {"manifest": {"programs": SUMS}}
    assert delivery("n2", choose={"n1": chosen, "n2": chosen}, build={"n1": manifest}).programs() == SUMS
    assert delivery("n2", choose={"n1": chosen, "n2": chosen}, build={"n1": {"manifest": None}}).programs() is None, "check mode"


def test_and_without_a_build_to_what_was_found_whole() -> None:
    built = planned()
    whole = {"manifest": {"key": built["build"]["recipe"]["key"], "programs": SUMS}, "programs": SUMS}
    chosen = delivery("n2", plan={"n2": built}, state={"n1": whole, "n2": {"manifest": None, "programs": {}}}).choose()
    assert chosen["choice"]["receivers"] == ["n2"]
    assert delivery("n2", choose={"n2": chosen}).programs() == SUMS


def test_what_the_choice_tells_is_shown_as_a_warning() -> None:
    built = planned()
    key = built["build"]["recipe"]["key"]
    whole = {"manifest": {"key": key, "programs": SUMS}, "programs": SUMS}
    changed = {"manifest": {"key": key, "programs": SUMS}, "programs": {"all_reduce_perf": "2" * 64}}
    chosen = delivery("n1", plan={"n1": built}, state={"n1": whole, "n2": changed}).choose()
    [warning] = chosen["warnings"]
    assert warning.startswith("nccl_tests: n2: programs in ")
