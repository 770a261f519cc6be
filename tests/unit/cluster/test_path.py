# SPDX-License-Identifier: GPL-3.0-or-later
"""A packet's way: the hosts' hops are qos.chain's on every captured tree, the switches' are switch check's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import switch_exports
from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.verdicts import chain, judge_chain
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile, qos_profile
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import Cable
from node_trees import FACTS, NODES
from railwright.cli.main import run
from railwright.cli.session import Session
from railwright.events import HostOutcome, RunOutcome
from railwright.path import End, Export, first_break, steps
from switch_exports import SONIC, broken

SITE = """
all:
  children:
    rdma:
      vars: {rdma_fabric: roce, rdma_mtu: 9000, rdma_rails: [{name: rail0, match: {pci: '0000:1a:00.0'}}]}
      hosts: {node1: {}, node2: {}}
"""


def profile() -> QosProfile:
    found = qos_profile("dscp26-prio3")
    assert found is not None
    return found


def facts_of(tree: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FACTS / f"{tree}.json").read_text(encoding="utf-8"))
    return found


TREES = sorted(path.name for path in NODES.iterdir() if (FACTS / f"{path.name}.json").is_file())
CABLE = Cable(("leaf1",), ("etp1", "Ethernet0"), "")


@pytest.mark.parametrize("tree", TREES)
def test_the_hosts_hops_are_those_of_qos_chain(tree: str) -> None:
    facts = facts_of(tree)
    for nic in facts["qos"]["nics"]:
        ends = End("n1", "rail0", facts, nic["hca"], nic["port"], CABLE), End("n2", "rail0", {}, None, None, CABLE)
        found = [step for step in steps(*ends, profile(), 1500, {}) if step.place == "n1 rail0"]
        if [step.hop for step in found] == ["rail"]:
            assert found[0].status == "unknown"
            continue
        links = chain(profile(), nic, facts["nccl"], facts["qos"]["lldpad"])
        judged = judge_chain(VerdictSubject("n1", nic["hca"], nic["port"], ""), links)
        bad = first_break(found)
        assert [step.hop for step in found] == [link.name for link in links]
        assert (judged.status == "fail") == (bad is not None)
        assert bad is None or judged.found == f"{bad.hop}: {bad.found}"
        assert (judged.status == "pass") == all(step.status == "pass" for step in found)


def path(config: Any = None, other: Cable = CABLE) -> list[Any]:
    facts = facts_of("roce8-bond")
    nic = facts["qos"]["nics"][0]
    ends = [End(node, "rail0", facts, nic["hca"], nic["port"], cable) for node, cable in (("n1", CABLE), ("n2", other))]
    exports = {} if config is None else {"leaf1": Export("sonic", json.dumps(config), "leaf1.json")}
    return steps(ends[0], ends[1], profile(), 9000, exports)


def test_the_switchs_port_stands_between_the_hosts() -> None:
    found = path(switch_exports.sonic(), Cable(("leaf1",), ("Ethernet4",), ""))
    switch = [(step.place, step.hop) for step in found if step.source == "leaf1.json"]
    assert [hop for place, hop in switch if place == "leaf1 etp1"] == ["mtu", "trust", "class", "group", "headroom", "pfc"]
    assert [hop for place, hop in switch if place == "leaf1 Ethernet4"] == [
        "mtu", "pfc", "queue", "pause", "ecn", "schedule", "cnp", "watchdog"]
    assert {step.status for step in found if step.source == "leaf1.json" and " to " not in step.place} == {"pass"}
    places = list(dict.fromkeys(step.place for step in found))
    assert places == ["n1 rail0", "n1 rail0 to leaf1 etp1", "leaf1 etp1", "leaf1 Ethernet4", "n2 rail0 to leaf1 Ethernet4", "n2 rail0"]


@pytest.mark.parametrize(("fec", "told", "status"), [
    ("rs", "RS", "pass"), ("rs", "BaseR", "fail"), ("none", "Off", "pass"), ("auto", "RS", "unknown"), ("rs", None, "unknown")])
def test_both_ends_of_a_cable_stand_side_by_side(fec: str, told: str | None, status: str) -> None:
    facts = facts_of("roce8-bond")
    nic, config = facts["qos"]["nics"][0], switch_exports.sonic()
    config["PORT"]["Ethernet0"]["fec"] = fec
    facts["health"]["ports"] = [] if told is None else [{"hca": nic["hca"], "port": nic["port"], "fec": told}]
    ends = [End(node, "rail0", facts, nic["hca"], nic["port"], CABLE) for node in ("n1", "n2")]
    found = steps(ends[0], ends[1], profile(), 9000, {"leaf1": Export("sonic", json.dumps(config), "leaf1.json")})
    link = {step.hop: step for step in found if step.place == "n1 rail0 to leaf1 etp1"}
    assert link["FEC"].status == status
    rate = next(port["rate_gbps"] for hca in facts["hcas"] if hca["name"] == nic["hca"] for port in hca["ports"])
    assert link["speed"].status == ("pass" if rate == 400 else "fail"), "the export says 400000"


@pytest.mark.parametrize("what", ["PFC is off", "the DSCP goes to another class"])
def test_a_broken_port_is_where_the_path_breaks(what: str) -> None:
    hop, change = SONIC[what]
    found = [step for step in path(broken(switch_exports.sonic(), change)) if step.status == "fail" and step.place == "leaf1 etp1"]
    assert (found[0].place, found[0].hop) == ("leaf1 etp1", hop)


@pytest.mark.parametrize("part", [{"trust": 5}, {"pfc": ["a", 1]}, {"dscp_priority": [[26]]}, {"ecn": {}}, {"cnp": "x"}, {"rdma_cm": []}])
def test_a_lying_node_breaks_no_path(part: dict[str, Any]) -> None:
    facts = facts_of("roce8-bond")
    nic = facts["qos"]["nics"][0]
    nic.update(part)
    found = steps(End("n1", "rail0", facts, nic["hca"], nic["port"], CABLE), End("n2", "rail0", {}, None, None, CABLE), profile(), 9000, {})
    assert {step.status for step in found if step.place == "n1 rail0"} <= {"unknown", "fail", "pass"}


def test_what_nobody_read_is_unknown() -> None:
    words = {step.hop: step.found for step in path(None, Cable(("leaf2",), ("Ethernet0",), "")) if step.status == "unknown"}
    assert words["spine"] == "not read"
    assert words["port"].startswith("none is given: --switch leaf")
    assert [step.found for step in path(None, Cable(why="no LLDP")) if step.place == "the switch of n2 rail0"] == ["no LLDP"]
    strange = [step for step in path(switch_exports.sonic(), Cable(("leaf1",), ("Ethernet99",), "")) if step.place == "leaf1 Ethernet99"]
    assert strange[0].found == "leaf1.json has no port Ethernet99: is it another switch's?"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("site.yml").write_text(SITE, encoding="utf-8")
    Path("leaf1.json").write_text(json.dumps(switch_exports.sonic()), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("words", "why"), [
    (["path", "node1:rail0", "-i", "site.yml"], "takes two rails"), (["path", "node1:rail0", "node2", "-i", "site.yml"], "takes two rails"),
    (["path", "node1:rail0", "node2:rail7", "-i", "site.yml"], "node2 has no rail rail7; allowed: rail0"),
    (["path", "node1:rail0", "node2:rail0"], "takes two rails"),
    (["path", "node1:rail0", "node2:rail0", "-i", "site.yml", "--switch", "leaf1=ios:x"], "allowed: NAME=OS:FILE, with OS of sonic, nvue"),
    (["path", "node1:rail0", "node2:rail0", "-i", "site.yml", "--switch", "leaf1=sonic:none.json"], "none.json: No such file"),
    (["speed", "--switch", "leaf1=sonic:leaf1.json"], "--switch is for explain path"), (["host", "a", "b"], "takes two rails")])
def test_bad_input_is_one_line(site: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str) -> None:
    assert run(["explain", *words]) == 64
    assert why in capsys.readouterr().err


def test_the_verb(site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes' answers are a captured tree's."""
    facts = facts_of("roce8-bond")
    nic = facts["qos"]["nics"][0]
    told = {"rails": [{"name": "rail0", "hca": nic["hca"], "port": nic["port"]}], "neighbours": [
        {"hca": nic["hca"], "port": nic["port"], "why": "", "switch": "leaf1", "switch_port": "Ethernet0"}]}
    outcome = {"facts": RunOutcome({node: HostOutcome(node, facts=facts) for node in ("node1", "node2")}),
               "cabling": RunOutcome({node: HostOutcome(node, cabling=told) for node in ("node1", "node2")})}
    monkeypatch.setattr(Session, "scan", lambda _self, playbook, *_arguments, **_named: outcome[playbook])
    words = ["explain", "path", "node1:rail0", "node2:rail0", "-i", "site.yml", "--switch", "leaf1=sonic:leaf1.json", "--format", "json"]
    code = run(words)
    document = json.loads(capsys.readouterr().out)
    assert (code, document["exit_code"], document["profile"]) == (1, 1, "dscp26-prio3")
    assert {step["place"] for step in document["steps"]} == {
        "node1 rail0", "node1 rail0 to leaf1 Ethernet0", "leaf1 Ethernet0", "node2 rail0 to leaf1 Ethernet0", "node2 rail0"}
    assert run(words[:-2]) == 1
    assert "leaf1 Ethernet0" in capsys.readouterr().out
