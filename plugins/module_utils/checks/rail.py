# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the health of the rails: link, rate, path MTU, GID, firmware. Pure over facts and Spec."""

from typing import Any, List, Mapping, Optional

from ..areas.network.verdicts import place_of
from ..rules.comparisons import Inspection, Where, at_least, equal, no_expectation, unreadable, verdict
from ..rules.erdma_mode import DEFAULT
from ..rules.path_mtu import as_int, gids_holding, hca_facts, is_iwarp, path_mtu_for, port_facts
from ..spec.match import RailTarget
from ..spec.model import Spec
from ..types import Verdict

# What a port of each fabric says in its link_layer file.
LINK_LAYER = {"roce": "Ethernet", "infiniband": "InfiniBand", "erdma": "Ethernet"}
# Drivers whose sysfs rate is a constant in the source and says nothing about the link
# (erdma_verbs.c: 100 Gb/sec whatever the instance type; rxe_param.h: speed and width are made up).
CONSTANT_RATE = {
    "erdma": "eRDMA always reports 100 Gb/sec",
    "rdma_rxe": "Soft-RoCE reports a made-up rate",
}
SOFTWARE = ("rdma_rxe", "siw")


def judge_rails(seen: Inspection) -> List[Verdict]:
    """The health of every rail that has a device."""
    verdicts: List[Verdict] = []
    for target in seen.targets:
        where = place_of(seen, target)
        hca = hca_facts(seen.facts, target.hca.name) if target.hca is not None else None
        port = port_facts(seen.facts, target.hca.name, target.port) if target.hca is not None else None
        if where is None or hca is None or port is None:
            continue
        verdicts += _link(where, seen.spec, hca, port) + [
            _active_mtu(where, seen.spec, target.rail.mtu, port),
            _gid(where, seen.spec, target, hca, port),
            _firmware(where, seen.spec, hca),
            equal("hca.hca_type", where, seen.spec.expect.get("hca_type"), hca.get("hca_type"), "rdma_expect.hca_type", "HCA type"),
        ]
    return verdicts


def _firmware(where: Where, spec: Spec, hca: Mapping[str, Any]) -> Verdict:
    if hca.get("driver") in SOFTWARE:
        return verdict("hca.fw_ver", where, "skipped", None, None, "%s is software: it has no firmware" % hca.get("driver"))
    return equal("hca.fw_ver", where, spec.expect.get("fw_ver"), hca.get("fw_ver"), "rdma_expect.fw_ver", "firmware")


def _link(where: Where, spec: Spec, hca: Mapping[str, Any], port: Mapping[str, Any]) -> List[Verdict]:
    layer = spec.expect.get("link_layer") or LINK_LAYER[spec.fabric]
    return [
        _state(where, port),
        _floor("port.phys_state", where, "LinkUp", port.get("phys_state"), "physical state"),
        equal("port.link_layer", where, layer, port.get("link_layer"), "rdma_expect.link_layer", "link layer"),
        _rate(where, spec.expect.get("rate_gbps"), hca, port),
    ]


def _floor(check: str, where: Where, expected: str, found: Optional[str], what: str) -> Verdict:
    if found is None:
        return unreadable(check, where, expected, what)
    return equal(check, where, expected, found, "", what)


def _state(where: Where, port: Mapping[str, Any]) -> Verdict:
    state = port.get("state")
    if state == "INIT" and port.get("link_layer") == "InfiniBand" and as_int(port.get("sm_lid")) == 0:
        return verdict("port.state", where, "fail", "ACTIVE", "INIT",
                       "no subnet manager: the link is up, but nobody gave the port a LID (sm_lid 0); start opensm or the switch's")
    return _floor("port.state", where, "ACTIVE", state, "state")


def _rate(where: Where, floor: Optional[float], hca: Mapping[str, Any], port: Mapping[str, Any]) -> Verdict:
    constant = CONSTANT_RATE.get(str(hca.get("driver")))
    if constant is None:
        return at_least("port.rate", where, floor, port.get("rate_gbps"), "rdma_expect.rate_gbps", "rate in Gb/s")
    if floor is None:
        return verdict("port.rate", where, "skipped", None, port.get("rate_gbps"), constant + "; judge the measured bandwidth instead")
    return verdict("port.rate", where, "unknown", floor, port.get("rate_gbps"), constant + "; set validate_min_bandwidth_gbps instead")


def _active_mtu(where: Where, spec: Spec, rail_mtu: int, port: Mapping[str, Any]) -> Verdict:
    """Exactly what the inventory expects, else at least what the rail's MTU in the inventory makes possible."""
    found = as_int(port.get("active_mtu"))
    wanted = spec.expect.get("active_mtu")
    if wanted is not None:
        return equal("port.active_mtu", where, wanted, found, "rdma_expect.active_mtu", "active_mtu")
    if spec.fabric == "infiniband":  # the subnet manager's partition decides, not the netdev
        return no_expectation("port.active_mtu", where, "rdma_expect.active_mtu", found)
    floor = path_mtu_for(rail_mtu)
    if floor is None:
        return verdict("port.active_mtu", where, "fail", PATH_MTU_NEEDED, found, "an MTU of %d carries no RDMA path at all" % rail_mtu)
    return at_least("port.active_mtu", where, floor, found, "rdma_mtu", "active_mtu")


PATH_MTU_NEEDED = "a netdev MTU of at least 352"


def _gid(where: Where, spec: Spec, target: RailTarget, hca: Mapping[str, Any], port: Mapping[str, Any]) -> Verdict:
    """RoCE needs a RoCE v2 GID that holds the rail's address; InfiniBand needs any GID."""
    gids = port.get("gids")
    if gids is None:
        return unreadable("rail.gid", where, "RoCE v2", "the GID table")
    if spec.fabric == "infiniband":
        status, text = ("pass", "port GID") if gids else ("fail", "the GID table is empty")
        return verdict("rail.gid", where, status, "a port GID", gids[0].get("gid") if gids else None, text)
    address = target.rail.address
    if address is None:
        return no_expectation("rail.gid", where, "rdma_rails[%d].address" % target.rail.index, None)
    if is_iwarp({"hcas": [hca]}, str(hca.get("name"))) and spec["erdma_mode"] == DEFAULT:
        return verdict("rail.gid", where, "skipped", None, gids[0].get("gid") if gids else None,
                       "erdma_mode default is iWARP-like: RDMA-CM connects by the address, no GID holds it")
    expected = "RoCE v2 GID with %s" % address.split("/")[0]
    holding = gids_holding(port, address)
    for entry in holding:
        if entry.get("type") == "RoCE v2":
            found = "index %s: %s" % (entry.get("index"), entry.get("gid"))
            return verdict("rail.gid", where, "pass", expected, found, "GID index %s" % entry.get("index"))
    if any(entry.get("type") is None for entry in holding):
        return unreadable("rail.gid", where, expected, "the type of the GID")
    types = ", ".join(str(entry.get("type")) for entry in holding)
    if holding:
        return verdict("rail.gid", where, "fail", expected, types, "the address is in the GID table, but only as %s" % types)
    hint = "; eRDMA has it only with compat_mode=Y" if hca.get("driver") == "erdma" else ""
    return verdict("rail.gid", where, "fail", expected, None, "no GID holds the rail's address: is it on %s?%s" % (target.netdev, hint))
