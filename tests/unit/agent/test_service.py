# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent on a captured tree with eight HCAs and eight GPUs, minute by minute: what it finds, remembers and says."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_tree import kmsg
from tests.lib import foreign

from ansible_collections.railwright.rdma.plugins.module_utils.agent import service, status
from ansible_collections.railwright.rdma.plugins.module_utils.agent.counters import DOWNS, Part
from ansible_collections.railwright.rdma.plugins.module_utils.agent.findings import error_verdicts, flap_verdicts, open_findings
from ansible_collections.railwright.rdma.plugins.module_utils.agent.history import Moment
from ansible_collections.railwright.rdma.plugins.module_utils.agent.main import event_text, remembered, say_known
from ansible_collections.railwright.rdma.plugins.module_utils.agent.service import Agent, Settings
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.counters import BY_NAME
from ansible_collections.railwright.rdma.plugins.module_utils.observe.kernel_log import functions_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.check_modes import NODE_CODES
from health_faults import FAULTS, Fault, log
from profile_trees import Tree

T = 1_800_000_000.0
TEXTFILE = "/var/lib/textfile"
ENFORCED: dict[str, Any] = {"enforced": NODE_CODES, "entries": {}, "release": "0.1.0", "window": 3600.0}
MCE = "mce: [Hardware Error]: CPU 0: Machine Check Exception: 5 Bank 7: be00000000800400"
MODULE = (Path(__file__).parents[2] / "lib" / "ethtool_module.txt").read_text()


class Node:
    """A tree, its clock and its agent."""

    def __init__(self, name: str, root: Path) -> None:
        self.tree = Tree(name, root)
        self.host = self.tree.host
        self.t, self.up, self.boot = T, 86400.0, "boot-1"
        self.modes: dict[str, Any] = ENFORCED

    def agent(self) -> Agent:
        """A new process each time, as the timer starts it."""
        return Agent(self.host, Settings("observe", nobodys_spec().as_dict(), 3, TEXTFILE, checks=self.modes))

    def minute(self, minutes: float = 1) -> dict[str, Any]:
        self.t, self.up = self.t + 60 * minutes, self.up + 60 * minutes
        self.tree.put("/proc/uptime", f"{self.up:.2f} 0.00\n")
        self.tree.put("/proc/sys/kernel/random/boot_id", self.boot + "\n")
        if self.agent().due(self.t):
            self.agent().whole(self.t)
        self.agent().minute(self.t)
        found: dict[str, Any] = json.loads(self.host.read(status.DOCUMENT) or "{}")
        return found

    def reboot(self) -> None:
        self.boot, self.up = self.boot + "x", 0.0
        shutil.rmtree(self.tree.root / "run/railwright")

    def log(self, line: str) -> None:
        log(line, at=self.up + 1)(self.tree)

    def down(self, times: int, netdev: str) -> None:
        path = f"/sys/class/net/{netdev}/carrier_down_count"
        self.tree.put(path, f"{int(self.host.read(path) or 0) + times}\n")

    def checks(self, answer: dict[str, Any], word: str = "fail") -> list[str]:
        return [row["check"] for row in answer["findings"] if row["status"] == word]


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Node]:
    return lambda name: Node(name, tmp_path)


@pytest.fixture
def node(make: Callable[[str], Node]) -> Node:
    """Its ports have interfaces with a counter of their own."""
    made = make("doca8")
    for netdev in made.host.listdir("/sys/class/net"):
        made.tree.put(f"/sys/class/net/{netdev}/carrier_down_count", "1\n")
    made.tree.put("/cmd/ethtool_-m_ens10np0", MODULE)
    made.minute()
    made.minute()
    return made


def test_two_looks_at_an_unchanged_node_say_the_same(node: Node) -> None:
    first = node.minute()
    later = node.minute()
    assert {**first, "at": 0, "up": 0} == {**later, "at": 0, "up": 0}
    assert "node.hangs" not in node.checks(first)


def test_a_link_that_went_three_times_refuses_jobs(node: Node) -> None:
    for number in range(3):
        node.down(1, "ens10np0")
        answer = node.minute(30)
        assert ("port.flaps" in node.checks(answer)) == (number == 2)
    line = node.host.read(status.LINE) or ""
    assert line.startswith(f"shared {int(node.up)} observe "), line
    assert any("went down 3 times in 12 hours" in text and "7 days before: never" in text for text in event_text(node.host))


def test_flaps_outlive_a_reboot_and_end_after_twelve_hours(node: Node) -> None:
    node.down(3, "ens10np0")
    assert "port.flaps" in node.checks(node.minute())
    node.reboot()
    node.tree.put("/sys/class/net/ens10np0/carrier_down_count", "2\n")  # what a boot itself takes
    assert "port.flaps" in node.checks(node.minute())
    assert "port.flaps" in node.checks(node.minute(11 * 60))
    assert "port.flaps" not in node.checks(node.minute(2 * 60))


def test_the_half_hour_after_a_boot_does_not_count(node: Node) -> None:
    node.reboot()
    node.minute()
    node.down(5, "ens10np0")
    assert "port.flaps" not in node.checks(node.minute())
    assert any(record["kind"] == "down" and record["own"] for record in remembered(node.host)[0])


def test_a_new_cable_begins_a_new_history(node: Node) -> None:
    node.down(3, "ens10np0")
    assert "port.flaps" in node.checks(node.minute())
    serial = next(line for line in MODULE.splitlines() if "Vendor SN" in line)
    node.tree.put("/cmd/ethtool_-m_ens10np0", MODULE.replace(serial, serial[:-2] + "ZZ"))
    assert "port.flaps" not in node.checks(node.minute(61))


def test_counters_that_begin_anew_have_grown_by_what_they_say(node: Node) -> None:
    node.down(1, "ens10np0")
    node.minute()
    node.tree.put("/sys/class/net/ens10np0/carrier_down_count", "1\n")
    answer = node.minute()
    downs = [record for record in remembered(node.host)[0] if record["kind"] == "down"]
    assert [record["n"] for record in downs] == [1, 1]
    assert "port.flaps" in node.checks(answer, "warn")


def test_a_counter_of_errors_that_runs_is_a_warning_of_the_port(make: Callable[[str], Node]) -> None:
    node = make("ib8")
    node.minute()
    node.minute()
    hca = node.host.listdir("/sys/class/infiniband")[0]
    node.tree.put(f"/sys/class/infiniband/{hca}/ports/1/counters/symbol_error", "500\n")
    assert "port.growth" in node.checks(node.minute(), "warn")
    assert "port.growth" in node.checks(node.minute(61), "warn")  # of the hour before
    assert "port.growth" not in node.checks(node.minute(61), "warn")


def put_counter(node: Node, name: str, value: int) -> None:
    hca = node.host.listdir("/sys/class/infiniband")[0]
    node.tree.put(f"/sys/class/infiniband/{hca}/ports/1/counters/{name}", f"{value}\n")


@pytest.mark.parametrize(("name", "check"), [("symbol_error", "port.growth"), ("link_downed", "port.flaps")])
def test_a_counter_at_its_ceiling_cures_nothing(name: str, check: str, make: Callable[[str], Node]) -> None:
    """It can grow no more: what it counts is unknown until somebody resets it, and only then the port passes again."""
    node = make("ib8")
    node.minute()
    ceiling = BY_NAME[name].ceiling or 0
    put_counter(node, name, ceiling - 2)
    node.minute()
    put_counter(node, name, ceiling)
    node.minute()
    for _day in range(3):
        answer = node.minute(24 * 60)
        assert [row["check"] for row in answer["findings"] if row["check"] == check] == [check]
    put_counter(node, name, 0)
    node.minute(24 * 60)
    assert check not in node.checks(node.minute(11), "warn")


@pytest.mark.parametrize(("name", "check"), [("symbol_error", "port.growth"), ("link_downed", "port.flaps"),
                                             ("excessive_buffer_overrun_errors", "port.growth")])  # fmt: skip
def test_the_verdict_of_a_counter_at_its_ceiling_is_unknown(name: str, check: str) -> None:
    full = [Part("port a", "mlx5_0", None, {DOWNS: 255}, [name]), Part("port b", "mlx5_1", None, {DOWNS: 1})]
    moment = Moment(T, 86400.0, "boot-1")
    found = flap_verdicts("n", full, [], moment, 3) + error_verdicts("n", full, ({}, {}))
    assert {(item.check, item.subject): item.status for item in found} == {
        (each, port): "unknown" if (each, port) == (check, "mlx5_0") else "pass"
        for each in ("port.flaps", "port.growth") for port in ("mlx5_0", "mlx5_1")}  # fmt: skip
    assert f"{name} is at its ceiling" in next(item.message for item in found if item.status == "unknown")


@pytest.mark.parametrize(("name", "todo"), [("symbol_error", "cable"), ("excessive_buffer_overrun_errors", "flow control")])
def test_growth_says_what_to_inspect(name: str, todo: str) -> None:
    [found] = error_verdicts("n", [Part("port a", "mlx5_0", None, {})], ({"port a": {name: 11}}, {}))
    assert (found.status, todo in found.message, "flow control" in found.message) == ("warn", True, todo == "flow control")


def test_what_somebody_knows_does_not_count(make: Callable[[str], Node]) -> None:
    node = make("ib8")
    node.minute()
    node.log(MCE)
    answer = node.minute()
    (finding,) = [row for row in answer["findings"] if row["check"] == "node.machine_check"]
    assert answer["word"] == "refuse"
    say_known(node.host, finding["id"], "CPU ordered", "somebody")
    answer = node.minute()
    assert answer["word"] == "ok"
    assert next(row for row in answer["findings"] if row["id"] == finding["id"])["known"]["reason"] == "CPU ordered"
    with pytest.raises(ValueError, match="no open finding"):
        say_known(node.host, "../../etc", "x", "y")
    node.log(MCE)
    assert node.minute()["word"] == "refuse", "whoever knew of one error did not know of the next"
    (finding,) = [row for row in node.minute()["findings"] if row["check"] == "node.machine_check"]
    say_known(node.host, finding["id"], "CPU replaced", "somebody")
    node.reboot()
    node.tree.put("/dev/kmsg", kmsg("[    0.000000] Linux version 6.8.0\n"))
    assert node.minute(11)["word"] == "ok"
    assert "node.machine_check" not in node.checks(node.minute(11)), "known and over: the next one is found anew"


def test_a_machine_check_stays_over_reboots_until_somebody_speaks(make: Callable[[str], Node]) -> None:
    node = make("ib8")
    node.minute()
    node.log(MCE)
    node.minute()
    node.reboot()
    node.tree.put("/dev/kmsg", kmsg("[    0.000000] Linux version 6.8.0\n"))
    for minutes in (1, 30, 24 * 60):
        assert node.minute(minutes)["word"] == "refuse"


def test_a_part_that_is_gone_is_not_cured(make: Callable[[str], Node]) -> None:
    node = make("doca8")
    for netdev in node.host.listdir("/sys/class/net"):
        node.tree.put(f"/sys/class/net/{netdev}/carrier_down_count", "1\n")
    node.minute()
    node.minute()
    node.down(3, "ens10np0")
    node.minute()
    (node.tree.root / "sys/class/net/ens10np0/carrier_down_count").unlink()
    hca = next(row["subject"] for row in node.minute()["findings"] if row["check"] == "port.flaps").split(" ")[0]
    shutil.rmtree(node.tree.root / f"sys/class/infiniband/{hca}", ignore_errors=True)
    (node.tree.root / f"sys/class/infiniband/{hca}").unlink(missing_ok=True)
    node.minute(61)
    assert "port.flaps" in node.checks(node.minute(13 * 60))


def test_our_own_apply_is_no_flap(node: Node) -> None:
    """It ended after the last whole look."""
    node.down(3, "ens10np0")
    place = node.tree.root / "var/lib/railwright/restore/run1"
    place.mkdir(parents=True)
    os.utime(place, (node.t, node.t))
    assert "port.flaps" not in node.checks(node.minute())


def test_what_check_alone_finds_is_found_and_drains_by_the_site(make: Callable[[str], Node]) -> None:
    """PCIe that runs with 4 lanes of 16: no health row, so a prolog lets it pass, and whoever sees all nodes decides."""
    node = make("ib8")
    node.tree.put("/sys/bus/pci/devices/0000:18:00.0/current_link_width", "4\n")
    document = node.minute()
    assert "pci.link_width" in node.checks(document), node.checks(document)
    assert document["word"] == "shared"


def test_a_damaged_state_is_said(node: Node) -> None:
    node.tree.put("/var/lib/railwright/agent/state.json", '{"findings": {"a": 1}, "counters": [')
    assert "damaged" in node.minute()["trouble"]
    assert "damaged" in node.minute(70)["trouble"]
    node.tree.put("/var/lib/railwright/agent/state.json", '{"findings": {"a": {"id": "a"}}, "began": [1], "until": "x", "downs": 3}')
    assert node.minute()["node"]


def test_a_look_that_never_ended_is_the_next_ones_finding(node: Node) -> None:
    """And it is said before anything is looked at, as that may hang again; the look that ends cures it."""
    node.tree.put("/run/railwright/agent/looking", "reading /sys/class/infiniband/mlx5_3/ports/1/state".ljust(200))
    document = node.minute()
    assert "node.hangs" in node.checks(document)
    assert "reading /sys/class/infiniband/mlx5_3" in next(row["text"] for row in document["findings"] if row["check"] == "node.hangs")
    assert (node.host.read(status.LINE) or "").startswith("refuse ")
    assert "node.hangs" not in node.checks(node.minute(11))


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.node == "ib8"], ids=lambda fault: fault.title.replace(" ", "-")[:60])
def test_every_fault_is_found_that_a_check_finds(make: Callable[[str], Node], fault: Fault) -> None:
    """It comes while the agent runs; the kernel's log and counters tell at once, what nvidia-smi tells within the hour."""
    node = make(fault.node)
    node.minute()
    fault.inject(node.tree)
    rows = node.minute(61)["findings"]
    found = [(row["check"], row["status"]) for row in rows]
    assert (fault.check, fault.status) in found or fault.check == "port.flaps", found


def test_a_repeated_fault_of_a_part_is_an_offence(node: Node) -> None:
    for _time in range(2):
        node.down(3, "ens10np0")
        node.minute()
        node.minute(13 * 60)
    (row,) = node.minute()["offenders"]
    assert row["times"] == 2
    assert row["part"].startswith("port ")


def metrics_of(node: Node) -> dict[str, float]:
    """By name and labels."""
    rows = [line.rpartition(" ") for line in (node.host.read(f"{TEXTFILE}/{status.METRICS}") or "").splitlines() if line[0] != "#"]
    found = {name: float(value) for name, _space, value in rows}
    assert len(found) == len(rows), "node_exporter takes no sample twice"
    return found


def counts(node: Node, metric: str) -> list[float]:
    return [value for name, value in metrics_of(node).items() if name.startswith(f"railwright_agent_{metric}{{")]


def test_metrics_are_as_promtool_wants_them(make: Callable[[str], Node]) -> None:
    node = make("ib8")
    xid = next(fault for fault in FAULTS if fault.title.startswith("Xid 79"))
    node.minute()
    xid.inject(node.tree)
    node.minute()
    text = node.host.read(f"{TEXTFILE}/{status.METRICS}") or ""
    helps, kinds = re.findall(r"^# HELP (\S+) \S.*$", text, re.MULTILINE), dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert helps == list(kinds)
    assert {name.partition("{")[0] for name in metrics_of(node)} == set(kinds)
    assert [name for name, kind in kinds.items() if (kind == "counter") != name.endswith("_total")] == []
    assert [name for name in kinds if set(name.split("_")) & {"us", "ms", "ns", "s", "sec", "b", "kb", "counter"}] == []
    assert all(name.partition("{")[2].startswith('node="ib8"') for name in metrics_of(node))
    assert {"railwright_agent_gpu_hw_thermal_seconds_total", "railwright_agent_port_rcv_errors_total"} <= set(kinds)
    event = '{node="ib8",event="xid",device="0000:27:00.0",number="79"}'
    assert metrics_of(node)[f"railwright_agent_kernel_events_total{event}"] == 1
    assert metrics_of(node)[f"railwright_agent_kernel_event_last_timestamp_seconds{event}"] == node.t - node.up + 40000


def test_flaps_are_a_counter_that_outlives_a_boot(node: Node) -> None:
    assert set(counts(node, "port_downs_total")) == {0}  # what the interfaces counted before is no growth
    node.down(2, "ens10np0")
    node.minute()
    node.reboot()
    node.tree.put("/sys/class/net/ens10np0/carrier_down_count", "1\n")
    node.minute()
    node.down(4, "ens10np0")
    node.minute()
    assert sum(counts(node, "port_downs_total")) == 2  # a boot's own do not count
    node.minute(40)
    node.down(1, "ens10np0")
    node.minute()
    assert sum(counts(node, "port_downs_total")) == 3


def test_who_refuses_is_told_from_whose_links_are_bad(node: Node) -> None:
    node.down(3, "ens10np0")
    node.minute()
    told = {name.partition('why="')[2].partition('"')[0]: value for name, value in metrics_of(node).items() if "refuses_jobs" in name}
    assert told == {"node": 0, "shared": 1}
    (finding,) = [name for name in metrics_of(node) if 'check="port.flaps"' in name]
    assert 'part="port b8ce:f603:0000:3000/1 cable MT0000000000",status="fail",mode="enforce",known="no"' in finding


def test_a_node_whose_first_look_hangs_has_its_name(make: Callable[[str], Node], monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer ends a look that hangs; the next one says so before it hangs as well."""
    def hang(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(service, "whole_look", hang)
    node = make("ib8")
    for _time in range(2):
        with pytest.raises(KeyboardInterrupt):
            node.minute()
    assert (node.host.read(status.LINE) or "").startswith("refuse ")
    assert metrics_of(node)['railwright_agent_refuses_jobs{node="ib8",why="node"}'] == 1


def test_a_label_is_one_whatever_a_node_says(node: Node) -> None:
    node.tree.put("/proc/sys/kernel/hostname", 'a"} 1\\\x1b[2J\x00\n')
    node.minute()
    assert all(re.fullmatch(r'railwright_agent_\w+\{(\w+="(?:[^"\\\x00-\x1f]|\\["\\])*",?)+\}', name) for name in metrics_of(node))


def test_the_worst_is_said_first() -> None:
    rows = {name: {"id": name, "cured": None, "known": None, "status": word, "first": first}
            for name, word, first in (("a", "warn", 1), ("b", "fail", 3), ("c", "fail", 2))}
    assert [row["id"] for row in open_findings(rows)] == ["c", "b", "a"]


def test_no_state_that_a_power_cut_or_a_hand_left_ends_the_agent(make: Callable[[str], Node]) -> None:
    """Each value of state.json and of the status gone, and of four other types."""
    node = make("port-down")  # a small node: the time grows with the square of its counters
    node.minute()
    node.log(MCE)
    node.minute()
    path = "/var/lib/railwright/agent/state.json"
    kept = {path: json.loads(node.host.read(path) or ""), status.DOCUMENT: json.loads(node.host.read(status.DOCUMENT) or "")}
    assert kept[path]["findings"]
    for place, document in kept.items():
        for text in foreign.of_other_types(json.dumps(document)):
            for other, good in kept.items():
                node.tree.put(other, json.dumps(good))
            node.tree.put(place, text)
            event_text(node.host)
            if place == path:
                Agent(node.host, Settings("observe", {}, 3, "")).due(node.t)


def test_what_is_no_evidence_is_no_metric(make: Callable[[str], Node]) -> None:
    """A message about a function that the node never had, and one of text alone."""
    node = make("ib8")
    node.log("NVRM: Xid (PCI:0000:99:00): 79, x")
    node.minute()
    assert "kernel_events_total{" not in (node.host.read(f"{TEXTFILE}/{status.METRICS}") or "")
    node.tree.put("/cmd/dmesg", "[    0.000000] NVRM: Xid (PCI:0000:27:00): 79, x\n")
    (node.tree.root / "dev/kmsg").unlink()
    node.minute(61)
    text = node.host.read(f"{TEXTFILE}/{status.METRICS}") or ""
    assert ('event="xid"' in text, node.checks(node.minute())) == (False, [])


def test_the_history_is_root_s_alone(make: Callable[[str], Node]) -> None:
    node = make("ib8")
    node.minute()
    node.log(MCE)
    node.minute()
    (file,) = (node.tree.root / "var/lib/railwright/agent").glob("*.log")
    assert "Machine Check" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_gpu_that_an_earlier_look_saw_stays_known(make: Callable[[str], Node]) -> None:
    node = make("ib8")
    node.minute()
    gone = next(iter(functions_of(json.loads(node.host.read("/run/railwright/agent/last.json") or ""))))
    (node.tree.root / "sys/bus/pci/devices" / gone).unlink()
    node.minute(61)
    node.minute(61)
    assert gone in functions_of(json.loads(node.host.read("/run/railwright/agent/last.json") or ""))


@pytest.mark.parametrize(("seconds", "own"), [(-601, False), (-600, True), (0, True), (600, True), (601, False)])
def test_a_link_that_moves_within_ten_minutes_of_an_apply_is_our_own(seconds: int, own: bool) -> None:
    agent = Agent.__new__(Agent)
    agent._last = {"facts": {"health": {"applies": [1_000_000.0]}}}
    assert agent._own(Moment(1_000_000.0 + seconds, 86_400.0, "boot")) is own
    agent._last = {"facts": {"health": {"applies": []}}}
    assert not agent._own(Moment(1_000_000.0, 86_400.0, "boot"))
