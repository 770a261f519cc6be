# SPDX-License-Identifier: GPL-3.0-or-later
"""Which messages of the kernel are evidence: by facility, stamp, PCI function, driver. tests/hostile/test_kernel_log.py has real ones."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_tree import kmsg

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.kernel_log import RULES
from ansible_collections.railwright.rdma.plugins.module_utils.checks.health import judge_health
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.host.kernel_ring import Record
from ansible_collections.railwright.rdma.plugins.module_utils.observe import kernel_log
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from profile_trees import Tree, spec_of

GONE = "0000:99:00.0"  # no function of the tree
XID = "[40000.000000] NVRM: Xid (PCI:0000:99:00): 79, pid=1, GPU has fallen off the bus.\n"
ENUMERATED = f"[    0.500000] pci {GONE}: [10de:2330] type 00 class 0x030200 PCIe Endpoint\n"
LOST = "[40000.000000] mlx5_core 0000:18:00.0: device's health compromised - reached miss count\n"
UP = 86400.0
COMM = 15  # bytes of a process's name (TASK_COMM_LEN less its end)

Make = Callable[[str], Tree]


@pytest.fixture
def node(tmp_path: Path) -> Make:
    def make(log: str) -> Tree:
        tree = Tree("ib8", tmp_path)
        tree.put("/proc/uptime", f"{UP:.2f} 1.00\n")
        tree.put("/dev/kmsg", kmsg("[    0.000000] Linux version 6.8.0\n" + log))
        return tree

    return make


def judged(tree: Tree, **values: Any) -> dict[str, Verdict]:
    """By check, the worst one of what is not passed."""
    identity = observe_identity(tree.host)
    found = judge_health(inspection_of("node1", spec_of("ib8", **values), identity, observe_facts(tree.host, identity)))
    return {item.check: item for word in ("unknown", "warn", "fail") for item in found if item.status == word}


def agent(tree: Tree, **look: Any) -> None:
    tree.put(kernel_log.AGENT, json.dumps({"facts": {}, **look}))


def test_a_gpu_that_left_the_bus_after_its_xid_fails(node: Make) -> None:
    """The kernel enumerated it at boot; hot-plug then removed it."""
    found = judged(node(ENUMERATED + XID))["gpu.xid"]
    assert (found.status, "a GPU that is no longer on the bus" in found.message) == ("fail", True)


@pytest.mark.parametrize("look", [{"facts": {"gpus": [{"pci": GONE}]}}, {"functions": [GONE]}])
def test_the_agent_remembers_what_was_on_the_bus(look: dict[str, Any], node: Make) -> None:
    tree = node(XID)
    agent(tree, **look)
    assert judged(tree)["gpu.xid"].status == "fail"


@pytest.mark.parametrize("look", [{}, {"facts": [], "functions": 5}, {"facts": {"gpus": [5, {"pci": 7}]}, "functions": [[]]}])
def test_a_function_that_the_node_never_had_is_named_and_not_judged(look: dict[str, Any], node: Make) -> None:
    tree = node(XID)
    agent(tree, **look)
    found = judged(tree)["gpu.xid"]
    assert (found.status, GONE in found.message, "neither has nor had" in found.message) == ("unknown", True, True)


def test_a_function_that_the_inventory_names_is_the_node_s(node: Make) -> None:
    tree = node(f"[40000.0] mlx5_core {GONE}: Port module event[error]: module 0, Cable error, Bus stuck\n")
    assert judged(tree)["port.optics"].status == "unknown"
    rails = [{"name": "rail0", "match": {"pci": GONE}}]
    assert "neither has nor had" not in str(judged(tree, rails=rails).get("port.optics"))


def test_strangers_neither_hide_a_real_fault_nor_fill_the_facts(node: Make) -> None:
    strangers = "".join(f"[40000.000000] NVRM: Xid (PCI:{at:04x}:99:00): 79, x\n" for at in range(1, 500))
    tree = node(strangers + XID.replace(":99:", ":27:"))
    events = observe_facts(tree.host, observe_identity(tree.host))["health"]["log"]["events"]
    assert [event["device"] for event in events if event["listed"] and event["event"] == "xid"] == ["0000:27:00.0"]
    assert len(events) <= kernel_log.STRANGERS + 2
    assert judged(tree)["gpu.xid"].status == "fail"


@pytest.mark.parametrize(("end", "status"), [
    ("mlx5_core 0000:18:00.0: health recovery succeeded", "warn"),
    ("mlx5_core 0000:19:00.0: health recovery succeeded", "fail"),
    ("mlx5_ib 0000:18:00.0: health recovery succeeded", "fail"),
])  # fmt: skip
def test_only_the_driver_that_reported_a_fault_ends_it(end: str, status: str, node: Make) -> None:
    assert judged(node(LOST + f"[40001.000000] {end}\n"))["hca.health"].status == status


NIC = "0000:18:00.0"
FAILED = {
    "firmware failed": "device's health compromised - reached miss count", "recovery aborted": "health recovery flow aborted, PCI reads",
    "command": "wait_func:1061:(pid 8): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource",
    "start": "probe_one:1770:(pid 9): mlx5_init_one failed with error code -110", "hardware": "synd 0x8: unrecoverable hardware error",
}  # fmt: skip


@pytest.mark.parametrize("text", FAILED.values(), ids=FAILED)
@pytest.mark.parametrize(("kind", "status"), [("its own", "fail"), ("15b3:1015", "warn"), ("seen by the agent", "fail"), ("named", "fail")])
def test_a_nic_that_is_gone_fails_the_node_only_where_it_carried_jobs(kind: str, status: str, text: str, node: Make) -> None:
    """It left the bus with its fault. Evidence: the kind of the working NICs, the agent's memory, the inventory; else a management NIC."""
    tree = node("")
    ids = ":".join((tree.root / f"sys/bus/pci/devices/{NIC}" / name).read_text().strip()[2:] for name in ("vendor", "device"))
    enumerated = ENUMERATED.replace("10de:2330", {"its own": ids}.get(kind, "15b3:1015"))
    tree.put("/dev/kmsg", kmsg("[    0.000000] Linux version 6.8.0\n" + enumerated + f"[40000.0] mlx5_core {GONE}: {text}\n"))
    if kind == "seen by the agent":
        agent(tree, functions=[GONE])
    rails = [{"name": "rail0", "match": {"pci": GONE if kind == "named" else NIC}}]
    assert judged(tree, rails=rails)["hca.health"].status == status


def test_the_agent_s_minutes_know_the_peers_too(node: Make) -> None:
    tree = node("")
    log = kernel_log.observe_log(tree.host)
    tree.put("/dev/kmsg", (tree.root / "dev/kmsg").read_text() + kmsg(f"[40000.0] mlx5_core {NIC}: {FAILED['start']}\n", first=1))
    assert [(event["event"], event["word"]) for event in kernel_log.newer_log(tree.host, log)["events"]] == [("nic_probe", kernel_log.PEER)]


def test_a_virtual_function_is_no_peer(node: Make) -> None:
    """A virtual function that does not start, beside others with RDMA devices, belongs to a machine above."""
    tree = node(f"[40000.0] mlx5_core {NIC}: {FAILED['start']}\n")
    (tree.root / f"sys/bus/pci/devices/{NIC}").resolve().joinpath("physfn").symlink_to("../0000:17:00.0")
    assert [event["word"] for event in kernel_log.observe_log(tree.host)["events"]] == [""]


PLUGGED, UNPLUGGED = (f"mlx5_core {NIC}: Port module event: module 0, Cable {word}" for word in ("plugged", "unplugged"))
LINK_DOWN = f"mlx5_core {NIC}: Port: 1 Link DOWN"


@pytest.mark.parametrize(("lines", "down", "found"), [
    ([UNPLUGGED], True, None), ([PLUGGED, UNPLUGGED], True, "warn"), ([LINK_DOWN, UNPLUGGED], True, "warn"),
    ([PLUGGED, UNPLUGGED, PLUGGED], True, None), ([PLUGGED, UNPLUGGED], False, None),
    ([PLUGGED, UNPLUGGED, PLUGGED.replace("mlx5_core", "mlx5_ib")], True, "warn"),
])  # fmt: skip
def test_a_cable_is_missed_where_there_was_one(lines: list[str], down: bool, found: str | None, node: Make) -> None:
    """A port that a boot finds empty is unused by design, and one that is active has its cable."""
    tree = node("".join(f"[{40000 + at}.0] {line}\n" for at, line in enumerate(lines)))
    if down:
        tree.put("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n")
    verdict = judged(tree, rails=[{"name": "rail0", "match": {"pci": GONE}}]).get("port.optics")
    assert (verdict and verdict.status) == found


def test_an_empty_port_of_the_inventory_is_missed(node: Make) -> None:
    tree = node(f"[40000.0] {UNPLUGGED}\n")
    tree.put("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n")
    assert judged(tree, rails=[{"name": "rail0", "match": {"pci": NIC}}])["port.optics"].status == "warn"


@pytest.mark.parametrize(("at", "found"), [(40.0, None), (40000.0, "warn")])
def test_firmware_may_be_slow_at_boot(at: float, found: str | None, node: Make) -> None:
    """A DPU's NIC waits for the DPU; the note stays."""
    tree = node(f"[{at:.1f}] mlx5_core {NIC}: wait_fw_init:199:(pid 17): Waiting for FW initialization, timeout abort in 100s (0xff)\n")
    verdict = judged(tree).get("hca.health")
    assert (verdict and verdict.status) == found


@pytest.mark.parametrize(("bridge", "back", "found"), [
    ("0000:16:01.0", False, "warn"), ("0000:16:01.0", True, "warn"), (GONE, False, "warn"), (GONE, True, None)])
def test_a_disk_may_be_changed(bridge: str, back: bool, found: str | None, node: Make) -> None:
    """A card that came back is a fault only above GPUs and HCAs."""
    lines = ["Card not present", *(["Card present"] if back else [])]
    tree = node(ENUMERATED + "".join(f"[{40000 + at}.0] pcieport {bridge}: pciehp: Slot(4): {text}\n" for at, text in enumerate(lines)))
    (tree.root / "sys/bus/pci/devices/0000:16:01.0").mkdir(exist_ok=True)
    verdict = judged(tree).get("pci.aer")
    assert (verdict and verdict.status) == found


@pytest.mark.parametrize("driver", ["mlx5_core", "mlx4_en"])
def test_the_old_watchdog_names_the_interface(driver: str, node: Make) -> None:
    """Its PCI function is the one in sysfs; an interface of no HCA is not judged."""
    tree = node(f"[40000.0] NETDEV WATCHDOG: ib0 ({driver}): transmit queue 3 timed out\n"
                f"[40001.0] NETDEV WATCHDOG: gone0 ({driver}): transmit queue 3 timed out\n")
    assert [event["device"] for event in kernel_log.observe_log(tree.host)["events"]] == [NIC, "gone0"]
    assert [item.subject for item in [judged(tree)["hca.health"]]] == [f"mlx5_0 ({NIC})"]


def test_three_lines_of_one_message_are_joined_and_no_others() -> None:
    first = kernel_log.GPU_LINE + GONE
    lines = [first, "NVRM: (PCI ID: 10de:2330) installed in this system has", "NVRM: fallen off the bus and is not", XID[15:-1], first]
    found = kernel_log.joined([Record(float(at), text, at) for at, text in enumerate(lines)])
    assert [record.number for record in found] == [0, 3, 4]
    assert [event["number"] for event in kernel_log.events_of(found, True, lambda _name: True)] == [79]


@pytest.mark.parametrize(("driver", "status"), [("EXT4-fs", "warn"), ("XFS", "fail")])
def test_another_file_system_s_driver_mounts_nothing_again(driver: str, status: str, node: Make) -> None:
    lines = ("[40000.0] EXT4-fs (sdb1): Remounting filesystem read-only", f"[40001.0] {driver} (sdb1): mounted filesystem with data.")
    assert judged(node("\n".join(lines) + "\n"))["node.disk"].status == status


def test_text_ends_no_fault(node: Make) -> None:
    tree = node("")
    (tree.root / "dev/kmsg").unlink()
    tree.put("/cmd/dmesg", LOST + "[40001.000000] mlx5_core 0000:18:00.0: health recovery succeeded\n")
    assert [event["event"] for event in kernel_log.observe_log(tree.host)["events"]] == ["nic_failed"]


def test_a_program_s_record_is_no_kernel_s(node: Make) -> None:
    tree = node("")
    tree.put("/dev/kmsg", kmsg(XID.replace(":99:", ":27:"), priority=8 + 3))
    assert "gpu.xid" not in judged(tree)


@pytest.mark.parametrize(("switch", "packet", "status"), [
    ("1", "IN= OUT=lo SRC=127.0.0.1 ", None), ("1", "", "fail"), ("0", "IN= OUT=lo SRC=127.0.0.1 ", "fail"), (None, "IN= OUT=lo ", "fail"),
])  # fmt: skip
def test_a_packet_of_a_user_s_own_network_is_no_driver_s_message(switch: str | None, packet: str, status: str | None, node: Make) -> None:
    """As a real kernel 6.18 printed it for nobody in a network namespace: iptables -j LOG --log-prefix 'NVRM: Xid (PCI:27:00): 79 '."""
    tree = node(f"[40000.000000] NVRM: Xid (PCI:27:00): 79 {packet}\n")
    if switch is not None:
        tree.put("/proc/sys/net/netfilter/nf_log_all_netns", f"{switch}\n")
    found = judged(tree).get("gpu.xid")
    assert (found and found.status) == status


@pytest.mark.parametrize("flags", ["c", "+", "c,caller=T1"])
def test_the_rest_of_an_interrupted_message_is_none(flags: str, node: Make) -> None:
    tree = node("")
    tree.put("/dev/kmsg", kmsg(XID.replace(":99:", ":27:")).replace(",-;", f",{flags};"))
    assert "gpu.xid" not in judged(tree)
    tree.put("/dev/kmsg", kmsg(XID.replace(":99:", ":27:")).replace(",-;", ",-,caller=T1;") + " SUBSYSTEM=pci\n DEVICE=+pci:0000:27:00.0\n")
    assert judged(tree)["gpu.xid"].status == "fail"


@pytest.mark.parametrize("source", ["kmsg", "dmesg"])
def test_a_stamp_in_the_future_is_none(source: str, node: Make) -> None:
    """It would make every later look pass over what comes now."""
    tree = node("")
    future, now = f"[{UP + 1e6:.6f}] NVRM: Xid (PCI:0000:27:00): 31, x\n", f"[{UP:.6f}] NVRM: Xid (PCI:0000:27:00): 79, x\n"
    if source == "dmesg":
        (tree.root / "dev/kmsg").unlink()

    def put(text: str) -> None:
        tree.put("/dev/kmsg", kmsg(text)) if source == "kmsg" else tree.put("/cmd/dmesg", text)

    put("[    0.000000] Linux version 6.8.0\n" + future)
    log = kernel_log.observe_log(tree.host)
    assert (log["source"], log["until"], log["events"]) == (source, 0.0, [])
    put("[    0.000000] Linux version 6.8.0\n" + future + now)
    later = kernel_log.newer_log(tree.host, {**log, "until": 999999999.0} if source == "dmesg" else log)
    assert ([event["number"] for event in later["events"]], later["until"]) == ([79] if source == "kmsg" else [], UP)
    assert [event["number"] for event in kernel_log.newer_log(tree.host, log)["events"]] == [79]


def test_text_adds_nothing_to_records(node: Make) -> None:
    """The journal answers in one minute and not in the next; dmesg's text then has a forged message."""
    tree = node("")
    (tree.root / "dev/kmsg").unlink()
    row = {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "MESSAGE": "Linux version 6.8.0", "_SOURCE_MONOTONIC_TIMESTAMP": "0"}
    tree.put("/cmd/" + recording_name(kernel_log.JOURNAL), json.dumps(row) + "\n")
    log = kernel_log.observe_log(tree.host)
    tree.put("/cmd/" + recording_name(kernel_log.JOURNAL), "")
    tree.put("/cmd/dmesg", XID.replace(":99:", ":27:"))
    assert (log["source"], kernel_log.newer_log(tree.host, log)["events"]) == ("journal", [])
    text = kernel_log.observe_log(tree.host)
    tree.put("/dev/kmsg", kmsg("[    0.000000] Linux version 6.8.0\n"))
    later = kernel_log.newer_log(tree.host, text)
    assert (text["source"], len(text["events"]), later["source"], later["events"]) == ("dmesg", 1, "kmsg", [])


def test_each_message_is_counted_once(node: Make) -> None:
    """By its number in the ring, because two messages may have one stamp."""
    tree = node(XID.replace(":99:", ":27:"))
    log = kernel_log.observe_log(tree.host)
    for times in (1, 2, 3):
        log = kernel_log.newer_log(tree.host, log)
        assert [event["count"] for event in log["events"]] == [times]
        tree.put("/dev/kmsg", (tree.root / "dev/kmsg").read_text() + kmsg(XID.replace(":99:", ":27:"), first=1 + times))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.event)
def test_a_process_s_name_is_too_short_for_a_message(rule: Any) -> None:
    parser: Any = importlib.import_module("re._parser")  # the library's own, which has no public name
    assert parser.parse(rule.pattern.pattern).getwidth()[0] > COMM


def test_a_device_in_a_tree_is_not_read(tmp_path: Path) -> None:
    """Somebody's directory may hold a node of this machine's own log, or a pipe that never ends."""
    tree = Tree("ib8", tmp_path)
    (tree.root / "dev/kmsg").unlink()
    os.mkfifo(tree.root / "dev/kmsg")
    assert kernel_log.read_log(tree.host).source is None
