# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on one rail: its device, link, MTUs, GID, firmware. Pure over facts and Spec."""

from typing import Any, List, Mapping, Optional, Tuple

from ..rules.erdma_mode import DEFAULT
from ..rules.path_mtu import as_int, gids_holding, hca_facts, is_iwarp, netdev_facts, path_mtu_for, port_facts, same_address
from ..spec.match import RailTarget
from ..spec.model import Spec
from ..types import Verdict
from .comparisons import Where, at_least, equal, no_expectation, unreadable, verdict
from .erdma import WRONG_MTU

# What a port of each fabric says in its link_layer file.
LINK_LAYER = {"roce": "Ethernet", "infiniband": "InfiniBand", "erdma": "Ethernet"}
# Drivers whose sysfs rate is a constant in the source and says nothing about the link
# (erdma_verbs.c: 100 Gb/sec whatever the instance type; rxe_param.h: speed and width are made up).
CONSTANT_RATE = {
    "erdma": "eRDMA always reports 100 Gb/sec",
    "rdma_rxe": "Soft-RoCE reports a made-up rate",
}
SOFTWARE = ("rdma_rxe", "siw")


def judge_rail(node: str, spec: Spec, target: RailTarget, facts: Mapping[str, Any]) -> List[Verdict]:
    """Every verdict on a rail whose interface was found."""
    if target.hca is None:
        return [_gone(node, spec, target)]
    where = Where(node, target.hca.name, target.port, target.label)
    hca = hca_facts(facts, target.hca.name)
    port = port_facts(facts, target.hca.name, target.port)
    if hca is None or port is None:
        return [unreadable("rail.device", where, "%s port %s" % (target.hca.name, target.port), "the port")]
    found = "%s port %s" % (target.hca.name, target.port)
    verdicts = [verdict("rail.device", where, "pass", "%s %s" % (target.rail.match, target.rail.value), found, "is %s" % found)]
    verdicts.extend(_link(where, spec, hca, port))
    verdicts.append(_active_mtu(where, spec, target.rail.mtu, port))
    verdicts.append(_netdev_mtu(where, spec, target, facts))
    verdicts.append(_address(where, target, facts))
    verdicts.append(_gid(where, spec, target, hca, port))
    verdicts.append(_firmware(where, spec, hca))
    verdicts.append(equal("hca.hca_type", where, spec.expect.get("hca_type"), hca.get("hca_type"), "rdma_expect.hca_type", "HCA type"))
    return verdicts


def _gone(node: str, spec: Spec, target: RailTarget) -> Verdict:
    """Name what should be there: Soft-RoCE's link has its name from us, a driver's device only its rail's match."""
    name, port = expected_device(spec, target.rail.index)
    wanted = "%s on %s" % (name or "an RDMA device", target.netdev)
    if name is None:
        wanted += " (%s %s)" % (target.rail.match, target.rail.value)
    return verdict("rail.device", Where(node, name, port, target.label), "fail", wanted, None,
                   "%s is there, but no RDMA device is on it" % target.netdev)


def expected_device(spec: Spec, index: int) -> Tuple[Optional[str], Optional[int]]:
    """Name and port of a rail's device where the inventory alone decides it."""
    return ("rxe%d" % index, 1) if spec.rdma_stack == "soft_roce" else (None, None)


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


def _netdev_mtu(where: Where, spec: Spec, target: RailTarget, facts: Mapping[str, Any]) -> Verdict:
    if spec.fabric == "infiniband" and target.rail.address is None:  # nor does apply touch its interface, if it has one
        return verdict("rail.mtu", where, "skipped", None, None, "an InfiniBand rail without an address needs no interface")
    if target.netdev is None:
        return unreadable("rail.mtu", where, target.rail.mtu, "the rail's network interface")
    found = netdev_facts(facts, target.netdev).get("mtu")
    judged = equal("rail.mtu", where, target.rail.mtu, found, "rdma_mtu", "MTU of %s" % target.netdev)
    if spec.fabric == "erdma" and judged.status == "fail":
        return judged._replace(message="%s: %s" % (judged.message, WRONG_MTU))
    return judged


def _address(where: Where, target: RailTarget, facts: Mapping[str, Any]) -> Verdict:
    """The rail's address with its prefix length, among whatever else the interface carries."""
    wanted = target.rail.address
    if wanted is None:
        return no_expectation("rail.address", where, "rdma_rails[%d].address" % target.rail.index, None)
    if target.netdev is None:
        return verdict("rail.address", where, "fail", wanted, None, "the rail has no network interface to carry it (IPoIB is not up)")
    found = netdev_facts(facts, target.netdev).get("addresses")
    if found is None:
        return unreadable("rail.address", where, wanted, "the addresses of %s" % target.netdev)
    if same_address(wanted) in [same_address(item) for item in found]:
        return verdict("rail.address", where, "pass", wanted, wanted, "%s is on %s" % (wanted, target.netdev))
    return verdict("rail.address", where, "fail", wanted, ", ".join(found) or "none", "%s is not on %s" % (wanted, target.netdev))


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
