# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift on the controller: since when a difference is there, the same one on many nodes as one line, and what would fix it."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from railwright.inventories import Given, quoted
from railwright.ownership import state_directory
from railwright.report.text import ranges
from railwright.runs import site_name, site_path
from railwright.writing import make_directories, write_atomic

SEVERITIES = ("critical", "major", "minor")
SAME = ("key", "kind", "severity", "expected", "found", "why")
CELL = 40  # characters of folded names in a table
as_json = json.JSONEncoder(sort_keys=True).encode  # json.dumps makes an encoder for each of a million findings


class Row(NamedTuple):
    """One difference and every node that has it."""

    finding: dict[str, Any]
    nodes: list[str]


def rank(severity: object) -> int:
    """0 is the worst. An unknown word is a newer node's; it must not hide at the end."""
    return SEVERITIES.index(str(severity)) if severity in SEVERITIES else 0


def fleet(nodes: Mapping[str, Iterable[dict[str, Any]]]) -> list[Row]:
    """Worst first, then what most nodes have. The earliest `first_seen` and `since` of a group stand for it."""
    groups: dict[str, Row] = {}
    for name, findings in nodes.items():
        for finding in findings:
            same = as_json([finding.get(part) for part in SAME])
            row = groups.setdefault(same, Row(dict(finding), []))
            row.nodes.append(name)
            for part in ("first_seen", "since"):
                times = [value for value in (row.finding.get(part), finding.get(part)) if value]
                row.finding[part] = min(times) if times else None
    return sorted(
        groups.values(), key=lambda row: (rank(row.finding.get("severity")), -len(row.nodes), str(row.finding.get("key")), row.nodes)
    )


def fold(names: Iterable[str]) -> str:
    """`gpu[001-004,007],login1`: ranges over the last number of a name, its zeros kept, everything in natural order.

    Where one number of a width is filled up with zeros, all of that width are: `gpu[001-400]`. The rest goes together as `gpu[1-400]`.
    """
    plain: list[str] = []
    found: list[tuple[str, str, str]] = []
    for name in sorted(set(names)):
        match = _last_number(name)
        if match is None:
            plain.append(name)
        else:
            found.append(match)
    padded = {(head, tail, len(digits)) for head, digits, tail in found if len(digits) > 1 and digits.startswith("0")}
    series: dict[tuple[str, str, int], list[int]] = {}
    for head, digits, tail in found:
        width = len(digits)
        series.setdefault((head, tail, width if (head, tail, width) in padded else 0), []).append(int(digits))
    folded = [_folded(head, tail, width, numbers) for (head, tail, width), numbers in series.items()]
    return ",".join(sorted(folded + plain))


def folded_cell(names: list[str]) -> str:
    """The same for a table: at most 40 characters, and the number of nodes where there are several."""
    folded = _folded_names(tuple(names))
    several = f" ({len(names)})" if len(names) > 1 else ""
    return (folded if len(folded) <= CELL else folded[: CELL - 1] + "…") + several


@lru_cache(64)  # twenty thousand nodes share thirty findings
def _folded_names(names: tuple[str, ...]) -> str:
    return fold(names)


def _last_number(name: str) -> tuple[str, str, str] | None:
    numbers = list(re.finditer(r"[0-9]+", name))
    if not numbers:
        return None
    last = numbers[-1]
    return name[: last.start()], last[0], name[last.end() :]


def _folded(head: str, tail: str, width: int, numbers: list[int]) -> str:
    found = ranges(numbers, width)
    return f"{head}{found}{tail}" if len(numbers) == 1 else f"{head}[{found}]{tail}"


SCHEMA = 1
Seen = dict[str, dict[str, str]]  # node -> key -> when it was first found, ISO 8601


def history_path(inventory: Given) -> Path:
    return state_directory("drift") / f"{site_name(inventory)}.json"


def read_history(inventory: Given) -> Seen:
    """What is known; nothing where the file is missing or damaged, since it is only a memory."""
    try:
        data = read_json(history_path(inventory).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    nodes = data.get("nodes") if isinstance(data, dict) and data.get("schema") == SCHEMA else None
    if not isinstance(nodes, dict):
        return {}
    return {
        str(node): {str(key): str(when) for key, when in keys.items() if isinstance(when, str)}
        for node, keys in nodes.items()
        if isinstance(keys, dict)
    }


def remember(seen: Seen, found: Mapping[str, Iterable[str]], now: str) -> Seen:
    """With this run's keys, node by node: a new one is first seen now, one that is gone is forgotten."""
    return {**seen, **{node: {key: seen.get(node, {}).get(key, now) for key in keys} for node, keys in found.items()}}


def unasked(known: Iterable[str], silent: Iterable[str]) -> list[str]:
    """Keys about a login shell (or the like) that could not be asked this time: that is no sign that its difference is gone."""
    ends = tuple(f" for {name}" for name in silent)
    return [key for key in known if key.startswith("effective: ") and key.endswith(ends)]


def write_history(inventory: Given, seen: Seen) -> None:
    """Raises OSError."""
    path = history_path(inventory)
    make_directories(path.parent, 0o700)
    document: dict[str, Any] = {"schema": SCHEMA, "inventory": site_path(inventory), "nodes": seen}
    write_atomic(path, json.dumps(document, sort_keys=True) + "\n")


FINDINGS = "railwright_drift_findings"
ANSWERED = "railwright_drift_node_answered"
RUN = "railwright_drift_last_run_timestamp_seconds"


def as_prometheus(nodes: Mapping[str, Mapping[str, Any]], finished: float) -> str:
    """``nodes``: of the drift document. ``finished``: seconds since the epoch."""
    lines = [f"# HELP {FINDINGS} Differences between a node and its inventory.", f"# TYPE {FINDINGS} gauge"]
    for name, node in sorted(nodes.items()):
        if node.get("status") == "ok":
            lines += _of_node(name, node)
    return "\n".join([*lines, *_of_run(nodes, finished, ANSWERED, RUN)]) + "\n"


def _of_run(nodes: Mapping[str, Mapping[str, Any]], finished: float, answered: str, run: str) -> list[str]:
    lines = [f"# HELP {answered} 1 where the node was inspected in the last run.", f"# TYPE {answered} gauge"]
    for name, node in sorted(nodes.items()):
        status = str(node.get("status"))
        lines.append(f"{answered}{_labels(node=name, status=status)} {int(status == 'ok')}")
    return [*lines, f"# HELP {run} When the last run ended.", f"# TYPE {run} gauge", f"{run} {finished:.0f}"]


def verdicts_as_prometheus(
    nodes: Mapping[str, Mapping[str, Any]], verdicts: Iterable[Mapping[str, Any]], finished: float, verb: str = "check"
) -> str:  # fmt: skip
    """How many verdicts of each code and status a node has. ``finished``: seconds since the epoch; ``verb``: check or validate."""
    name = f"railwright_{verb}_verdicts"
    counted = Counter((str(item.get("node")), str(item.get("check")), str(item.get("status"))) for item in verdicts)
    lines = [f"# HELP {name} Verdicts of railwright {verb}.", f"# TYPE {name} gauge"]
    lines += [f"{name}{_labels(node=node, check=check, status=status)} {many}" for (node, check, status), many in sorted(counted.items())]
    run = _of_run(nodes, finished, f"railwright_{verb}_node_answered", f"railwright_{verb}_last_run_timestamp_seconds")
    return "\n".join([*lines, *run]) + "\n"


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


OUT_OF_SCOPE = ("area", "severity", "mode")  # what nobody asked for: no drift to the exit code


def out_of_scope(row: Mapping[str, Any]) -> bool:
    return row.get("cause") in OUT_OF_SCOPE


class Asked(NamedTuple):
    """The options of this run that say how much it does, as they were given; what stands here by itself is the options' default."""

    areas: tuple[str, ...] = ()
    severity: str = SEVERITIES[-1]
    batch: str = "10%"
    consent: tuple[str, ...] | None = None  # None: the inventory's list holds


class Remedy(NamedTuple):
    """A command without its nodes: it may be the same for several of them, and is then printed once."""

    verb: str
    options: tuple[str, ...] = ()

    def line(self, inventory: str, nodes: Iterable[str]) -> str:
        return f"railwright {self.verb} -i {quoted(inventory)} {shlex.join(('--limit', ','.join(sorted(nodes)), *self.options))}"


def remedy(row: Mapping[str, Any], asked: Asked, consent: Iterable[str], others: Iterable[Mapping[str, Any]]) -> Remedy | None:
    """What would fix one row that is left on one node; None where no command does.

    ``consent``: the classes that are allowed there already, as --consent takes their place. ``others``: everything that is left on the
    node. A row that needs another one first is fixed by whatever fixes that one; apply makes the whole plan or nothing.
    """
    others = list(others)
    ground = _ground(row, others)
    cause = ground.get("cause")
    if cause == "consent":
        return Remedy("remediate", _same(asked, ground) + _consent({*consent, str(ground.get("disruption"))}))
    if cause == "reboot":
        also = {str(other.get("disruption") or "") for other in others if not out_of_scope(other)}
        return Remedy("apply", _consent({*consent, *also, "reboot"}))
    if cause in ("problem", "refused"):
        return Remedy("plan")
    if cause == "mode":
        return None
    if cause in ("needs", "new", *OUT_OF_SCOPE):
        return Remedy("remediate", _same(asked, ground) + (() if asked.consent is None else _consent(set(asked.consent))))
    return None


def _ground(row: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The row that is to be fixed first; the row itself where it stands by itself."""
    by_key = {str(other.get("key")): other for other in others}
    for _step in by_key:  # a node wrote it: rows that need each other in a ring end, too
        row = by_key.get(str(row.get("needs") or ""), row)
    return row


def _same(asked: Asked, row: Mapping[str, Any]) -> tuple[str, ...]:
    """The run's own options again, without those that would leave the row out."""
    found = [word for area in asked.areas for word in ("--area", area)] if row.get("area") in asked.areas else []
    if asked.severity != Asked().severity and rank(row.get("severity")) <= SEVERITIES.index(asked.severity):
        found += ["--severity", asked.severity]
    return (*found, *(("--batch", asked.batch) if asked.batch != Asked().batch else ()))


def _consent(classes: set[str]) -> tuple[str, ...]:
    return ("--consent", ",".join(sorted(classes - {"", "none"})))
