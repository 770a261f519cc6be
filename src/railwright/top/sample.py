# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's line: typed, bounded, and made into rates with the one before. And the form of what is recorded. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.errors import UnreadableText
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import Misfit
from railwright.documents import Form, flag, items, mapping, record, text
from railwright.report.text import printable

PORTS, GPUS, NODES = 128, 64, 4096
LINE, DOCUMENT = 256 * 1024, 64 << 20  # characters
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,63}")
COUNTED = ("out_packets", "in_packets", "pauses_out", "pauses_in", "waits", "retransmissions", "out_of_sequence", "cnp_out", "cnp_in")
BYTES = ("out_bytes", "in_bytes")


def name(value: Any) -> str | None:
    """Of a device or a state: nothing that moves a cursor."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def shown(value: Any) -> str | None:
    found = text(300)(value)
    return None if found is None else printable(found)


def within(most: float) -> Form:
    """A number of 0 to ``most``."""

    def form(value: Any) -> float | None:
        return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most else None

    return form


def count(value: Any) -> int | None:
    """What a counter of 64 bits shows. The sum of several is within it too."""
    return value if type(value) is int and 0 <= value < 1 << 64 else None


def listed(form: Form, limit: int) -> Form:
    """A list, null for anything else: a node without a port says so, and says nothing otherwise."""
    return lambda value: items(form, limit)(value) if isinstance(value, list) else None


SMALL, FIGURE, RATE = within(1 << 16), within(1e9), within(1e20)
_PORT = {"rail": name, "hca": name, "port": SMALL, "netdev": name, "state": name}
_GPU = {
    "index": SMALL, "pci": name, "use": within(100), "memory_used": count, "memory_total": count, "watts": FIGURE, "limit_watts": FIGURE,
    "mhz": FIGURE, "max_mhz": FIGURE, "celsius": FIGURE, "held_back": items(name, 16), "lost": flag,
}
_COUNTERS = record(("hca", "port"), **_PORT, rate=FIGURE, **dict.fromkeys((*BYTES, *COUNTED), count))
_LINE = record(
    ("at", "ports"), at=RATE, gpus_at=RATE, gpus_unknown=shown, ports=listed(_COUNTERS, PORTS),
    gpus=items(record(("index",), **_GPU, nvlink_out=count, nvlink_in=count), GPUS),
)  # fmt: skip
MARKS = items(name, 16)
_RAIL = record(("rail",), **_PORT, **dict.fromkeys(("rate_gbps", "out_gbps", "in_gbps", *COUNTED), RATE), marks=MARKS)
_NODE = record(
    ("status",), status=name, message=shown, behind=RATE, marks=MARKS, rails=items(_RAIL, PORTS), gpus_unknown=shown,
    gpus=items(record(("index",), **_GPU, nvlink_out_gbytes=RATE, nvlink_in_gbytes=RATE, marks=MARKS), GPUS),
)  # fmt: skip
_DOCUMENT = record(("at", "nodes"), at=shown, nodes=mapping(_NODE, NODES))


def read_line(line: bytes) -> dict[str, Any]:
    """Raises Misfit."""
    return _read(line, LINE, _LINE, "a line of counters")


def read_document(line: bytes) -> dict[str, Any]:
    """A line of a recording. Raises Misfit."""
    found = _read(line, DOCUMENT, _DOCUMENT, "a line of `railwright top --record`")
    return {**found, "nodes": {printable(node): seen for node, seen in found["nodes"].items()}}


def _read(line: bytes, limit: int, form: Form, what: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] | None = form(read_json(line.decode("utf-8", "replace"), limit))
    except UnreadableText as error:
        raise Misfit(what, str(error)) from error
    if found is None:
        raise Misfit(what, "something else")
    return found


SHORTEST_S = 0.01  # between two lines of a node: one that says less would move without bounds


def rate(before: float | None, after: float | None, seconds: float) -> float | None:
    """Growth a second; none where one is unknown, and where it went down: the counter was reset, or has begun anew."""
    if before is None or after is None or after < before or seconds < SHORTEST_S:
        return None
    return round((after - before) / seconds, 3)


def view(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> dict[str, Any]:
    """What a node's line means beside the one before."""
    before = before or {"at": 0.0, "ports": [], "gpus": []}
    seconds, gpu_seconds = after["at"] - before["at"], (after["gpus_at"] or 0) - (before.get("gpus_at") or 0)
    ports = {(port["hca"], port["port"]): port for port in before["ports"]}
    gpus = {gpu["index"]: gpu for gpu in before["gpus"]}
    return {
        "rails": [_rail(ports.get((port["hca"], port["port"]), {}), port, seconds) for port in after["ports"]],
        "gpus": [_gpu(gpus.get(gpu["index"], {}), gpu, gpu_seconds) for gpu in after["gpus"]], "gpus_unknown": after["gpus_unknown"],
    }


def _rail(before: Mapping[str, Any], after: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    bits = {way: rate(before.get(f"{way}_bytes"), after[f"{way}_bytes"], seconds) for way in ("out", "in")}
    called = after["rail"] or (after["hca"] if after["port"] == 1 else f"{after['hca']}/{after['port']}")
    return {
        **{key: after[key] for key in _PORT}, "rail": called, "rate_gbps": after["rate"],
        **{f"{way}_gbps": None if value is None else round(value * 8e-9, 3) for way, value in bits.items()},
        **{key: rate(before.get(key), after[key], seconds) for key in COUNTED}, "marks": [],
    }  # fmt: skip


def _gpu(before: Mapping[str, Any], after: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    moved = {way: rate(before.get(f"nvlink_{way}"), after[f"nvlink_{way}"], seconds) for way in ("out", "in")}
    return {**{key: after[key] for key in _GPU}, "marks": [],
            **{f"nvlink_{way}_gbytes": None if value is None else round(value / 1e9, 3) for way, value in moved.items()}}
