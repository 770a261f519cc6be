# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe in a real Python with a stand-in for libcuda (its functions as cuda.h has them), and the reading of what it prints."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.probe import MARK, SCRIPT, answers, as_dict, no_device

# What a test wants of libcuda and libnccl: exit codes and devices. It writes through the pointers that the script passes.
STANDIN = """
import ctypes, json, sys
wanted = json.loads(sys.argv[1])
class Library:
    def cuGetErrorName(self, code, pointer):
        pointer._obj.value = b"CUDA_ERROR_NO_DEVICE" if code == 100 else None
        return 0
    def cuInit(self, flags):
        return wanted["init"]
    def cuDriverGetVersion(self, pointer):
        pointer._obj.value = 13010
        return 0
    def cuDeviceGetCount(self, pointer):
        pointer._obj.value = len(wanted["devices"])
        return 0
    def cuDeviceGet(self, pointer, index):
        pointer._obj.value = index
        return 0
    def cuDeviceGetName(self, text, length, device):
        text.value = wanted["devices"][device.value][0].encode()
        return wanted.get("name", 0)
    def cuDeviceGetPCIBusId(self, text, length, device):
        text.value = wanted["devices"][device.value][1].encode()
        return 0
    def cuDeviceTotalMem_v2(self, pointer, device):
        pointer._obj.value = wanted["devices"][device.value][2]
        return 0
    def ncclGetVersion(self, pointer):
        pointer._obj.value = wanted["nccl"]
        return 0
def load(name):
    if name == "libcuda.so.1" and wanted["cuda"]:
        return Library()
    if name == "libnccl.so.2" and wanted.get("nccl"):
        return Library()
    raise OSError(name + ": cannot open shared object file: No such file or directory")
ctypes.CDLL = load
"""
H200 = ["NVIDIA H200", "0000:1B:00.0", 150754820096]


def said(environment: dict[str, str] | None = None, **wanted: Any) -> Any:
    argv = (sys.executable, "-I", "-c", STANDIN + SCRIPT, json.dumps({"cuda": True, "init": 0, "devices": [], **wanted}))
    done = subprocess.run(argv, env=environment or {}, capture_output=True, text=True, check=True)
    (found,) = answers(done.stdout)
    return found


def test_every_device_with_name_address_and_memory() -> None:
    found = said({"OMPI_COMM_WORLD_RANK": "3"}, devices=[H200, H200], nccl=23007)
    assert [tuple(device) for device in found.devices] == [("NVIDIA H200", "0000:1b:00.0", 150754820096)] * 2
    assert (found.rank, found.cuda, found.nccl, found.error) == (3, "13.1", "2.30.7", None)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"cuda": False}, "libcuda.so.1 is not there"),
        ({"init": 100}, "cuInit says 100 (CUDA_ERROR_NO_DEVICE)"),
        ({"init": 802}, "cuInit says 802"),
        ({"devices": [H200], "name": 999}, "GPU 0: libcuda says 999"),
    ],
)
def test_why_there_is_none(wanted: dict[str, Any], words: str) -> None:
    found = said(**wanted)
    assert (found.devices, found.error) == ((), words)
    assert no_device("n1", found.error) == f"no CUDA device on n1: {words}"


def test_no_gpu_and_no_error() -> None:
    found = said()
    assert (found.devices, found.error) == ((), None)
    assert no_device("n1", found.error) == "no CUDA device on n1: libcuda lists none"


def test_the_version_of_an_old_nccl() -> None:
    assert said(nccl=2708).nccl == "2.7.8"


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"])
def test_each_launcher_tells_the_rank(name: str) -> None:
    assert said({name: "7"}).rank == 7


def line(**fields: Any) -> str:
    return MARK + json.dumps({"host": "n1", "rank": 0, "devices": [], "error": None, "cuda": None, "nccl": None, **fields})


def test_answers_among_other_lines() -> None:
    text = "Warning: Permanently added\n[1,0]<stdout>:" + line() + "\n1: " + line(host="n2", rank=1) + "\nbye\n"
    assert [(item.host, item.rank) for item in answers(text)] == [("n1", 0), ("n2", 1)]


@pytest.mark.parametrize(
    "text",
    [
        MARK + "{", MARK + "[]", MARK + "null", MARK + "{}", line(host=7), line(host="a\nb"), line(host=""), MARK + "[" * 100000,
        line(host="x" * 200),
    ],
)
def test_what_is_no_answer_is_passed_over(text: str) -> None:
    assert answers(text + "\n") == []


def test_a_node_cannot_say_more_than_it_is_asked() -> None:
    devices = [["\x1b[2J", "x", 1], ["H200", "../../x", -5], ["H200", "0000:1b:00.0", True], 7] + [["a", "b", 1]] * 999
    (found,) = answers(line(devices=devices, rank=True, error=["x"], nccl="2\n3"))
    assert [tuple(device) for device in found.devices][:2] == [("H200", None, 0), ("a", None, 1)]
    assert len(found.devices) < 64
    assert (found.rank, found.error, found.nccl) == (None, None, None)


def test_the_answer_survives_a_journey_as_json() -> None:
    (found,) = answers(line(devices=[H200]))
    assert json.loads(json.dumps(as_dict(found)))["devices"] == [["NVIDIA H200", "0000:1b:00.0", 150754820096]]


def test_the_script_is_python_3_6() -> None:
    ast.parse(SCRIPT, feature_version=(3, 6))
