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
from railwright.report.path_page import path_page
from railwright.switch_check import Unusable
from railwright.switch_check.sonic import light
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
    assert [hop for place, hop in switch if place == "leaf1 etp1"] == [
        "fec", "mtu", "trust", "class", "group", "headroom", "pfc"]
    assert [hop for place, hop in switch if place == "leaf1 Ethernet4"] == [
        "fec", "mtu", "pfc", "queue", "pause", "ecn", "schedule", "cnp", "watchdog"]
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


MODULE = {"kind": "optical transceiver", "limits": {"rx_power": {"low alarm": 0.1, "high alarm": 3.0}}, "values": [
    {"kind": "tx_power", "lane": 1, "value": 1.0}, {"kind": "rx_power", "lane": 1, "value": 0.5},
    {"kind": "rx_power", "lane": 2, "value": 0.8}, {"kind": "tx_power", "lane": 2, "value": 0.0}]}  # fmt: skip
SIDE = {"fec": "RS", "autoneg": "off", "lanes": 8, "corrected_bits": 4_000_000, "received_bytes": 10**15, "corrected_blocks": 12,
        "uncorrectable_blocks": 0, "carrier_downs": 0, "pause_storms": None, "module": MODULE}  # fmt: skip
STATE = {"TRANSCEIVER_DOM_SENSOR|Ethernet0": {"type": "hash", "value": {
    "tx1power": "0.9", "tx2power": "N/A", "rx1power": "-2.0", "rx2power": "-1.5"}}}  # fmt: skip


def link(own: dict[str, Any], row: dict[str, Any] | None = None, state: Any = None, second: Any = None) -> dict[str, Any]:
    """The rows of one end's cable, by hop; the other node's are another cable's."""
    facts = facts_of("roce8-bond")
    nic, config = facts["qos"]["nics"][0], switch_exports.sonic()
    config["PORT"]["Ethernet0"].update(row or {})
    facts["health"]["ports"] = [{"hca": nic["hca"], "port": nic["port"], "netdev": "ens1", **SIDE, **own}]
    facts["health"]["ports"] += [{"hca": nic["hca"], "port": nic["port"] + 1, "netdev": "ens2", **SIDE, **second}] if second else []
    given = Export("sonic", json.dumps(config), "leaf1.json", light(json.dumps(state)) if state else {})
    ends = [End(node, "rail0", facts, nic["hca"], nic["port"], CABLE) for node in ("n1", "n2")]
    return {step.hop: step for step in steps(ends[0], ends[1], profile(), 9000, {"leaf1": given}) if step.place == "n1 rail0 to leaf1 etp1"}


def test_what_came_through_a_cable_is_judged_as_health_does() -> None:
    found = link({}, {"lanes": "1,2,3,4,5,6,7,8"}, STATE)
    assert found["errors"].found == "5e-10 of the bits before FEC at most, 12 blocks put right, 0 lost after FEC"
    assert found["light"].found == "host sends 0.0, gets -3.0 dBm; switch sends 0.9, gets -2.0 dBm"
    assert [found[name].status for name in ("errors", "light", "lanes")] == ["pass"] * 3
    weak = {**MODULE, "values": [{"kind": "tx_power", "lane": 1, "value": 1.0}, {"kind": "rx_power", "lane": 1, "value": 0.05}]}
    found = link({"module": weak, "uncorrectable_blocks": 10**15})
    assert (found["light"].status, found["errors"].status) == ("fail", "warn")
    assert "below the module's alarm limit" in found["light"].found
    assert link({}, second={"module": weak})["light"].status == "pass", "that is the HCA's other port"


@pytest.mark.parametrize(("own", "row", "hop", "status"), [
    ({}, {"lanes": "1,2,3,4"}, "lanes", "fail"), ({"lanes": None}, {"lanes": "1,2,3,4"}, "lanes", None),
    ({}, {"autoneg": "on"}, "auto-negotiation", "pass"), ({}, {}, "auto-negotiation", None),
    ({"module": {"kind": "copper cable"}}, {"autoneg": "on"}, "auto-negotiation", "fail"),
    ({"module": {"kind": "copper cable"}}, {"autoneg": "off"}, "auto-negotiation", "pass"),
    ({"autoneg": 7}, {"autoneg": "on"}, "auto-negotiation", None), ({"module": {"values": [5]}}, {}, "light", None),
    ({"corrected_bits": "x", "corrected_blocks": None, "uncorrectable_blocks": None}, {}, "errors", None)])
def test_what_only_one_end_tells_is_not_held(own: dict[str, Any], row: dict[str, Any], hop: str, status: str | None) -> None:
    found = link(own, row)
    assert (found[hop].status if hop in found else None) == status


@pytest.mark.parametrize("text", ["", "{", "[]", '{"PORT_TABLE|Ethernet0": {}}', "x" * 100])
def test_what_is_no_dump_of_state_is_said(text: str) -> None:
    with pytest.raises(Unusable, match="is no dump of STATE_DB"):
        light(text)


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
    (["speed", "--switch", "leaf1=sonic:leaf1.json"], "--switch is for explain path"), (["host", "a", "b"], "takes two rails"),
    (["speed", "-o", "x.html"], "-o is for explain path"),
    (["path", "node1:rail0", "node2:rail0", "-i", "site.yml", "--switch", "leaf1=sonic:leaf1.json,leaf1.json"], "is no dump of STATE_DB"),
    (["path", "node1:rail0", "node2:rail0", "-i", "site.yml", "-o", "site.yml"], "exists already")])
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
    assert run([*words[:-2], "-o", "way.html"]) == 1
    assert "leaf1 Ethernet0" in capsys.readouterr().out
    assert all(f"<h2>{place}</h2>" in Path("way.html").read_text() for place in {step["place"] for step in document["steps"]})
    assert run([*words, "-o", "way.html"]) == 64
    assert "-o way.html: exists already; allowed: a new file" in capsys.readouterr().err


def test_the_drawing_has_every_hop_and_no_html_of_anybodys() -> None:
    config = broken(switch_exports.sonic(), SONIC["PFC is off"][1])
    found = path(config, Cable(("leaf<script>",), ("Ethernet4",), "<img src=x>"))
    text = path_page(found, "dscp26-prio3", ["n1 rail0", "n2 rail0"])
    assert text.count("<dt>") == len(found)
    assert "<script" not in text and "<img" not in text and "leaf&lt;script&gt;" in text
    assert "default-src 'none'" in text and "http:" not in text and "https:" not in text, "it needs no network, and runs no script"
    bad = first_break(found)
    assert bad is not None and f"It breaks first at {bad.place}: {bad.hop}" in text
    assert text.count('<li class="host') == 2 and '<li class="switch broken">' in text
