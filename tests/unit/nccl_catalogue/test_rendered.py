# SPDX-License-Identifier: GPL-3.0-or-later
"""What each profile writes on a captured node (trees written from documented formats), variable by variable."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import NCCL_PROFILES
from profile_trees import LIBRARY, Tree

MLX5 = "=" + ",".join(f"mlx5_{i}:1" for i in range(8))
ROCE = {"NCCL_IB_HCA": MLX5, "NCCL_SOCKET_IFNAME": "=eth0"}
OCI = {**ROCE, "NCCL_IB_TC": "41", "NCCL_DEBUG": "WARN", "NCCL_IGNORE_CPU_AFFINITY": "1"}
RACK = {**ROCE, "NCCL_IB_TC": "41", "NCCL_DEBUG": "WARN", "NCCL_CUMEM_ENABLE": "1", "NCCL_IB_TIMEOUT": "22"}
LATER = {**OCI, "NCCL_CUMEM_ENABLE": "0", "NCCL_IB_TIMEOUT": "22"}
IB = {"NCCL_IB_HCA": "=" + ",".join(f"mlx5_{i}:1" for i in (0, 1, 2, 3, 4, 5, 9, 10)), "NCCL_SOCKET_IFNAME": "=eth0"}
AZURE = {**IB, "NCCL_IB_PCI_RELAXED_ORDERING": "1", "NCCL_IGNORE_CPU_AFFINITY": "1"}
TCPX = {"NCCL_SOCKET_IFNAME": "=eth0", "NCCL_CROSS_NIC": "0", "NCCL_PROTO": "Simple", "NCCL_NET_GDR_LEVEL": "PIX",
        "NCCL_P2P_PXN_LEVEL": "0", "NCCL_P2P_NET_CHUNKSIZE": "524288", "NCCL_P2P_PCI_CHUNKSIZE": "524288",
        "NCCL_P2P_NVL_CHUNKSIZE": "1048576", "NCCL_BUFFSIZE": "4194304", "NCCL_NSOCKS_PERTHREAD": "4", "NCCL_SOCKET_NTHREADS": "1"}
# profile: (captured tree, what the inventory says beside it, what /etc/nccl.conf holds)
EXPECTED: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "roce": ("doca8", {}, {**ROCE, "NCCL_IB_TIMEOUT": "22", "NCCL_IB_QPS_PER_CONNECTION": "4", "NCCL_IB_TC": "106"}),
    "infiniband": ("ib8", {}, {**IB, "NCCL_IB_TIMEOUT": "22"}),
    "erdma-native": ("erdma2", {}, {
        "NCCL_IB_HCA": "=erdma_0:1,erdma_1:1", "NCCL_SOCKET_IFNAME": "=eth0", "NCCL_IB_GID_INDEX": "-1", "NCCL_IB_ADDR_FAMILY": "AF_INET",
        "NCCL_IB_ROCE_VERSION_NUM": "2", "NCCL_IB_ADDR_RANGE": "172.16.0.0/16", "NCCL_IB_QPS_PER_CONNECTION": "8", "NCCL_MIN_CTAS": "16",
        "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_NET_PLUGIN": "none"}),
    "erdma-aiacc": ("erdma2", {"bootstrap_interface": None}, {}),
    "scnet": ("doca8", {"qos_profile": "scnet-dscp34-prio4"}, {
        **ROCE, "NCCL_IB_TC": "136", "NCCL_IB_TIMEOUT": "22", "NCCL_IB_QPS_PER_CONNECTION": "8", "NCCL_DEBUG": "INFO"}),
    "azure-ndv4": ("ib8", {}, {**AZURE, "NCCL_TOPO_FILE": "/opt/microsoft/ndv4/topo.xml"}),
    "azure-ndv5": ("ib8", {}, {**AZURE, "NCCL_TOPO_FILE": "/opt/microsoft/ndv5/topo.xml"}),
    "oci-a100": ("doca8", {"qos_profile": "oci-dscp10"}, {**OCI, "NCCL_IB_QPS_PER_CONNECTION": "4"}),
    "oci-h100": ("doca8", {"qos_profile": "oci-dscp10"}, LATER),
    "oci-h200": ("doca8", {"qos_profile": "oci-dscp10"}, LATER),
    "oci-b200": ("doca8", {"qos_profile": "oci-dscp10"}, LATER),
    "oci-b300": ("doca8", {"qos_profile": "oci-dscp10"}, LATER),
    "oci-gb200": ("ib8", {}, {**IB, "NCCL_DEBUG": "WARN", "NCCL_CUMEM_ENABLE": "1"}),
    "oci-gb200-v3": ("doca8", {"qos_profile": "oci-dscp10"}, RACK),
    "oci-gb300": ("doca8", {"qos_profile": "oci-dscp10"}, {**RACK, "NCCL_IB_QPS_PER_CONNECTION": "4", "NCCL_BUFFSIZE": "16777216"}),
    "azure-gb200": ("ib8", {}, {**IB, "NCCL_IB_SL": "1"}),
    "azure-gb300": ("ib8", {}, {**IB, "NCCL_IB_SL": "1"}),
    "spectrum-x": ("doca8", {}, {**ROCE, "NCCL_IB_TIMEOUT": "22", "NCCL_IB_TC": "106"}),
    "gcp-a3-high": ("doca8", {"qos_profile": "none", "rails": []}, TCPX),
    "gcp-a3-mega": ("doca8", {"qos_profile": "none", "rails": []}, {"NCCL_SOCKET_IFNAME": "=eth0"}),
    "gcp-a3-ultra": ("doca8", {"qos_profile": "none"}, {"NCCL_SOCKET_IFNAME": "=eth0"}),
    "gcp-a4": ("doca8", {"qos_profile": "none"}, {"NCCL_SOCKET_IFNAME": "=eth0"}),
    "gcp-a4x": ("doca8", {"qos_profile": "none"}, {"NCCL_SOCKET_IFNAME": "=eth0"}),
    "gcp-a4x-max": ("doca8", {"qos_profile": "none"}, {"NCCL_SOCKET_IFNAME": "=eth0"}),
    "aws-efa": ("doca8", {"qos_profile": "none", "rails": [], "bootstrap_interface": None}, {}),
}


def test_every_profile_is_here() -> None:
    assert set(EXPECTED) == {row.name for row in NCCL_PROFILES}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_file_of_a_captured_node(name: str, tree: Callable[[str], Tree]) -> None:
    captured, values, expected = EXPECTED[name]
    assert tree(captured).conf(nccl_profile=name, **values) == expected


@pytest.mark.parametrize("name", EXPECTED)
def test_an_override_beats_every_profile(name: str, tree: Callable[[str], Tree]) -> None:
    captured, values, expected = EXPECTED[name]
    conf = tree(captured).conf(nccl_profile=name, **values, nccl_overrides={"NCCL_IB_TIMEOUT": 23, "NCCL_DEBUG": None})
    assert conf == {key: value for key, value in {**expected, "NCCL_IB_TIMEOUT": "23"}.items() if key != "NCCL_DEBUG"}


@pytest.mark.parametrize(("name", "captured", "qos"), [("erdma-aiacc", "erdma2", {}), ("aws-efa", "doca8", {"qos_profile": "none"})])
def test_a_plugins_profile_sets_only_the_named_interface(
    name: str, captured: str, qos: dict[str, str], tree: Callable[[str], Tree]
) -> None:
    node = tree(captured)
    assert node.conf(nccl_profile=name, rails=[], **qos) == {"NCCL_SOCKET_IFNAME": "=eth0"}
    assert node.problems(nccl_profile=name, rails=[], bootstrap_interface=None, **qos) == [], "no interface is missed that nothing needs"


@pytest.mark.parametrize("name", ["gcp-a3-high", "gcp-a3-mega", "gcp-a3-ultra", "gcp-a4", "gcp-a4x", "gcp-a4x-max"])
def test_googles_nodes_bring_their_interface(name: str, tree: Callable[[str], Tree]) -> None:
    """The one profile kind that adds the bootstrap interface and no device: its NICs have addresses that no bootstrap reaches."""
    node, values = tree("doca8"), {"nccl_profile": name, "qos_profile": "none", "rails": [], "bootstrap_interface": None}
    assert "NCCL_IB_HCA" not in node.conf(**values)
    assert node.conf(**values)["NCCL_SOCKET_IFNAME"].startswith("=")


def test_a_shapes_list_is_for_hosts_without_rails(tree: Callable[[str], Tree]) -> None:
    node = tree("doca8")  # eight HCAs, and BM.GPU.H200.8's list names mlx5_9 to mlx5_11
    values = {"nccl_profile": "oci-h200", "qos_profile": "oci-dscp10"}
    assert node.conf(**values)["NCCL_IB_HCA"] == MLX5
    assert node.conf(**values, rails=[])["NCCL_IB_HCA"] == "=mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11"
    (problem,) = node.problems(**values, rails=[])
    assert problem.startswith("NCCL_IB_HCA: the list of shape BM.GPU.H200.8 names mlx5_9, mlx5_10, mlx5_11, which this node does not have")
    assert node.problems(**values, rails=[], nccl_overrides={"NCCL_IB_HCA": "=mlx5_0"}) == []


@pytest.mark.parametrize("size", ["ndv4", "ndv5"])
def test_azures_topology_file_is_missed_and_found(size: str, tree: Callable[[str], Tree]) -> None:
    node, path = tree("ib8"), f"/opt/microsoft/{size}/topo.xml"
    (problem,) = node.problems(nccl_profile=f"azure-{size}")
    assert problem.startswith(f"NCCL_TOPO_FILE: {path} is not on this node: it is")
    assert "nccl_overrides: {NCCL_TOPO_FILE: null}" in problem
    assert node.problems(nccl_profile=f"azure-{size}", nccl_overrides={"NCCL_TOPO_FILE": None}) == []
    node.put(path, "<system/>\n")
    assert node.problems(nccl_profile=f"azure-{size}") == []


def test_a_file_that_an_override_names_is_a_note(tree: Callable[[str], Tree]) -> None:
    node = tree("ib8")
    values = {"nccl_overrides": {"NCCL_TOPO_FILE": "/etc/topo.xml"}}
    assert node.problems(**values) == []
    assert node.notes(**values) == ["nccl: NCCL_TOPO_FILE names /etc/topo.xml, which is not on this node; NCCL passes over it"]
    node.put("/etc/topo.xml", "<system/>\n")
    assert node.notes(**values) == []


def test_the_library_that_the_tests_write_is_read_as_one(tree: Callable[[str], Tree]) -> None:
    from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl_libraries import nccl_libraries

    node = tree("doca8")
    node.library("2.20.5")
    assert [(row.path, row.version) for row in nccl_libraries(node.host)] == [(LIBRARY % "2.20.5", "2.20.5")]
