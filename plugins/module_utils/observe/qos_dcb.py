# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``dcb -j`` (iproute2) says of an interface: trust, PFC, DSCP map, ETS, buffers, owner of DCBX.

One command a part, because a driver that lacks one part fails that part alone. A part is taken only when the whole
of it has the form that the tool prints (eight values, priorities 0 to 7, DSCPs 0 to 63); anything else is None and a
reason, never half a table that a check could believe.
"""

from typing import Any, Dict, List, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import json_object
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
    pairs = []
    for entry in entries:
        if not isinstance(entry, list) or len(entry) < 2 or not (_below(entry[0], DSCPS) and _below(entry[1], PRIORITIES)):
            return None
        pairs.append([entry[0], entry[1]])
    return sorted(pairs)


def _ets(found: Dict[str, Any]) -> Optional[Dict[str, List[Any]]]:
    classes, percents = _eight(found.get("prio_tc"), PRIORITIES), _eight(found.get("tc_bw"), 101)
    kinds = found.get("tc_tsa")
    if classes is None or percents is None or not isinstance(kinds, list) or len(kinds) != PRIORITIES:
        return None
    return {"tc": classes, "tsa": kinds, "percent": percents} if all(kind in ALGORITHMS for kind in kinds) else None


def _buffers(found: Dict[str, Any]) -> Optional[Dict[str, List[int]]]:
    places, sizes = _eight(found.get("prio_buffer"), PRIORITIES), _eight(found.get("buffer_size"), 1 << 32)
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


def _eight(values: Any, limit: int) -> Optional[List[int]]:
    if not isinstance(values, list) or len(values) != PRIORITIES or not all(_below(value, limit) for value in values):
        return None
    return list(values)


_PARSERS = {"trust": _trust, "pfc": _pfc, "dscp_priority": _dscp_priority, "ets": _ets, "buffers": _buffers, "dcbx": _dcbx}
