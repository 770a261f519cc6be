# SPDX-License-Identifier: GPL-3.0-or-later
"""Link and module of InfiniBand ports, which ethtool does not read: by mlxlink of MFT, or mstlink of mstflint, as root only.

Both read registers of the NIC and change nothing (no --pc, no --rx_fec…). Form: mlxlink --json, Mellanox/mstflint b9d9e844 (2026-05):
``{"result": {"output": {"Module Info": {"Temperature [C]": "47 [-10..80]", "Rx Power Current [dBm]": "1.2,1.1,… [-10..4]"}}}}``; an object
with ``values`` where the text form has a list. The lanes are those of the link; mlxlink leaves out the module's others.
"""

import re
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..formats.outside import json_object, list_or_empty, mapping, number, whole
from ..formats.sysfs_values import is_name, token
from ..host.host import Host

TOOLS = ("mlxlink", "mstlink")
SECONDS, ALL_SECONDS = 5.0, 20.0  # for one port, and for all of a node
PORTS, LANES, OUTPUT = 16, 16, 64 * 1024
TIMED_OUT = 124
DBM = "dBm"
# Its name, ours, and by how much one of its units is larger than ours.
_VALUES = (("Temperature [C]", "temperature", 1.0), ("Voltage [mV]", "voltage", 1000.0), ("Bias Current [mA]", "tx_bias", 1.0),
           ("Rx Power Current [dBm]", "rx_power", 1.0), ("Tx Power Current [dBm]", "tx_power", 1.0))
_LIMITS = re.compile(r"([^\[\]]{1,400}) \[(-?[0-9.]{1,12})\.\.(-?[0-9.]{1,12})\]\Z")
_BER = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)[Ee]-([0-9]{1,3})\Z")
_FEC = re.compile(r".{0,40}(?:FEC|No ).{0,40}\Z")  # "Standard_RS-FEC - (544,514)", "No FEC"
_WIDTH = re.compile(r"([0-9]{1,2})x\Z")


def observe_infiniband(host: Host, hcas: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """Return active InfiniBand ports of ConnectX, with the keys of the ports that ethtool reads, and ``symbol_ber``."""
    tool = next((name for name in TOOLS if host.which(name) is not None), None)
    if tool is None or (host.live and host.user() != 0):
        return []
    found: List[Dict[str, Any]] = []
    deadline = time.monotonic() + ALL_SECONDS
    for hca, port in [(each, port) for each in hcas for port in each.get("ports") or [] if _asked(each, port)][:PORTS]:
        if time.monotonic() > deadline:
            break
        answer = host.run((tool, "-d", hca["name"], "-p", str(port["number"]), "-m", "-c", "--json"), SECONDS)
        if answer.rc == TIMED_OUT:
            break
        link = link_of(answer.out[:OUTPUT] if answer.ok else "")
        found.append(dict(link, hca=hca["name"], port=port["number"], netdev=port.get("netdev")))
    return found


def _asked(hca: Mapping[str, Any], port: Mapping[str, Any]) -> bool:
    virtual = (hca.get("link") or {}).get("virtual_function")
    return (hca.get("driver") == "mlx5_core" and not virtual and port.get("link_layer") == "InfiniBand" and port.get("state") == "ACTIVE"
            and is_name(hca.get("name") or "") and isinstance(port.get("number"), int))


def link_of(text: str) -> Dict[str, Any]:
    """Parse the answer for one port; of any other text nothing is known."""
    output = mapping(mapping((json_object(text) or {}).get("result")).get("output"))
    link, counters = mapping(output.get("Operational Info")), mapping(output.get("Physical Counters and BER Info"))
    width = _WIDTH.match(str(link.get("Width")))
    fec = token(str(link.get("FEC")))
    fec = fec if fec not in (None, "N/A", "None", "") and _FEC.match(fec) else None
    module = module_of(mapping(output.get("Module Info")))
    return {
        "fec": fec, "lanes": int(width.group(1)) if width else None,
        "autoneg": None, "max_gbps": None,
        "corrected_blocks": None, "uncorrectable_blocks": None, "pause_storms": None, "corrected_bits": None, "received_bytes": None,
        "carrier_downs": None, "symbol_ber": _ber(counters.get("Symbol BER")), "module": module,
        "unread": [name for name, missing in (("fec", fec is None), ("module", module is None or module["unread"])) if missing],
    }


def _ber(value: Any) -> Optional[float]:
    """``15E-255``, which is zero; N/A while no symbol was counted."""
    match = _BER.match(str(value))
    return float(match.group(1)) * 10.0 ** -int(match.group(2)) if match is not None else None


def module_of(fields: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """Return the module in ethtool's form; None without one. The firmware's limits count as warnings: it does not name their severity."""
    if not fields or fields.get("Identifier") in (None, "N/A"):
        return None
    values: List[Dict[str, Any]] = []
    limits: Dict[str, Dict[str, float]] = {}
    unread: List[str] = []
    for name, ours, unit in _VALUES:
        match = _LIMITS.match(_line(fields.get(name)))
        low, high = (number(match.group(2)), number(match.group(3))) if match is not None else (None, None)
        if match is None or low is None or high is None or low >= high:
            unread += [name] if name in fields else []
            continue
        limits[ours] = {"low warning": low / unit, "high warning": high / unit}
        amounts = [number(part.strip()) for part in match.group(1).split(",")][:LANES]
        unread += [name] if None in amounts else []
        values += [{"kind": ours, "lane": place if len(amounts) > 1 else 0, "value": amount / unit}
                   for place, amount in enumerate(amounts, 1) if amount is not None]
    length = whole(str(fields.get("Transfer Distance [m]")))
    sends = " ".join(str(fields.get(name)) for name in ("Cable Technology", "Cable Type"))
    return {"vendor": _word(fields, "Vendor Name"), "part": _word(fields, "Vendor Part Number"),
            "serial": _word(fields, "Vendor Serial Number"), "kind": _kind(sends), "length": "%dm" % length if length else None,
            "technology": _word(fields, "Cable Technology"), "values": values, "limits": limits, "power_unit": DBM,
            "unread": unread if limits else []}  # a copper cable has none of them


def _line(value: Any) -> str:
    values = list_or_empty(mapping(value).get("values"))
    return ",".join(str(item) for item in values[:LANES]) if values else str(value)


def _word(fields: Mapping[str, Any], name: str) -> Optional[str]:
    found = token(str(fields.get(name)))
    return None if found in (None, "N/A", "None", "") else found


def _kind(text: str) -> Optional[str]:
    """Return the kind of cable by type and technology: an active cable may be copper or optical."""
    optics = "nm " in text or "laser" in text
    if "opper" in text and not optics:
        return "copper cable"
    return "active optical cable" if "ctive" in text and optics else "optical transceiver" if optics or "ptical" in text else None
