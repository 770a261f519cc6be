# SPDX-License-Identifier: GPL-3.0-or-later
"""What `check` says of nodes: one JSON document, and for people a screen a node. Pure; the same on a node alone and on the controller."""

import re
import textwrap
from collections import Counter
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from ..catalogue.needed import NEEDED
from ..formats.outside import mapping, rows
from ..formats.text import grouped
from .overview import LABELS, UNPRIVILEGED

ORDER = ("fail", "warn", "unknown", "unproven", "skipped", "pass")  # worst first
WORST = ("fail", "warn")  # those that have a line each
LINES, COLUMNS = 24, 80  # of a screen
LABEL = 8  # columns of a label
STATUSES = ("ok", "failed", "unreachable")
OK, FAILED, UNREACHABLE, UNJUDGED = 0, 1, 3, 4  # exit codes: src/railwright/exitcodes.py
Line = Tuple[str, str]  # (the kind of the line, for its colour; its text)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,32}\Z")


def document(
    nodes: Mapping[str, Mapping[str, Any]], verdicts: Iterable[Mapping[str, Any]], commands: Mapping[str, str]
) -> Dict[str, Any]:
    """``nodes``: by name its ``status``, ``message`` and ``overview``. ``verdicts`` of all of them, in their JSON form. ``commands``: of
    the controller's table of checks (plugin_utils/tables/checks.py)."""
    ordered = sorted(verdicts, key=lambda item: (status_rank(item), str(item.get("node")), str(item.get("check"))))
    statuses = [str(node["status"]) for node in nodes.values()]
    number = counts(ordered)
    missing = sorted({str(item.get("check")) for item in ordered if is_missing(item)})
    code = UNREACHABLE if "unreachable" in statuses else FAILED if "failed" in statuses or number["fail"] else UNJUDGED if missing else OK
    summary: Dict[str, Any] = {"nodes": len(statuses)}
    summary.update((status, statuses.count(status)) for status in STATUSES)
    return {
        "nodes": {name: dict(node) for name, node in nodes.items()},
        "verdicts": [dict(item, next=next_command(item, commands)) for item in ordered],
        "summary": dict(summary, verdicts=number, missing=missing, exit_code=code),
    }


def is_missing(item: Mapping[str, Any]) -> bool:
    """Return whether a verdict is the missing answer of a check that `check` needs."""
    return item.get("status") == "unknown" and item.get("check") in NEEDED


def status_rank(item: Mapping[str, Any]) -> int:
    """A status of a newer version counts as a failure."""
    return ORDER.index(item["status"]) if item.get("status") in ORDER else 0


def counts(verdicts: Iterable[Mapping[str, Any]]) -> Dict[str, int]:
    found = Counter(ORDER[status_rank(item)] for item in verdicts)
    return {status: found.get(status, 0) for status in ORDER}


def node_lines(found: Mapping[str, Any], name: str, every: bool) -> List[Line]:
    """One node of the document, on one screen; with ``every`` all of it, as long as it is."""
    node = found["nodes"][name]
    if node["status"] != "ok":
        return [(str(node["status"]), "%s: %s: %s" % (plain(name), node["status"], plain(node.get("message") or "no reason given")))]
    verdicts = [item for item in rows(found["verdicts"]) if item.get("node") == name]
    number = counts(verdicts)
    shown = ", ".join("%d %s" % (number[status], status) for status in ORDER if number[status]) or "nothing judged"
    head = [("node", "%s: %s" % (plain(name), shown))]
    said = mapping(node.get("overview"))
    seen = {label: said[label] for label in LABELS if label in said}
    if every:
        head += [("", line) for label, text in seen.items() for line in labelled(label, text, 0)]
        return head + [line for item in verdicts for line in finding([item], 0)]
    head += [("", labelled(label, text, 1)[0]) for label, text in seen.items() if label != "rights"]
    foot = footer(verdicts, "rights" in seen)
    # The same fault of many parts is one.
    worst = [item for item in verdicts if item.get("status") not in ORDER or item["status"] in WORST]
    groups = list(grouped(((status_rank(item), item.get("check")), item) for item in worst).values())
    room = LINES - len(head) - len(foot) - 1  # a prompt stands below
    each = 3 if 3 * len(groups) <= room else 2
    fitting = groups if each * len(groups) <= room else groups[:(room - 1) // 2]
    body = [line for group in fitting for line in finding(group, each - 1)]
    left = groups[len(fitting):]
    if left:
        names = ", ".join(str(group[0]["check"]) for group in left)
        body.append(("warn", cut("... and %d more, with --all: %s" % (len(left), names))))
    return head + body + foot


def footer(verdicts: Sequence[Mapping[str, Any]], unprivileged: bool) -> List[Line]:
    """What could not be judged, in one line."""
    missing = Counter(str(item.get("check")) for item in verdicts if is_missing(item))
    found = Counter(str(item.get("check")) for item in verdicts if item.get("status") in ("unknown", "unproven") and not is_missing(item))
    rows_of = (("needed, and unknown: %s", missing), ("unknown: %s", found))
    lines = [("unknown", cut(form % ", ".join(check if many == 1 else "%s (%d)" % (check, many) for check, many in sorted(which.items()))))
             for form, which in rows_of if which]
    if not lines:
        return []
    return lines + ([("unknown", cut("  %s; --all shows each" % UNPRIVILEGED))] if unprivileged else [])


def finding(group: Sequence[Mapping[str, Any]], lines: int) -> List[Line]:
    """The first of a group in at most so many lines (0: as many as it takes), and the next command."""
    first = group[0]
    status = str(first.get("status"))
    parts = (first.get("hca"), "port %s" % first["port"] if first.get("port") is not None else None)
    device = " ".join(str(part) for part in parts if part)
    subject = str(first.get("subject") or "")
    place = subject if not device or str(first.get("hca")) in subject else "%s, %s" % (device, subject)
    more = " and %d more" % (len(group) - 1) if len(group) > 1 else ""
    text = "%s %s%s: %s" % (first.get("check"), place, more, first.get("message"))
    found = [(status, line) for line in labelled(status.upper() if status in WORST else status, text, lines)]
    return found + ([("dim", line) for line in labelled("", "> " + str(first["next"]), min(lines, 1))] if status in WORST else [])


def next_command(item: Mapping[str, Any], commands: Mapping[str, str]) -> str:
    """What shows more of what a verdict is about. What a node calls its devices is put in only where it is a plain name. A code that is in
    no table is no error: an answer may come from a newer node."""
    hca, port, pci = str(item.get("hca")), item.get("port"), _PCI.search(str(item.get("subject")))
    values = {"{hca}": hca if item.get("hca") and _PLAIN.match(hca) else "", "{port}": "%d" % port if isinstance(port, int) else "",
              "{pci}": pci.group(0) if pci else ""}
    code = str(item.get("check"))
    command = commands.get(code) or commands.get(code.partition(".")[0]) or commands[""]
    return "; ".join(_filled(part, values) for part in command.split("; "))


def _filled(part: str, values: Mapping[str, str]) -> str:
    words: List[str] = []
    for word in part.split(" "):
        if any(name in word and not value for name, value in values.items()):
            del words[len(words) - (1 if words[-1].startswith("-") else 0):]
            continue
        words.append(word.replace("{hca}", values["{hca}"]).replace("{port}", values["{port}"]).replace("{pci}", values["{pci}"]))
    return " ".join(words)


def labelled(label: str, text: str, lines: int) -> List[str]:
    """``text`` beside a label, wrapped into at most so many lines; 0: as many as it takes."""
    width = COLUMNS - 1 - LABEL
    parts = textwrap.wrap(plain(text), width, break_on_hyphens=False) or [""]
    if lines and len(parts) > lines:
        parts = parts[:lines - 1] + [cut(" ".join(parts[lines - 1:]), width)]
    return [(plain(label)[:LABEL - 1].ljust(LABEL) if index == 0 else " " * LABEL) + part for index, part in enumerate(parts)]


def cut(text: str, width: int = COLUMNS - 1) -> str:
    shown = plain(text)
    return shown if len(shown) <= width else shown[:width - 3] + "..."


def plain(text: Any) -> str:
    """One line without characters that a terminal obeys: names and messages hold what a node says."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(str(text).split()))
