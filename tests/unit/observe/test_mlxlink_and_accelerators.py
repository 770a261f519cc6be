# SPDX-License-Identifier: GPL-3.0-or-later
"""Untrusted answers: mlxlink's JSON, amdgpu's files, partition keys, device files behind a filter. What is no such answer is unknown."""

from __future__ import annotations

import json
import os
import stat
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_accelerators import ADDRESSES, DOWN, UNUSED, UP, gpu_metrics

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.accelerators import ACCELERATORS, accelerator_of
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Result
from ansible_collections.railwright.rdma.plugins.module_utils.observe import mlxlink
from ansible_collections.railwright.rdma.plugins.module_utils.observe.accelerators import error_counts, observe_accelerators, xgmi_links
from ansible_collections.railwright.rdma.plugins.module_utils.observe.gpu_health import is_filtered
from ansible_collections.railwright.rdma.plugins.module_utils.observe.hca import partition_keys
from node_trees import NODES
from profile_trees import Tree
from railwright.cli.check import of_tree, report

PATH = f"/sys/bus/pci/devices/{ADDRESSES[0]}"


def answer(**output: Any) -> str:
    return json.dumps({"result": {"output": {"Operational Info": {"Width": "4x", "FEC": "No FEC"}, **output}}})


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "-E- No devices found", '{"result": 5}', '{"result": {"output": []}}',
        '{"result": {"output": {"Module Info": {}}}}',
    ],
)
def test_nothing_is_known_of_a_port_without_an_answer_of_mlxlink(text: str) -> None:
    found = mlxlink.link_of(text)
    assert found.pop("unread") == ["fec", "module"]
    assert set(found.values()) == {None}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Temperature [C]", "N/A"),
        ("Temperature [C]", "47"),  # a cable without monitoring
        ("Temperature [C]", "47 [80..-10]"),
        ("Temperature [C]", "47 [0..0]"),
        ("Temperature [C]", {"values": {"a": 1}}),
        ("Rx Power Current [dBm]", "nan,inf [-7..6]"),
        ("Rx Power Current [dBm]", ["1"] * 9),
        ("Bias Current [mA]", "1" * 500 + " [0..1]"),
    ],
)
def test_a_value_without_its_limits_is_left_out(field: str, value: Any) -> None:
    found = mlxlink.module_of({"Identifier": "OSFP", field: value})
    assert found is not None
    assert found["values"] == []


def test_a_list_and_a_line_of_lanes_read_alike() -> None:
    line = mlxlink.module_of({"Identifier": "OSFP", "Rx Power Current [dBm]": "1.2,-9.5 [-7..6]"})
    values = mlxlink.module_of({"Identifier": "OSFP", "Rx Power Current [dBm]": {"values": ["1.2", "-9.5 [-7..6]"]}})
    assert line is not None
    assert values is not None
    assert [(item["lane"], item["value"]) for item in line["values"]] == [(1, 1.2), (2, -9.5)]
    assert line["values"] == values["values"]


@pytest.mark.parametrize(("text", "rate"), [("15E-255", 0.0), ("3E-9", 3e-9), ("1.5e-13", 1.5e-13), ("N/A", None), ("9E-99999", None)])
def test_a_bit_error_rate_is_a_number_or_unknown(text: str, rate: float | None) -> None:
    found = mlxlink.link_of(answer(**{"Physical Counters and BER Info": {"Symbol BER": text}}))
    assert found is not None
    assert found["symbol_ber"] == pytest.approx(rate, rel=1e-9)


class Asked(Host):
    """A live node on which mlxlink is there; each run is counted."""

    def __init__(self, uid: int, rc: int) -> None:
        self.uid, self.rc, self.runs = uid, rc, list[tuple[str, ...]]()

    def which(self, tool: str) -> str | None:
        return f"/usr/bin/{tool}" if tool == "mstlink" else None

    def user(self) -> int:
        return self.uid

    def run(self, argv: Any, timeout: float = 30.0, stdin: str | None = None, limit: int = 1 << 20) -> Result:
        self.runs.append((*argv, timeout))
        return Result(self.rc, answer(), "")


def hcas(count: int, **port: Any) -> list[dict[str, Any]]:
    own = {"number": 1, "link_layer": "InfiniBand", "state": "ACTIVE", "netdev": None, **port}
    return [{"name": f"mlx5_{at}", "driver": "mlx5_core", "link": {"virtual_function": False}, "ports": [own]} for at in range(count)]


def test_mlxlink_is_run_by_root_alone_and_once_if_it_hangs() -> None:
    plain, hung, well = Asked(1000, 0), Asked(0, 124), Asked(0, 0)
    assert mlxlink.observe_infiniband(plain, hcas(8)) == []
    assert plain.runs == []
    assert mlxlink.observe_infiniband(hung, hcas(8)) == []
    assert len(hung.runs) == 1
    assert [row["hca"] for row in mlxlink.observe_infiniband(well, hcas(8))] == [f"mlx5_{at}" for at in range(8)]
    assert all(run[0] == "mstlink" and run[-1] == 5.0 for run in well.runs)
    assert mlxlink.observe_infiniband(well, hcas(1, link_layer="Ethernet") + hcas(1, state="DOWN")) == []


def test_links_of_xgmi_are_read_from_two_versions_of_the_table_alone(tmp_path: Path) -> None:
    tree = Tree("mi300x8", tmp_path)
    for data, expected in (
        (gpu_metrics(UNUSED, DOWN, *[UP] * 6), {"up": 6, "down": 1}),
        (gpu_metrics(*[UNUSED] * 8), {"up": 0, "down": 0}),
        (gpu_metrics(*[UP] * 8)[:270], None),
        (struct.pack("<HBB", 2208, 1, 6) + gpu_metrics(*[UP] * 8)[4:], None),
        (struct.pack("<HBB", 2208, 1, 9) + gpu_metrics(*[UP] * 8)[4:], None),
        (b"", None),
    ):
        tree.put(f"{PATH}/gpu_metrics", data)
        assert xgmi_links(tree.host, PATH) == expected


def test_a_block_whose_error_counts_cannot_be_read_now_has_none(tmp_path: Path) -> None:
    tree = Tree("mi300x8", tmp_path)
    tree.put(f"{PATH}/ras/umc_err_count", "Query currently inaccessible\n")
    tree.put(f"{PATH}/ras/gfx_err_count", f"ue: {'9' * 40}\n")
    found = error_counts(tree.host, PATH)
    assert found is not None
    assert (found["umc"], found["gfx"]) == ({}, {})
    assert found["sdma"] == {"ue": 0, "ce": 0, "de": 0}


def test_counts_that_a_read_would_reset_are_not_read(tmp_path: Path) -> None:
    tree = Tree("mi300x8", tmp_path)
    tree.put(f"{PATH}/device", "0x740f\n")
    first = observe_accelerators(tree.host)[0]
    assert (first["model"], first["ras"]) == ("AMD MI210", None)


def test_no_id_has_two_rows() -> None:
    ids = [(row.vendor, device) for row in ACCELERATORS for device in row.devices]
    assert len(ids) == len(set(ids))
    assert accelerator_of("0x10de", "0x2335", "0x120000") is None, "NVIDIA's are judged as GPUs"
    assert accelerator_of("0x1002", "0x1638", "0x030000") is None, "a display adapter"


def test_partition_keys_are_those_of_used_slots(tmp_path: Path) -> None:
    tree = Tree("ib8", tmp_path)
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    for slot, text in enumerate(("0x7fff\n", "0x0000\n", "0x8001\n", "key\n", "0x123456\n")):
        tree.put(f"{port}/pkeys/{slot}", text)
    assert partition_keys(tree.host, port) == ["0x7fff", "0x8001"]
    assert partition_keys(tree.host, port + "/absent") is None
    for slot in range(128):
        tree.put(f"{port}/pkeys/{slot}", {0: "0xffff\n", 5: "0x8001\n", 120: "0x8002\n"}.get(slot, "0x0000\n"))
    assert partition_keys(tree.host, port) == ["0xffff", "0x8001"], "a table ends with eight unused slots"


def test_a_device_file_is_filtered_only_if_its_permissions_would_allow_it(tmp_path: Path) -> None:
    assert not is_filtered(Host(), "/dev/null")
    assert not is_filtered(Host(), "/dev/absent")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch(mode=0)
    (tmp_path / "dev/nvidia1").touch(mode=0o666)
    host = TreeHost(str(tmp_path))
    assert [is_filtered(host, f"/dev/nvidia{number}") for number in range(3)] == [True, False, False]


@pytest.mark.parametrize(
    ("user", "mode", "opens", "filtered"),
    [(0, 0o600, False, True), (0, 0o666, True, False), (1000, 0o666, False, True), (1000, 0o660, False, False), (1000, 0o666, True, False)],
)
def test_permissions_are_no_filter(
    user: int, mode: int, opens: bool, filtered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that an ordinary user may not open by its permissions is no sign of a device filter; root may open all."""
    place = tmp_path / "own"
    place.touch()
    place.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(os, "access", lambda _path, _mode: opens)
    assert is_filtered(Host(), str(place)) is filtered


FILTERS = Path("/sys/fs/cgroup/devices")
IN_A_FILTER = """
import os, sys
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.gpu_health import is_filtered
open(sys.argv[1], "w").write(str(os.getpid()))
print(is_filtered(Host(), sys.argv[2]), is_filtered(Host(), "/dev/null"))
"""


@pytest.mark.skipif(os.geteuid() != 0 or not os.access(FILTERS, os.W_OK), reason="needs root and the devices controller of cgroup v1")
def test_the_kernels_own_device_filter_is_seen_without_opening_the_device(tmp_path: Path) -> None:
    """A real filter, with a character device in the place of a GPU's: permissions allow it, and root is refused all the same."""
    device, group = tmp_path / "nvidia0", FILTERS / f"railwright-test-{os.getpid()}"
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 11))
    device.chmod(0o666)
    group.mkdir()
    try:
        (group / "devices.deny").write_text("c 1:11 rwm")
        command = [sys.executable, "-c", IN_A_FILTER, str(group / "cgroup.procs"), str(device)]
        paths = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=paths)
    finally:
        group.rmdir()
    assert ran.stdout.split() == ["True", "False"]
    assert not is_filtered(Host(), str(device)), "outside of the filter it is an ordinary device"


def test_the_overview_names_what_is_not_judged() -> None:
    found = report(*of_tree(NODES / "mi300x8"))
    [node] = found["nodes"].values()
    assert node["overview"]["GPUs"] == "8 AMD MI300X (amdgpu 6.10.5): not judged"
    assert node["overview"]["PCIe"] == "accelerators 8 32 GT/s x16"
    assert found["summary"]["exit_code"] == 4, "not judged is no pass"


def test_every_tree_with_accelerators_names_them() -> None:
    assert len(observe_accelerators(TreeHost(str(NODES / "mi300x8")))) == 8
    assert observe_accelerators(TreeHost(str(NODES / "ib8"))) == []
