# SPDX-License-Identifier: GPL-3.0-or-later
"""Forms in which platforms write the same chain, as exports of others have them: none is a false alarm, and none passes that should not."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest

import switch_exports
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import qos_profile
from railwright.switch_check import READERS, Checked, Port, Unusable, check
from railwright.switch_check.sonic import light


def one_of(os: str, export: object, *ports: str) -> Checked:
    """The first of these ports, or of all that are up."""
    profile = qos_profile("dscp26-prio3")
    assert profile is not None
    return check(os, export if isinstance(export, str) else json.dumps(export), profile, 9000, ports)[0]


def not_passed(os: str, export: object, port: str) -> dict[str, str]:
    return {hop.hop: hop.status for hop in one_of(os, export, port).hops if hop.status != "pass"}


def side(os: str, export: object, port: str) -> Port:
    return one_of(os, export, port).side


def changed(*changes: tuple[str, ...]) -> dict[str, Any]:
    """The good config_db.json; of each change the last two words are a field and its value."""
    found = copy.deepcopy(switch_exports.sonic())
    for *path, field, value in changes:
        row: Any = found
        for name in path:
            row = row.setdefault(name, {})
        row[field] = value
    return found


def test_sonic_with_both_maps_does_not_say_which_counts() -> None:
    export = changed(("PORT_QOS_MAP", "Ethernet0", "dot1p_to_tc_map", "AZURE"))
    assert not_passed("sonic", export, "Ethernet0") == {"trust": "unknown"}


def test_sonic_takes_the_switchs_own_map_of_dscp() -> None:
    export = changed(("PORT_QOS_MAP", "global", "dscp_to_tc_map", "AZURE"))
    del export["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"]
    assert not_passed("sonic", export, "Ethernet0") == {}


def test_sonic_groups_that_buffermgr_makes_are_unknown_before_it_did() -> None:
    export = changed(("CABLE_LENGTH", "AZURE", "Ethernet0", "5m"), ("CABLE_LENGTH", "AZURE", "Ethernet4", "0m"))
    for port in switch_exports.PORTS:
        del export["BUFFER_PG"][f"{port}|3"]
    assert not_passed("sonic", export, "Ethernet0") == {"headroom": "unknown"}
    assert not_passed("sonic", export, "Ethernet4") == {"headroom": "fail"}, "a cable of no length: none is made"
    export["DEVICE_METADATA"]["localhost"]["buffer_model"] = "dynamic"
    assert not_passed("sonic", export, "Ethernet0") == {"headroom": "fail"}, "this model needs an entry, and makes none"


def test_sonic_without_pfc_enable_pauses_nothing() -> None:
    export = switch_exports.sonic()
    del export["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"]
    assert not_passed("sonic", export, "Ethernet0") == {"pfc": "fail"}


def test_sonic_queues_in_rows_of_their_own_and_of_a_chassis() -> None:
    export = switch_exports.sonic()
    rows = export["QUEUE"]
    own = rows.pop("Ethernet0|3")
    rows["leaf1|asic0|Ethernet0|3"] = {"scheduler": own["scheduler"]}
    rows["leaf1|asic0|Ethernet0|3-4"] = {"wred_profile": own["wred_profile"]}
    export["PORT"]["Ethernet-Rec0"] = {"admin_status": "up", "mtu": "9100", "role": "Rec"}
    assert not_passed("sonic", export, "Ethernet0") == {}
    with pytest.raises(Unusable, match="no port Ethernet-Rec0"):
        one_of("sonic", export, "Ethernet-Rec0")


def test_one_threshold_marks() -> None:
    export = changed(("WRED_PROFILE", "AZURE_LOSSLESS", "green_min_threshold", "2097152"))
    assert not_passed("sonic", export, "Ethernet0") == {}


def test_a_lane_without_light_is_the_weakest() -> None:
    state = {"TRANSCEIVER_DOM_SENSOR|Ethernet0": {"value": {"tx1power": "1.0", "tx2power": "1.5", "rx1power": "-inf", "rx2power": "-2.0"}},
             "TRANSCEIVER_DOM_SENSOR|Ethernet4": {"value": {"tx1power": "N/A", "rx1power": "N/A"}}}  # fmt: skip
    assert light(json.dumps(state)) == {"Ethernet0": (1.0, -40.0)}


def of_nvue(roce: object, **interfaces: object) -> list[object]:
    return [{"header": {}}, {"set": {"qos": {"roce": roce}, "interface": interfaces or {"swp1": {"link": {"mtu": 9216}}}}}]


@pytest.mark.parametrize(("roce", "expected"), [
    ({"mode": "lossless"}, {}), ({}, {}), ({"enable": "on", "mode": "lossless-single-ipool"}, {}),
    ({"state": "enabled", "mode": "lossy"}, {"headroom": "fail", "pfc": "fail", "pause": "fail"}),
    ({"enable": "on", "mode": "lossy-multi-tc"}, {"headroom": "fail", "pfc": "fail", "pause": "fail"} | dict.fromkeys(
        ("class", "queue", "ecn", "schedule", "cnp"), "unknown")),
])  # fmt: skip
def test_modes_of_roce_on_nvue(roce: object, expected: dict[str, str]) -> None:
    assert not_passed("nvue", of_nvue(roce), "swp1") == {**expected, "watchdog": "warn"}
    assert next(iter(not_passed("nvue", of_nvue({"enable": "off", "mode": "lossless"}), "swp1"))) == "trust"


def test_nvue_says_of_a_port_in_several_ranges() -> None:
    watched = {"qos": {"pfc-watchdog": {"state": "enable"}}}
    export = of_nvue({}, **{"swp1-2,swp4": {"link": {"mtu": 9216}}, "swp1": {"link": {"speed": "400G", "lanes": 4}}, "swp1,swp4": watched})
    assert [not_passed("nvue", export, port) for port in ("swp1", "swp2", "swp4")] == [{}, {"watchdog": "warn"}, {}]
    assert (side("nvue", export, "swp1").speed, side("nvue", export, "swp1").lanes) == (400_000, 4)


def test_nvue_ports_that_are_split_are_their_parts() -> None:
    ways: tuple[object, ...] = ("2x", {"2x": {"lanes-per-port": 4}})
    profile = qos_profile("dscp26-prio3")
    assert profile is not None
    for way in ways:
        export = of_nvue({}, **{"swp1-2": {"link": {"breakout": way}}, "swp1-2s0-1": {"link": {"mtu": 9216}},
                                "swp1s1": {"link": {"mtu": 1500}}, "swp3": {"link": {"mtu": 9216, "breakout": "1x"}}})  # fmt: skip
        found = {one.port: one.first is None for one in check("nvue", json.dumps(export), profile, 9000)}
        assert found == {"swp1s0": True, "swp1s1": False, "swp2s0": True, "swp2s1": True, "swp3": True}


def test_nvue_ranges_without_end_are_refused() -> None:
    for ranges, why in (("swp0-9999", "no switch has more than 2048"), (",".join(["swp1-2000"] * 20_000), "more than 200000 ports")):
        with pytest.raises(Unusable, match=why):
            one_of("nvue", of_nvue({}, **{ranges: {"link": {"mtu": 9216}}}))


def test_nvue_ports_that_are_down_by_a_word_are_left_out() -> None:
    with pytest.raises(Unusable, match="no port that is up"):
        one_of("nvue", of_nvue({}, swp1={"link": {"state": "down"}}))


def test_nvue_pfc_that_is_not_sent_or_not_heard() -> None:
    for way, hop in (("tx", "pfc"), ("rx", "pause")):
        export = switch_exports.nvue()["list"]
        export[1]["set"]["qos"]["pfc"]["default-global"][way] = "disable"
        assert next(iter(not_passed("nvue", export, "swp1"))) == hop


def eos_with(*changes: tuple[str, str]) -> str:
    text = switch_exports.eos()
    for line, instead in changes:
        assert line in text
        text = text.replace(line, instead, 1)
    return text


EOS_FORMS = {
    "another class by drop precedence": (
        ("qos map dscp 26 to traffic-class 3\n", "qos map dscp 24 26 to traffic-class 4 drop-precedence 1\n"), {"class": "fail"}),
    "thresholds in time": (("minimum-threshold 256 kbytes maximum-threshold 512 kbytes",
                            "minimum-threshold 3 milliseconds maximum-threshold 9 milliseconds"), {}),
    "a policy map sets the class": (("   service-profile ROCE\n", "   service-profile ROCE\n   service-policy type qos input MARK\n"),
                                    {"trust": "unknown", "class": "unknown", "cnp": "unknown"}),
    "a map of the port sets the class": (("   service-profile ROCE\n", "   service-profile ROCE\n   qos map dscp to traffic-class OWN\n"),
                                         {"trust": "unknown", "class": "unknown", "cnp": "unknown"}),
    "PFC of older releases": (("   priority-flow-control on\n", "   priority-flow-control mode on\n"), {}),
    "PFC is off for the switch": (("hostname leaf1\n", "hostname leaf1\npriority-flow-control all off\n"), {"pfc": "fail", "pause": "fail",
                                                                                                           "watchdog": "warn"}),
    "a lower queue is round robin": (("      no priority\n      bandwidth percent 50\n", "      bandwidth percent 50\n"),
                                     {"schedule": "fail"}),
    "ports are routed by default": (("   qos trust dscp\n", ""), {"trust": "fail"}),
    "the port's watchdog is off": (("   service-profile ROCE\n", "   service-profile ROCE\n   no priority-flow-control pause watchdog\n"),
                                   {"watchdog": "warn"}),
    "the switch's watchdog waits for ever": (("watchdog default timeout 0.20", "watchdog default timeout 0.0"), {"watchdog": "warn"}),
}  # fmt: skip


@pytest.mark.parametrize("what", EOS_FORMS)
def test_forms_of_eos(what: str) -> None:
    change, expected = EOS_FORMS[what]
    assert not_passed("eos", eos_with(change), "Ethernet1") == {"group": "unknown", "headroom": "unknown", **expected}


def test_eos_round_robin_reaches_down_and_routed_is_a_default() -> None:
    text = eos_with(("      no priority\n      bandwidth percent 50\n", "      bandwidth percent 50\n"),
                    ("   uc-tx-queue 0\n", "   uc-tx-queue 4\n      no priority\n   uc-tx-queue 0\n"))  # fmt: skip
    assert "schedule" not in not_passed("eos", text, "Ethernet1")
    routed = eos_with(("   qos trust dscp\n", ""), ("hostname leaf1\n", "hostname leaf1\nswitchport default mode routed\n"))
    assert "trust" not in not_passed("eos", routed, "Ethernet1")
    assert not_passed("eos", routed.replace("   mtu 9214\n", "", 1), "Ethernet1")["mtu"] == "fail"
    switched = routed.replace("   mtu 9214\n", "   mtu 9214\n   switchport\n", 1)
    assert not_passed("eos", switched, "Ethernet1")["trust"] == "fail"


@pytest.mark.parametrize(("words", "expected"), [
    ("   speed 400g-8\n   error-correction encoding reed-solomon\n", (400_000, "reed-solomon", None, 8)),
    ("   speed forced 100gfull\n   no error-correction encoding\n", (100_000, "none", False, None)),
    ("   error-correction encoding fire-code\n   error-correction encoding reed-solomon\n", (None, None, None, None)),
])
def test_the_cables_end_on_eos(words: str, expected: tuple[object, ...]) -> None:
    port = side("eos", eos_with(("   mtu 9214\n", f"   mtu 9214\n{words}")), "Ethernet1")
    assert (port.speed, port.fec, port.autoneg, port.lanes) == expected


def nxos_with(line: str, instead: str) -> str:
    assert line in switch_exports.nxos()
    return switch_exports.nxos().replace(line, instead, 1)


@pytest.mark.parametrize("match", ["match access-group name RDMA", "match precedence 3", "match dscp af31"])
def test_nxos_classes_that_a_dscp_does_not_tell_are_unknown(match: str) -> None:
    found = not_passed("nxos", nxos_with("match dscp 26", match), "Ethernet1/1")
    assert found == {"trust": "unknown", "class": "unknown", "headroom": "unknown", "cnp": "unknown"}
    assert not_passed("nxos", nxos_with("match dscp 26", "match cos 3"), "Ethernet1/1")["class"] == "fail"


def test_nxos_policies_elsewhere_than_on_the_port_are_unknown() -> None:
    bare = nxos_with("  service-policy type qos input IN\n\n", "\n")
    assert not_passed("nxos", bare, "Ethernet1/1")["trust"] == "fail"
    vlan = not_passed("nxos", f"vlan configuration 7\n  service-policy type qos input IN\n{bare}", "Ethernet1/1")
    assert (vlan["trust"], vlan["class"]) == ("unknown", "unknown")
    default = not_passed("nxos", nxos_with("  service-policy type queuing output OUT\n", ""), "Ethernet1/1")
    assert default == {"headroom": "unknown", "ecn": "fail", "schedule": "unknown", "cnp": "unknown"}, "the default marks nothing"


@pytest.mark.parametrize(("words", "expected"), [
    ("negotiate auto", True), ("no negotiate auto", False), ("no negotiate auto 25000", False), ("description we negotiate auto", None)])
def test_negotiation_on_nxos(words: str, expected: bool | None) -> None:
    assert side("nxos", nxos_with("  speed 400000\n", f"  speed 400000\n  {words}\n"), "Ethernet1/1").autoneg is expected


def test_onyx_members_have_their_channels_commands() -> None:
    text = switch_exports.onyx().replace("interface ethernet 1/1 qos trust L3", "interface mlag-port-channel 7-8 qos trust L3")
    assert not_passed("onyx", text, "1/1") == {"trust": "fail"}
    assert not_passed("onyx", f"{text}   interface ethernet 1/1 mlag-channel-group 7 mode active\n", "1/1") == {}
    assert not_passed("onyx", f"{text}   interface ethernet 1/1 channel-group 7 mode on\n", "1/1") == {"trust": "fail"}, "another channel"


def test_onyx_buffers_one_by_one_and_relative_thresholds() -> None:
    text = re.sub(r"   traffic pool .*\n", "", switch_exports.onyx())
    text = text.replace("1/1 traffic-class 3 congestion-control ecn minimum-absolute 150 maximum-absolute 1500",
                        "1/1 traffic-class 3 congestion-control both minimum-relative 20 maximum-relative 80")  # fmt: skip
    assert not_passed("onyx", text, "1/1") == {"headroom": "fail"}
    bind = "   interface ethernet 1/1 ingress-buffer iPort.pg3 bind switch-priority 3\n"
    kinds: tuple[tuple[str, dict[str, str]], ...] = (
        ("lossless reserved 60000 xoff 18000 xon 18000 shared alpha 2", {}), ("lossy shared alpha 8", {"headroom": "fail"}))
    for kind, expected in kinds:
        line = f"   interface ethernet 1/1 ingress-buffer iPort.pg3 map pool iPool1 type {kind}\n"
        assert not_passed("onyx", text + bind + line, "1/1") == expected


def test_onyx_lossless_pool_without_a_word_of_pfc_is_unknown() -> None:
    text = re.sub(r".*(?:priority-flow-control|pfc-wd).*\n", "", switch_exports.onyx())
    assert not_passed("onyx", text, "1/1") == {"pfc": "unknown", "pause": "unknown", "watchdog": "unknown"}


def test_onyx_another_interfaces_block_ends_a_block() -> None:
    text = switch_exports.onyx() + "interface ethernet 1/1\n   mtu 9216 force\ninterface vlan 10\n   mtu 1500\n"
    assert not_passed("onyx", text, "1/1") == {}


@pytest.mark.parametrize(("os", "text", "port"), [
    ("eos", switch_exports.eos(), "Ethernet1"), ("nxos", switch_exports.nxos(), "Ethernet1/1"), ("onyx", switch_exports.onyx(), "1/1")])
def test_a_terminals_capture_is_read_as_the_export(os: str, text: str, port: str) -> None:
    """With its prompts, a banner, and the line ends of a terminal."""
    capture = f"leaf1# show running-config\nBuilding configuration...\nCurrent configuration : 4242 bytes\n{text}leaf1#\n"
    assert not_passed(os, capture.replace("\n", "\r\n"), port) == not_passed(os, text, port)


def test_what_was_cut_off_is_refused() -> None:
    whole = "! Command: show running-config\n" + switch_exports.eos()
    assert not_passed("eos", whole, "Ethernet1") == {"group": "unknown", "headroom": "unknown"}
    with pytest.raises(Unusable, match="it is cut off: it has no `end`"):
        one_of("eos", whole.removesuffix("end\n"), "Ethernet1")
    head, foot = "no cli default prefix-modes enable\n", "cli default prefix-modes enable\n"
    assert not_passed("onyx", head + switch_exports.onyx() + foot, "1/1") == {}
    with pytest.raises(Unusable, match="it is cut off: it has no persistent prefix mode"):
        one_of("onyx", head + switch_exports.onyx(), "1/1")


EXCERPTS = {"eos": "interface Ethernet1/1\n   priority-flow-control on\n   priority-flow-control priority 3 no-drop\n",
            "nxos": "interface Ethernet1/1\n  priority-flow-control mode on\n  service-policy type queuing output OUT\n"}  # fmt: skip


@pytest.mark.parametrize("os", EXCERPTS)
def test_an_interface_alone_is_no_other_platforms(os: str) -> None:
    for other in set(READERS) - {os}:
        with pytest.raises(Unusable):
            one_of(other, EXCERPTS[os], "Ethernet1/1")
