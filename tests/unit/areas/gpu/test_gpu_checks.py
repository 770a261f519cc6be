# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on GPUs: one thing broken at a time, and what cannot be read never passes."""

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu.gpu_driver_verdicts import judge_gpus
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from field_specs import build_spec
from inspections import bare_inspection
from node_trees import FACTS

SWITCHES = ("0000:04:00.0",)
HEALTHY = {
    "gpu.count": "pass",
    "gpu.driver": "pass",
    "gpu.driver_loaded": "pass",
    "gpu.nouveau": "pass",
    "gpu.fabricmanager": "pass",
    "gpu.persistence": "pass",
}
VALUES: dict[str, Any] = {"expect": {"gpus": 8, "gpu_driver": "580"}, "gpu_driver_branch": "580"}


@pytest.fixture
def facts(nodes: Path) -> dict[str, Any]:
    found = json.loads((FACTS / "ib8.json").read_text())
    return {"gpus": found["gpus"], "gpu_driver": found["gpu_driver"], "virtual": None}


def judge(
    facts: dict[str, Any],
    switches: tuple[str, ...] = SWITCHES,
    functions: tuple[str, ...] = (),
    unread: tuple[str, ...] = (),
    **values: Any,
) -> dict[str, Verdict]:
    spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": [], **VALUES, **values}, "n1")
    assert spec is not None, findings
    verdicts = judge_gpus(bare_inspection("n1", spec, facts, switches, functions, unread))
    assert len({item.check for item in verdicts}) == len(verdicts)
    assert all(item.message and item.node == "n1" for item in verdicts)
    return {item.check: item for item in verdicts}


def states(verdicts: dict[str, Verdict]) -> dict[str, str]:
    return {check: item.status for check, item in verdicts.items()}


def test_a_healthy_board_passes_everything(facts: dict[str, Any]) -> None:
    assert states(judge(facts)) == HEALTHY


MANAGER, MODE = "gpu_driver.fabricmanager", "gpu_driver.persistence.mode"
# What is broken: dotted path -> value (a GPU by its place). The fabric manager follows where the loaded driver changes.
SICK: list[tuple[str, dict[str, Any], str, str, str]] = [
    (
        "another driver",
        {"gpu_driver.version": "570.1.2", "gpu_driver.disk_version": "570.1.2", MANAGER + ".version": "570.1.2-1"},
        "gpu.driver",
        "fail",
        "driver is 570.1.2, not 580",
    ),
    (
        "an older one loaded",
        {"gpu_driver.version": "580.82.07", MANAGER + ".version": "580.82.07-1"},
        "gpu.driver_loaded",
        "fail",
        "580.82.07 is loaded and 580.95.05 is installed",
    ),
    ("module on disk unread", {"gpu_driver.disk_version": None}, "gpu.driver_loaded", "unknown", "modinfo"),
    ("one GPU without driver", {"gpus.3.driver": None}, "gpu.driver_loaded", "fail", "does not drive 0000:47:00.0"),
    ("nouveau", {"gpu_driver.nouveau_loaded": True}, "gpu.nouveau", "fail", "keeps the GPUs"),
    ("modules unread", {"gpu_driver.nouveau_loaded": None}, "gpu.nouveau", "unknown", "cannot be read"),
    ("manager dead", {MANAGER + ".running": False}, "gpu.fabricmanager", "fail", "does not run"),
    (
        "manager older",
        {MANAGER + ".version": "580.82.07-1"},
        "gpu.fabricmanager",
        "fail",
        "its version is 580.82.07, the driver's 580.95.05",
    ),
    ("fabric not up", {MANAGER + ".states": ["In Progress"]}, "gpu.fabricmanager", "fail", "In Progress"),
    ("no manager", {MANAGER: {"installed": False, "running": None}}, "gpu.fabricmanager", "fail", "not installed"),
    ("systemd silent", {MANAGER + ".running": None}, "gpu.fabricmanager", "unknown", "whether the fabric manager runs"),
    ("persistence off", {MODE: {"0000:17:00.0": "Disabled"}}, "gpu.persistence", "fail", "off on 0000:17:00.0"),
    ("nvidia-smi silent", {MODE: None}, "gpu.persistence", "unknown", "nvidia-smi"),
]


@pytest.mark.parametrize(("_name", "harm", "check", "status", "said"), SICK, ids=[row[0] for row in SICK])
def test_one_sickness_is_one_verdict(facts: dict[str, Any], _name: str, harm: dict[str, Any], check: str, status: str, said: str) -> None:
    for path, value in harm.items():
        *way, last = path.split(".")
        place: Any = facts
        for part in way:
            place = place[int(part) if part.isdigit() else part]
        place[last] = value
    found = judge(facts)
    assert states(found) == {**HEALTHY, check: status}
    assert said in found[check].message


def test_a_gpu_that_is_gone(facts: dict[str, Any]) -> None:
    facts["gpus"].pop()
    found = judge(facts)
    assert states(found) == {**HEALTHY, "gpu.count": "fail"}
    assert found["gpu.count"].message == "number of GPUs is 7, not 8"


def test_no_driver_at_all(facts: dict[str, Any]) -> None:
    facts["gpu_driver"].update(version=None, flavour=None, modules=[], persistence={"running": None, "mode": None})
    found = states(judge(facts))
    assert found["gpu.driver"] == found["gpu.driver_loaded"] == "fail"
    assert found["gpu.persistence"] == "unknown"
    facts["gpu_driver"].update(modules=None)
    assert judge(facts)["gpu.driver"].status == judge(facts)["gpu.driver_loaded"].status == "unknown"


def test_the_driver_that_the_inventory_installs_is_an_expectation(facts: dict[str, Any]) -> None:
    found = judge(facts, expect={}, gpu_driver_version="580.126.20")["gpu.driver"]
    assert (found.status, found.expected, found.found) == ("fail", "580.126.20", "580.95.05")
    assert judge(facts, expect={}, gpu_driver_source="distribution")["gpu.driver"].expected == "580"
    assert judge(facts, expect={}, gpu_driver_branch=None)["gpu.driver"].status == "skipped"
    assert judge(facts, expect={"gpu_driver": "58"})["gpu.driver"].status == "fail"


def test_nothing_to_judge(facts: dict[str, Any]) -> None:
    bare = {**facts, "gpus": [], "gpu_driver": None}
    assert judge(bare, expect={}, gpu_driver_branch=None) == {}
    assert judge(bare, expect={})["gpu.count"].message == "no NVIDIA GPU on this node: neither driver nor CUDA is installed"
    assert states(judge(bare, expect={"gpus": 8})) == {"gpu.count": "fail"}
    assert states(judge(bare, expect={"gpus": 0})) == {"gpu.count": "pass"}
    assert states(judge({}, expect={"gpus": 8})) == {"gpu.count": "unknown"}


def fabric(facts: dict[str, Any], **options: Any) -> Verdict:
    return judge(facts, **options)["gpu.fabricmanager"]


def say(facts: dict[str, Any], states: list[str] | None, statuses: list[str] | None = None) -> None:
    facts["gpu_driver"]["fabricmanager"].update(states=states, statuses=statuses)


def chips(facts: dict[str, Any], device_id: str | None) -> None:
    for gpu in facts["gpus"]:
        gpu["device_id"] = device_id


def test_what_needs_no_fabric_manager(facts: dict[str, Any]) -> None:
    assert fabric(facts, switches=(), gpu_driver_fabricmanager=True).status == "pass"
    say(facts, ["N/A"], ["N/A"])  # as an H100 without NVSwitch in a virtual machine says it, driver 580.159.04
    assert fabric(facts, switches=()).status == "skipped"
    assert fabric(facts, gpu_driver_fabricmanager=False).status == "skipped"


def test_gpus_before_hopper_say_nothing_of_the_fabric(facts: dict[str, Any]) -> None:
    chips(facts, "0x20b2")
    for states in (["N/A"], None):
        say(facts, states, states)
        found = fabric(facts)
        assert (found.status, "states" in found.expected) == ("pass", False), "nothing is expected of which nothing is said"


@pytest.mark.parametrize(
    ("states", "statuses"),
    [(None, None), (["N/A"], ["N/A"]), (["Completed", "N/A"], ["N/A", "Success"]), (["Completed"], None)],
)
@pytest.mark.parametrize("options", [{}, {"switches": (), "gpu_driver_fabricmanager": True}], ids=["NVSwitch", "key"])
def test_a_fabric_that_nobody_saw_does_not_pass(facts: dict[str, Any], states: Any, statuses: Any, options: dict[str, Any]) -> None:
    for device_id in ("0x2330", "0x2901", None):
        chips(facts, device_id)
        say(facts, states, statuses)
        found = fabric(facts, **options)
        assert (found.status, found.expected["states"]) == ("unknown", ["Completed"])
        assert "NVLink fabric" in found.message


def test_a_fabric_that_is_managed_elsewhere_is_judged_by_its_gpus(facts: dict[str, Any]) -> None:
    """A virtual machine with the GPUs of an HGX board, and a node of a rack: no fabric manager here, and CUDA needs it all the same."""
    facts["gpu_driver"]["fabricmanager"].update(installed=False, version=None, running=None)
    assert fabric(facts, switches=()).status == "pass"
    say(facts, ["In Progress"], ["N/A"])
    found = fabric(facts, switches=())
    assert (found.status, "error 802" in found.message) == ("fail", True)
    chips(facts, "0x2941")
    say(facts, None)
    assert fabric(facts, switches=()).status == "unknown"


def test_completed_with_an_error_is_no_success(facts: dict[str, Any]) -> None:
    say(facts, ["Completed"], ["Insufficient Resources", "Success"])
    found = fabric(facts)
    assert (found.status, "Completed with error Insufficient Resources" in found.message, "802" in found.message) == ("fail", True, True)


B200 = {"switches": (), "functions": ("0000:c1:00.0", "0000:c2:00.0")}


@pytest.fixture
def b200(facts: dict[str, Any]) -> dict[str, Any]:
    """An HGX B200: NVSwitches behind functions of ConnectX-7, and what they need."""
    chips(facts, "0x2901")
    facts["gpu_driver"]["packages"].update({"nvlsm": "2025.06.11-1", "infiniband-diags": "2507mlnx58-1"})
    return {**facts, "modules": {"ib_umad": {}, "mlx5_ib": {}}}


def test_nvlink_5_passes_with_everything_it_needs(b200: dict[str, Any]) -> None:
    assert fabric(b200, **B200).status == "pass"


@pytest.mark.parametrize(
    ("harm", "status", "said"),
    [
        (lambda facts: facts["gpu_driver"]["packages"].pop("nvlsm"), "fail", "nvlsm is not installed"),
        (lambda facts: facts["gpu_driver"]["packages"].pop("infiniband-diags"), "fail", "infiniband-diags is not installed"),
        (lambda facts: facts["gpu_driver"].update(packages=None), "unknown", "installed packages"),
        (lambda facts: facts["modules"].pop("ib_umad"), "fail", "ib_umad is not loaded"),
        (lambda facts: facts.update(modules=None), "unknown", "loaded modules"),
        (lambda facts: facts["gpu_driver"]["fabricmanager"].update(running=None), "unknown", "whether the fabric manager runs"),
        (lambda facts: facts["gpu_driver"]["fabricmanager"].update(running=None, installed=False), "fail", "not installed"),
        (lambda facts: facts["gpu_driver"]["fabricmanager"].update(version=None), "unknown", "version of fabric manager"),
        (lambda facts: facts["gpu_driver"].update(version=None), "unknown", "version of fabric manager"),
        (lambda facts: say(facts, None), "unknown", "NVLink fabric"),
        (lambda facts: say(facts, ["In Progress"], ["N/A"]), "fail", "CUDA ends with error 802 (system not yet initialized)"),
    ],
)
def test_nvlink_5_and_each_piece_of_evidence_gone(b200: dict[str, Any], harm: Any, status: str, said: str) -> None:
    harm(b200)
    found = fabric(b200, **B200)
    assert (found.status, said in found.message) == (status, True), found.message


def test_a_vpd_that_cannot_be_read_leaves_it_open_who_manages_the_switches(b200: dict[str, Any]) -> None:
    assert fabric(b200, switches=()).status == "pass"  # a virtual machine: they are managed below it
    found = fabric(b200, switches=(), unread=("0000:c1:00.0",))
    assert (found.status, "VPD of 0000:c1:00.0" in found.message) == ("unknown", True)


def test_a_rack_needs_imex_and_its_channels(facts: dict[str, Any]) -> None:
    assert "gpu.imex" not in judge(facts)
    chips(facts, "0x31c2")
    healthy = {"version": "580.95.05-1", "running": True, "channels": 1}
    for change, status, said in (
        ({}, "pass", "has channels"),
        ({"version": None}, "fail", "not installed"),
        ({"running": False}, "fail", "does not run"),
        ({"running": None}, "unknown", "nvidia-imex"),
        ({"version": "580.82.07-1"}, "fail", "of version 580.82.07"),
        ({"channels": 0}, "fail", "NVreg_CreateImexChannel0"),
        ({"channels": None}, "unknown", "nvidia-imex"),
    ):
        facts["gpu_driver"]["imex"] = {**healthy, **change}
        found = judge(facts, switches=())["gpu.imex"]
        assert (found.status, said in found.message) == (status, True), found.message
    facts["gpu_driver"].update(imex=healthy, packages=None)
    assert judge(facts, switches=())["gpu.imex"].status == "unknown"
    assert judge(facts, switches=(), gpu_driver_imex=False)["gpu.imex"].status == "skipped"


def test_passed_through_gpus_belong_to_their_machine(facts: dict[str, Any]) -> None:
    for gpu in facts["gpus"]:
        gpu["driver"] = "vfio-pci"
    assert states(judge(facts)) == {"gpu.count": "pass", "gpu.driver": "skipped"}


def test_what_is_on_disk_in_a_container_belongs_to_the_machine_below(facts: dict[str, Any]) -> None:
    facts["virtual"] = "container"
    facts["gpu_driver"].update(disk_version="1.2.3")
    assert states(judge(facts)) == {**HEALTHY, "gpu.driver_loaded": "skipped"}
    facts["gpus"][0]["driver"] = None
    assert judge(facts)["gpu.driver_loaded"].status == "fail"


def test_a_default_is_no_failure_on_a_node_that_is_left_alone(facts: dict[str, Any]) -> None:
    facts["gpu_driver"]["persistence"]["mode"]["0000:17:00.0"] = "Disabled"
    assert judge(facts, gpu_driver_branch=None)["gpu.persistence"].status == "warn"
    assert judge(facts, gpu_driver_persistence=False)["gpu.persistence"].status == "skipped"


def test_the_captured_board_in_trouble(nodes: Path) -> None:
    found = json.loads((FACTS / "hgx-skew.json").read_text())
    verdicts = judge(found, expect={"gpus": 4})
    assert {check for check, item in verdicts.items() if item.status == "fail"} == {
        "gpu.driver",
        "gpu.driver_loaded",
        "gpu.fabricmanager",
        "gpu.persistence",
    }


def test_facts_in_another_form_crash_nothing() -> None:
    damaged: tuple[dict[str, Any], ...] = ({"gpus": None}, {"gpus": [{}]}, {"gpus": [{"pci": None}], "gpu_driver": {}})
    for odd in damaged:
        assert not [item for item in judge(odd).values() if item.status == "pass"]
