# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's health: each injected fault is found with its check and status, a healthy node raises nothing, and 50 looks agree."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_tree import kmsg

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.health import BY_CHECK
from ansible_collections.railwright.rdma.plugins.module_utils.checks.health import judge_health
from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import HEALTH, judge_node
from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import of_verdicts
from ansible_collections.railwright.rdma.plugins.module_utils.host.disk import Mount
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.host.inspected import InspectedHost
from ansible_collections.railwright.rdma.plugins.module_utils.host.kernel_ring import Record
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Result
from ansible_collections.railwright.rdma.plugins.module_utils.observe import health, kernel_log
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import Inspection, inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import CRITICAL, Verdict
from health_faults import (
    FAULTS,
    NIC,
    NVIDIA,
    PORT,
    SESSION,
    UP_SECONDS,
    XID,
    Fault,
    cables,
    fec,
    fec_errors,
    flaps,
    holder,
    log,
    module,
    older,
    port_counter,
    processes,
    put,
    rails,
    smi,
    xid,
)  # fmt: skip
from health_lines import HARMLESS, Row
from node_trees import NODES
from profile_trees import Tree, spec_of

Make = Callable[..., Tree]


@pytest.fixture
def node(tmp_path: Path) -> Make:
    def make(name: str = "ib8") -> Tree:
        tree = Tree(name, tmp_path / str(len(list(tmp_path.iterdir()))))
        tree.put("/proc/uptime", f"{UP_SECONDS + 60:.2f} 1.00\n")
        tree.put("/proc/stat", "cpu 1 2 3\nbtime 1795818848\n")
        return tree

    return make


def seen(tree: Tree, host: Host | None = None) -> Inspection:
    inspected = InspectedHost(host or tree.host)
    identity = observe_identity(inspected)
    return inspection_of("node1", spec_of(tree.name), identity, observe_facts(inspected, identity))


def bad(verdicts: list[Verdict]) -> list[Verdict]:
    return [item for item in verdicts if item.status in ("fail", "warn")]


def judged(tree: Tree) -> list[Verdict]:
    return judge_health(seen(tree))


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.title for fault in FAULTS])
def test_each_fault_is_found(fault: Fault, node: Make) -> None:
    """With its check and its status, alone, and with what to do."""
    tree = node(fault.node)
    fault.inject(tree)
    look = seen(tree)
    found = bad(judge_health(look))
    assert [(item.check, item.status) for item in found] == [(fault.check, fault.status)]
    assert fault.says in found[0].message
    assert (fault.status == "fail") <= (BY_CHECK[fault.check].severity == CRITICAL)
    assert (HEALTH, found[0]) in judge_node(look), "validate and drift get it"


def test_there_are_forty_faults_of_every_check() -> None:
    assert len(FAULTS) >= 40
    assert len({fault.title for fault in FAULTS}) == len(FAULTS)
    # The second is the agent's; the third is never better or worse than unknown.
    assert {fault.check for fault in FAULTS} == set(BY_CHECK) - {"node.kernel_log", "port.growth", "accelerator.judged"}


@pytest.mark.parametrize("name", sorted(path.name for path in NODES.iterdir() if path.name != "hgx-skew"))
def test_no_other_node_raises_anything(name: str, node: Make) -> None:
    assert bad(judged(node(name))) == []


def test_the_board_in_trouble_has_fewer_nvlinks(node: Make) -> None:
    found = bad(judged(node("hgx-skew")))
    assert [(item.check, item.subject, item.found) for item in found] == [("gpu.nvlink", "GPU 0000:7b:00.0", "16 links")]


def test_fifty_looks_agree(node: Make) -> None:
    tree = node()
    xid(79, "pid=1, name=x, GPU has fallen off the bus.", "fail", "").inject(tree)
    flaps(15, 17, 20)(tree)
    look = seen(tree)
    first = judge_health(look)
    assert {item.status for item in first} == {"fail", "pass"}
    for _again in range(49):
        facts = {**look.facts, "health": health.observe_health(InspectedHost(tree.host), look.identity, look.facts)}
        assert judge_health(look._replace(facts=facts)) == first


def test_a_node_with_xid_79_does_not_pass(node: Make) -> None:
    """The verdict names the GPU, its PCI address, how often and when."""
    tree = node()
    for at in (50000.0, 50600.0):
        log(f"{XID}79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", at=at)(tree)
    [verdict] = bad(judged(tree))
    assert (verdict.check, verdict.subject, verdict.status, verdict.found) == ("gpu.xid", "GPU 0000:27:00.0", "fail", "Xid 79")
    assert verdict.message.startswith(
        "NVIDIA H100 80GB HBM3: Xid 79, GPU has fallen off the bus, 2 times, last at 2026-11-28T12:37:28Z (kernel: "
    )
    assert "power it off and on" in verdict.message


def test_a_burst_on_one_gpu_is_one_verdict(node: Make) -> None:
    tree = node()
    log(*(f"{XID}{number}, pid=1, name=x, text" for number in [45, 43, 31, 13] * 200 + [79]), step=0.001)(tree)
    [verdict] = bad(judged(tree))
    assert (verdict.status, verdict.found) == ("fail", "Xid 79, Xid 45, Xid 43, Xid 31, Xid 13")


def test_the_gpus_own_word_comes_first(node: Make) -> None:
    """A GPU that was reset since, or got over it, asks for nothing; one that is off the bus needs a restart whatever others say."""
    text = "pid='<unknown>', name=<unknown>, Uncontained: LTC"
    recovered, silent = node(), node()
    xid(95, text, "", "").inject(recovered)
    older(xid(95, text, "", "")).inject(silent)
    assert [item.status for item in bad(judged(recovered))] == ["warn"]
    assert [item.status for item in bad(judged(silent))] == ["fail"]
    back = node()
    log(
        f"{XID}154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)",
        f"{XID}154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)",
    )(back)
    assert bad(judged(back)) == []


def test_an_instance_of_a_gpu_and_a_bus_without_a_domain_are_its_own(node: Make) -> None:
    tree = node()
    log("NVRM: Xid (PCI:0000:27:00 GPU-I:05): 31, pid=1, name=x, text", "NVRM: Xid (27:00): 31, text")(tree)
    [verdict] = bad(judged(tree))
    assert (verdict.subject, "2 times" in verdict.message) == ("GPU 0000:27:00.0", True)


@pytest.mark.parametrize("line", [
    "python3[4711]: NVRM: Xid (PCI:0000:27:00): 79, GPU has fallen off the bus.",
    "Out of memory: Killed the pet", "NVRM: Xid (PCI:0000:27:00", "NVRM: Xid (PCI:zz): 79, x", "NVRM: Xid (PCI:0000:27:00): 123456789, x",
    "EXT4-fs (loop0): Remounting filesystem read-only", "XFS (loop12): Filesystem has been shut down due to log error (0x2).",
    "nfs: server storage1 OK", "mce: CPU0: Thermal monitoring enabled (TM1)", "pcieport 0000:00:1c.0: AER: enabled with IRQ 24",
    "igb 0000:99:00.0 eno1: igb: eno1 NIC Link is Down", "mlx5_core 0000:99:00.0 eth9: Link down",
    "nvme 0000:99:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
    f"mlx5_core {NIC}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
])  # fmt: skip
def test_what_only_looks_like_a_fault_is_none(line: str, node: Make) -> None:
    """Also what a process writes into its name, and faults of parts that no job uses."""
    tree = node()
    log(line)(tree)
    assert bad(judged(tree)) == []


@pytest.mark.parametrize("row", HARMLESS, ids=[row.title for row in HARMLESS])
def test_what_a_healthy_node_says_is_no_fault(row: Row, node: Make) -> None:
    tree = node()
    log(*row.lines)(tree)
    found = judged(tree)
    assert bad(found) == []
    assert [item for item in found if item.status == "unknown"] == []


def test_a_container_is_judged_by_its_own_devices(node: Make) -> None:
    """Its log, where it may read one, is of the machine below."""
    tree = node()
    log("EXT4-fs (sda1): Remounting filesystem read-only", f"{XID}79, x", "NVRM: Xid (PCI:0000:99:00): 79, x", "Machine check")(tree)
    look = seen(tree)
    look = look._replace(facts={**look.facts, "virtual": "container"})
    found = judge_health(look)
    assert [(item.check, item.subject) for item in bad(found)] == [("gpu.xid", "GPU 0000:27:00.0")]
    assert [item.check for item in found if item.check.startswith("node.")] == []
    unread = {**look.facts["health"], "log": {**look.facts["health"]["log"], "source": None, "why": "Operation not permitted"}}
    assert {item.status for item in judge_health(look._replace(facts={**look.facts, "health": unread}))} == {"pass"}


def test_a_file_system_that_was_mounted_again_only_warns(node: Make) -> None:
    for line, status in (("re-mounted 0a1b r/w. Quota mode: none.", "warn"), ("re-mounted 0a1b ro. Quota mode: none.", "fail")):
        tree = node()
        log("EXT4-fs (vda1): Remounting filesystem read-only", f"EXT4-fs (vda1): {line}")(tree)
        assert [(item.check, item.status) for item in bad(judged(tree))] == [("node.disk", status)]


def test_drift_names_what_fails_and_leaves_warnings_to_validate(node: Make) -> None:
    tree = node()
    log(f"{XID}79, x", "Out of memory: Killed process 4711 (python3)")(tree)
    found = {finding.key: finding for finding in of_verdicts(judge_node(seen(tree)), (), ())}
    assert (found["gpu.xid: GPU 0000:27:00.0"].severity, "node.oom: memory" in found) == (CRITICAL, False)


def test_an_nfs_server_that_is_back_is_well(node: Make) -> None:
    tree = node()
    log("nfs: server storage1 not responding, still trying", "nfs: server storage1 OK")(tree)
    assert bad(judged(tree)) == []


def test_links_may_go_after_boot_and_in_our_own_apply(node: Make) -> None:
    tree = node()
    flaps(0.1, 0.2, 0.3, 20)(tree)
    end = 1795818848 + 20 * 3600 + 300
    tree.put("/var/lib/railwright/restore/20261127T000000-x/journal.json", "{}")
    os.utime(tree.root / "var/lib/railwright/restore/20261127T000000-x", (end, end))
    assert bad(judged(tree)) == []
    flaps(21)(tree)
    assert [item.status for item in bad(judged(tree))] == ["warn"]


@pytest.mark.parametrize(("seconds", "status"), [(-601, "warn"), (-600, None), (-300, None), (0, None), (60, None), (61, "warn")])
def test_a_link_may_go_in_the_ten_minutes_before_our_apply_ended(node: Make, seconds: int, status: str | None) -> None:
    """``seconds``: from the last change of a restore point to the link's end. Before and after it a link that goes down counts."""
    tree = node()
    boot = 1795818848  # of the tree
    flaps(20)(tree)
    end = boot + 20 * 3600 - seconds
    tree.put("/var/lib/railwright/restore/20261127T000000-x/journal.json", "{}")
    os.utime(tree.root / "var/lib/railwright/restore/20261127T000000-x", (end, end))
    assert [item.status for item in bad(judged(tree)) if item.check == "port.flaps"] == ([] if status is None else [status])


def test_flaps_of_long_ago_do_not_count(node: Make) -> None:
    tree = node()
    flaps(1, 2, 3)(tree)
    tree.put("/proc/uptime", "864000.00 1.00\n")
    assert bad(judged(tree)) == []


def test_a_log_that_nobody_may_read_is_unknown(node: Make) -> None:
    tree = node()
    (tree.root / "dev/kmsg").unlink()
    found = {item.check: item for item in judged(tree)}
    assert (found["node.kernel_log"].status, "gpu.xid" in found, "as root" in found["node.kernel_log"].message) == ("unknown", False, False)
    assert "root, or a member of group adm" in found["node.kernel_log"].message
    assert found["gpu.ecc"].status == "pass"


def test_the_journal_tells_what_the_ring_has_lost(node: Make) -> None:
    tree = node()
    tree.put("/dev/kmsg", kmsg("[80000.000001] usb 1-1: new device\n", first=900))
    stored = [(0, "kernel", "0", "Linux version 6"), (41000, "kernel", "0", f"{XID}79, x"), (41001, "syslog", "3", f"{XID}48, x"),
              (41002, "kernel", "1", f"{XID}62, x"), (41003, "kernel", "0", [*f"{XID}31, \x85".encode("latin-1")])]  # fmt: skip
    rows = [{"_TRANSPORT": transport, "SYSLOG_FACILITY": facility, "MESSAGE": message, "_SOURCE_MONOTONIC_TIMESTAMP": f"{at}000000"}
            for at, transport, facility, message in stored]  # fmt: skip
    tree.put("/cmd/" + recording_name(kernel_log.JOURNAL), "".join(json.dumps(row) + "\n" for row in rows))
    facts = seen(tree).facts["health"]["log"]
    assert (facts["source"], facts["complete"], [event["number"] for event in facts["events"]]) == ("journal", True, [79, 31])
    (tree.root / "cmd" / recording_name(kernel_log.JOURNAL)).unlink()
    found = {item.check: item for item in judged(tree)}
    assert (found["node.kernel_log"].status, "what is older is gone" in found["node.kernel_log"].message) == ("pass", True)


def test_a_flood_of_one_kind_hides_no_other(node: Make) -> None:
    tree = node()
    log(*(f"EXT4-fs (sd{place}): Remounting filesystem read-only" for place in range(5000)), f"{XID}79, x", step=0.0001)(tree)
    events = seen(tree).facts["health"]["log"]["events"]
    assert len([event for event in events if event["event"] == "read_only"]) == kernel_log.DEVICES
    assert [event["number"] for event in events if event["event"] == "xid"] == [79]
    assert max(len(event["text"]) for event in events) <= kernel_log.TEXT


def test_hostile_lines_are_bounded() -> None:
    lines = [
        Record(1.0, text)
        for text in (
            f"{XID}79, " + "A" * 1_000_000,
            "INFO: task " + ":" * 100_000 + "1 blocked for more than",
            "NVRM: Xid (" + "PCI:" * 50_000,
            "\x1b[31mNVRM: Xid",
            "mlx5_core " * 50_000,
            "EDAC " * 100_000,
        )
    ]
    found = kernel_log.events_of(lines * 20, True, lambda _name: True)
    assert [(event["number"], event["count"], len(event["text"]) <= kernel_log.TEXT) for event in found] == [(79, 20, True)]


@pytest.mark.parametrize(("group", "daemon", "kind"), [
    ("/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "slurmd", "C"), ("/user.slice/user-1.slice/libpod-1.scope", "slurmd", "C"),
    ("/kubepods.slice/kubepods-burstable.slice/cri-containerd-1.scope", "kubelet", "C"), ("/system.slice/mps.service", "slurmd", "M+C"),
    (SESSION, "sshd", "C"), (SESSION, "slurmd", "G"), ("", "slurmd", "C"),
])  # fmt: skip
def test_who_may_hold_a_gpu(group: str, daemon: str, kind: str, node: Make) -> None:
    """Jobs, pods, containers, services, a screen; and anybody where no scheduler's daemon runs: then nothing is said of it."""
    tree = node()
    holder(group, daemon, kind)(tree)
    assert [item.status for item in judged(tree) if item.check == "gpu.jobless"] == ["pass"] * (daemon != "sshd")
    assert bad(judged(tree)) == []


@pytest.mark.parametrize(("path", "text"), [
    ("/proc/4711/status", "voluntary_ctxt_switches:\t92\n"),
    ("/cmd/ps_-o_pid=,stat=,wchan:32=,comm=_-p_4711", f"   4711 Sl   {NVIDIA} python3\n"),
    ("/cmd/ps_-o_pid=,stat=,wchan:32=,comm=_-p_4711", f"   4711 Dl   {'uvm_api_free':32} python3\n"),
    ("/cmd/ps_-o_pid=,stat=,wchan:32=,comm=_-p_4711", ""),
])  # fmt: skip
def test_who_waits_only_once_is_busy(path: str, text: str, node: Make) -> None:
    """It ran between, runs now, waits in something else, or has ended."""
    tree = node()
    processes(f"   4711 Dl   {NVIDIA} python3")(tree)
    tree.put(path, text)
    assert [(item.check, item.status) for item in judged(tree) if item.check == "node.stuck"] == [("node.stuck", "pass")]


def test_who_waits_for_a_disk_is_not_asked_twice(node: Make) -> None:
    tree = node()
    processes(f"   4711 D    {'nvme_wait_freeze':32} fio", f"   4712 D    {'folio_wait_bit_common':32} cp")(tree)
    (tree.root / "cmd/ps_-o_pid=,stat=,wchan:32=,comm=_-p_4711,4712").unlink()
    assert [item.status for item in judged(tree) if item.check == "node.stuck"] == ["pass"]


def test_what_is_hidden_from_the_user_does_not_pass(node: Make) -> None:
    """What another's process waits in takes root; with hidepid ps does not list it."""
    tree = node()
    holder(SESSION)(tree)
    processes("    900 Ssl  futex_wait_queue                 slurmd", "   4713 D    -                                x")(tree)
    assert {item.check for item in judged(tree)} & {"node.stuck", "gpu.jobless"} == set()


def test_ports_of_another_speed_may_have_other_cables(node: Make) -> None:
    tree = node("doca8")
    cables(tree)
    fec("None")(tree)
    port = next((tree.root / "sys/class/infiniband").glob(f"*/device/net/{PORT}")).parents[2].name
    tree.put(f"/sys/class/infiniband/{port}/ports/1/rate", "25 Gb/sec (1X EDR)\n")
    assert bad(judged(tree)) == []


def test_few_errors_of_a_link_prove_nothing(node: Make) -> None:
    """Nor do those of a port that is down, whose rate says nothing of what its counters saw."""
    few, down, retrained = node(), node(), node("doca8")
    port_counter("symbol_error", 30000)(few)
    port_counter("link_error_recovery", 10)(few)
    port_counter("symbol_error", 60000)(down)
    put("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n")(down)
    fec_errors(30000)(retrained)
    assert [bad(judged(tree)) for tree in (few, down, retrained)] == [[], [], []]
    assert len(rails(retrained)) == 8


@pytest.mark.parametrize("text", ["", "Error: Health watches not enabled. Please enable watches. \n", '{"body": 3}', "[]", "{" * 9999])
def test_a_dcgm_that_says_nothing_is_no_verdict(text: str, node: Make) -> None:
    tree = node()
    tree.put("/cmd/dcgmi_health_-g_0_-c_-j", text)
    assert "gpu.dcgm" not in {item.check for item in judged(tree)}


def test_a_tree_of_nonsense_breaks_nothing(node: Make) -> None:
    """As somebody may hand one in: numbers without an end, times beyond the calendar."""
    tree = node("doca8")
    for path, text in {
        "/proc/stat": f"btime {'9' * 18}\n", "/proc/uptime": "9" * 300, "/sys/devices/system/edac/mc/mc0/ue_count": "9" * 5000,
        "/sys/devices/system/edac/mc/mc0/ce_count": "-1", "/sys/devices/system/edac/mc/mc1/ce_count": "\x00",
        f"/sys/class/net/{PORT}/carrier_down_count": "9" * 18, "/proc/self/mountinfo": "1 2 3\n" + "x - nfs4\n" * 9 + " - nfs\n",
        f"/cmd/ethtool_-m_{PORT}": "Identifier : x\nModule temperature : 9999999999999 degrees C\n" + "Module voltage : nan V\n" * 99,
        "/cmd/nvidia-smi_-q_-x": '<gpu id="00000000:14:00.0"><ecc_errors><volatile><dram_uncorrectable>' + "9" * 150 + "</" + "x" * 9000,
    }.items():
        tree.put(path, text)
    log(f"mlx5_core 0000:13:00.0 {PORT}: Link down", "NVRM: Xid (PCI:0000:14:00): 99999, x", at=999999999999.0)(tree)
    found = judged(tree)
    assert all(len(item.message) < 2000 for item in found)
    assert {item.check for item in found if item.status == "fail"} <= {"gpu.answers"}


def test_an_answer_of_nvidia_smi_that_is_none_is_no_pass(node: Make) -> None:
    for text in ("", "Unable to determine the device handle for GPU0000:27:00.0: GPU is lost.\n", '<gpu id="x">', "<gpu>" * 10000, "\x00"):
        tree = node()
        tree.put("/cmd/nvidia-smi_-q_-x", text)
        found = {item.check: item.status for item in judged(tree)}
        assert (found["gpu.answers"], "gpu.ecc" in found) == ("fail", False)


class Answers(Host):
    """A tree of which one command is answered otherwise."""

    def __init__(self, tree: Tree, argv: tuple[str, ...], result: Result) -> None:
        self.tree, self.argv, self.result, self.live = tree.host, argv, result, False

    def path(self, path: str) -> str:
        return self.tree.path(path)

    def readlink(self, path: str) -> str | None:
        return self.tree.readlink(path)

    def which(self, tool: str) -> str | None:
        return "/usr/bin/" + tool if tool == self.argv[0] else self.tree.which(tool)

    def run(self, argv: Any, timeout: float = 30.0, stdin: str | None = None, limit: int = 0) -> Result:
        return self.result if tuple(argv[: len(self.argv)]) == self.argv else self.tree.run(argv)


@pytest.mark.parametrize(("result", "mode", "status"), [
    (Result(124, "", "nvidia-smi: no answer in 5 s"), "Enabled", "fail"), (Result(124, "", "no answer in 5 s"), "Disabled", "unknown"),
    (Result(127, "", "no such file"), "Enabled", "unknown"),
    (Result(4, "Failed to initialize NVML: Insufficient Permissions", ""), "Enabled", "unknown"),
    (Result(15, "Unable to determine the device handle for GPU0000:27:00.0: GPU is lost.", ""), "Enabled", "fail"),
])  # fmt: skip
def test_nvidia_smi_that_does_not_answer(result: Result, mode: str, status: str, node: Make) -> None:
    tree = node()
    name = "/cmd/nvidia-smi_--query-gpu=pci.bus_id,persistence_mode_--format=csv,noheader"
    tree.put(name, (tree.root / name[1:]).read_text().replace("Enabled", mode))
    found = {item.check: item for item in judge_health(seen(tree, Answers(tree, ("nvidia-smi", "-q"), result)))}
    assert found["gpu.answers"].status == status


def test_an_nfs_mount_that_hangs_is_the_finding(node: Make) -> None:
    tree = node()
    tree.put(
        "/proc/self/mountinfo",
        "".join(f"{n} 1 0:{n} / {point} rw - nfs4 storage:/x rw\n" for n, point in ((30, "/a"), (31, "/b"), (32, "/c"))),
    )
    found = bad(judge_health(seen(tree, Answers(tree, ("stat", "-f"), Result(124, "/a\n", "no answer")))))
    assert [(item.check, item.subject, item.status) for item in found] == [("node.nfs", "/b", "fail")]


def test_a_disk_that_takes_nothing(node: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs("/")
    full = os.statvfs_result((*real[:3], 0, 0, *real[5:]))
    bound = os.statvfs_result((*real[:8], real[8] | 1, real[9]))  # what a service with ProtectSystem=strict sees of a disk that is well
    live = Host()
    monkeypatch.setattr(Host, "filesystem", lambda _self, path: full if path == "/var" else bound)
    assert health.observe_disks(live) == [{"place": "/var", "state": "full", "anybodys": False}]
    monkeypatch.setattr(Host, "filesystem", lambda _self, _path: real)
    monkeypatch.setattr(health, "mount_of", lambda _host, place: Mount(place, "vda1", "ext4", read_only=place == "/var"))
    assert health.observe_disks(live) == [{"place": "/var", "state": "read-only"}]


def test_a_module_within_its_limits_is_well_whatever_its_flags_say(node: Make) -> None:
    """Flags are latched until they are read: the second look would not see them."""
    tree = node("doca8")
    module("Mellanox", "Mellanox")(tree)
    for netdev in rails(tree):
        tree.put(f"/cmd/ethtool_-m_{netdev}", (tree.root / f"cmd/ethtool_-m_{PORT}").read_text())
    fec("RS")(tree)
    found = {item.check: item.status for item in judged(tree)}
    assert (found["port.optics"], found["port.fec"]) == ("pass", "pass")
    port = next(port for port in seen(tree).facts["health"]["ports"] if port["netdev"] == PORT)
    assert (port["module"]["part"], port["fec"], port["uncorrectable_blocks"]) == ("MMA1B00-C100D", "RS", 0)


@pytest.mark.parametrize(
    "text", ["", "netlink error: Operation not permitted\n", "Identifier\n", "Identifier : 0x11\n" + "x: 1 mW\n" * 9000]
)
def test_a_module_that_nobody_may_read_says_nothing(text: str, node: Make) -> None:
    tree = node("doca8")
    put(f"/cmd/ethtool_-m_{PORT}", text)(tree)
    assert "port.optics" not in {item.check for item in judged(tree)}


def test_what_was_not_read_does_not_pass(node: Make) -> None:
    """A GPU without ECC, a driver that knows no recovery action, a kernel without AER and EDAC, no fabric."""
    tree = node()
    text = (tree.root / "cmd/nvidia-smi_-q_-x").read_text()
    text = text.replace("recovery_action>None", "recovery_action>N/A").replace("uncorrectable>0", "uncorrectable>N/A")
    tree.put("/cmd/nvidia-smi_-q_-x", text.replace("uncorrectable_parity>0", "x>").replace("uncorrectable_secded>0", "x>"))
    found = {item.check: item.status for item in judged(tree)}
    unread = {"gpu.recovery", "gpu.ecc", "gpu.fabric", "pci.aer", "node.memory", "node.nfs", "node.clock", "port.optics"}
    assert unread & set(found) == set()
    assert {found[check] for check in ("gpu.answers", "gpu.remap", "gpu.thermal", "gpu.nvlink", "gpu.xid", "node.oom")} == {"pass"}


def test_facts_of_before_say_nothing(node: Make) -> None:
    look = seen(node())
    for section in (None, "no section"):
        assert judge_health(look._replace(facts={**look.facts, "health": section})) == []


def test_only_what_is_there_is_asked_for(node: Make) -> None:
    """No nvidia-smi without a GPU, no ethtool without a port that has a module."""
    asked: list[str] = []

    class Asked(Answers):
        def run(self, argv: Any, timeout: float = 30.0, stdin: str | None = None, limit: int = 0) -> Result:
            asked.append(" ".join(argv))
            return self.tree.run(argv)

    for name in ("nohca", "rxe", "erdma2"):
        tree = node(name)
        host = Asked(tree, ("ethtool",), Result(0, "", ""))
        identity = observe_identity(host)
        facts = observe_facts(host, identity)
        asked.clear()
        health.observe_health(host, identity, facts)
        assert [line for line in asked if line.startswith(("nvidia-smi", "ethtool", "stat"))] == []


def test_smi_of_an_older_driver_is_understood(node: Make) -> None:
    """Names before driver 535: throttle reasons, no recovery action, a page that waits."""
    tree = node()
    smi("clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown", "x>Active</x")(tree)
    text = (tree.root / "cmd/nvidia-smi_-q_-x").read_text()
    tree.put(
        "/cmd/nvidia-smi_-q_-x",
        text.replace("clocks_event_reasons>", "clocks_throttle_reasons>")
        .replace("clocks_event_reason_hw_thermal_slowdown>Not Active", "clocks_throttle_reason_hw_thermal_slowdown>Active")
        .replace("clocks_event_reason_hw_thermal_slowdown", "clocks_throttle_reason_hw_thermal_slowdown"),
    )
    assert {(item.check, item.status) for item in bad(judged(tree))} == {("gpu.thermal", "fail")}
