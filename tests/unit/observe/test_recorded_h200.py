# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a machine with an H200 and driver 580.159.04, recorded (tests/fixtures/h200, tests/fixtures/README.md), and their readers."""

from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.dumps import (
    GRAPHS,
    TOPOLOGY,
    collected,
    judge_topo_files,
    read_file,
    rendered,
)
from ansible_collections.railwright.rdma.plugins.module_utils.observe.affinity import topo_matrix
from ansible_collections.railwright.rdma.plugins.module_utils.observe.gpu_driver import nvlinks_up
from ansible_collections.railwright.rdma.plugins.module_utils.observe.gpu_health import gpus_of
from ansible_collections.railwright.rdma.plugins.module_utils.observe.kernel_log import observe_log
from repo import ROOT

H200 = ROOT / "tests" / "fixtures" / "h200"
RELEASES = ("2.28.9", "2.32.3", "two_2.28.9")  # two: of two GPUs
TWO = ("0000:00:06.0", "0000:00:07.0")


def recorded(name: str) -> str:
    return (H200 / name).read_text(encoding="utf-8")


def test_the_driver_s_xml() -> None:
    (gpu,) = gpus_of(recorded("nvidia_smi_q_x.xml"))
    assert (gpu["pci"], gpu["uuid"]) == ("0000:00:06.0", "GPU-00000000-0000-4000-8000-000000000001")
    assert "H200" in recorded("nvidia_smi_q_x.xml")
    numbers = [name for name, value in gpu.items() if isinstance(value, (int, float)) and not isinstance(value, bool)]
    assert len(numbers) > 10, f"temperatures, power, clocks and error counts are read: {gpu}"


def test_the_xml_and_the_links_of_two_gpus(tmp_path: Path) -> None:
    """All 18 NVLinks of both are up, and both are in the domain that another machine's fabric manager made."""
    gpus = gpus_of(recorded("two_nvidia_smi_q_x.xml"))
    assert [(gpu["pci"], gpu["fabric_state"]) for gpu in gpus] == [(address, "Completed") for address in TWO]
    (tmp_path / "cmd").mkdir()
    (tmp_path / "cmd/nvidia-smi_nvlink_--status").write_text(recorded("two_nvlink_status.txt"), encoding="utf-8")
    assert nvlinks_up(TreeHost(tmp_path)) == {gpu["uuid"]: [26.562] * 18 for gpu in gpus}
    assert topo_matrix(recorded("two_nvidia_smi_topo_m.txt")) == {}


def test_the_driver_s_matrix_of_one_gpu_without_hcas() -> None:
    assert topo_matrix(recorded("nvidia_smi_topo_m.txt")) == {}


@pytest.mark.parametrize("release", RELEASES)
def test_the_dumps_of_a_run(release: str, tmp_path: Path) -> None:
    host = TreeHost(tmp_path)
    for name in ("topo", "graph"):
        (tmp_path / f"nccl_{name}.xml").write_text(recorded(f"nccl_{name}_{release}.xml"), encoding="utf-8")
    found = collected(host, "/nccl_topo.xml", "/nccl_graph.xml")
    assert found["notes"] == []
    assert found["nccl_topo"].split() == recorded(f"nccl_topo_{release}.xml").split(), "what NCCL wrote comes back word for word"
    assert found["nccl_graph"].split() == recorded(f"nccl_graph_{release}.xml").split()
    files = {"NCCL_TOPO_FILE": "/nccl_topo.xml", "NCCL_GRAPH_FILE": "/nccl_graph.xml"}
    assert [item.status for item in judge_topo_files(host, "n1", files)] == ["pass", "pass"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("name", "grammar"), [("topo", TOPOLOGY), ("graph", GRAPHS)])
def test_a_dump_reads_the_same_again(release: str, name: str, grammar: dict[str, tuple[str, ...]]) -> None:
    once = rendered(read_file(recorded(f"nccl_{name}_{release}.xml"), grammar), grammar)
    assert rendered(read_file(once, grammar), grammar) == once


def test_the_xids_of_illegal_accesses(tmp_path: Path) -> None:
    """Two programs wrote to an address that is none; the driver wrote Xid 31 for each, and Xid 43 for their neighbours."""
    (tmp_path / "cmd").mkdir()
    (tmp_path / "cmd/dmesg").write_text(recorded("dmesg.txt"), encoding="utf-8")
    events = observe_log(TreeHost(tmp_path))["events"]
    assert [(event["number"], event["count"]) for event in events if event["event"] == "xid"] == [(31, 2), (43, 2)]
