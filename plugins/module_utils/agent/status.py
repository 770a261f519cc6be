# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agent says to others: one line for a scheduler's hook, a document, metrics for node_exporter, text for people.

The line is ``WORD UP MODE REASON``: ok, link or refuse (findings.py), seconds since boot (a shell compares them with /proc/uptime and needs
no process), the agent's mode, and why. It lies in /run, so that none outlives a boot.
"""

import json
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ..formats.program_output import one_line
from ..host.host import Host
from .counters import DOWNS, Part
from .findings import OK, offenders, refused
from .history import DAY, HOUR, Moment

RUN = "/run/railwright/agent"
LINE, DOCUMENT, METRICS = RUN + "/status", RUN + "/status.json", "railwright-agent.prom"
REASON = 200  # characters
ALIVE = 300  # seconds: a status that is older is of an agent that is down; node-status says the same


class Report(NamedTuple):
    """``trouble``: why the history is not whole."""

    node: str
    mode: str
    moment: Moment
    findings: Mapping[str, Mapping[str, Any]]
    parts: Sequence[Part]
    trouble: str
    lost: int


def write_report(host: Host, report: Report, textfile: str) -> List[str]:
    """The paths that could not be written."""
    word, reason = refused(report.findings)
    plain = one_line(reason, REASON).encode("ascii", "replace").decode("ascii")
    files = [(LINE, "%s %d %s %s\n" % (word, report.moment.up, report.mode, plain)),
             (DOCUMENT, json.dumps(document(report)) + "\n")]
    failed = []
    for path, text in files + ([("%s/%s" % (textfile, METRICS), metrics(report))] if textfile else []):
        try:
            host.write(path, text)
        except OSError:
            failed.append(path)
    return failed


def document(report: Report) -> Dict[str, Any]:
    word, reason = refused(report.findings)
    return {
        "node": report.node, "mode": report.mode, "at": report.moment.t, "up": report.moment.up, "boot": report.moment.boot,
        "word": word, "reason": reason, "trouble": report.trouble,
        "findings": [{name: row[name] for name in ("id", "check", "subject", "part", "status", "text", "first", "known")}
                     for row in report.findings.values() if not row["cured"]],
        "offenders": [{"part": part, "times": times} for part, times in offenders(report.findings)],
        "ports": [{"name": part.name, "state": part.state, "downs": part.counters.get(DOWNS)}
                  for part in report.parts if part.key.startswith("port ")],
    }


def metrics(report: Report) -> str:
    """Prometheus' text form. Findings are by check, part and whether somebody knows of them; downs are a counter."""
    rows: List[Tuple[str, str, str, List[Tuple[str, Any]]]] = [
            ("railwright_agent_last_look_timestamp_seconds", "gauge", "when the agent looked", [("", report.moment.t)]),
            ("railwright_agent_refuses_jobs", "gauge", "1 where the node should take no jobs",
             [("", int(refused(report.findings)[0] != OK))]),
            ("railwright_agent_records_lost_total", "counter", "records that could not be written", [("", report.lost)]),
            ("railwright_agent_finding", "gauge", "1 for each finding that is open", [
                (labels(node=report.node, check=row["check"], subject=row["subject"], status=row["status"],
                        known="yes" if row["known"] else "no"), 1) for row in report.findings.values() if not row["cured"]])]
    counted: Dict[str, List[Any]] = {}
    for part in report.parts:
        for name, value in sorted(part.counters.items()):
            kind = part.key.split(" ")[0]
            counted.setdefault("railwright_agent_%s_%s_total" % (kind, name), []).append((labels(part=part.key, subject=part.name), value))
    rows += [(name, "counter", "of the driver's own", values) for name, values in sorted(counted.items())]
    lines: List[str] = []
    for name, kind, text, values in rows:
        lines += ["# HELP %s %s" % (name, text), "# TYPE %s %s" % (name, kind)] if values else []
        lines += ["%s%s %s" % (name, label, repr(value)) for label, value in values]
    return "\n".join(lines) + "\n"


def labels(**values: str) -> str:
    texts = ['%s="%s"' % (name, one_line(text, REASON).replace("\\", "\\\\").replace('"', '\\"')) for name, text in values.items()]
    return "{%s}" % ",".join(texts)


# For people.


def event_lines(node: str, records: Sequence[Dict[str, Any]], findings: Sequence[Mapping[str, Any]], moment: Moment) -> List[str]:
    """What is open, the worst first; then how often each port went down: in 12 hours, and in the 7 days before."""
    lines = ["%s: %s" % (node, "%d open" % len(findings) if findings else "nothing is open")]
    for row in findings:
        known = row.get("known")
        word = "know" if known else row["status"].upper()
        lines.append("%-4s %s %s %s: %s" % (word, row["id"], row["check"], row["subject"], row["text"]))
        if known:
            lines.append("     known to %s since %s: %s" % (known["by"], clock(known["t"]), known["reason"]))
    downs = [record for record in records if record["kind"] == "down" and not record.get("own")]
    for part in dict.fromkeys(record["part"] for record in downs):
        own = [record for record in downs if record["part"] == part]
        recent, before = ([row for row in own if first <= moment.since(row) < last]
                          for first, last in ((0, 12 * HOUR), (12 * HOUR, 12 * HOUR + 7 * DAY)))
        if recent or before:
            text = "went down %s in 12 hours%s" % (often(recent), ", last %s" % clock(recent[-1]["t"]) if recent else "")
            lines.append("%s %s; 7 days before: %s" % (own[-1]["name"], text, often(before)))
    return lines


def often(downs: Sequence[Mapping[str, Any]]) -> str:
    number = sum(int(row.get("n", 1)) for row in downs)
    return {0: "never", 1: "once"}.get(number, "%d times" % number)


def clock(t: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(t))
