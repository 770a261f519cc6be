# SPDX-License-Identifier: GPL-3.0-or-later
"""SONiC's config_db.json as ports. Pure.

Source: sonic-net/SONiC, Configuration.md (tables and fields); sonic-swss, qosorch and pfcwdorch (references, and keys that are lists of
ports), and buffermgr; SAI, saiport.h. A reference is a name, or, in images before 202111, ``[TABLE|NAME]``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.errors import UnreadableText
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_digits, mapping, number, read_json, whole
from railwright.switch_check.commands import numbers
from railwright.switch_check.model import LIMIT, Marking, Port, Schedule, Unusable, bounded, on_off

Table = Mapping[str, Mapping[str, Any]]
REFERENCE = re.compile(r"\[[A-Z_0-9]+\|([^|\[\]]+)\]")
MADE = re.compile(r"pg_lossless_[0-9]{1,7}_[0-9]{1,5}m_(?:\w{1,40}_)?profile")  # sonic-swss, buffermgr.cpp: speed and cable of the port
LOSSY_QUEUES = "egress_lossy_pool"  # sonic-buildimage, buffers_defaults templates
GREEN = ("ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red")  # hosts' packets are green
KIND = "a SONiC config_db.json"
UNSET_FEC: str | None = None  # the driver of the ASIC decides (SAI, saiport.h: none by itself)
INNER = ("Inb", "Rec", "Dpc")  # a chassis' own ports and those to a DPU within: they have no cable
DARK = -40.0  # dBm of the least power that a module can say, 0.1 uW (SFF-8636, CMIS)


def ports(document: Any) -> list[Port]:
    """Every port of the file. Raises Unusable."""
    tables = {str(name): mapping(rows) for name, rows in mapping(document).items()}
    if not tables.get("PORT") or not all(isinstance(row, Mapping) for row in tables["PORT"].values()):
        raise Unusable(f"is not {KIND}: it has no table PORT")
    saved = any(MADE.fullmatch(_reference(mapping(row).get("profile"))) for row in tables.get("BUFFER_PG", {}).values())
    return [_port(tables, str(name), row, saved=saved) for name, row in bounded(tables["PORT"]).items() if row.get("role") not in INNER]


def _port(tables: Mapping[str, Table], name: str, row: Mapping[str, Any], *, saved: bool) -> Port:
    qos = _of_port(tables.get("PORT_QOS_MAP"), name)
    everywhere = mapping(mapping(tables.get("PORT_QOS_MAP")).get("global"))  # since 202205: the map of a port that has none of its own
    if "dscp_to_tc_map" in everywhere and "dot1p_to_tc_map" not in qos:
        qos = {"dscp_to_tc_map": everywhere["dscp_to_tc_map"], **qos}
    named = {kind: _named(tables, table, qos.get(field)) for kind, (field, table) in MAPS.items()} if qos else {}
    queues: dict[int, dict[str, Any]] = {}
    for queue, of in _by_number(tables.get("QUEUE"), name):  # its scheduler and its WRED profile may stand in rows of their own
        queues.setdefault(queue, {}).update(of)
    watchdog = _of_port(tables.get("PFC_WD"), name)
    paused = _numbers(qos.get("pfc_enable", "")) or frozenset()  # it is off where nothing is said
    software = _numbers(qos.get("pfcwd_sw_enable"))
    maps = {kind for kind in ("dscp_to_tc_map", "dot1p_to_tc_map") if kind in qos}
    trusted = None if len(maps) == 2 else "dscp_to_tc_map" in maps  # which of two counts, the ASIC decides; Dell's `roce enable` sets both
    return Port(
        name, str(row.get("admin_status", "down")) == "up", _whole(row.get("mtu")), trusted,
        named.get("classes", {}), named.get("queues", {}), named.get("groups", {}), _headroom(tables, name, paused, saved=saved),
        paused, named.get("pauses", {}), software if watchdog else frozenset(),
        {number: _marking(tables, queue) for number, queue in queues.items()},
        {number: found for number, queue in queues.items() if (found := _schedule(tables, queue)) is not None},
        _whole(row.get("speed")), None if row.get("fec") is None else str(row["fec"]), str(row.get("alias") or name),
        on_off(row.get("autoneg")), len(str(row["lanes"]).split(",")) if "lanes" in row else None,
        _lossy(tables, name, named.get("queues", {})),
    )  # fmt: skip


MAPS = {
    "classes": ("dscp_to_tc_map", "DSCP_TO_TC_MAP"), "queues": ("tc_to_queue_map", "TC_TO_QUEUE_MAP"),
    "groups": ("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP"), "pauses": ("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE"),
}  # fmt: skip


def _reference(value: Any) -> str:
    text = str(value or "")
    found = REFERENCE.fullmatch(text)
    return found[1] if found else text


def _named(tables: Mapping[str, Table], table: str, reference: Any) -> dict[int, int]:
    """A map of numbers; what is no number in it is left out."""
    rows = mapping(mapping(tables.get(table)).get(_reference(reference)))
    pairs = ((_whole(key), _whole(value)) for key, value in rows.items())
    return {key: value for key, value in pairs if key is not None and value is not None}


def _of_port(table: Table | None, name: str) -> Mapping[str, Any]:
    """The row of a port, whose key may be a list of ports."""
    return next((mapping(row) for key, row in (table or {}).items() if name in str(key).split(",")), {})


def _by_number(table: Table | None, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Of a table with keys such as ``Ethernet0,Ethernet4|3-4``, the rows of a port by queue or group; with virtual output queues the
    switch and the ASIC stand before the port."""
    for key, row in (table or {}).items():
        names, _bar, listed = str(key).rpartition("|")
        if name in names.rpartition("|")[2].split(","):
            yield from ((number, mapping(row)) for number in numbers(listed, 7))


def _numbers(text: Any) -> frozenset[int] | None:
    """``3,4`` or ``3-4``; '' is none of them. None where nothing is said."""
    return None if text is None else frozenset(numbers(str(text), 7))


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, str) and is_digits(value) else whole(value)


def _headroom(tables: Mapping[str, Table], name: str, paused: frozenset[int], *, saved: bool) -> frozenset[int] | None:
    """A profile with xoff; NULL leaves it to the dynamic buffer model, which gives a lossless one. In the traditional model buffermgr
    makes the groups of ``pfc_enable`` by speed and cable: a file that was not saved since has none of them, and tells nothing.
    ``saved``: the file has a group that buffermgr made for some port, so that it has those of all ports."""
    if "BUFFER_PG" not in tables:
        return None  # older images have it in a file beside
    rows = dict(_by_number(tables["BUFFER_PG"], name))
    dynamic = mapping(mapping(tables.get("DEVICE_METADATA")).get("localhost")).get("buffer_model") == "dynamic"
    cables = [mapping(row).get(name) for row in mapping(tables.get("CABLE_LENGTH")).values()]
    if not saved and not dynamic and paused - set(rows) and any(cable not in (None, "0m") for cable in cables):
        return None
    return frozenset(group for group, row in rows.items() if _reference(row.get("profile")) == "NULL" or "xoff" in _buffer(tables, row))


def _buffer(tables: Mapping[str, Table], row: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(tables.get("BUFFER_PROFILE")).get(_reference(row.get("profile"))))


def _lossy(tables: Mapping[str, Table], name: str, queues: Mapping[int, int]) -> frozenset[int]:
    """Priority groups whose profile has no xoff, and classes whose queue takes its buffer from the lossy pool."""
    groups = {group for group, row in _by_number(tables.get("BUFFER_PG"), name) if (own := _buffer(tables, row)) and "xoff" not in own}
    lossy = {queue for queue, row in _by_number(tables.get("BUFFER_QUEUE"), name)
             if _reference(_buffer(tables, row).get("pool")) == LOSSY_QUEUES}  # fmt: skip
    return frozenset(groups | {tc for tc, queue in queues.items() if queue in lossy})


def _marking(tables: Mapping[str, Table], queue: Mapping[str, Any]) -> Marking:
    row = mapping(mapping(tables.get("WRED_PROFILE")).get(_reference(queue.get("wred_profile"))))
    ecn = str(row.get("ecn", "")) in GREEN and row.get("wred_green_enable") != "false"
    return Marking(ecn, *(_whole(row.get(f"green_{field}")) for field in ("min_threshold", "max_threshold", "drop_probability")))


def _schedule(tables: Mapping[str, Table], queue: Mapping[str, Any]) -> Schedule | None:
    row = mapping(mapping(tables.get("SCHEDULER")).get(_reference(queue.get("scheduler"))))
    return Schedule(row.get("type") == "STRICT", _whole(row.get("weight"))) if row else None


def dumped(text: str) -> dict[str, Mapping[str, Any]]:
    """What ``sonic-db-dump -y`` prints, of any of SONiC's databases: the fields of each key. Raises UnreadableText."""
    return {str(key): mapping(mapping(row).get("value")) for key, row in mapping(read_json(text, LIMIT)).items()}


def light(text: str) -> dict[str, tuple[float, float]]:
    """Of a dump of STATE_DB (``sonic-db-dump -n STATE_DB -y``), by port: dBm that it sends and gets, the weakest lane of each. Raises
    Unusable. Source: sonic-net/SONiC, CMIS_Diagnostic_Monitoring_Overview."""
    try:
        tables = dumped(text)
    except UnreadableText as error:
        raise Unusable(f"is no dump of STATE_DB: {error}") from error
    sensors = {key.partition("|")[2]: row for key, row in tables.items() if key.startswith("TRANSCEIVER_DOM_SENSOR|")}
    if not sensors:
        raise Unusable("is no dump of STATE_DB: it has no TRANSCEIVER_DOM_SENSOR")
    lanes = {port: [[DARK if (text := str(row.get(f"{way}{lane}power"))) == "-inf" else number(text) for lane in range(1, 9)]
                    for way in ("tx", "rx")]
             for port, row in bounded(sensors).items()}  # fmt: skip
    known = {port: [[value for value in values if value is not None] for values in both] for port, both in lanes.items()}
    return {port: (min(sent), min(got)) for port, (sent, got) in known.items() if sent and got}


# What puts a hop right: a command, or the entry of config_db.
LINES = {
    "fec": "sudo config interface fec {port} rs",
    "mtu": "sudo config interface mtu {port} {wanted}",
    "trust": 'PORT_QOS_MAP|{port}: "dscp_to_tc_map": "AZURE", and no dot1p_to_tc_map',
    "class": "DSCP_TO_TC_MAP, the map of {port}: {wanted}",
    "group": "TC_TO_PRIORITY_GROUP_MAP, the map of {port}: {wanted}",
    "headroom": "sudo config interface buffer priority-group lossless add {port} {wanted}",
    "pfc": "sudo config interface pfc priority {port} {wanted}",
    "pause": "MAP_PFC_PRIORITY_TO_QUEUE, the map of {port}: {wanted}",
    "queue": "TC_TO_QUEUE_MAP, the map of {port}: {wanted}",
    "ecn": 'QUEUE|{port}|{wanted}: a "wred_profile" whose "ecn" is "ecn_all"',
    "schedule": "QUEUE|{port}|{wanted}",
    "cnp": "{wanted}",
    "watchdog": "sudo config pfcwd start --action drop {port} 400 --restoration-time 400; PORT_QOS_MAP|{port}: pfcwd_sw_enable {wanted}",
}
