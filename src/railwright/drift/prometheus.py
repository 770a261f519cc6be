# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift for node_exporter's textfile collector, in Prometheus' text format 0.0.4.

A node without findings has a zero for every severity, so that an alert can tell "clean" from "not asked".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from railwright.drift.fleet import SEVERITIES

FINDINGS = "railwright_drift_findings"
ANSWERED = "railwright_drift_node_answered"
RUN = "railwright_drift_last_run_timestamp_seconds"


def as_prometheus(nodes: Mapping[str, Mapping[str, Any]], finished: float) -> str:
    """``nodes``: of the drift document. ``finished``: seconds since the epoch."""
    lines = [f"# HELP {FINDINGS} Differences between a node and its inventory.", f"# TYPE {FINDINGS} gauge"]
    for name, node in sorted(nodes.items()):
        if node.get("status") == "ok":
            lines += _of_node(name, node)
    lines += [f"# HELP {ANSWERED} 1 where the node was looked at in the last run.", f"# TYPE {ANSWERED} gauge"]
    for name, node in sorted(nodes.items()):
        status = str(node.get("status"))
        lines.append(f"{ANSWERED}{_labels(node=name, status=status)} {int(status == 'ok')}")
    lines += [f"# HELP {RUN} When the last run ended.", f"# TYPE {RUN} gauge", f"{RUN} {finished:.0f}"]
    return "\n".join(lines) + "\n"


def _of_node(name: str, node: Mapping[str, Any]) -> list[str]:
    counted = Counter((str(item.get("severity")), str(item.get("area"))) for item in node.get("findings", []))
    for severity in SEVERITIES:
        if not any(key[0] == severity for key in counted):
            counted[severity, ""] = 0
    return [f"{FINDINGS}{_labels(node=name, severity=severity, area=area)} {many}" for (severity, area), many in sorted(counted.items())]


def _labels(**labels: str) -> str:
    inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return "{" + inside + "}"


def _escaped(value: str) -> str:
    """Backslash, quote and line end, as the format asks; other control characters have no business in a label."""
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return "".join(char for char in text if char.isprintable())
