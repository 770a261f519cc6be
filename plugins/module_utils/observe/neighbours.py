# SPDX-License-Identifier: GPL-3.0-or-later
"""Into which port of which switch each port of an HCA is plugged, as the other end says it.

Ethernet: what lldpd has heard, or what we hear ourselves (IEEE 802.1AB; a switch speaks every 30 s). InfiniBand: two packets of management
along the directed path 0,PORT (infiniband-diags, smpquery): they need no subnet manager. Silence says nothing: the firmware of a NIC may
keep LLDP to itself.
"""

import re
import struct
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..formats.outside import json_object, mapping, rows, whole
from ..formats.sysfs_values import is_name, token
from ..formats.text import first_of
from ..host.host import Host
from ..host.threads import ask_at_once
from .arp import mac_text
from .devices import CLASS_NET

ETHERTYPE = 0x88CC
NEAREST_BRIDGE = bytes.fromhex("0180c200000e")  # IEEE 802.1AB, table 7-1
END, CHASSIS, PORT, TIME, DESCRIPTION, SYSTEM, OWN = 0, 1, 2, 3, 4, 5, 127  # kinds of TLVs
MAC_CHASSIS, MAC_PORT = 4, 3  # subtypes that are MACs
VLAN_OF_PORT, FRAME_SIZE = b"\x00\x80\xc2\x01", b"\x00\x12\x0f\x04"  # IEEE 802.1 and 802.3 TLVs: PVID, maximum frame size
PORTS, NEIGHBOURS, FRAMES = 32, 16, 64
SECONDS = 5.0
LLDPCTL = ("lldpctl", "-f", "json0")
NOT_ASKED = "nobody listens: lldpd does not run here; railwright cabling --listen does it for once"
_FIELD = re.compile(r"^([A-Z][A-Za-z ]{3,20}):\.*(.*)$", re.MULTILINE)
Row = Dict[str, Any]
Asked = Tuple[str, int, Optional[str]]  # an HCA, its port, the interface of an Ethernet port


def observe_neighbours(host: Host, hcas: Sequence[Mapping[str, Any]], listen: float = 0.0) -> List[Row]:
    """A row for each port with a link: ``hca``, ``port``, ``netdev``, ``by`` (lldpd, heard, smpquery); of the other end ``switch`` (its
    name), ``switch_id``, ``switch_port``, ``switch_port_name``, ``mtu`` (bytes of a frame), ``vlan``; or ``why`` nothing is known. Anybody
    on the wire can say that he is a switch: where several speak, nobody is believed.

    ``listen``: for how many seconds, where lldpd tells nothing of a port.
    """
    ports = list(_ports(hcas))[:PORTS]
    wanted = [netdev for _hca, _port, netdev in ports if netdev]
    told = _of_lldpd(host, wanted) if wanted else None
    silent = [netdev for _hca, _port, netdev in ports if netdev is not None and netdev not in (told or {})] if listen else []
    heard = dict(zip(silent, ask_at_once(lambda netdev: _heard(host, netdev, listen), silent, len(silent)))) if silent else {}
    found = []
    for hca, port, netdev in ports:
        row = _by_path(host, hca, port) if netdev is None else heard.get(netdev) or (told or {}).get(netdev)
        why = (NOT_ASKED if told is None else "lldpd has heard nobody on %s" % netdev) if row is None else ""
        if row is None and netdev is not None and host.exists("%s/%s/bonding" % (CLASS_NET, netdev)):
            why = "%s is a bond: the cables of its members are not judged" % netdev
        found.append(dict({"why": why}, **dict(row or {}, hca=hca, port=port, netdev=netdev)))
    return found


def _ports(hcas: Sequence[Mapping[str, Any]]) -> Iterator[Asked]:
    for hca in hcas:
        for port in [] if hca.get("driver") == "erdma" else hca.get("ports") or []:  # a cloud has no switch of ours
            if port.get("state") in ("ACTIVE", "INIT") and is_name(str(hca.get("name"))) and isinstance(port.get("number"), int):
                netdev = port.get("netdev") if port.get("link_layer") == "Ethernet" else None
                if port.get("link_layer") == "InfiniBand" or (netdev is not None and is_name(netdev)):
                    yield str(hca["name"]), port["number"], netdev


def _of_lldpd(host: Host, wanted: Sequence[str]) -> Optional[Dict[str, Row]]:
    """By interface. None where lldpd does not answer."""
    if host.which(LLDPCTL[0]) is None:
        return None
    answer = host.run(LLDPCTL, SECONDS)
    document = json_object(answer.out) if answer.ok else None
    if document is None:
        return None
    heard: Dict[str, List[Row]] = {}
    for one in [one for top in rows(document.get("lldp")) for one in rows(top.get("interface"))]:
        if one.get("name") in wanted and len(heard.setdefault(one["name"], [])) < NEIGHBOURS:
            heard[one["name"]].append(_of_document(one))
    return {name: _only(name, found) for name, found in heard.items()}


def _only(netdev: str, found: Sequence[Row]) -> Row:
    """The one who speaks. An old neighbour stays with lldpd for its time to live, two minutes as a rule."""
    speakers = {(row["switch_id"], row["switch"], row["switch_port"]): row for row in found}
    if len(speakers) == 1:
        return found[0]
    names = ["%s %s" % (switch or identity, port) for identity, switch, port in speakers]
    return {"why": "several speak on %s: %s" % (netdev, first_of(names, 3))}


def _of_document(one: Mapping[str, Any]) -> Row:
    """lldpd's json0: everything is a list of objects with ``value``."""
    chassis, port = _first(one.get("chassis")), _first(one.get("port"))

    def text(row: Mapping[str, Any], key: str) -> Optional[str]:
        return token(str(_first(row.get(key)).get("value", "")))

    untagged = [vlan.get("vlan-id") for vlan in rows(one.get("vlan")) if vlan.get("pvid") is True]
    return _row("lldpd", text(chassis, "name"), text(chassis, "id"), text(port, "id"), text(port, "descr"), whole(text(port, "mfs")),
                whole(str(untagged[0])) if untagged else None)


def _first(found: Any) -> Mapping[str, Any]:
    return mapping(next(iter(rows(found)), None))


def _row(
    by: str, switch: Optional[str], identity: Optional[str], port: Optional[str], name: Optional[str], mtu: Optional[int] = None,
    vlan: Optional[int] = None,
) -> Row:
    return {"by": by, "switch": switch, "switch_id": identity, "switch_port": port, "switch_port_name": name, "mtu": mtu, "vlan": vlan}


def _heard(host: Host, netdev: str, seconds: float) -> Row:
    try:
        frames = host.exchange(netdev, ETHERTYPE, (), seconds, FRAMES, lambda frame: neighbour_of(frame) is not None, NEAREST_BRIDGE)
    except OSError as error:
        return {"why": "cannot listen on %s: %s" % (netdev, error.strerror)}
    found = [row for row in map(neighbour_of, frames) if row is not None]
    return _only(netdev, found) if found else {"why": "no LLDP in %d s on %s" % (seconds, netdev)}


def neighbour_of(frame: bytes) -> Optional[Row]:
    """Who speaks in an LLDP frame; None for what is none, for a last word (no time to live), and without a port or any name."""
    if frame[12:14] != struct.pack(">H", ETHERTYPE):
        return None
    chassis = port = name = description = mtu = vlan = None
    for kind, value in _tlvs(frame[14:]):
        if kind == CHASSIS:
            chassis = _identity(value, MAC_CHASSIS)
        elif kind == PORT:
            port = _identity(value, MAC_PORT)
        elif kind == TIME and value == b"\0\0":
            return None
        elif kind == SYSTEM:
            name = _text(value)
        elif kind == DESCRIPTION:
            description = _text(value)
        elif kind == OWN and value[:4] == FRAME_SIZE and len(value) == 6:
            mtu = struct.unpack(">H", value[4:])[0]
        elif kind == OWN and value[:4] == VLAN_OF_PORT and len(value) == 6:
            vlan = struct.unpack(">H", value[4:])[0] or None
    return _row("heard", name, chassis, port, description, mtu, vlan) if (chassis or name) and port else None


def _tlvs(data: bytes) -> Iterator[Tuple[int, bytes]]:
    """Seven bits of kind and nine of length before each value; what is cut off is left out."""
    at = 0
    while at + 2 <= len(data):
        head = struct.unpack(">H", data[at:at + 2])[0]
        kind, length = head >> 9, head & 0x1FF
        value = data[at + 2:at + 2 + length]
        if kind == END or len(value) < length:
            return
        yield kind, value
        at += 2 + length


def _identity(value: bytes, mac: int) -> Optional[str]:
    """The first byte says what the others are."""
    return mac_text(value[1:]) if value[:1] == bytes([mac]) and len(value) == 7 else _text(value[1:])


def _text(value: bytes) -> Optional[str]:
    return token(value.decode("utf-8", "replace").rstrip("\0"))


def _by_path(host: Host, hca: str, port: int) -> Row:
    """Directed, so by the port alone and not by a LID. What answers says on which of its ports it was asked."""
    if host.which("smpquery") is None:
        return {"why": "smpquery is not here: package infiniband-diags"}
    said: Dict[str, str] = {}
    for what in ("nodeinfo", "nodedesc"):
        answer = host.run(("smpquery", "-C", hca, "-P", str(port), "-D", what, "0,%d" % port), SECONDS)
        if not answer.ok:
            return {"why": "smpquery %s: %s" % (what, token((answer.err or answer.out).strip().split("\n")[-1][:200]) or "no answer")}
        said.update((name, value.strip()) for name, value in _FIELD.findall(answer.out[:16384]))
    return _row("smpquery", token(said.get("Node Description")), token(said.get("Guid")), token(said.get("LocalPort")), None)
