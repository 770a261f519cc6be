# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole way of a RoCE packet from a rail of one node to a rail of another, hop by hop: what each hop does with it, and whether the
inventory's QoS profile agrees. Pure.

The links of a host are those of ``qos.chain``, the hops of a switch's port those of ``switch check``: the three cannot disagree.
"""

from collections.abc import Mapping, Sequence
from math import log10
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.parts import without_dcb
from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.verdicts import BREAKS, HOLDS, VARIABLE, chain
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile
from ansible_collections.railwright.rdma.plugins.module_utils.checks.health import health_verdicts
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, number, rows, whole
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import Cable, same_switch
from railwright.switch_check import Port, check
from railwright.switch_check.model import fec_name

AGREES = {HOLDS: "pass", BREAKS: "fail"}  # other states of a link: nobody knows
# A part of a NIC's facts, by the link that it decides; the source is named by the part.
PARTS = {"DSCP": "forced_tc", "trust": "trust", "DSCP map": "dscp_priority", "priority": "dscp_priority", "PFC": "pfc", "ETS": "ets",
         "ECN": "ecn", "CNP": "cnp", "RDMA-CM ToS": "rdma_cm", "DCBX owner": "dcbx"}
ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
MOST = 500  # characters of what a node says
WAY_IN = ("fec", "mtu", "trust", "class", "group", "headroom", "pfc")  # of a switch's port, as a packet enters; the others as it leaves


class Step(NamedTuple):
    """``status``: pass, fail, warn, unknown. ``place``: a node and its rail, or a switch and its port."""

    place: str
    hop: str
    status: str
    expected: str
    found: str
    source: str


class End(NamedTuple):
    """One end of the path. ``facts``: of the node; ``hca``, ``port``: where its rail is."""

    node: str
    rail: str
    facts: Mapping[str, Any]
    hca: str | None
    port: int | None
    cable: Cable


class Export(NamedTuple):
    """A switch's file: its platform, its text, and the file's name. ``light``: dBm that a port sends and gets, the weakest lane of each."""

    os: str
    text: str
    file: str
    light: Mapping[str, Sequence[float]] = {}


def steps(one: End, other: End, profile: QosProfile, mtu: int, exports: Mapping[str, Export]) -> list[Step]:
    """From ``one`` to ``other``. ``exports``: by the switch's name, as LLDP says it."""
    found = _host(one, profile, sends=True)
    found += _switch(one, profile, mtu, exports, enters=True)
    between = [end.cable.switches[0] for end in (one, other) if end.cable.switches]
    if len(between) == 2 and not same_switch(between[0], between[1]):
        found.append(Step(f"{between[0]} to {between[1]}", "spine", "unknown", "the same chain on each switch between", "not read", ""))
    found += _switch(other, profile, mtu, exports, enters=False)
    return found + _host(other, profile, sends=False)


def _host(end: End, profile: QosProfile, *, sends: bool) -> list[Step]:
    """What receives has no job that marks."""
    place = f"{end.node} {end.rail}"
    nics = [nic for nic in rows(mapping(end.facts.get("qos")).get("nics")) if (nic.get("hca"), nic.get("port")) == (end.hca, end.port)]
    if not nics:
        return [Step(place, "rail", "unknown", "the QoS state of its interface", end.cable.why if end.hca is None else "not read", "")]
    why = without_dcb(nics[0])
    if why is not None:
        return [Step(place, "rail", "unknown", "DCB", why, "")]
    lldpad = mapping(end.facts.get("qos")).get("lldpad")
    try:
        links = chain(profile, nics[0], end.facts.get("nccl"), lldpad)
    except ODD:  # a node says what it likes
        return [Step(place, "rail", "unknown", "the QoS state of its interface", "the node's answer has not the form of its facts", "")]
    return [Step(place, link.name, AGREES.get(link.state, "unknown"), link.expected, link.found[:MOST], _source(link.name, nics[0]))
            for link in links if sends or link.name != VARIABLE]  # fmt: skip


def _source(link: str, nic: Mapping[str, Any]) -> str:
    if link == VARIABLE:
        return "NCCL's files"
    return str(mapping(nic.get("sources")).get(PARTS.get(link, ""), ""))


def _link(end: End, place: str, port: Port, export: Export) -> list[Step]:
    """Both ends of the cable side by side: the host's as it runs, the switch's as it is configured; then what came through, by each end."""
    told = rows(mapping(end.facts.get("health")).get("ports"))
    side = next((side for side in told if (side.get("hca"), side.get("port")) == (end.hca, end.port)), {})
    rate = number(next((own.get("rate_gbps") for hca in rows(end.facts.get("hcas")) if hca.get("name") == end.hca
                        for own in rows(hca.get("ports")) if own.get("number") == end.port), None))  # fmt: skip
    lanes = whole(side.get("lanes"))
    said = None if port.autoneg is None else "on" if port.autoneg else "off"
    pairs = (("speed", None if rate is None else f"{rate:g} Gb/s", None if port.speed is None else f"{port.speed / 1000:g} Gb/s"),
             ("FEC", fec_name(side.get("fec")), fec_name(port.fec)),
             ("lanes", None if lanes is None else str(lanes), None if port.lanes is None else str(port.lanes)))
    between = f"{end.node} {end.rail} to {place}"
    found = [Step(between, name, "unknown" if None in (host, switch) else "pass" if host == switch else "fail",
                  f"{host or 'not read'} as on the host", switch or "not in this export", export.file)
             for name, host, switch in pairs if name != "lanes" or None not in (host, switch)]  # fmt: skip
    if side.get("autoneg") in ("on", "off") and said is not None:
        # Optics negotiate nothing (IEEE 802.3 has it for copper and backplanes, clause 73): there the words may differ.
        copper = mapping(side.get("module")).get("kind") == "copper cable"
        found.append(Step(between, "auto-negotiation", "fail" if copper and said != side["autoneg"] else "pass",
                          f"{side['autoneg']} as on the host", said, export.file))
    return found + _arrives(end, side, between, export.light.get(port.name))


def _arrives(end: End, side: Mapping[str, Any], place: str, light: Sequence[float] | None) -> list[Step]:
    """Errors before and after FEC, and light; judged as ``health`` judges them. Nothing of a port that tells nothing."""
    try:
        verdicts = health_verdicts(end.node, end.facts, end.facts["health"], switched=False) if side else []
    except ODD:  # a node says what it likes
        return [Step(place, "errors", "unknown", "the node's health", "the node's answer has not the form of its facts", "")]
    found, own = [], (f"{end.hca} port {end.port}", f"{end.hca} ({side.get('netdev')})")  # another port's faults are not this one's
    for name, hop, expected, text in (("port.ber", "errors", "1e-12 after FEC", _errors(side)),
                                      ("port.optics", "light", "within the module's limits", _light(side, light))):
        about = [item for item in verdicts if item.check == name]
        worst = next((item for item in about if item.status != "pass" and item.subject in own), None)
        status = worst.status if worst else "pass" if about else "unknown"
        if text:
            found.append(Step(place, hop, status, expected, (f"{text}; {worst.message}" if worst else text)[:MOST], "ethtool"))
    return found


def _errors(side: Mapping[str, Any]) -> str:
    """Bits are an upper bound: gaps between packets carry bits too, which no counter has."""
    bits, received = whole(side.get("corrected_bits")), whole(side.get("received_bytes"))
    before = f"{bits / received / 8:.1g} of the bits before FEC at most" if bits is not None and received else ""
    counted = ((whole(side.get("corrected_blocks")), "blocks put right"), (whole(side.get("uncorrectable_blocks")), "lost after FEC"))
    after = [f"{many} {what}" for many, what in counted if many is not None]
    return ", ".join(filter(None, (before, *after)))


def _light(side: Mapping[str, Any], switch: Sequence[float] | None) -> str:
    """In dBm, the weakest lane of each: what the host sends and gets, and the same of the switch."""
    lanes = {kind: [value for row in rows(mapping(side.get("module")).get("values")) if row.get("kind") == kind
                    if (value := number(row.get("value"))) is not None and value > 0] for kind in ("tx_power", "rx_power")}  # fmt: skip
    own = [10 * log10(min(values)) for values in lanes.values() if values]
    ends = (("host", own if len(own) == 2 else None), ("switch", switch))
    return "; ".join(f"{name} sends {pair[0]:.1f}, gets {pair[1]:.1f} dBm" for name, pair in ends if pair)


def _switch(end: End, profile: QosProfile, mtu: int, exports: Mapping[str, Export], *, enters: bool) -> list[Step]:
    cable, of = end.cable, f"{end.node} {end.rail}"
    if not cable.switches:
        return [Step(f"the switch of {of}", "port", "unknown", "the port that it is plugged into", cable.why, "")]
    place = str(cable)
    export = next((export for name, export in exports.items() if any(same_switch(name, switch) for switch in cable.switches)), None)
    if export is None:
        return [Step(place, "port", "unknown", "an export of this switch", f"none is given: --switch {cable.switches[0]}=OS:FILE", "")]
    why = ""
    for name in cable.ports:
        try:
            (checked,) = check(export.os, export.text, profile, mtu, (name,))
        except ValueError as error:
            why = str(error)
            continue
        own = [Step(place, hop.hop, hop.status, hop.expected, hop.found, export.file) for hop in checked.hops
               if (hop.hop in WAY_IN) == enters or hop.hop in ("fec", "mtu", "pfc")]  # fmt: skip
        link = _link(end, place, checked.side, export)
        return link + own if enters else own + link
    return [Step(place, "port", "unknown", "this port in the export", f"{export.file} {why}", export.file)]


def first_break(found: Sequence[Step]) -> Step | None:
    return next((step for step in found if step.status == "fail"), None)
