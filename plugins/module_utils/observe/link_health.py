# SPDX-License-Identifier: GPL-3.0-or-later
"""What one look at a NIC's port can tell: its transceiver against the module's own limits, its FEC, how often its carrier went.

Only ports of HCAs with a physical function, a carrier and an interface are asked; virtual and soft ones have no module. The flags of a
module are latched until somebody reads them (SFF-8636, CMIS), so two looks would differ: the values are held against the thresholds.

Forms: ethtool's sff-common.c, qsfp.c, cmis.c and netlink/fec.c. Without CAP_NET_ADMIN the kernel refuses the module.
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..formats.outside import number
from ..formats.sysfs_values import integer, is_name, token
from ..host.host import Host
from .devices import CLASS_NET, attribute

ETHTOOL = "ethtool"
SECONDS = 5.0
TIMED_OUT = 124
PORTS, LANES, OUTPUT = 16, 16, 64 * 1024
STORMY = "mlx5_core"  # the driver that counts the storms of its pauses
DRIVERS = ("mlx5_core", "mlx4_core", "bnxt_en", "ice", "i40e", "irdma", "ionic", "bnxt_re")
# A value of ethtool -m, its name here, and how its thresholds are called there.
_VALUES = (("Module temperature", "temperature", "Module temperature"), ("Module voltage", "voltage", "Module voltage"),
           ("Laser tx bias current", "tx_bias", "Laser bias current"), ("Laser bias current", "tx_bias", "Laser bias current"),
           ("Transmit avg optical power", "tx_power", "Laser output power"), ("Laser output power", "tx_power", "Laser output power"),
           ("Rcvr signal avg optical power", "rx_power", "Laser rx power"),
           ("Receiver signal average optical power", "rx_power", "Laser rx power"))
_LIMITS = ("high alarm", "low alarm", "high warning", "low warning")
_CHANNEL = re.compile(r"^(.{4,60}?) ?\((?:Channel|Chan) ([0-9]{1,2})\)$")
_AMOUNT = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,6})?) (?:degrees C|V|mA|mW)\b")
_FEC = re.compile(r"^Active FEC encodings?: {0,8}([A-Za-z0-9 ]{1,40})$", re.MULTILINE)
_STORMS = re.compile(r"^ {0,8}tx_pause_storm_error_events: ([0-9]{1,18})$", re.MULTILINE)
_BLOCKS = re.compile(r"^ {0,4}uncorrectable_blocks: ([0-9]{1,18})$", re.MULTILINE)


def observe_ports(host: Host, hcas: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """Those that tell anything. ``module``: None where it has none, or nobody may read it. ``carrier_downs``: since the driver's start."""
    found: List[Dict[str, Any]] = []
    answers = host.which(ETHTOOL) is not None
    for hca, port in [(each, port) for each in hcas for port in each.get("ports") or []][:PORTS]:
        netdev = port.get("netdev")
        if not netdev or not is_name(netdev) or port.get("link_layer") != "Ethernet" or port.get("state") != "ACTIVE":
            continue
        if hca.get("driver") not in DRIVERS or (hca.get("link") or {}).get("virtual_function"):
            continue
        answers, module, fec, blocks = _asked(host, netdev) if answers else (False, None, None, None)
        told = host.run((ETHTOOL, "-S", netdev), SECONDS) if answers and hca["driver"] == STORMY else None
        storms = _STORMS.search(told.out) if told is not None and told.ok else None
        downs = integer(attribute(host, "%s/%s/carrier_down_count" % (CLASS_NET, netdev)))
        if (module, fec, blocks, downs, storms) != (None, None, None, None, None):
            found.append({"hca": hca.get("name"), "port": port.get("number"), "netdev": netdev, "module": module, "fec": fec,
                          "uncorrectable_blocks": blocks, "carrier_downs": downs,
                          "pause_storms": int(storms.group(1)) if storms is not None else None})
    return found


def _asked(host: Host, netdev: str) -> Tuple[bool, Optional[Dict[str, Any]], Optional[str], Optional[int]]:
    """First whether it answered in its time: a driver that hangs for one port hangs for the others too."""
    module = host.run((ETHTOOL, "-m", netdev), SECONDS)
    if module.rc == TIMED_OUT:
        return False, None, None, None
    fec = host.run((ETHTOOL, "-I", "--show-fec", netdev), SECONDS)
    active = _FEC.search(fec.out[:OUTPUT]) if fec.ok else None
    blocks = _BLOCKS.search(fec.out[:OUTPUT]) if fec.ok else None
    return (fec.rc != TIMED_OUT, module_of(module.out[:OUTPUT]) if module.ok else None,
            active.group(1).strip() if active is not None else None,
            int(blocks.group(1)) if blocks is not None else None)


def module_of(text: str) -> Optional[Dict[str, Any]]:
    """``values``: each with its lane (0: of the whole module), ``limits``: by the same names. None for what is no such answer."""
    rows = [(name.strip(), value.strip()) for name, colon, value in (line.partition(":") for line in text.splitlines()) if colon]
    fields: Dict[str, str] = {}
    for name, value in rows:
        fields.setdefault(name, value)
    if "Identifier" not in fields:
        return None
    limits: Dict[str, Dict[str, float]] = {}
    for _name, ours, prefix in _VALUES:
        known = {limit: _amount(fields.get("%s %s threshold" % (prefix, limit))) for limit in _LIMITS}
        given = {limit: value for limit, value in known.items() if value is not None}
        if any(given.values()):  # all zeros: the module has none
            limits[ours] = given
    names = {name: ours for name, ours, _prefix in _VALUES}
    values: List[Dict[str, Any]] = []
    for name, value in rows:
        lane, amount = _CHANNEL.match(name[:80]), _amount(value)
        what = names.get(lane.group(1) if lane is not None else name)
        if what is not None and amount is not None and len(values) < 4 * LANES:
            values.append({"kind": what, "lane": int(lane.group(2)) if lane is not None else 0, "value": amount})
    length = next((fields[name] for name in ("Cable assembly length", "Length (Copper or Active cable)") if name in fields), None)
    return {"vendor": token(fields.get("Vendor name")), "part": token(fields.get("Vendor PN")), "serial": token(fields.get("Vendor SN")),
            "kind": _kind(fields), "length": token(length),
            "technology": token(fields.get("Transmitter technology")), "values": values, "limits": limits}


def _amount(text: Optional[str]) -> Optional[float]:
    match = _AMOUNT.match(text or "")
    return number(match.group(1)) if match is not None else None


def _kind(fields: Mapping[str, str]) -> Optional[str]:
    """By what it sends with and what it ends in (SFF-8024, table 4-3): many a copper cable has no separable connector either."""
    sends, ends = fields.get("Transmitter technology", ""), fields.get("Connector", "")
    if "opper" in sends + ends:
        return "copper cable"
    return "active optical cable" if "No separable connector" in ends else "optical transceiver" if sends or ends else None
