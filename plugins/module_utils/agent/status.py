# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agent says to others: one line for a scheduler's hook, a document, metrics for node_exporter, text for people.

The line is ``WORD UP MODE REASON``: ok, shared, refuse, unjudged or held (findings.py), seconds since boot (a shell compares it with
/proc/uptime, without a process), the agent's mode, and why. It lies in /run, so that none outlives a boot.
"""

import json
import time
from contextlib import suppress
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats.program_output import one_line
from ..host.host import Host
from ..rules.check_modes import OBSERVE, OFF
from .counters import DOWNS, Part
from .findings import REFUSE, SHARED, SHOWN, UNJUDGED, Acting, observed, offenders, word_of
from .history import DAY, HOUR, Moment

RUN = "/run/railwright/agent"
LINE, DOCUMENT, METRICS = RUN + "/status", RUN + "/status.json", "railwright-agent.prom"
REASON, ROOM = 200, 320  # characters of a reason, and of the file of the line
METRIC = "railwright_agent_%s"
MICROSECONDS = "_us"
HELP = {"port_downs_total": "How often the link went down, but for the half hour after boot and around an apply of ours."}
Sample = Tuple[Dict[str, str], float]
Family = Tuple[str, str, str, List[Sample]]  # name, type, help
ALIVE = 300  # seconds: a status that is older is of an agent that is down; node-status says the same


class Report(NamedTuple):
    """``flaps``: by part, downs that count. ``events``: of the kernel's log since boot. ``trouble``: why the history is not whole.

    ``versions``: by name, with the moment of the last change (upgrades.py)."""

    node: str
    mode: str
    moment: Moment
    findings: Mapping[str, Mapping[str, Any]]
    parts: Sequence[Part]
    flaps: Mapping[str, int]
    events: Sequence[Mapping[str, Any]]
    trouble: str
    lost: int
    missing: Sequence[str] = ()  # needed answers that the last look did not get
    acting: Acting = Acting()
    model: str = ""
    versions: Mapping[str, Mapping[str, Any]] = {}

    @property
    def word(self) -> Tuple[str, str]:
        return word_of(self.findings, self.missing, self.acting)

    @property
    def open(self) -> List[Mapping[str, Any]]:
        """The findings that are not cured and whose check is not off."""
        return [row for row in self.findings.values() if not row["cured"] and self.acting.mode(row) != OFF]


def write_report(host: Host, report: Report, textfile: str) -> None:
    """The line comes first: in place where there is room for no other file. Whoever writes to the textfile directory leads us nowhere."""
    word, reason = report.word
    plain = one_line(reason, REASON).encode("ascii", "replace").decode("ascii")
    line = "%s %d %s %s\n" % (word, report.moment.up, report.mode, plain)
    try:
        host.write(LINE, line.ljust(ROOM))
    except OSError:
        with suppress(OSError):
            host.set_value(LINE, line.ljust(ROOM))
    if textfile:
        try:
            host.write("%s/%s" % (textfile, METRICS), metrics(report), follow=False)
        except OSError as error:
            report = report._replace(trouble=report.trouble or str(error))
    with suppress(OSError):
        host.write(DOCUMENT, json.dumps(document(report)) + "\n")


def document(report: Report) -> Dict[str, Any]:
    word, reason = report.word
    return {
        "node": report.node, "mode": report.mode, "at": report.moment.t, "up": report.moment.up, "boot": report.moment.boot,
        "word": word, "reason": reason, "trouble": report.trouble, "held": list(report.acting.held), "model": report.model,
        "observed": observed(report.findings, report.acting), "versions": report.versions,
        "findings": [dict({name: row[name] for name in SHOWN + ("first", "known")}, mode=report.acting.mode(row),
                          fresh=report.acting.is_fresh(row)) for row in report.open],
        "offenders": [{"part": part, "times": times} for part, times in offenders(report.findings)],
        "ports": [{"name": part.name, "state": part.state, "downs": part.counters.get(DOWNS)}
                  for part in report.parts if part.key.startswith("port ")],
    }


def metrics(report: Report) -> str:
    """Prometheus' text form, with the node's name in every sample (docs/agent.md has the table)."""
    lines: List[str] = []
    for name, kind, text, samples in _of_agent(report) + _of_parts(report) + _of_kernel(report):
        lines += ["# HELP %s %s" % (METRIC % name, text), "# TYPE %s %s" % (METRIC % name, kind)] if samples else []
        lines += ["%s%s %r" % (METRIC % name, _labels(node=report.node, **labels), value) for labels, value in samples]
    return "\n".join(lines) + "\n"


def _of_agent(report: Report) -> List[Family]:
    word = report.word[0]
    return [
        ("last_look_timestamp_seconds", "gauge", "When the agent looked.", [({}, report.moment.t)]),
        ("refuses_jobs", "gauge", "1 where the node should take no jobs: for a fault of its own, or for a link, which may be the switch's.",
         [({"why": "node"}, int(word == REFUSE)), ({"why": "shared"}, int(word == SHARED))]),
        ("unjudged", "gauge", "1 where nothing failed and an answer is missing that `railwright check` needs.",
         [({}, int(word == UNJUDGED))]),
        ("records_lost_total", "counter", "Records that could not be written since the agent started.", [({}, report.lost)]),
        ("finding", "gauge", "1 for each open finding; mode: whether its check acts; known: whether it is acked.", [
            ({"check": row["check"], "subject": row["subject"], "part": row["part"], "status": row["status"],
              "mode": report.acting.mode(row), "known": "yes" if row["known"] else "no"}, 1) for row in report.open]),
        ("held", "gauge", "1 where a hold file keeps checks from acting.", [({}, int(bool(report.acting.held)))]),
    ]


def _of_parts(report: Report) -> List[Family]:
    """The driver's own counters, but for downs: those of a boot or of our own apply are no flaps, and a boot does not begin them anew."""
    counted: Dict[str, List[Sample]] = {}
    for part in report.parts:
        kind = part.key.split(" ")[0]
        for name, value in part.counters.items():
            plain = name[len("port_"):] if name.startswith("port_") else name
            sample: float = report.flaps.get(part.key, 0) if name == DOWNS else value
            if plain.endswith(MICROSECONDS):
                plain, sample = plain[:-len(MICROSECONDS)] + "_seconds", value / 1e6
            counted.setdefault("%s_%s_total" % (kind, plain), []).append(({"part": part.key, "subject": part.name}, sample))
    return [(name, "counter", HELP.get(name, "The driver's own counter."), samples) for name, samples in sorted(counted.items())]


def _of_kernel(report: Report) -> List[Family]:
    """A counter alone would hide the first event: where there was none before, Prometheus sees no growth. So the time is there too."""
    labels = [{"event": event["event"], "device": event["device"], "number": str(event["number"] or "")} for event in report.events]
    booted = report.moment.t - report.moment.up
    return [
        ("kernel_events_total", "counter", "Lines of the kernel's log since boot that tell of a fault; number: of an Xid or SXid.",
         [(label, event["count"]) for label, event in zip(labels, report.events)]),
        ("kernel_event_last_timestamp_seconds", "gauge", "When the last of them came.",
         [(label, round(booted + event["last"])) for label, event in zip(labels, report.events)]),
    ]


def _labels(**values: str) -> str:
    texts = ['%s="%s"' % (name, one_line(text, REASON).replace("\\", "\\\\").replace('"', '\\"')) for name, text in values.items()]
    return "{%s}" % ",".join(texts)


# For people.


def event_lines(records: Sequence[Dict[str, Any]], findings: Sequence[Mapping[str, Any]], moment: Moment) -> List[str]:
    """What is open, the worst first; then how often each port went down: in 12 hours, and in the 7 days before."""
    lines = []
    for row in findings:
        known = row.get("known")
        word = "ACK" if known else row["status"].upper()
        observe = " (mode observe)" if row.get("mode") == OBSERVE else ""
        lines.append("%-4s %s %s %s: %s%s" % (word, row["id"], row["check"], row["subject"], row["text"], observe))
        if known:
            lines.append("     %s said at %s: %s" % (known["by"], clock(known["t"]), known["reason"]))
    downs = [record for record in records if record["kind"] == "down" and not record.get("own")]
    for part in dict.fromkeys(record["part"] for record in downs):
        own = [record for record in downs if record["part"] == part]
        recent, before = ([row for row in own if first <= moment.since(row) < last]
                          for first, last in ((0, 12 * HOUR), (12 * HOUR, 12 * HOUR + 7 * DAY)))
        if recent or before:
            text = "went down %s in 12 hours%s" % (often(recent), ", last %s" % clock(recent[-1]["t"]) if recent else "")
            lines.append("%s %s; 7 days before: %s" % (own[-1]["name"], text, often(before)))
    return lines


def head_line(node: str, findings: Sequence[Mapping[str, Any]], age: Optional[float]) -> str:
    """``age``: seconds since the last look; None where none is known."""
    number = "%d open" % len(findings) if findings else "nothing is open"
    if age is None:
        return "%s: NO LOOK since the boot; remembered: %s" % (node, number)
    if age > ALIVE:
        return "%s: SILENT, no look for %d min: systemctl status railwright-agent.timer; last: %s" % (node, age // 60, number)
    return "%s: %s; last look %d s ago" % (node, number, age)


def often(downs: Sequence[Mapping[str, Any]]) -> str:
    number = sum(int(row.get("n", 1)) for row in downs)
    return {0: "never", 1: "once"}.get(number, "%d times" % number)


def clock(t: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(t))
