# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``mlnx_qos -i`` (mlnx-tools of OFED and DOCA) prints of an interface. Text for people, so it is read line by line.

Asked only for what ``dcb`` did not tell: it takes a tenth of a second, and both read the same kernel interface.
"""

import re
from typing import Any, Dict, List, Optional, Tuple

from ..formats import sysfs_values
from ..host.host import Host
from .qos_dcb import DSCPS, OUTPUT_LIMIT, PRIORITIES

TOOL = "mlnx_qos"
SECONDS = 10.0
_TRUST = re.compile(r"Priority trust state: (dscp|pcp)\s*\Z")
_DCBX = re.compile(r"DCBX mode: (OS|Firmware) controlled\s*\Z")
_DSCP = re.compile(r"\s+prio:([0-7]) dscp:((?:[0-9]{2},){1,64})\s*\Z")
_ROW = re.compile(r"\s+(priority|enabled|buffer)((?: +[0-9]){8})\s*\Z")
_SIZES = re.compile(r"Receive buffer size \(bytes\): ((?:[0-9]{1,10},){8})")
_CLASS = re.compile(r"tc: ([0-7]) ratelimit: [^,]{1,40}, tsa: (?:(ets), bw: ([0-9]{1,3})%|(strict|vendor))\s*\Z")
_MEMBER = re.compile(r"\s+priority: +([0-7])\s*\Z")


def read_mlnx_qos(host: Host, netdev: str) -> Tuple[Dict[str, Any], str]:
    """(what was told by part, why the rest was not)."""
    if host.which(TOOL) is None:
        return {}, "no mlnx_qos (OFED and DOCA have it)"
    result = host.run((TOOL, "-i", netdev), SECONDS)
    if result.rc != 0:
        text = (result.err or result.out).strip().rpartition("\n")[2]  # a Python traceback says it in its last line
        return {}, "mlnx_qos: %s" % (sysfs_values.token(text[:120]) or "failed")
    told = parse_mlnx_qos(result.out[:OUTPUT_LIMIT])
    return told, "mlnx_qos does not show it"


def parse_mlnx_qos(text: str) -> Dict[str, Any]:
    """Every part that is printed whole."""
    lines = text.splitlines()
    rows = {found.group(1): [int(word) for word in found.group(2).split()] for found in map(_ROW.match, lines) if found}
    trust, owner = _first(_TRUST, lines), _first(_DCBX, lines)
    flags, sizes = rows.get("enabled"), _first(_SIZES, lines)
    parts: Dict[str, Any] = {
        "trust": trust,
        "dcbx": {"OS": "host", "Firmware": "firmware"}.get(owner or ""),
        "pfc": [priority for priority, flag in enumerate(flags) if flag] if flags is not None and max(flags) <= 1 else None,
        "dscp_priority": _dscp_priority(lines) if trust == "dscp" else None,  # not printed, nor in use, while trust is pcp
        "ets": _ets(lines),
        "buffers": {"of_priority": rows["buffer"], "bytes": [int(word) for word in sizes.split(",")[:-1]]}
        if sizes is not None and max(rows.get("buffer", [PRIORITIES])) < PRIORITIES else None,
    }
    return {part: value for part, value in parts.items() if value is not None}


def _first(pattern: Any, lines: List[str]) -> Optional[str]:
    return next((str(found.group(1)) for found in map(pattern.match, lines) if found), None)


def _dscp_priority(lines: List[str]) -> Optional[List[List[int]]]:
    """Each priority has as many lines as it needs, eight DSCPs in each."""
    pairs = [[int(word), int(found.group(1))] for found in map(_DSCP.match, lines) if found for word in found.group(2).split(",")[:-1]]
    return sorted(pairs) if pairs and all(dscp < DSCPS for dscp, _priority in pairs) else None


def _ets(lines: List[str]) -> Optional[Dict[str, List[Any]]]:
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
