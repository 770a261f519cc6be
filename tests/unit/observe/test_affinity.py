# SPDX-License-Identifier: GPL-3.0-or-later
"""How near a GPU is to an HCA: sysfs trees of known machines against what ``nvidia-smi topo -m`` said there.

The switches' upstream ports and the classes of DGX A100 and DGX-2 are as people recorded them in public (NVIDIA/nccl issues 1505 and 507,
NVIDIA/nccl-tests issue 78). The downstream ports between them, which NCCL's own file leaves out, are filled in here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.node_pci import numa_nodes
from tests.fixtures.node_text import OS_RELEASE
from tests.fixtures.node_tree import Device, Port, Tree

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.affinity import (
    CLASSES,
    Place,
    affinity,
    differences,
    driver_matrix,
    path_class,
    pci_place,
    topo_matrix,
)
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity

# device: (host bridge and root port, switches above it from the root down by their upstream ports, own address, NUMA node)
Seat = tuple[str, Sequence[str], str, int]
DGX_A100: dict[str, Seat] = {
    "GPU0": ("pci0000:00/0000:00:01.1", ("01:00.0", "03:00.0", "05:00.0"), "0000:07:00.0", 3),
    "GPU1": ("pci0000:00/0000:00:01.1", ("01:00.0", "0a:00.0", "0d:00.0"), "0000:0f:00.0", 3),
    "mlx5_0": ("pci0000:00/0000:00:01.1", ("01:00.0", "0a:00.0"), "0000:0c:00.0", 3),
    "mlx5_2": ("pci0000:40/0000:40:01.1", ("41:00.0", "48:00.0"), "0000:4b:00.0", 1),
}
DGX_A100_SAID = {("GPU0", "mlx5_0"): "PXB", ("GPU1", "mlx5_0"): "PXB", ("GPU0", "mlx5_2"): "SYS", ("GPU1", "mlx5_2"): "SYS"}
DGX_2: dict[str, Seat] = {
    "GPU0": ("pci0000:2a/0000:2a:00.0", ("2c:00.0", "37:00.0"), "0000:39:00.0", 0),
    "GPU2": ("pci0000:2a/0000:2a:00.0", ("2c:00.0", "32:00.0"), "0000:34:00.0", 0),
    "GPU4": ("pci0000:53/0000:53:00.0", ("55:00.0", "5b:00.0"), "0000:5c:00.0", 0),
    "mlx5_0": ("pci0000:2a/0000:2a:00.0", ("2c:00.0", "37:00.0"), "0000:3d:00.0", 0),
    "mlx5_1": ("pci0000:2a/0000:2a:00.0", ("2c:00.0", "32:00.0"), "0000:36:00.0", 0),
    "mlx5_4": ("pci0000:b2/0000:b2:00.0", ("b5:00.0", "b8:00.0"), "0000:ba:00.0", 1),
}
DGX_2_SAID = {
    ("GPU0", "mlx5_0"): "PIX", ("GPU0", "mlx5_1"): "PXB", ("GPU2", "mlx5_0"): "PXB", ("GPU2", "mlx5_1"): "PIX",
    ("GPU4", "mlx5_0"): "NODE", ("GPU4", "mlx5_1"): "NODE", ("GPU0", "mlx5_4"): "SYS", ("GPU4", "mlx5_4"): "SYS",
}


def sysfs_path(seat: Seat) -> str:
    """Below each upstream port a downstream port on its internal bus, whose number is one higher."""
    root, switches, own, _numa = seat
    parts = [root]
    for at, upstream in enumerate(switches):
        below = switches[at + 1] if at + 1 < len(switches) else own.partition(":")[2]
        slot = int(below.split(":")[0], 16) % 32
        parts += [f"0000:{upstream}", f"0000:{int(upstream[:2], 16) + 1:02x}:{slot:02x}.0"]
    return "/".join([*parts, own])


def machine(root: Path, devices: Mapping[str, Seat], nodes: int = 4, ports: int = 1) -> TreeHost:
    tree = Tree(root / "node")
    tree.system(OS_RELEASE["ubuntu2404"], "6.8.0-85-generic", "gpu1", "")
    numa_nodes(tree, nodes)
    for name, seat in devices.items():
        path = sysfs_path(seat)
        if name.startswith("GPU"):
            values = (("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x20b0"), ("numa_node", str(seat[3])))
            tree.files(f"sys/devices/{path}", values)
        else:
            tree.hca(Device(name, path, "mlx5_core", "b8ce:f603:00ab:cdef", tuple(Port(at + 1) for at in range(ports)), numa=str(seat[3])))
        tree.link(f"sys/bus/pci/devices/{seat[2]}", f"sys/devices/{path}")
    return TreeHost(str(root / "node"))


def found(host: TreeHost, devices: Mapping[str, Seat]) -> dict[tuple[str, str], str | None]:
    names = {seat[2]: name for name, seat in devices.items()}
    return {(names[row["gpu"]], row["hca"]): row["path"] for row in affinity(host, observe_identity(host))}


@pytest.mark.parametrize(("devices", "said"), [(DGX_A100, DGX_A100_SAID), (DGX_2, DGX_2_SAID)], ids=["dgx-a100", "dgx-2"])
def test_recorded_classes_of_nvidia_smi(tmp_path: Path, devices: Mapping[str, Seat], said: Mapping[tuple[str, str], str]) -> None:
    here = found(machine(tmp_path, devices), devices)
    assert {pair: here[pair] for pair in said} == said


def test_near_is_the_best_that_a_gpu_has(tmp_path: Path) -> None:
    host = machine(tmp_path, DGX_2)
    rows = affinity(host, observe_identity(host))
    assert [(row["hca"], row["path"]) for row in rows if row["near"] and row["gpu"] == "0000:39:00.0"] == [("mlx5_0", "PIX")]
    far = [(row["hca"], row["path"]) for row in rows if row["near"] and row["gpu"] == "0000:5c:00.0"]
    assert far == [("mlx5_0", "NODE"), ("mlx5_1", "NODE")]  # a GPU without an HCA of its own has two equals


def test_a_row_for_each_port(tmp_path: Path) -> None:
    host = machine(tmp_path, {name: DGX_2[name] for name in ("GPU0", "mlx5_0")}, ports=2)
    assert affinity(host, observe_identity(host)) == [
        {"gpu": "0000:39:00.0", "hca": "mlx5_0", "port": port, "path": "PIX", "near": True} for port in (1, 2)]


VIRTUAL: dict[str, Seat] = {
    "GPU0": ("pci0000:00/0000:00:02.0", (), "0000:01:00.0", -1),
    "mlx5_0": ("pci0000:00/0000:00:02.1", (), "0000:02:00.0", -1),
    "GPU1": ("pci0001:00", (), "0001:00:00.0", -1),
}


@pytest.mark.parametrize(("nodes", "other"), [(1, "NODE"), (0, "NODE"), (2, "SYS")])
def test_affinity_on_virtual_machines_with_a_host_bridge_per_device(tmp_path: Path, nodes: int, other: str) -> None:
    assert found(machine(tmp_path, VIRTUAL, nodes), VIRTUAL) == {("GPU0", "mlx5_0"): "PHB", ("GPU1", "mlx5_0"): other}


def test_a_tree_that_does_not_tell_is_no_class_and_not_near(tmp_path: Path) -> None:
    host = machine(tmp_path, {name: DGX_2[name] for name in ("GPU0", "mlx5_0", "mlx5_1")})
    (tmp_path / "node/sys/bus/pci/devices/0000:3d:00.0").unlink()
    rows = affinity(host, observe_identity(host))
    assert [(row["hca"], row["path"], row["near"]) for row in rows] == [("mlx5_0", None, False), ("mlx5_1", "PXB", True)]
    (tmp_path / "node/sys/bus/pci/devices/0000:36:00.0").unlink()
    assert [(row["path"], row["near"]) for row in affinity(host, observe_identity(host))] == [(None, False), (None, False)]


def test_soft_roce_has_no_place_on_the_bus(tmp_path: Path) -> None:
    host = machine(tmp_path, {"GPU0": DGX_2["GPU0"]})
    base = tmp_path / "node/sys/devices/virtual/infiniband/rxe0"
    (base / "ports/1").mkdir(parents=True)
    (base / "parent").write_text("eth0\n")
    (tmp_path / "node/sys/class/infiniband").mkdir(parents=True)
    (tmp_path / "node/sys/class/infiniband/rxe0").symlink_to("../../devices/virtual/infiniband/rxe0")
    identity = observe_identity(host)
    assert [hca.name for hca in identity.hcas] == ["rxe0"]
    assert affinity(host, identity) == []


@pytest.mark.parametrize(("one", "other", "path"), [
    ("root up down0", "root up down1", "PIX"),
    ("root", "root", "PIX"),
    ("root up down0", "root up down0", "PIX"),
    ("root up down0", "root up down1 bridge", "PXB"),
    ("root up down0 up2 down2", "root up down1", "PXB"),
    ("root up down0", "root2 up down1", "PHB"),
], ids=["one-switch", "two-functions", "two-functions-below-a-switch", "bridge", "nested-switch", "two-root-ports"])
def test_bridges_between_two_functions(one: str, other: str, path: str) -> None:
    places = [Place(("pci0000:00", *text.split()), 0) for text in (one, other)]
    assert path_class(places[0], places[1]) == path


BRIDGE = st.sampled_from(["0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:02:01.0", "0000:03:00.0"])
PLACE = st.builds(
    lambda root, rest, numa: Place((root, *rest), numa), st.sampled_from(["pci0000:00", "pci0000:40"]), st.lists(BRIDGE, max_size=5),
    st.sampled_from([None, -1, 0, 1]))


@given(PLACE, PLACE, st.booleans())
def test_both_ways_are_the_same_way(one: Place, other: Place, single: bool) -> None:
    assert path_class(one, other, single_node=single) == path_class(other, one, single_node=single) in CLASSES


@pytest.mark.parametrize("link", [
    "", "../../../devices/0000:01:00.0", "../../../devices/pci0000:00/0000:00:01.0", "../../../etc/passwd",
    "../../../devices/pci0000:00/0000:00:01.0/0000:02:00.0",
])
def test_a_link_that_is_no_place_of_this_function(tmp_path: Path, link: str) -> None:
    devices = tmp_path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    if link:
        (devices / "0000:01:00.0").symlink_to(link)
    assert pci_place(TreeHost(str(tmp_path)), "0000:01:00.0") == Place((), None)


def matrix(rows: Sequence[Sequence[str]], head: Sequence[str], legend: str = "", *, underlined: bool = True) -> str:
    """In the format of nvidia-smi 580, tabs between the cells; the legend's first lines below."""
    top = "\t" + "\t".join(head) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    body = "".join("\t".join([*row, "0-47", "0", "", "N/A"] if row[0].startswith("GPU") else row) + "\n" for row in rows)
    return (f"\x1b[4m{top}\x1b[0m\n" if underlined else top + "\n") + body + "\nLegend:\n\n  X    = Self\n" + legend


ROWS = [["GPU0", " X ", "NV18", "PIX", "SYS"], ["GPU1", "NV18", " X ", "NODE", "PXB"], ["NIC0", "PIX", "NODE", " X ", "SYS"],
        ["NIC1", "SYS", "PXB", "SYS", " X "]]
NICS = "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n"
TOLD = {(0, "mlx5_0"): "PIX", (0, "mlx5_bond_0"): "SYS", (1, "mlx5_0"): "NODE", (1, "mlx5_bond_0"): "PXB"}


@pytest.mark.parametrize("underlined", [True, False])
def test_matrix_written_from_the_documented_format(underlined: bool) -> None:
    assert topo_matrix(matrix(ROWS, ["GPU0", "GPU1", "NIC0", "NIC1"], NICS, underlined=underlined)) == TOLD


def test_matrix_of_older_drivers_has_the_names_in_its_head() -> None:
    rows = [[{"NIC0": "mlx5_0", "NIC1": "mlx5_bond_0"}.get(cell, cell) for cell in row] for row in ROWS]
    assert topo_matrix(matrix(rows, ["GPU0", "GPU1", "mlx5_0", "mlx5_bond_0"])) == TOLD


@pytest.mark.parametrize("text", [
    "", "No devices were found\n", "Failed to initialize NVML: Driver/library version mismatch\n", "\tGPU0\tGPU1\nGPU0\tX\tGNS\n",
    matrix(ROWS, ["GPU0", "GPU1", "NIC0", "NIC1"], NICS)[:60],
], ids=["empty", "no-device", "mismatch", "p2p-status", "cut"])
def test_text_without_a_matrix(text: str) -> None:
    assert topo_matrix(text) in (None, {})


def test_the_matrix_cut_at_any_character_never_has_other_cells() -> None:
    text = matrix(ROWS, ["GPU0", "GPU1", "NIC0", "NIC1"], NICS)
    for end in range(len(text)):
        cells = topo_matrix(text[:end]) or {}
        assert all(value in CLASSES for value in cells.values())


@given(st.text())
def test_any_text_is_answered(text: str) -> None:
    assert topo_matrix(text) is None or isinstance(topo_matrix(text), dict)


def test_the_drivers_tool_is_asked_where_it_is_there(tmp_path: Path) -> None:
    host = machine(tmp_path, DGX_2)
    assert driver_matrix(host) is None
    (tmp_path / "node/cmd").mkdir(exist_ok=True)
    (tmp_path / "node/cmd/nvidia-smi_topo_-m").write_text(matrix(ROWS, ["GPU0", "GPU1", "NIC0", "NIC1"], NICS))
    assert driver_matrix(host) == TOLD


def test_differences_name_both_sides(tmp_path: Path) -> None:
    host = machine(tmp_path, DGX_2)
    rows = affinity(host, observe_identity(host))
    order = ["GPU2", "GPU0", "GPU4"]  # by PCI address
    same = {(order.index(gpu), hca): path for (gpu, hca), path in DGX_2_SAID.items()}
    assert differences(rows, same) == []
    assert differences(rows, {**same, (0, "mlx5_0"): "SYS", (0, "mlx5_77"): "PIX"}) == [("0000:34:00.0", "mlx5_0", "PXB", "SYS")]
