# SPDX-License-Identifier: GPL-3.0-or-later
"""Cables against their plan: swapped, elsewhere, silent; and without a plan against their like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import (
    Cable,
    End,
    cables_of,
    judge_cabling,
    oddities,
    planned_ends,
    proposed,
    same_port,
    same_switch,
)
from railwright.cli import cabling
from railwright.cli.main import run
from railwright.cli.session import Session
from railwright.events import HostOutcome, RunOutcome

NODES = [f"node{number}" for number in range(8)]


def fabric(rails: int = 4) -> dict[str, dict[str, Cable]]:
    """Rail-optimised: rail N of every node is on leaf N."""
    return {node: {f"rail{rail}": Cable((f"leaf{rail}",), (f"Ethernet{unit}",), "") for rail in range(rails)}
            for unit, node in enumerate(NODES)}  # fmt: skip


def plan_of(cables: dict[str, dict[str, Cable]]) -> dict[str, dict[str, End]]:
    return {node: {rail: cable.end for rail, cable in own.items()} for node, own in cables.items()}


def judged(plan: Any, cables: Any) -> dict[tuple[str, str], Any]:
    return {(item.node, item.subject): item for item in judge_cabling(plan, cables) if item.status != "pass"}


def test_as_planned_nothing_is_said() -> None:
    assert judged(plan_of(fabric()), fabric()) == {}
    assert oddities(fabric()) == []


def test_swapped_cables_name_each_other() -> None:
    plan, there = plan_of(fabric()), fabric()
    there["node1"]["rail3"], there["node2"]["rail3"] = there["node2"]["rail3"], there["node1"]["rail3"]
    found = judged(plan, there)
    assert {key: item.status for key, item in found.items()} == {("node1", "rail3"): "fail", ("node2", "rail3"): "fail"}
    assert found["node1", "rail3"].message == (
        "is in leaf3 Ethernet2, the plan says leaf3 Ethernet1; node2 rail3 is there: the two are swapped")


def test_another_port_and_who_has_the_planned_one() -> None:
    plan, there = plan_of(fabric()), fabric()
    there["node1"]["rail0"] = Cable(("leaf9",), ("Ethernet40",), "")
    assert judged(plan, there)["node1", "rail0"].message == "is in leaf9 Ethernet40, the plan says leaf0 Ethernet1"
    there["node2"]["rail0"] = Cable(("leaf0",), ("Ethernet1",), "")
    assert judged(plan, there)["node1", "rail0"].message.endswith("; node2 rail0 is there")


@pytest.mark.parametrize("why", ["no LLDP in 65 s on eth1", "no answer from this node"])
def test_silence_is_unknown(why: str) -> None:
    plan, there = plan_of(fabric()), fabric()
    if why.startswith("no answer"):
        del there["node5"]
    else:
        there["node5"]["rail1"] = Cable(why=why)
    item = judged(plan, there)["node5", "rail1"]
    assert (item.status, item.found) == ("unknown", None)
    assert why in item.message


@pytest.mark.parametrize(("planned", "seen", "same"), [
    ("leaf4", "leaf4", True), ("leaf4", "LEAF4.example.net", True), ("leaf4", "leaf40", False), ("leaf4.a", "leaf4.b", False),
    ("leaf4.a.net", "leaf4", True)])
def test_names_of_switches(planned: str, seen: str, *, same: bool) -> None:
    assert same_switch(planned, seen) is same


@pytest.mark.parametrize(("planned", "seen", "same"), [
    ("Ethernet1/12", "Eth1/12", True), ("Eth 1/12", "ethernet1/12", True), ("Ethernet1", "Ethernet12", False), ("swp1", "swp1", True),
    ("swp1", "Ethernet1", False), ("17", "17", True), ("1", "Ethernet1", False), ("mgmt", "m", False), ("E1", "Ethernet1", False)])
def test_names_of_ports(planned: str, seen: str, *, same: bool) -> None:
    assert same_port(planned, seen) is same


def test_a_name_that_several_switches_have_is_nobodys() -> None:
    """Unmanaged InfiniBand switches all have their maker's; then only the id counts."""
    there = {node: {"rail0": Cable(("Quantum", f"0x{at}"), ("7",), "")} for at, node in enumerate(NODES)}
    found = judged({node: {"rail0": End("Quantum", "7")} for node in NODES}, there)
    assert {item.status for item in found.values()} == {"fail"}
    assert judged({node: {"rail0": End(f"0x{at}", "7")} for at, node in enumerate(NODES)}, there) == {}
    ends, odd = proposed(there)
    assert (ends["node3"]["rail0"], odd) == (End("0x3", "7"), [])


def test_a_template_is_proposed_to_nobody() -> None:
    there = {"node1": {"rail0": Cable(("{{ lookup('pipe','id') }}", "aa"), ("Ethernet1",), "")},
             "node2": {"rail0": Cable(("leaf1", "bb"), ("Ethernet2",), "")}}
    assert proposed(there) == ({"node2": {"rail0": End("leaf1", "Ethernet2")}}, ["node1 rail0"])


@pytest.mark.parametrize("value", [None, [], "leaf1", {"rail0": "leaf1"}, {"rail0": {"switch": "leaf1"}}, {"rail0": []}])
def test_a_plan_of_another_form_is_none(value: Any) -> None:
    assert planned_ends(value) == {}


def test_the_description_counts_as_the_ports_name() -> None:
    """SONiC sends its alias as the port's id, and its own name as the description."""
    assert Cable(("leaf1", "aa:bb:cc:dd:ee:ff"), ("etp12", "Ethernet44"), "").at(End("leaf1", "Ethernet44"))
    assert Cable(("leaf1", "aa:bb:cc:dd:ee:ff"), ("etp12", "Ethernet44"), "").at(End("aa:bb:cc:dd:ee:ff", "etp12"))


def test_without_a_plan_another_plane_and_two_on_one_leaf_are_odd() -> None:
    there = fabric()
    there["node3"]["rail2"] = Cable(("leaf1",), ("Ethernet60",), "")
    assert oddities(there) == ["node3 rail2 is on leaf1, where 8 of 9 cables are of rail1",
                               "node3 has rail1 and rail2 on one switch, leaf1; 7 of 8 nodes have them on two"]


def test_one_leaf_for_all_rails_is_a_way_to_build_too() -> None:
    assert oddities({node: {rail: Cable(("tor1",), (f"{node}{rail}",), "") for rail in own} for node, own in fabric().items()}) == []


NEIGHBOUR = {"hca": "mlx5_0", "port": 1, "netdev": "eth1", "why": "", "switch": "leaf1", "switch_id": "aa", "switch_port": "Ethernet1"}
RAIL = {"name": "rail0", "hca": "mlx5_0", "port": 1}


@pytest.mark.parametrize(("row", "why"), [
    ({**NEIGHBOUR, "switch": None, "switch_id": None}, "it does not say which port it is"), ({**NEIGHBOUR, "hca": ["x"]}, "no cable"),
    ({**NEIGHBOUR, "port": "1"}, "no cable"), ({"why": 7}, "no cable"), ({**NEIGHBOUR, "switch_port": 7, "why": "x"}, "x")])
def test_what_a_node_says_is_held_to_its_form(row: dict[str, Any], why: str) -> None:
    cable = cables_of([RAIL], [row])["rail0"]
    assert not cable.switches
    assert why in cable.why


SITE = """
all:
  children:
    rdma:
      vars: {rdma_fabric: roce, rdma_mtu: 9000, rdma_rails: [{name: rail0, match: {pci: '0000:1a:00.0'}}]}
      hosts:
        node1: {rdma_cabling: {rail0: {switch: leaf1, port: Ethernet1}}}
        node2: {rdma_cabling: {rail0: {switch: leaf1, port: PORT}}}
"""


def site(path: Path, port: str) -> str:
    (path / "hosts.yml").write_text(SITE.replace("PORT", port), encoding="utf-8")
    return str(path / "hosts.yml")


def test_two_cables_in_one_port_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", "-i", site(tmp_path, "Ethernet1")]) == 64
    assert "rdma_cabling.rail0: leaf1 Ethernet1: is where rail0 of node1 is plugged too" in " ".join(capsys.readouterr().out.split())
    assert run(["lint", "-i", site(tmp_path, "''")]) == 64
    assert "says no port of a switch" in capsys.readouterr().out


def answers(monkeypatch: pytest.MonkeyPatch, ports: dict[str, str]) -> None:
    outcome = RunOutcome({node: HostOutcome(node, cabling={"rails": [RAIL], "neighbours": [{**NEIGHBOUR, "switch_port": port}]})
                          for node, port in ports.items()})  # fmt: skip
    monkeypatch.setattr(Session, "scan", lambda *_arguments, **_named: outcome)


def test_the_verb_ends_one_with_a_wrong_cable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The nodes' answers are made here."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    answers(monkeypatch, {"node1": "Ethernet2", "node2": "Ethernet1"})
    assert run(["cabling", "-i", site(tmp_path, "Ethernet2")]) == 1
    assert "swapped" in capsys.readouterr().out
    answers(monkeypatch, {"node1": "Ethernet1", "node2": "Ethernet2"})
    assert run(["cabling", "-i", site(tmp_path, "Ethernet2"), "-o", str(tmp_path / "plan.yml")]) == 0
    proposal = yaml.safe_load((tmp_path / "plan.yml").read_text(encoding="utf-8"))
    assert proposal["all"]["hosts"]["node2"] == {"rdma_cabling": {"rail0": {"switch": "leaf1", "port": "Ethernet2"}}}
    assert run(["cabling", "-i", site(tmp_path, "Ethernet2"), "-o", str(tmp_path / "plan.yml")]) == 64
    assert "exists already" in capsys.readouterr().err
    assert cabling.HEAD.startswith("#")
