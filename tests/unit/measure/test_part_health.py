# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs' health, serial numbers and DCGM's results: nvidia-smi as a driver 580 prints it, dcgmi and VPD as their documentation says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_gpu import smi_xml

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.measure.part_health import (
    diag_results,
    diagnose,
    gpu_health,
    inspect_health,
    vpd_serial,
)

UUID = "GPU-6e4d4e0b-8a23-91f7-088b-14509b065c76"
NEW = smi_xml(["0000:1b:00.0"]).replace("GPU-00000000-0000-4000-8000-000000000000", UUID).replace("1652724000000", "1753024036354")
NEW = NEW.replace("sw_therm_slowdown>0 us", "sw_therm_slowdown>1200 us").replace("dram_correctable>0", "dram_correctable>3", 1)
NEW = NEW.replace("sw_thermal_slowdown>Not Active", "sw_thermal_slowdown>Active")
# Names of before, no counters, no serial number, no ECC, no margin.
GONE = "clocks_event_reasons_counters", "ecc_errors", "gpu_temp_tlimit"
OLD = re.sub("|".join(f"<{name}>.*</{name}>" for name in GONE),
             "", NEW, flags=re.DOTALL).replace("sw_thermal_slowdown>Active", "sw_thermal_slowdown>Not Active")
OLD = OLD.replace("clocks_event_reason", "clocks_throttle_reason").replace("<serial>1753024036354", "<serial>N/A")


class Node(TreeHost):
    """nvidia-smi that says ``smi``; dcgmi that says ``diag``."""

    def __init__(self, root: Path, smi: str, diag: Result | None = None) -> None:
        super().__init__(str(root))
        self.smi, self.diag = smi, diag

    def which(self, tool: str) -> str | None:
        return f"/usr/bin/{tool}" if tool != "dcgmi" or self.diag is not None else None

    def run(self, argv: Any, timeout: float = 30.0, stdin: str | None = None, limit: int = 0) -> Result:
        if argv[0] == "dcgmi":
            assert self.diag is not None
            return self.diag
        return Result(0, self.smi, "") if self.smi else Result(9, "NVIDIA-SMI has failed", "")


def test_a_new_driver_has_counters(tmp_path: Path) -> None:
    assert gpu_health(Node(tmp_path, NEW)) == [{
        "index": 0, "uuid": UUID, "serial": "1753024036354", "name": "NVIDIA H100 80GB HBM3", "celsius": 38, "margin_celsius": 49,
        "hw_thermal_us": 0, "sw_thermal_us": 1200, "hw_thermal": 0, "sw_thermal": 1,
        "uncorrected": 0, "corrected": 3}]


def test_an_old_driver_says_what_it_can(tmp_path: Path) -> None:
    [gpu] = gpu_health(Node(tmp_path, OLD)) or []
    none = ("serial", "margin_celsius", "hw_thermal_us", "sw_thermal_us", "uncorrected", "corrected")
    assert {name: gpu[name] for name in none} == dict.fromkeys(none)
    assert (gpu["celsius"], gpu["hw_thermal"], gpu["sw_thermal"]) == (38, 0, 0)


def test_no_answer_is_none(tmp_path: Path) -> None:
    assert gpu_health(Node(tmp_path, "")) is None


def test_dcgm_4_documented_form() -> None:
    document = {
        "DCGM Diagnostic": {"test_categories": [
            {"category": "Deployment", "tests": [{"name": "software", "results": [
                {"entity_group": "GPU", "entity_id": 0, "status": "Fail", "warnings": [
                    {"error_category": 8, "error_id": 29, "error_severity": 5, "warning": "Persistence mode is disabled."}]}]}]},
            {"category": "Stress", "tests": [
                {"name": "targeted_power", "results": [
                    {"entity_group": "GPU", "entity_id": 1, "status": "Fail", "warnings": [
                        {"error_id": 24, "error_severity": 2, "warning": "Thermal violations"}]},
                    {"entity_group": "GPU", "entity_id": 0, "status": "Pass"}],
                 "test_summary": {"status": "Fail"}},
                {"name": "cpu_eud", "results": [], "test_summary": {"status": "Skip"}}]}]},
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": [
            {"entity_id": 0, "device_id": "2330", "serial_num": "1753024036354"}, {"entity_id": 1, "serial_num": "1753024036355"}]}],
    }
    assert [(row["test"], row["gpu"], row["serial"], row["status"], row["text"]) for row in diag_results(json.dumps(document))] == [
        ("software", 0, "1753024036354", "warn", "Persistence mode is disabled."),
        ("targeted_power", 1, "1753024036355", "fail", "Thermal violations"),
        ("targeted_power", 0, "1753024036354", "pass", ""), ("cpu_eud", None, None, "skipped", "")]


def test_dcgm_3_documented_form() -> None:
    document = {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [
        {"name": "Denylist", "results": [{"gpu_ids": "0,1", "status": "PASS"}]}, None,
        {"name": "SM Stress", "results": [{"gpu_ids": "1", "status": "FAIL", "warnings": ["below the target"]}]}]}]},
        "GPU Device Serials": {"0": "1", "1": "2"}}
    found = diag_results("WARNING: a line before\n" + json.dumps(document))
    assert [(row["test"], row["gpu"], row["serial"], row["status"]) for row in found] == [
        ("Denylist", 0, "1", "pass"), ("Denylist", 1, "2", "pass"), ("SM Stress", 1, "2", "fail")]


@pytest.mark.parametrize("text", [
    "", "{", "[]", '{"DCGM Diagnostic": 1}', '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"results": [1]}]}]}}', "{" * 100])
def test_no_document_has_no_result(text: str) -> None:
    assert diag_results(text) == []


@pytest.mark.parametrize("result", [
    {"status": None}, {"status": "Not Run"}, {"status": ["Pass"]}, {"status": "Fine", "entity_group": "GPU", "entity_id": "x"}])
def test_an_unknown_status_is_no_pass(result: dict[str, Any]) -> None:
    document = {"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": 7, "results": [result]}]}]}}
    assert [(row["status"], row["gpu"]) for row in diag_results(json.dumps(document))] == [("unknown", None)]


@pytest.mark.parametrize(("diag", "why"), [
    (None, "dcgmi is not installed"),
    (Result(124, "", ""), "dcgmi diag: exit 124: did not end within 3600 s"),
    (Result(255, "Error: unable to establish a connection to the specified host: localhost\n", ""),
     "dcgmi diag: exit 255: Error: unable to establish a connection to the specified host: localhost"),
    (Result(1, "", ""), "dcgmi diag: exit 1: said nothing"),
])
def test_why_there_is_no_diagnosis(tmp_path: Path, diag: Result | None, why: str) -> None:
    assert diagnose(Node(tmp_path, "", diag)) == {"why": why, "results": []}


def vpd(*keywords: tuple[bytes, bytes]) -> bytes:
    """PCI's form: an identifier, the read-only part, the end."""
    fields = b"".join(name + bytes([len(value)]) + value for name, value in keywords)
    return b"\x82\x04\x00Name\x90" + len(fields).to_bytes(2, "little") + fields + b"\x78"


@pytest.mark.parametrize(("data", "serial"), [
    (vpd((b"PN", b"MCX755106AS-HEAT"), (b"SN", b"MT2334X00ABC  "), (b"RV", b"\x01\x00")), "MT2334X00ABC"),
    (vpd((b"PN", b"x"), (b"V3", b"SN")), None), (b"", None), (b"\x90\xff\xff", None), (b"\x90\x05\x00SN\xffMT", "MT"), (b"\xff" * 64, None),
    (vpd((b"SN", b"\xff\xfe")), None),
])
def test_the_serial_of_a_nic_documented_form(data: bytes, serial: str | None) -> None:
    assert vpd_serial(data) == serial


def test_the_hcas_of_a_node(tmp_path: Path) -> None:
    for name, data in (("mlx5_0", vpd((b"SN", b"MT1"))), ("mlx5_1", None)):
        device = tmp_path / "sys/class/infiniband" / name / "device"
        device.mkdir(parents=True)
        if data is not None:
            (device / "vpd").write_bytes(data)
    found = inspect_health(Node(tmp_path, NEW), diag=False)
    assert found["nics"] == [{"hca": "mlx5_0", "serial": "MT1"}, {"hca": "mlx5_1", "serial": None}]
    assert [gpu["serial"] for gpu in found["gpus"]] == ["1753024036354"]
