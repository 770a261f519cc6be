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
