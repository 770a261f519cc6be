# SPDX-License-Identifier: GPL-3.0-or-later
"""Every setting of a good chain is broken once, on every platform: ``switch check`` names that hop first. A good chain gives no alarm."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import switch_exports
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES, QosProfile, qos_profile
from railwright.switch_check import Checked, Unusable, check
from railwright.switch_hints import hints
from switch_exports import EOS, EOS_WARN, NVUE, NVUE_WARN, NXOS, NXOS_WARN, ONYX, ONYX_WARN, SONIC, SONIC_WARN, broken
from verb_said import Said, said_by

HOPS = ("fec", "mtu", "trust", "class", "group", "headroom", "pfc", "queue", "pause", "ecn", "schedule", "cnp", "watchdog")
SITE = "all: {children: {rdma: {vars: {rdma_fabric: roce, rdma_mtu: 9000, rdma_rails: []}, hosts: {n1: {}}}}}\n"


def profile(name: str = "dscp26-prio3") -> QosProfile:
    found = qos_profile(name)
    assert found is not None
    return found


def checked(config: object, name: str = "dscp26-prio3", *ports: str) -> dict[str, Checked]:
    return {one.port: one for one in check("sonic", json.dumps(config), profile(name), 9000, ports)}


def nvue(config: object, *ports: str) -> dict[str, Checked]:
    assert isinstance(config, dict)
    return {one.port: one for one in check("nvue", json.dumps(config["list"]), profile(), 9000, ports)}


def test_a_good_chain_of_nvue_gives_no_alarm() -> None:
    found = nvue(switch_exports.nvue())
    assert set(found) == {"swp1", "swp2", "swp3"}, "neither a port that is down nor the management's"
    assert [hop for one in found.values() for hop in one.hops if hop.status != "pass"] == []


def test_roce_mode_alone_is_a_good_chain_for_priority_3() -> None:
    """What it sets stands in no document."""
    config = switch_exports.nvue()
    config["list"][1]["set"]["qos"] = {"roce": {"enable": "on"}}
    assert [hop for hop in nvue(config)["swp1"].hops if hop.status != "pass"] == []
    config["list"][1]["set"]["qos"] = {}
    first = nvue(config)["swp1"].first
    assert first is not None
    assert first.hop == "trust"


@pytest.mark.parametrize("what", NVUE)
def test_a_broken_setting_of_nvue_is_named_first(what: str) -> None:
    hop, change = NVUE[what]
    found = nvue(broken(switch_exports.nvue(), change))
    bad = [one for one in found.values() if one.first is not None]
    assert bad
    assert {one.first.hop for one in bad if one.first is not None} == {hop}
    assert all(one.lines[hop].startswith("nv set ") or hop == "cnp" for one in bad)


@pytest.mark.parametrize("what", NVUE_WARN)
def test_a_setting_of_nvue_that_breaks_nothing_warns(what: str) -> None:
    hop, change = NVUE_WARN[what]
    one = nvue(broken(switch_exports.nvue(), change))["swp1"]
    assert (one.first, [found.hop for found in one.hops if found.status == "warn"]) == (None, [hop])


def eos(text: str, *ports: str) -> dict[str, Checked]:
    return {one.port: one for one in check("eos", text, profile(), 9000, ports)}


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_good_chain_of_eos_gives_no_alarm(form: str) -> None:
    text = switch_exports.eos()
    found = eos(text if form == "text" else json.dumps(switch_exports.as_eos_json(text)))
    assert set(found) == {"Ethernet1", "Ethernet2"}
    for one in found.values():
        assert {hop.hop: hop.status for hop in one.hops if hop.status != "pass"} == {"group": "unknown", "headroom": "unknown"}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("what", EOS)
def test_a_broken_setting_of_eos_is_named_first(what: str, form: str) -> None:
    hop, line, instead = EOS[what]
    good = switch_exports.eos()
    assert line in good
    text = good.replace(line, instead, 1)
    found = eos(text if form == "text" else json.dumps(switch_exports.as_eos_json(text)), "Ethernet1")["Ethernet1"]
    assert found.first is not None
    assert (found.first.hop, bool(found.lines[hop])) == (hop, True)


@pytest.mark.parametrize("what", EOS_WARN)
def test_a_setting_of_eos_that_breaks_nothing_warns(what: str) -> None:
    hop, line, instead = EOS_WARN[what]
    assert line in switch_exports.eos()
    one = eos(switch_exports.eos().replace(line, instead, 1))["Ethernet1"]
    assert (one.first, [hop.hop for hop in one.hops if hop.status == "warn"]) == (None, [hop])


# A running-config, the ports of it that are up, and what it cannot say.
TEXTS = {"nxos": (switch_exports.nxos, ("Ethernet1/1", "Ethernet1/2"), {"headroom"}), "onyx": (switch_exports.onyx, ("1/1", "1/2"), set())}
BROKEN = [(os, what, row) for os, table in (("nxos", NXOS), ("onyx", ONYX)) for what, row in table.items()]
WARNED = [(os, row) for os, table in (("nxos", NXOS_WARN), ("onyx", ONYX_WARN)) for row in table.values()]


def text_of(os: str, text: str, *ports: str) -> dict[str, Checked]:
    return {one.port: one for one in check(os, text, profile(), 9000, ports)}


@pytest.mark.parametrize("name", [one.name for one in QOS_PROFILES if not one.ets and len(one.lossless) == 1])
@pytest.mark.parametrize("os", TEXTS)
def test_a_good_running_config_gives_no_alarm(os: str, name: str) -> None:
    own, (export, ports, unsaid) = profile(name), TEXTS[os]
    found = check(os, export(own.dscp, own.priority, own.cnp_dscp, own.cnp_priority), own, 9000)
    assert tuple(one.port for one in found) == ports, "neither a port that is down nor the management's"
    assert {(hop.hop, hop.status) for one in found for hop in one.hops if hop.status != "pass"} == {(hop, "unknown") for hop in unsaid}


@pytest.mark.parametrize(("os", "what", "row"), BROKEN, ids=[f"{os}-{what}" for os, what, _row in BROKEN])
def test_a_broken_command_is_named_first(os: str, what: str, row: tuple[str, str, str]) -> None:
    hop, line, instead = row
    (export, ports, _unsaid) = TEXTS[os]
    assert line in export(), what
    found = text_of(os, export().replace(line, instead, 1))[ports[0]]
    assert found.first is not None
    assert (found.first.hop, bool(found.lines[hop])) == (hop, True), found.first


@pytest.mark.parametrize(("os", "row"), WARNED)
def test_a_command_that_breaks_nothing_warns(os: str, row: tuple[str, str, str]) -> None:
    (export, ports, _unsaid), (hop, line, instead) = TEXTS[os], row
    assert line in export()
    one = text_of(os, export().replace(line, instead, 1))[ports[0]]
    assert (one.first, [found.hop for found in one.hops if found.status == "warn"]) == (None, [hop])


def test_roce_lossless_of_onyx_is_a_good_chain() -> None:
    text = "roce lossless\ninterface ethernet 1/1\n   mtu 9216 force\n   pfc-wd\nexit\ninterface ethernet 1/2 shutdown\n"
    assert {one.port: [hop.hop for hop in one.hops if hop.status != "pass"] for one in text_of("onyx", text).values()} == {"1/1": []}
    assert failing(text_of("onyx", text.replace("roce lossless", "no roce"))["1/1"])[0] == "trust"
    assert failing(text_of("onyx", text.replace("roce lossless", "roce"))["1/1"]) == [], "lossless is the default"
    assert failing(text_of("onyx", text.replace("roce lossless", "roce lossy"))["1/1"]) == ["headroom", "pfc", "pause"]
    off = text.replace("   pfc-wd\n", "   pfc-wd\n   dcb priority-flow-control mode off force\n")
    assert failing(text_of("onyx", off)["1/1"]) == ["pfc", "pause"]


def test_common_forms_of_nxos_and_members_of_a_channel() -> None:
    text = switch_exports.nxos().replace("priority-flow-control mode on\n", "priority-flow-control mode on send-tlv\n")
    text = re.sub(r"random-detect minimum.*ecn", "random-detect threshold burst-optimized ecn", text)
    assert {one.port: failing(one) for one in text_of("nxos", text).values()} == {"Ethernet1/1": [], "Ethernet1/2": []}
    eos_text = switch_exports.eos().replace("interface Ethernet2\n   mtu 9214\n   service-profile ROCE\n", (
        "interface Port-Channel7\n   mtu 9214\n   service-profile ROCE\n!\ninterface Ethernet2\n   channel-group 7 mode active\n"))
    assert failing(text_of("eos", eos_text)["Ethernet2"]) == []


def test_a_port_is_found_by_the_name_that_lldp_has() -> None:
    assert [one.port for one in check("sonic", json.dumps(switch_exports.sonic()), profile(), 9000, ["etp1"])] == ["Ethernet0"]
    assert [one.port for one in check("onyx", switch_exports.onyx(), profile(), 9000, ["Eth1/2"])] == ["1/2"]


def test_more_ports_than_a_switch_has_are_refused() -> None:
    with pytest.raises(Unusable, match="no switch has more than 2048"):
        text_of("eos", "".join(f"interface Ethernet{at}\n" for at in range(3000)))


@pytest.mark.parametrize(("os", "comment", "port"), [("eos", "!", "Ethernet1"), ("nxos", "!", "Ethernet1/1"), ("onyx", "##", "1/1")])
def test_the_words_of_our_own_hints_pass(os: str, comment: str, port: str) -> None:
    lines = [line for line in hints(os, profile()) if not line.startswith(comment)]
    assert failing(text_of(os, "\n".join(lines))[port]) == []


@pytest.mark.parametrize(("os", "text", "why"), [
    ("nxos", "", "it has no interface Ethernet"), ("nxos", switch_exports.eos(), "it has commands of EOS"),
    ("nxos", switch_exports.onyx(), "it has no interface Ethernet"), ("onyx", switch_exports.nxos(), "it has no interface ethernet"),
    ("onyx", "", "it has no interface ethernet"), ("onyx", json.dumps(switch_exports.sonic()), "it has no interface ethernet"),
    ("eos", switch_exports.nxos(), "it has commands of NX-OS"), ("eos", switch_exports.onyx(), "it has no interface Ethernet"),
])  # fmt: skip
def test_a_running_config_of_another_platform(os: str, text: str, why: str) -> None:
    with pytest.raises(Unusable, match=re.escape(why)):
        text_of(os, text)


@pytest.mark.parametrize(("text", "why"), [
    ("", "it has no interface Ethernet"), ("hostname leaf1\n", "it has no interface Ethernet"), ("{", "is not an EOS running-config"),
    ("feature interface-vlan\ninterface Ethernet1/1\n  mtu 9216\n", "it has commands of NX-OS"),
    (json.dumps(switch_exports.sonic()), "it has no interface Ethernet"), (" " * 100_000 + "x", "it has no interface Ethernet"),
])  # fmt: skip
def test_what_is_no_running_config_of_eos(text: str, why: str) -> None:
    with pytest.raises(Unusable, match=re.escape(why)):
        eos(text)


def test_the_file_of_another_platform_is_none() -> None:
    with pytest.raises(Unusable, match="is not what `nv config show -o json` prints: it sets no interface"):
        check("nvue", json.dumps(switch_exports.sonic()), profile(), 9000)
    with pytest.raises(Unusable, match="it has no table PORT"):
        check("sonic", json.dumps(switch_exports.nvue()["list"]), profile(), 9000)


def failing(one: Checked) -> list[str]:
    return [hop.hop for hop in one.hops if hop.status == "fail"]


@pytest.mark.parametrize("name", [one.name for one in QOS_PROFILES])
def test_a_good_chain_gives_no_alarm(name: str) -> None:
    own = profile(name)
    good = switch_exports.sonic(own.dscp, own.priority, own.cnp_dscp, own.cnp_priority)
    for port in switch_exports.PORTS:
        good["PORT_QOS_MAP"][port]["pfc_enable"] = good["PORT_QOS_MAP"][port]["pfcwd_sw_enable"] = ",".join(map(str, own.lossless))
        good["BUFFER_PG"][f"{port}|0-7"] = {"profile": "pg_lossless_400000_5m_profile"}
    if own.ets:
        weights = [max(1, share) for share in own.ets]
        good["SCHEDULER"] |= {f"own{number}": {"type": "DWRR", "weight": str(weight)} for number, weight in enumerate(weights)}
        for port in switch_exports.PORTS:
            for number in (number for number in range(8) if number != own.cnp_priority):
                good["QUEUE"].setdefault(f"{port}|{number}", {})["scheduler"] = f"own{number}"
    found = checked(good, name)
    assert set(found) == set(switch_exports.PORTS), "a port that is down is not judged"
    for one in found.values():
        bad = [hop for hop in one.hops if hop.status != "pass" and not (own.ets and hop.hop == "schedule")]
        assert bad == []
        assert tuple(hop.hop for hop in one.hops) == HOPS


@pytest.mark.parametrize("what", SONIC)
def test_a_broken_setting_is_named_first_and_on_its_port_alone(what: str) -> None:
    hop, change = SONIC[what]
    found = checked(broken(switch_exports.sonic(), change))
    first = found["Ethernet0"].first
    assert first is not None
    assert first.hop == hop, first
    assert found["Ethernet0"].lines[hop].strip()
    assert "{" not in found["Ethernet0"].lines[hop].replace('{"', "")
    shared = re.search(r"DSCP_TO|TC_TO|MAP_PFC|WRED", str(change.__closure__ and [cell.cell_contents for cell in change.__closure__]))
    assert (found["Ethernet4"].first is None) == (shared is None), "what all ports share breaks all of them"


@pytest.mark.parametrize("what", SONIC_WARN)
def test_a_setting_that_breaks_nothing_warns(what: str) -> None:
    hop, change = SONIC_WARN[what]
    one = checked(broken(switch_exports.sonic(), change))["Ethernet0"]
    assert (one.first, [found.hop for found in one.hops if found.status == "warn"]) == (None, [hop])


def test_the_page_counts_what_is_broken_here() -> None:
    tables = ((*SONIC.values(), *SONIC_WARN.values()), (*NVUE.values(), *NVUE_WARN.values()), (*EOS.values(), *EOS_WARN.values()),
              (*NXOS.values(), *NXOS_WARN.values()), (*ONYX.values(), *ONYX_WARN.values()))
    text = (Path(__file__).parents[3] / "docs/switches.md").read_text(encoding="utf-8")
    lines = text.partition("| hop | SONiC | NVUE")[2].partition("\n\n")[0].splitlines()[2:]
    said = {cells[1].split()[0]: [int(cell.split(";")[0]) if cell[:1].isdigit() else 0 for cell in cells[2:7]]
            for cells in ([cell.strip() for cell in line.split("|")] for line in lines)}
    assert said == {hop: [sum(row[0] == hop for row in table) for table in tables] for hop in HOPS}
    assert f"[{sum(map(len, tables))} of them]" in text


def test_every_hop_is_broken_by_something() -> None:
    assert {hop for hop, _change in (*SONIC.values(), *SONIC_WARN.values())} == set(HOPS)


def test_what_the_export_does_not_hold_is_unknown() -> None:
    """Older images keep buffers in a file of their own."""
    old = switch_exports.sonic()
    del old["BUFFER_PG"]
    one = checked(old)["Ethernet0"]
    assert {hop.hop: hop.status for hop in one.hops if hop.status != "pass"} == {"headroom": "unknown"}


def test_references_of_older_images_and_lists_of_ports() -> None:
    old = switch_exports.sonic()
    for row in old["PORT_QOS_MAP"].values():
        for field, table in (("dscp_to_tc_map", "DSCP_TO_TC_MAP"), ("tc_to_queue_map", "TC_TO_QUEUE_MAP"),
                             ("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP"), ("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE")):  # fmt: skip
            row[field] = f"[{table}|{row[field]}]"
    old["PORT_QOS_MAP"] = {"Ethernet0,Ethernet4": old["PORT_QOS_MAP"]["Ethernet0"]}
    old["BUFFER_PG"] = {"Ethernet0,Ethernet4|3-4": {"profile": "[BUFFER_PROFILE|pg_lossless_400000_5m_profile]"}}
    assert [one.first for one in checked(old).values()] == [None, None]


@pytest.mark.parametrize("name", [one.name for one in QOS_PROFILES])
def test_the_tables_of_our_own_hints_pass_but_for_what_the_image_brings(name: str) -> None:
    """The text's JSON over the image's template: what `switch hints` says is what `switch check` takes."""
    text = "\n".join(hints("sonic", profile(name)))
    tables = json.loads(text.partition("<<'EOF'\n")[2].partition("\nEOF")[0])
    own = profile(name)
    config = switch_exports.sonic(own.dscp, own.priority, own.cnp_dscp, own.cnp_priority)
    for table, rows in tables.items():
        for key, row in rows.items():
            config[table].setdefault(key, {}).update(row)
    config["BUFFER_PG"]["Ethernet0|0-7"] = {"profile": "pg_lossless_400000_5m_profile"}
    found = checked(config, name, "Ethernet0")["Ethernet0"]
    assert [hop for hop in failing(found) if hop != "schedule"] == []


@pytest.mark.parametrize(("text", "why"), [
    ("", "is not a SONiC config_db.json"), ("{", "is not a SONiC config_db.json"), ("[]", "it has no table PORT"),
    ("{}", "it has no table PORT"),
    ('{"PORT": {"Ethernet0": 5}}', "it has no table PORT"), ('{"PORT": {"Ethernet0": {}}}', "has no port that is up"),
    ("set interface swp1 link mtu 9216\n", "is not a SONiC config_db.json"), ("[" * 100_000, "is not a SONiC config_db.json"),
])  # fmt: skip
def test_what_is_no_export_is_said_in_one_line(text: str, why: str) -> None:
    with pytest.raises(Unusable, match=re.escape(why)):
        check("sonic", text, profile(), 9000)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("site.yml").write_text(SITE, encoding="utf-8")
    Path("leaf1.json").write_text(json.dumps(switch_exports.sonic()), encoding="utf-8")
    Path("leaf2.json").write_text(json.dumps(broken(switch_exports.sonic(), SONIC["PFC is off"][1])), encoding="utf-8")
    return tmp_path


def call(capfd: pytest.CaptureFixture[str], *words: str) -> Said:
    return said_by(capfd, "switch", "check", "-i", "site.yml", "--os", "sonic", *words)


def test_the_verb(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert call(capfd, "leaf1.json").code == 0
    ran = call(capfd, "leaf1.json", "leaf2.json")
    assert ran.code == 1
    assert "leaf1.json 2 ports, the chain of dscp26-prio3 is broken on 0" in ran.out
    assert "leaf2.json 2 ports, the chain of dscp26-prio3 is broken on 1" in ran.out
    assert [" ".join(line.split()) for line in ran.out.splitlines() if "fail" in line] == [
        "fail first pfc Ethernet0 on 3 alone on none sudo config interface pfc priority PORT 3 on"]
    document = json.loads(call(capfd, "leaf2.json", "--format", "json").out)
    assert document["summary"] == {"ports": 2, "broken": 1, "exit_code": 1}
    assert document["switches"]["leaf2.json"]["ports"]["Ethernet0"]["first"] == "pfc"


def test_hints_with_diff_print_what_a_switch_lacks(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def lacks(file: str, *words: str) -> Said:
        return said_by(capfd, "switch", "hints", "-i", "site.yml", "--os", "sonic", "--diff", file, *words)

    assert lacks("leaf1.json").out == "# leaf1.json lacks nothing for dscp26-prio3\n"
    ran = lacks("leaf2.json")
    assert (ran.code, ran.out.splitlines()) == (0, [
        "# pfc, on Ethernet0", "sudo config interface pfc priority PORT 3 on", "# leaf2.json lacks 1 line for dscp26-prio3"])
    document = json.loads(lacks("leaf2.json", "--format", "json").out)
    assert document["lacks"] == [{"hop": "pfc", "line": "sudo config interface pfc priority PORT 3 on", "ports": ["Ethernet0"]}]
    assert lacks("none.json").code == 64


def test_what_is_unlike_most_ports_is_odd(site: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Three leaves mark alike, one otherwise: that breaks no chain."""
    other = switch_exports.sonic()
    other["WRED_PROFILE"]["AZURE_LOSSLESS"]["green_min_threshold"] = "4096"
    for name, config in (("a.json", switch_exports.sonic()), ("b.json", switch_exports.sonic()), ("c.json", other)):
        Path(name).write_text(json.dumps(config), encoding="utf-8")
    ran = call(capfd, "leaf1.json", "a.json", "b.json", "c.json")
    assert ran.code == 0
    (line,) = [" ".join(line.split()) for line in ran.out.splitlines() if line.startswith("odd")]
    assert line == ("odd c.json Ethernet0, Ethernet4: ecn: marks from 4096 to 2097152 bytes; on 6 of 8 ports: marks from 1048576 to "
                    "2097152 bytes")
    assert "odd" not in call(capfd, "leaf1.json", "c.json").out, "two against two: nobody is odd"
    assert json.loads(call(capfd, "leaf1.json", "a.json", "b.json", "--format", "json").out)["odd"] == []


def test_bad_files_end_with_one_line(site: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("torn.json").write_text(Path("leaf1.json").read_text()[:500], encoding="utf-8")
    Path("large.json").write_text(" " * (33 << 20), encoding="utf-8")
    for words, why in ((("torn.json",), "torn.json: is not a SONiC config_db.json"), (("none.json",), "none.json: No such file"),
                       (("large.json",), "large.json: is larger than any export: more than 32 MiB"),
                       (("leaf1.json", "--port", "Ethernet99"), "has no port Ethernet99: is it another switch's?")):  # fmt: skip
        ran = call(capfd, *words)
        assert ran.code == 64
        assert why in ran.err.splitlines()[-1]
        assert ran.out == ""
