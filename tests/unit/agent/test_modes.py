# SPDX-License-Identifier: GPL-3.0-or-later
"""What acts on a node: only checks in mode enforce, none that is held, and none that began to fail just after an upgrade of the node."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.agent import hold, status, upgrades
from ansible_collections.railwright.rdma.plugins.module_utils.agent.history import Moment
from ansible_collections.railwright.rdma.plugins.module_utils.agent.main import answer
from ansible_collections.railwright.rdma.plugins.module_utils.areas.system.agent import hook_text
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.rules.check_modes import held_codes, names, switched_off
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import passed

from .test_service import ENFORCED, Node

XID_ALONE: dict[str, Any] = dict(ENFORCED, enforced=("gpu.xid",))  # the tree has a finding of another check as well
FACTS = {"gpu_driver": {"version": "580.95.05"}, "hcas": [{"fw_ver": "28.41.1000"}, {"fw_ver": "28.39.1002"}]}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    found = Node("doca8", tmp_path)
    found.modes = XID_ALONE
    return found


def fail_gpu(node: Node, place: int = 0) -> str:
    """Write Xid 79 of a GPU into the kernel's log; return its address."""
    address = sorted(path.name for path in (node.tree.root / "sys/bus/pci/devices").iterdir()
                     if (path / "device").read_text() == "0x2335\n")[place]
    node.log(f"NVRM: Xid (PCI:{address[:-2]}): 79, pid=1, name=x, GPU has fallen off the bus.")
    return address


def word(node: Node) -> str:
    return (node.host.read(status.LINE) or "").split(" ")[0]


def test_a_check_in_observe_is_shown_counted_and_acts_on_nothing(node: Node) -> None:
    node.minute()
    fail_gpu(node)
    node.modes = dict(XID_ALONE, entries={"gpu.xid": {"mode": "observe", "subjects": []}})
    found = node.minute()
    assert (found["word"], {row["mode"] for row in found["findings"]}) == ("ok", {"observe"})
    assert "gpu.xid " in found["observed"] or "more" in found["observed"]
    metrics = node.host.read(f"/var/lib/textfile/{status.METRICS}") or ""
    assert 'check="gpu.xid"' in metrics
    assert 'mode="observe"' in metrics
    assert 'railwright_agent_refuses_jobs{node="doca8",why="node"} 0' in metrics
    node.modes = XID_ALONE  # promoted
    assert node.minute()["word"] == "refuse"


def test_a_code_that_no_list_has_is_observed(node: Node) -> None:
    node.minute()
    fail_gpu(node)
    node.modes = {}
    assert node.minute()["word"] == "ok"


def test_off_hides_its_own_part_and_no_other(node: Node) -> None:
    """NVSentinel 1793: the suppression of one finding hid the others of its node."""
    node.minute()
    addresses = [fail_gpu(node, place) for place in (0, 1)]
    node.modes = dict(XID_ALONE, entries={"gpu.xid": {"mode": "off", "reason": "case 1", "until": "2099-01-01", "subjects": addresses[:1]}})
    found = node.minute()
    assert [addresses[1] in row["subject"] for row in found["findings"] if row["check"] == "gpu.xid"] == [True]
    assert found["word"] == "refuse"
    heard = answer(node.host, {"node": "n"}, True)["agent"]
    assert passed("railwright.rdma.rdma_check", "agent", {"changed": False, "agent": heard})["agent"]["word"] in ("refuse", "none")


@pytest.mark.parametrize(("text", "codes"), [
    ("", ("all",)), ("# by Anna\n", ("all",)), ("gpu.xid\n", ("gpu.xid",)), ("# why\ngpu.xid\nport.flaps", ("gpu.xid", "port.flaps")),
    ("all\n", ("all",)), ("gpu.xid for a while\n", ("all",)), ("please stop\n", ("all",)), ("gpu\n", ("all",))])
def test_agent_and_hook_read_a_hold_file_alike(text: str, codes: tuple[str, ...], tmp_path: Path) -> None:
    assert held_codes(text) == codes
    (tmp_path / "hold").write_text(text)
    for code in ("gpu.xid", "gpu.ecc"):
        assert prolog(tmp_path, code) == (0 if "all" in codes or code in codes else 1), code


def prolog(directory: Path, code: str) -> int:
    """Return what the hook of a node ends with whose status line refuses for this check."""
    up = Path("/proc/uptime").read_text().split(".")[0]
    (directory / "status").write_text(f"refuse {up} drain {code} GPU 0: it is broken\n")
    text = hook_text("ok").replace("/run/railwright/agent/status", f"{directory}/status")
    (directory / "hook").write_text(text.replace("/etc/railwright/hold", f"{directory}/hold"))
    return subprocess.run(["sh", directory / "hook", "prolog"], check=False, capture_output=True, timeout=60).returncode


def test_without_a_hold_file_and_with_a_directory_in_its_place(tmp_path: Path) -> None:
    assert prolog(tmp_path, "gpu.xid") == 1
    (tmp_path / "hold").mkdir()
    assert prolog(tmp_path, "gpu.xid") == 0


def test_a_hold_is_set_shown_and_ended(node: Node) -> None:
    node.minute()
    fail_gpu(node)
    assert node.minute()["word"] == "refuse"
    assert hold.answer(node.host, {"codes": ["gpu.xid"], "why": "wrong since driver 595"}, False) == {
        "hold": {"before": [], "now": ["gpu.xid"]}}
    found = node.minute()
    assert (found["word"], found["held"]) == ("held", ["gpu.xid"])
    assert hold.answer(node.host, {"codes": ["gpu.xid", "all"], "why": ""}, False)["hold"] == {"before": ["gpu.xid"], "now": ["all"]}
    assert hold.answer(node.host, {"codes": [], "why": ""}, False)["hold"] == {"before": ["all"], "now": []}
    assert node.minute()["word"] == "refuse"


@pytest.mark.parametrize("codes", [["rm -rf /"], ["gpu.xid\nall"], ["../x"], ["gpu.xid"] * 201])
def test_a_hold_of_no_code_is_refused(codes: list[str], node: Node) -> None:
    with pytest.raises(RailwrightError, match="allowed: all, or codes"):
        hold.answer(node.host, {"codes": codes, "why": ""}, False)
    assert hold.held(node.host) == ()


def test_what_fails_just_after_an_upgrade_is_the_controllers_to_decide(node: Node) -> None:
    node.minute()
    node.modes = dict(XID_ALONE, release="0.2.0")  # a new railwright
    node.minute(61)
    fail_gpu(node)
    found = node.minute()
    assert (found["word"], [row["fresh"] for row in found["findings"] if row["check"] == "gpu.xid"]) == ("shared", [True])
    assert node.minute(61)["word"] == "refuse", "after the window it acts"


def test_what_failed_before_an_upgrade_still_refuses(node: Node) -> None:
    node.minute()
    fail_gpu(node)
    node.minute()
    node.modes = dict(XID_ALONE, release="0.2.0")
    assert node.minute(61)["word"] == "refuse"


def test_versions_that_are_only_fewer_are_no_upgrade() -> None:
    """An HCA that is gone takes its firmware's version with it."""
    first = upgrades.renewed({}, upgrades.versions(FACTS, "0.1.0"), Moment(1.0, 1.0, "b"))
    assert upgrades.last_upgrade(first, Moment(2.0, 2.0, "b"), 3600.0) is None, "the first look knows no version before"
    gone = dict(FACTS, hcas=[{"fw_ver": "28.41.1000"}])
    fewer = upgrades.renewed(first, upgrades.versions(gone, "0.1.0"), Moment(2.0, 2.0, "b"))
    assert upgrades.last_upgrade(fewer, Moment(3.0, 3.0, "b"), 3600.0) is None
    newer = upgrades.renewed(fewer, upgrades.versions(dict(gone, gpu_driver={"version": "595.45"}), "0.1.0"), Moment(3.0, 3.0, "b"))
    assert upgrades.last_upgrade(newer, Moment(4.0, 4.0, "b"), 3600.0) == 3.0
    assert upgrades.last_upgrade(newer, Moment(4000.0, 4000.0, "b"), 3600.0) is None
    assert [row["ago"] for row in upgrades.told(newer, Moment(5.0, 5.0, "b"))] == [2.0, None, None]


@pytest.mark.parametrize("kept", [
    None, [], {"driver": 3}, {"driver": {"value": 3, "at": None}}, {"driver": {"value": "x", "at": {"t": "y"}}}])
def test_a_damaged_state_has_no_versions(kept: Any) -> None:
    assert upgrades.remembered(kept) == {}


@pytest.mark.parametrize(("subjects", "subject", "same"), [
    ((), "GPUs", True), (("mlx5_3",), "mlx5_3 (ens12np0)", True), (("ens12np0",), "mlx5_3 (ens12np0)", True),
    (("mlx5_3",), "mlx5_30 (ens1)", False), (("GPU 0000:3d:00.0",), "GPU 0000:3d:00.0", True)])
def test_an_entry_is_about_whole_names(subjects: tuple[str, ...], subject: str, same: bool) -> None:
    assert names(subjects, subject) is same


def test_a_verdict_of_a_check_that_is_off_is_skipped_with_the_reason() -> None:
    verdicts = [Verdict("port.optics", "n", "mlx5_3", 1, "mlx5_3 (ens1)", "fail", None, None, "dark"),
                Verdict("port.optics", "n", "mlx5_4", 1, "mlx5_4 (ens2)", "fail", None, None, "dark")]
    entry = {"mode": "off", "reason": "vendor case 7", "until": "2099-01-01", "subjects": ["mlx5_3"]}
    found = switched_off(verdicts, {"port.optics": entry})
    assert [(item.status, item.message) for item in found] == [
        ("skipped", "off until 2099-01-01 by rdma_checks: vendor case 7"), ("fail", "dark")]
    assert switched_off(verdicts, {"port.optics": dict(entry, mode="observe")}) == verdicts


