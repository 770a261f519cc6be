# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a node for containers. Runtimes' answers are written from their documented forms; nothing here was recorded."""

import json
from collections.abc import Callable

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry.containers import inspect_container_access
from ansible_collections.railwright.rdma.plugins.module_utils.observe.containers import (
    cdi_spec,
    observe_cdi,
    observe_image,
    observe_infiniband,
    observe_runtimes,
    observe_toolkit,
)
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

from .conftest import CDI, Captured


def test_every_device_node_of_the_tree(captured: Captured) -> None:
    assert observe_infiniband(captured) == {
        "rdma_cm": True, "uverbs": [{"name": "uverbs0", "hca": "mlx5_0"}, {"name": "uverbs1", "hca": "mlx5_1"}], "mad": ["issm0", "umad0"],
    }  # fmt: skip


def test_device_nodes_go_before_sysfs(captured: Captured) -> None:
    """What udev made is what a container can get; uverbs10 comes after uverbs2."""
    for name in ("uverbs10", "uverbs2", "by-ibdev", "uverbs0;rm", "umad0"):
        captured.put(f"/dev/infiniband/{name}", "")
    found = observe_infiniband(captured)
    assert [row["name"] for row in found["uverbs"]] == ["uverbs2", "uverbs10"]
    assert (found["rdma_cm"], found["mad"]) == (False, ["umad0"])


def test_runtimes_by_their_documented_answers(captured: Captured) -> None:
    assert observe_runtimes(captured) == ()
    captured.podman()
    captured.docker("27.5.1", CDISpecDirs=["/etc/cdi", "/var/run/cdi"], Runtimes={"runc": {}, "nvidia": {}})
    captured.put("/cmd/nerdctl_--version", "nerdctl version 2.1.2\n")
    docker, podman, nerdctl = observe_runtimes(captured)
    assert docker == ("docker", "27.5.1", "27.5.1", ("nvidia", "runc"), ("/etc/cdi", "/var/run/cdi"))
    assert (podman.version, nerdctl.version) == ("4.9.3", "2.1.2")


def test_a_docker_that_is_podman_and_one_whose_daemon_is_down(captured: Captured) -> None:
    captured.put("/cmd/docker_--version", "podman version 4.9.3\n")
    assert observe_runtimes(captured) == ()
    captured.put("/cmd/docker_--version", "Docker version 27.5.1, build 9f9e405\n")
    captured.put("/cmd/docker_info_--format_{{json .}}", json.dumps({"ServerErrors": ["Cannot connect to the Docker daemon"]}))
    assert observe_runtimes(captured) == (("docker", "27.5.1", None, (), ()),)


def test_the_toolkit(captured: Captured) -> None:
    assert observe_toolkit(captured) is None
    captured.toolkit("1.17.8")
    assert observe_toolkit(captured) == ("1.17.8", True, True)


def test_cdi_specifications_in_the_documented_form(captured: Captured) -> None:
    captured.cdi("580.126.20")
    captured.cdi("550.54.15", "/etc/cdi/nvidia.yaml")
    captured.put("/etc/cdi/other.yaml", CDI.format("1.2").replace("nvidia.com/gpu", "example.com/net"))
    captured.put("/etc/cdi/nvidia.txt", CDI.format("1.2"))
    assert [(item.path, item.devices, item.driver) for item in observe_cdi(captured)] == [
        ("/etc/cdi/nvidia.yaml", ("0", "all"), "550.54.15"), ("/var/run/cdi/nvidia.yaml", ("0", "all"), "580.126.20")]


def test_a_cdi_specification_as_json() -> None:
    document = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all", "containerEdits": {}}],
                "containerEdits": {"mounts": [{"hostPath": "/usr/lib64/libcuda.so.580.65.06"}]}}  # fmt: skip
    found = cdi_spec("/etc/cdi/nvidia.json", json.dumps(document, indent=2))
    assert found is not None
    assert (found.devices, found.driver) == (("all",), "580.65.06")


@pytest.mark.parametrize("text", ["", "not found", "[]", "{}", '[{"Config": null}]'])
def test_an_image_that_is_not_there(captured: Captured, text: str) -> None:
    captured.put("/cmd/docker_image_inspect_train:1", text)
    assert observe_image(captured, "docker", "train:1") is None


def test_only_the_cuda_of_an_image_is_told(captured: Captured) -> None:
    """An image's environment may hold a token."""
    captured.podman()
    config = {"Env": ["CUDA_VERSION=12.4.1", "TOKEN=secret", "EMPTY"], "Labels": {"maintainer": "somebody",
              "org.opencontainers.image.ref.name": "ubuntu"}}  # fmt: skip
    captured.put("/cmd/podman_image_inspect_train:1", json.dumps([{"Config": config}]))
    found = inspect_container_access(captured, None, "train:1")
    assert found["image"] == {"name": "train:1", "runtime": "podman", "variables": {"CUDA_VERSION": "12.4.1"},
                              "labels": {"org.opencontainers.image.ref.name": "ubuntu"}}  # fmt: skip
    assert "secret" not in json.dumps(found)


def test_a_node_without_an_inventory_tells_its_own_file(captured: Captured) -> None:
    found = inspect_container_access(captured, None)
    assert found["variables"] == {"NCCL_IB_TIMEOUT": "22", "NCCL_SOCKET_IFNAME": "=eth0"}
    assert found["addresses"] == ["fe80::1", "192.0.2.11"]
    assert (found["hostname"], found["image"], found["gpus"], found["driver"]) == ("gpu-host-1", None, [], None)


def test_with_an_inventory_the_variables_are_those_of_area_nccl(captured: Captured, spec: Callable[..., Spec]) -> None:
    """Not those of the file that is there: the container gets what the node will have."""
    wanted = spec(rails=[{"name": "rail0", "match": {"pci": "0000:28:00.0"}, "address": "192.0.2.11/28"}])
    found = inspect_container_access(captured, wanted)
    assert found["variables"]["NCCL_IB_HCA"] == "=mlx5_1:1"
    assert found["variables"]["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert "NCCL_IB_TC" in found["variables"]
    assert [(hca["name"], hca["numa_node"], hca["rail"]) for hca in found["hcas"]] == [("mlx5_0", 0, None), ("mlx5_1", 1, "rail0")]


def test_an_unknown_numa_node_is_none(captured: Captured) -> None:
    captured.gpu(0, -1)
    assert inspect_container_access(captured, None)["gpus"] == [{"pci": "0000:1a:00.0", "numa_node": None}]
