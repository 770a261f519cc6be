# SPDX-License-Identifier: GPL-3.0-or-later
"""--one-line: a line for each node or finding, for grep and awk: the node, one word for what it is, and the rest behind semicolons."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from railwright.cli import console
from railwright.cli.verdicts import ordered
from railwright.report.text import CLUSTER, short

Rows = Iterable[tuple[str, str, object]]  # node, word, text


def show(nodes: Mapping[str, Mapping[str, Any]], verdicts: Iterable[dict[str, Any]] = (), rows: Rows = (), *, passes: bool = False) -> None:
    """The nodes' documents and what is said of them beside; a node of which nothing is said is ok."""
    found: dict[str, list[tuple[str, str]]] = {name: list(_of_node(node)) for name, node in sorted(nodes.items())}
    for verdict in ordered(verdicts):
        if passes or verdict.get("status") not in ("pass", "skipped"):
            found.setdefault(verdict.get("node") or CLUSTER, []).append((str(verdict.get("status")), _verdict(verdict)))
    for name, word, text in rows:
        found.setdefault(name, []).append((word, str(text)))
    with console.paged():
        for name, said in found.items():
            for word, text in said or [("ok", "")]:
                console.say(console.styled(name, "node"), console.styled(word), text)


def _of_node(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if node["status"] != "ok":
        yield node["status"], _joined(node["message"], node.get("task"))
    for item in node.get("problems", ()):
        yield "problem", _joined(item.get("area"), item.get("subject"), item.get("message"))
    for item in node.get("changes", ()):
        values = f"{short(item.get('before'))} -> {short(item.get('after'))}"
        yield "change", _joined(item.get("area"), item.get("what"), values, item.get("disruption"))
    for item in node.get("findings", ()):
        yield str(item.get("severity")), _joined(item.get("area"), item.get("what"), _values(item), item.get("why"))
    for text in node.get("unknown", ()):
        yield "unknown", text


def _verdict(item: Mapping[str, Any]) -> str:
    port = None if item.get("port") is None else f"port {item['port']}"
    return _joined(item.get("check"), item.get("hca"), port, item.get("subject"), _values(item), item.get("message"))


def _values(item: Mapping[str, Any]) -> str:
    expected, found = item.get("expected"), item.get("found")
    return "" if (expected, found) == (None, None) else f"expected {short(expected)}, found {short(found)}"


def _joined(*parts: object) -> str:
    return "; ".join(str(part) for part in parts if part)
