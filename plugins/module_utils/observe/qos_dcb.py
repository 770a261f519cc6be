# SPDX-License-Identifier: GPL-3.0-or-later
"""What a NIC's tools say of it: trust, PFC, DSCP map, ETS, buffers, owner of DCBX. ``dcb -j`` (iproute2), then ``mlnx_qos`` for the rest.

One dcb command a part, because a driver that lacks one part fails that part alone. A part is taken only when the whole
of it has the form that the tool prints (eight values, priorities 0 to 7, DSCPs 0 to 63); anything else is None and a
reason, never half a table that a check could believe. mlnx_qos (mlnx-tools of OFED and DOCA) prints text for people and takes a
tenth of a second; both read the same kernel interface.
"""

import re
from typing import Any, Dict, List, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import json_object, lines_in
from ..host.host import Host

TOOL = "dcb"
SECONDS = 5.0
OUTPUT_LIMIT = 64 * 1024  # 64 DSCP entries are 2 kB
PRIORITIES = 8
DSCPS = 64
ALGORITHMS = ("strict", "cbs", "ets", "vendor")
SELECTORS = ("ethtype", "stream-port", "dgram-port", "port", "dscp", "pcp")
DCBX_FLAGS = ("host", "lld-managed", "cee", "ieee", "static")
# Part -> the object of the tool that holds it.
OBJECTS = (("trust", "apptrust"), ("pfc", "pfc"), ("dscp_priority", "app"), ("ets", "ets"), ("buffers", "buffer"), ("dcbx", "dcbx"))


def read_dcb(host: Host, netdev: str) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """(what was told, why the rest was not), both by part."""
    told: Dict[str, Any] = {}
    missing: Dict[str, str] = {}
    if host.which(TOOL) is None:
        return told, {part: "no dcb (iproute2 5.11 or later) on this node" for part, _object in OBJECTS}
    for part, name in OBJECTS:
        result = host.run((TOOL, "-j", name, "show", "dev", netdev), SECONDS)
        if result.rc == 124:  # a netlink socket that hangs would hang for every part
            missing.update((later, "dcb gave no answer in %g s" % SECONDS) for later, _object in OBJECTS if later not in told)
            break
        document = json_object(result.out[:OUTPUT_LIMIT]) if result.rc == 0 else None
        value = _PARSERS[part](document) if document is not None else None
        if value is not None:
            told[part] = value
        else:
            missing[part] = "dcb %s: %s" % (name, first_line(result.err) if result.rc else "not the form that dcb prints")
    return told, missing


def dcbx_flags(host: Host, netdev: str) -> Tuple[str, ...]:
    """The words that ``dcb dcbx set`` takes for the mode as it is now; empty where it cannot be read."""
    found = json_object(host.run((TOOL, "-j", "dcbx", "show", "dev", netdev), SECONDS).out[:OUTPUT_LIMIT]) or {}
    return tuple(word for word in DCBX_FLAGS if found.get(word.replace("-", "_")) is True)


def first_line(text: str) -> str:
    """What a tool says of its failure."""
    return sysfs_values.token(text.strip().partition("\n")[0][:120]) or "failed"


def _trust(found: Dict[str, Any]) -> Optional[str]:
    """The selectors in the order in which they are asked: ``dscp``, ``dscp pcp``, ``none``."""
    order = found.get("order")
    if not isinstance(order, list):
        return None
    words = [item.strip() if isinstance(item, str) else "" for item in order]
    return " ".join(words) or "none" if set(words) <= set(SELECTORS) and len(words) == len(set(words)) else None


def _pfc(found: Dict[str, Any]) -> Optional[List[int]]:
    """The priorities that are paused instead of dropped."""
    flags = found.get("prio_pfc")
    if not isinstance(flags, list) or len(flags) != PRIORITIES or not all(isinstance(flag, bool) for flag in flags):
        return None
    return [priority for priority, flag in enumerate(flags) if flag]


def _dscp_priority(found: Dict[str, Any]) -> Optional[List[List[int]]]:
    """[DSCP, priority] in order; the key is left out when there is no entry, and an entry may carry a blank after the two."""
    entries = found.get("dscp_prio", [])
    if not isinstance(entries, list) or len(entries) > DSCPS * PRIORITIES:
        return None
    pairs = [entry[:2] if isinstance(entry, list) else [] for entry in entries]
    whole = all(len(pair) == 2 and _below(pair[0], DSCPS) and _below(pair[1], PRIORITIES) for pair in pairs)
    return sorted(pairs) if whole else None


def _ets(found: Dict[str, Any]) -> Optional[Dict[str, List[Any]]]:
    classes, percents = eight(found.get("prio_tc"), PRIORITIES), eight(found.get("tc_bw"), 101)
    kinds = found.get("tc_tsa")
    if classes is None or percents is None or not isinstance(kinds, list) or len(kinds) != PRIORITIES:
        return None
    return {"tc": classes, "tsa": kinds, "percent": percents} if all(kind in ALGORITHMS for kind in kinds) else None


def _buffers(found: Dict[str, Any]) -> Optional[Dict[str, List[int]]]:
    places, sizes = eight(found.get("prio_buffer"), PRIORITIES), eight(found.get("buffer_size"), 1 << 32)
    return {"of_priority": places, "bytes": sizes} if places is not None and sizes is not None else None


def _dcbx(found: Dict[str, Any]) -> Optional[str]:
    """``host`` where the operating system decides, ``firmware`` where the NIC's own agent takes what the switch sends.

    mlx5 drops the host bit and keeps the versions when its firmware owns DCBX (mlx5e_dcbnl_setdcbx). No bit at all
    names nobody.
    """
    if not found:
        return None
    return "host" if found.get("host") is True or found.get("static") is True else "firmware"


def _below(value: Any, limit: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit


def eight(values: Any, limit: int) -> Optional[List[int]]:
    if not isinstance(values, list) or len(values) != PRIORITIES or not all(_below(value, limit) for value in values):
        return None
    return list(values)


_PARSERS = {"trust": _trust, "pfc": _pfc, "dscp_priority": _dscp_priority, "ets": _ets, "buffers": _buffers, "dcbx": _dcbx}


MLNX_TOOL = "mlnx_qos"
MLNX_SECONDS = 10.0
_TRUST = re.compile(r"Priority trust state: (dscp|pcp)\s*\Z")
_DCBX = re.compile(r"DCBX mode: (OS|Firmware) controlled\s*\Z")
_DSCP = re.compile(r"\s+prio:([0-7]) dscp:((?:[0-9]{2},){1,64})\s*\Z")
_ROW = re.compile(r"\s+(priority|enabled|buffer)((?: +[0-9]){8})\s*\Z")
_SIZES = re.compile(r"Receive buffer size \(bytes\): ((?:[0-9]{1,10},){8})")
_CLASS = re.compile(r"tc: ([0-7]) ratelimit: [^,]{1,40}, tsa: (?:(ets), bw: ([0-9]{1,3})%|(strict|vendor))\s*\Z")
_MEMBER = re.compile(r"\s+priority: +([0-7])\s*\Z")


def read_mlnx_qos(host: Host, netdev: str) -> Tuple[Dict[str, Any], str]:
    """(what was told by part, why the rest was not)."""
    if host.which(MLNX_TOOL) is None:
        return {}, "no mlnx_qos (OFED and DOCA have it)"
    result = host.run((MLNX_TOOL, "-i", netdev), MLNX_SECONDS)
    if result.rc != 0:
        text = (result.err or result.out).strip().rpartition("\n")[2]  # a Python traceback says it in its last line
        return {}, "mlnx_qos: %s" % (sysfs_values.token(text[:120]) or "failed")
    told = parse_mlnx_qos(result.out[:OUTPUT_LIMIT])
    return told, "mlnx_qos does not show it"


def parse_mlnx_qos(text: str) -> Dict[str, Any]:
    """Every part that is printed whole."""
    lines = lines_in(text)
    rows = {found.group(1): [int(word) for word in found.group(2).split()] for found in map(_ROW.match, lines) if found}
    trust, owner = _first(_TRUST, lines), _first(_DCBX, lines)
    flags, sizes = rows.get("enabled"), _first(_SIZES, lines)
    parts: Dict[str, Any] = {
        "trust": trust,
        "dcbx": {"OS": "host", "Firmware": "firmware"}.get(owner or ""),
        "pfc": [priority for priority, flag in enumerate(flags) if flag] if flags is not None and max(flags) <= 1 else None,
        "dscp_priority": _mlnx_dscp_priority(lines) if trust == "dscp" else None,  # not printed, nor in use, while trust is pcp
        "ets": _mlnx_ets(lines),
        "buffers": {"of_priority": rows["buffer"], "bytes": [int(word) for word in sizes.split(",")[:-1]]}
        if sizes is not None and max(rows.get("buffer", [PRIORITIES])) < PRIORITIES else None,
    }
    return {part: value for part, value in parts.items() if value is not None}


def _first(pattern: Any, lines: List[str]) -> Optional[str]:
    return next((str(found.group(1)) for found in map(pattern.match, lines) if found), None)


def _mlnx_dscp_priority(lines: List[str]) -> Optional[List[List[int]]]:
    """Each priority has as many lines as it needs, eight DSCPs in each."""
    pairs = [[int(word), int(found.group(1))] for found in map(_DSCP.match, lines) if found for word in found.group(2).split(",")[:-1]]
    return sorted(pairs) if pairs and all(dscp < DSCPS for dscp, _priority in pairs) else None


def _mlnx_ets(lines: List[str]) -> Optional[Dict[str, List[Any]]]:
    """Classes that no priority is in are not printed; they are strict and have nothing, as the tool takes them."""
    classes = [-1] * PRIORITIES
    kinds, percents = ["strict"] * PRIORITIES, [0] * PRIORITIES
    current: Optional[int] = None
    for line in lines:
        head, member = _CLASS.match(line), _MEMBER.match(line)
        if head:
            current = int(head.group(1))
            kinds[current], percents[current] = head.group(2) or head.group(4), int(head.group(3) or 0)
        elif member and current is not None:
            classes[int(member.group(1))] = current
    return {"tc": classes, "tsa": kinds, "percent": percents} if min(classes) >= 0 and max(percents) <= 100 else None
