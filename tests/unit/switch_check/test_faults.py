# SPDX-License-Identifier: GPL-3.0-or-later
"""Constructed exports whose verdict was once wrong: a fault that was unknown, a stock configuration that failed, a line that held None."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import switch_exports
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile, qos_profile, site_profile
from railwright.switch_check import Checked, check
from railwright.switch_check.judge import judged
from railwright.switch_hints.model import Chain

SITE = {"tc": 12, "priority": 3, "lossless": [3], "cnp_dscp": 48, "cnp_priority": 6, "ets": []}


def profile() -> QosProfile:
    found = qos_profile("dscp26-prio3")
    assert found is not None
    return found


def checked(export: object, own: QosProfile | None = None) -> dict[str, Checked]:
    return {one.port: one for one in check("sonic", json.dumps(export), own or profile(), 9000)}


def verdicts(one: Checked) -> dict[str, str]:
    return {hop.hop: hop.status for hop in one.hops if hop.status != "pass"}


def stock(ports: int = 8) -> dict[str, Any]:
    """SONiC's own template (sonic-buildimage, files/build_templates/qos_config.j2 and buffers_config.j2 of 202405), filled in by hand."""
    names = [f"Ethernet{8 * number}" for number in range(ports)]
    same = {str(number): str(number) for number in range(8)}
    classes = dict.fromkeys(map(str, range(64)), "1") | {"3": "3", "4": "4", "8": "0", "5": "2", "46": "5", "48": "6"}
    qos = {"dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE", "tc_to_pg_map": "AZURE", "pfc_to_queue_map": "AZURE",
           "pfc_enable": "3,4", "pfcwd_sw_enable": "3,4"}  # fmt: skip
    marks = {"ecn": "ecn_all", "wred_green_enable": "true", "green_min_threshold": "1048576", "green_max_threshold": "2097152"}
    queues = {f"{port}|{number}": {"scheduler": f"scheduler.{int(number in (3, 4))}"} for port in names for number in range(7)}
    for key in [key for key in queues if key.endswith(("|3", "|4"))]:
        queues[key]["wred_profile"] = "AZURE_LOSSLESS"
    return {
        "DEVICE_METADATA": {"localhost": {"hostname": "leaf1"}},
        "PORT": {port: {"admin_status": "up", "mtu": "9100", "speed": "400000", "fec": "rs", "lanes": "1,2,3,4,5,6,7,8"} for port in names},
        "DSCP_TO_TC_MAP": {"AZURE": classes}, "TC_TO_QUEUE_MAP": {"AZURE": same}, "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": same},
        "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": dict.fromkeys(map(str, range(7)), "0") | {"3": "3", "4": "4", "7": "7"}},
        "PORT_QOS_MAP": {port: dict(qos) for port in names}, "QUEUE": queues,
        "SCHEDULER": {"scheduler.0": {"type": "DWRR", "weight": "14"}, "scheduler.1": {"type": "DWRR", "weight": "15"}},
        "WRED_PROFILE": {"AZURE_LOSSLESS": marks}, "CABLE_LENGTH": {"AZURE": dict.fromkeys(names, "5m")},
        "PFC_WD": {port: {"action": "drop", "detection_time": "200", "restoration_time": "200"} for port in names},
        "BUFFER_PG": {key: row for port in names for key, row in (
            (f"{port}|0", {"profile": "ingress_lossy_profile"}), (f"{port}|3-4", {"profile": "pg_lossless_400000_5m_profile"}))},
        "BUFFER_QUEUE": {key: row for port in names for key, row in (
            (f"{port}|3-4", {"profile": "egress_lossless_profile"}), (f"{port}|0-2", {"profile": "egress_lossy_profile"}))},
        "BUFFER_PROFILE": {
            "ingress_lossy_profile": {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3"},
            "egress_lossy_profile": {"pool": "egress_lossy_pool", "size": "1518", "dynamic_th": "3"},
            "egress_lossless_profile": {"pool": "egress_lossless_pool", "size": "0", "static_th": "12766208"},
            "pg_lossless_400000_5m_profile": {"pool": "ingress_lossless_pool", "size": "0", "xon": "0", "xoff": "120000"}},
    }  # fmt: skip


def test_stock_sonic_warns_and_names_the_profile_that_agrees_with_it() -> None:
    own = site_profile("custom", SITE)
    assert own is not None
    one = checked(stock(), own)["Ethernet0"]
    assert verdicts(one) == {"pfc": "warn", "cnp": "warn"}
    assert one.first is None
    assert "pfc" not in one.lines, "a switch's line would take PFC from another service"
    lines = re.search(r"rdma_qos_custom: \{(.*)\}", one.advice["pfc"])
    assert lines is not None
    assert lines[1] == "tc: 12, priority: 3, lossless: [3,4], cnp_dscp: 48, cnp_priority: 6"
    agreed = site_profile("custom", SITE | {"lossless": [3, 4]})
    assert agreed is not None
    assert verdicts(checked(stock(), agreed)["Ethernet0"]) == {"cnp": "warn"}


@pytest.mark.parametrize("paused", ["3,4,5", "0,3", "3,6"])
def test_pfc_that_no_service_of_its_own_explains_fails(paused: str) -> None:
    """More priorities than any profile has, best effort, or CNP's own."""
    export = stock()
    export["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] = paused
    own = site_profile("custom", SITE)
    assert own is not None
    one = checked(export, own)["Ethernet0"]
    assert (one.first is not None and one.first.hop, one.lines["pfc"][-3:]) == ("pfc", "off")


def test_a_port_that_alone_lacks_its_lossless_group_fails() -> None:
    export, own = stock(), site_profile("custom", SITE)
    del export["BUFFER_PG"]["Ethernet8|3-4"]
    found = {port: verdicts(one).get("headroom") for port, one in checked(export, own).items()}
    assert found == dict.fromkeys(found) | {"Ethernet8": "fail"}
    for key in [key for key in export["BUFFER_PG"] if key.endswith("|3-4")]:
        del export["BUFFER_PG"][key]
    assert {verdicts(one).get("headroom") for one in checked(export, own).values()} == {"unknown"}, "the file was not saved since"


def test_a_priority_in_the_lossy_pool_fails_in_an_unsaved_file_too() -> None:
    export, own = stock(), site_profile("custom", SITE)
    for key in [key for key in export["BUFFER_PG"] if key.endswith("|3-4")]:
        del export["BUFFER_PG"][key]
    export["BUFFER_PG"]["Ethernet0|3"] = {"profile": "ingress_lossy_profile"}
    one = checked(export, own)["Ethernet0"]
    assert one.first is not None
    assert (one.first.hop, one.first.found) == ("headroom", "3 in a lossy pool")


def test_a_priority_in_the_lossy_pool_of_nvue_without_roce_mode_fails() -> None:
    export = switch_exports.nvue()["list"]
    del export[1]["set"]["qos"]["roce"]
    pools = export[1]["set"]["qos"]["traffic-pool"]
    pools.pop("roce-lossless")
    (one, *_others) = check("nvue", json.dumps(export), profile(), 9000)
    assert verdicts(one)["headroom"] == "unknown"
    pools["default-lossy"]["switch-priority"] = list(range(8))
    (one, *_others) = check("nvue", json.dumps(export), profile(), 9000)
    assert verdicts(one)["headroom"] == "fail"


@pytest.mark.parametrize(("speed", "lanes", "fec", "autoneg", "status"), [
    ("400000", "1,2,3,4,5,6,7,8", "none", None, "fail"), ("100000", "1", "none", None, "fail"), ("50000", "1", "none", None, "fail"),
    ("50000", "1", "fc", None, "fail"), ("200000", None, "none", None, "fail"), ("100000", None, "none", None, "unknown"),
    ("100000", "1,2,3,4", "none", None, "pass"), ("25000", "1", "none", None, "pass"), ("400000", "1,2,3,4", "rs", None, "pass"),
    ("400000", "1,2,3,4", "auto", None, "pass"), ("400000", "1,2,3,4", None, None, "unknown"), ("25000", "1", None, None, "pass"),
    ("400000", "1,2,3,4", "none", "on", "unknown"), ("400000", "1,2,3,4", "none", "off", "fail"), ("400000", "1", "what", None, "unknown"),
    (None, None, "none", None, "unknown"),
])  # fmt: skip
def test_lanes_from_50_gb_on_need_reed_solomon(
    speed: str | None, lanes: str | None, fec: str | None, autoneg: str | None, status: str,
) -> None:  # fmt: skip
    export, row = switch_exports.sonic(), {"admin_status": "up", "mtu": "9216"}
    row |= {key: value for key, value in (("speed", speed), ("lanes", lanes), ("fec", fec), ("autoneg", autoneg)) if value is not None}
    export["PORT"]["Ethernet0"] = row
    one = checked(export)["Ethernet0"]
    assert verdicts(one).get("fec", "pass") == status
    assert ("fec" in one.lines) == (status == "fail")


def test_fec_that_is_not_set_passes_where_the_platforms_guide_says_auto() -> None:
    text = switch_exports.nxos()
    assert "  fec rs-fec\n" in text
    found = {one.port: one for one in check("nxos", text.replace("  fec rs-fec\n", ""), profile(), 9000)}
    assert "fec" not in verdicts(found["Ethernet1/1"])


def every_broken_export() -> list[tuple[str, str]]:
    """(platform, text) of each setting that is broken once."""
    of = switch_exports
    json_ones = [(os, json.dumps(config["list"] if os == "nvue" else config)) for os, good, tables in (
        ("sonic", of.sonic(), (of.SONIC, of.SONIC_WARN)), ("nvue", of.nvue(), (of.NVUE, of.NVUE_WARN)))
        for table in tables for _hop, change in table.values() for config in (of.broken(good, change),)]  # fmt: skip
    return json_ones + [(os, good.replace(line, instead, 1)) for os, good, tables in (
        ("eos", of.eos(), (of.EOS, of.EOS_WARN)), ("nxos", of.nxos(), (of.NXOS, of.NXOS_WARN)),
        ("onyx", of.onyx(), (of.ONYX, of.ONYX_WARN)))
        for table in tables for _hop, line, instead in table.values()]  # fmt: skip


def test_no_text_of_any_broken_chain_holds_none() -> None:
    """Neither the line to paste nor what was expected and found has Python's None."""
    exports = every_broken_export()
    assert len(exports) > 100
    for os, text in exports:
        for one in check(os, text, profile(), 9000):
            texts = [*one.lines.values(), *(part for hop in one.hops for part in (hop.expected, hop.found))]
            assert [part for part in texts if re.search(r"\bNone\b", part)] == [], (os, texts)


@pytest.mark.parametrize("part", ["mtu", "trusts_dscp", "classes", "queues", "groups", "headroom", "paused", "pauses", "watched", "marking",
                                  "schedule", "speed", "fec", "lanes"])  # fmt: skip
def test_no_verdict_on_a_port_with_a_missing_part_holds_none(part: str) -> None:
    (one, *_others) = check("sonic", json.dumps(switch_exports.sonic()), profile(), 9000)
    for empty in (None, type(getattr(one.side, part))()):
        hops = judged(one.side._replace(**{part: empty}), Chain.of(profile()), 9000, None)
        bad = [hop for hop in hops if re.search(r"\bNone\b", f"{hop.expected} {hop.found} {hop.wanted if hop.status != 'unknown' else ''}")]
        assert bad == []
