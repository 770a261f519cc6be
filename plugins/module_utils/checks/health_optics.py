# SPDX-License-Identifier: GPL-3.0-or-later
"""Lanes of a transceiver that a port does not use, because a module may have more than the link; FEC and symbol errors of a link. Pure."""

from typing import Any, Dict, FrozenSet, List, Mapping, Sequence, Tuple

from .signs import Sign

LIGHT = ("rx_power", "tx_power")
DARK_MW, DARK_DBM = 0.001, -30.0  # less light than any link works with; SFF-8636 and CMIS count from 0.0001 mW (-40 dBm) on
DBM = "dBm"


def unused_lanes(port: Mapping[str, Any]) -> Tuple[FrozenSet[int], FrozenSet[int]]:
    """Return (dark lanes that the link does not use, dark lanes that it may use: the number of its lanes is unknown).

    A link uses ``lanes`` of the module's lanes. The board decides which: two ports may share a module. So as many dark lanes are unused as
    the module has more than the link. A lane with light in one direction only is in use.
    """
    dark, lit = _lanes(port)
    lanes = port.get("lanes")
    if not lanes:
        return frozenset(), frozenset(dark)
    missing = max(lanes - len(lit), 0)
    return frozenset(dark[missing:]), frozenset()


def _lanes(port: Mapping[str, Any]) -> Tuple[List[int], List[int]]:
    """Return the lanes without light in either direction, and the other lanes, of those whose light is measured."""
    module = port.get("module") or {}
    light: Dict[int, List[bool]] = {}
    limit = DARK_DBM if module.get("power_unit") == DBM else DARK_MW
    values = [value for value in module.get("values") or [] if value.get("kind") in LIGHT and value.get("lane")]
    measured = {value["kind"] for value in values if value["value"] != 0}  # zero for all lanes: the module does not measure it
    for value in values:
        if value["kind"] in measured:
            light.setdefault(value["lane"], []).append(value["value"] <= limit)
    dark = sorted(lane for lane, states in light.items() if all(states))
    return dark, sorted(set(light) - set(dark))


def symbol_signs(ports: Sequence[Mapping[str, Any]], limit: float) -> List[Sign]:
    """Wrong bits after FEC, as the NIC itself reckons them. ``limit``: the share that a link may have."""
    return [Sign("port.ber", "%s port %s" % (port.get("hca"), port.get("port")), port.get("hca"), "warn", "%g" % port["symbol_ber"],
                 "its symbol error rate is %g, the limit %g" % (port["symbol_ber"], limit))
            for port in ports if (port.get("symbol_ber") or 0) > limit]


NO_FEC = ("None", "Off", "No FEC")
NEEDS_FEC = 50.0  # Gb/s of a lane from which on no link works without (IEEE 802.3cd-2018: RS(544,514); InfiniBand HDR and NDR alike)


def lacks_fec(port: Mapping[str, Any], rate: Any) -> bool:
    """Whether a link has no FEC at a rate that needs it: peers without it would hide each other."""
    return port.get("fec") in NO_FEC and bool(port.get("lanes")) and isinstance(rate, (int, float)) and rate / port["lanes"] >= NEEDS_FEC
