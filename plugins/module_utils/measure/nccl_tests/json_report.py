# SPDX-License-Identifier: GPL-3.0-or-later
"""What nccl-tests writes with ``-J FILE``, in the form of ``output.parse``. Pure.

The file holds the whole environment of the job, secrets included: ``stripped`` takes it out, and nothing else of railwright reads or
keeps the file as it was. Booleans are strings there, root is text with blanks, an infinite number is no JSON, and versions 2.17.3 to
2.17.8 misspell two keys. ``errors`` holds NCCL's last message, an empty one after most runs, a warning that meant nothing after some: it
says nothing about the run. What does is ``end_time``, which only a run gets that came to its end.
"""

import re
from typing import Any, Dict, Optional

from ...formats.outside import json_value, mapping, number, whole

_AVERAGE = ("average_bus_bandwidth", "average_bus_bandwidith")  # the second is what 2.17.3 to 2.17.8 write
_BANDWIDTH = ("bandwidth", "bandwidith")
_INFINITE = re.compile(r"(?<=[:,\[])-?inf(?=[,}\]])")


def parse_json(text: str) -> Dict[str, Any]:
    """``{"rows", "avg_busbw", "out_of_bounds", "complete"}``; a file that is no report of nccl-tests gives no rows and is not complete."""
    document = _document(text)
    results = document.get("results")
    rows = [row for row in map(_row, results if isinstance(results, list) else []) if row is not None]
    bounds = mapping(document.get("out_of_bounds"))
    average = mapping(next((document[key] for key in _AVERAGE if key in document), None))
    value = next((average[key] for key in _BANDWIDTH if key in average), None)
    whole = len(rows) == len(results) if isinstance(results, list) else False
    ended = bool(document.get("end_time"))
    return {
        "rows": rows,
        "avg_busbw": _number(value),
        "out_of_bounds": _integer(bounds.get("count")),
        "complete": bool(rows) and whole and ended and _integer(bounds.get("count")) is not None,
    }


def stripped(text: str) -> Dict[str, Any]:
    """The document without the environment and without the command line, which may hold tokens too."""
    return {key: value for key, value in _document(text).items() if key not in ("env", "args")}


def _document(text: str) -> Dict[str, Any]:
    found = json_value(text)
    return mapping(found if found is not None else json_value(_INFINITE.sub("null", text)))


def _row(item: Any) -> Optional[Dict[str, Any]]:
    found = mapping(item)
    size, count, kind = _integer(found.get("size")), _integer(found.get("count")), found.get("type")
    first = _half(found.get("out_of_place"))
    if size is None or count is None or not isinstance(kind, str) or first is None:
        return None
    redop = found.get("redop")
    return {"size": size, "count": count, "type": kind, "redop": redop if isinstance(redop, str) and redop != "none" else None,
            "root": _integer(found.get("root")), "out_of_place": first, "in_place": _half(found.get("in_place"))}


def _half(item: Any) -> Optional[Dict[str, Any]]:
    found = mapping(item)
    if not found:
        return None
    return {"time_us": _number(found.get("time", found.get("cpu_time"))), "algbw": _number(found.get("alg_bw")),
            "busbw": _number(found.get("bus_bw")), "wrong": _integer(found.get("nwrong"))}


def _integer(value: Any) -> Optional[int]:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return whole(value, -(1 << 63), (1 << 63) - 1)
    found = _number(value)
    return int(found) if found is not None and abs(found) < 2 ** 53 and found == int(found) else None


def _number(value: Any) -> Optional[float]:
    return None if isinstance(value, str) else number(value)
