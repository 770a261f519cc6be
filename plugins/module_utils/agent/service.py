# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's work: look, remember, say. It writes below its own directories and nowhere else, starts only what looks, and ends nothing.

A timer starts a process for each look, which keeps nothing open and no memory between two. A whole look comes at the start, each hour, and
in the minute after the kernel or a counter told of something new. What a look is about to do stands in a file: one that never ended is the
next one's finding. Time is the monotonic clock's; a calendar that jumps moves nothing.
"""

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from ..catalogue.health import FLAP_HOURS, FLAPS, QUIET_HOURS
from ..checks.health import APPLY_SECONDS
from ..formats.outside import json_object, mapping, rows
from ..host.host import Host
from ..rules.comparisons import VerdictSubject, verdict
from ..types import Verdict
from .counters import DOWNS, Part, add, growth
from .findings import News, acknowledge, error_verdicts, flap_verdicts, merge
from .history import DIRECTORY, HOUR, History, Moment, now
from .look import EMPTY, cheap_look, verdicts_and_parts, whole_look
from .status import RUN, Report, write_report

STATE = "state.json"
LAST, LAST_LIMIT = RUN + "/last.json", 8 * 1024 * 1024  # the last whole look, until the next boot
LOOKING, WORDS = RUN + "/looking", 200  # what a look is about to do, and how many characters of it
DOWNS_KEPT = 200
ACKS = "known"  # a directory: one file a finding that somebody knows of
STATE_LIMIT = 1024 * 1024
HANGS = "node.hangs"


class Settings(NamedTuple):
    """``values``: of a Spec without a wish. ``textfile``: node_exporter's directory; '' for none."""

    mode: str
    values: Mapping[str, Any]
    flaps: int = FLAPS
    textfile: str = ""
    directory: str = DIRECTORY


class Agent:
    """One look (``minute``), and what is kept from one to the next."""

    def __init__(self, host: Host, settings: Settings) -> None:
        self._host, self._settings = host, settings
        self._history = History(host, settings.directory)
        self._trouble = ""  # why the last record could not be kept
        self._last: Dict[str, Any] = dict(EMPTY, node=host.line("/proc/sys/kernel/hostname") or "localhost")
        self._last.update(json_object(host.read(LAST, LAST_LIMIT)) or {})
        kept = json_object(host.read("%s/%s" % (settings.directory, STATE), STATE_LIMIT)) or {}
        self._findings: Dict[str, Dict[str, Any]] = {key: row for key, row in mapping(kept.get("findings")).items() if _is_finding(row)}
        self._counters: Dict[str, Dict[str, int]] = mapping(kept.get("counters"))
        self._hour: Dict[str, Dict[str, int]] = mapping(kept.get("hour"))  # growth since the last hour's record
        self._hour_before: Dict[str, Dict[str, int]] = mapping(kept.get("hour_before"))
        began = kept.get("began")  # of that hour
        self._began = Moment(*began) if isinstance(began, list) and len(began) == len(Moment._fields) else None
        self._boot, self._until = str(kept.get("boot") or ""), float(kept.get("until") or 0.0)  # of the kernel's last event that was noted
        self._downs: List[Dict[str, Any]] = rows(kept.get("downs"))  # that count, of the last hours
        self._flaps: Dict[str, int] = mapping(kept.get("flaps"))  # downs that count, by part
        self._due = bool(kept.get("due", True)) or not self._last["facts"]  # a whole look

    def minute(self, t: float) -> None:
        """One look. ``t``: what the calendar says. Never raises for what a node does."""
        moment = now(self._host, t)
        if self._boot != moment.boot:
            self._begin(moment)
        where = VerdictSubject(self._last["node"], None, None, "the inspection")
        before = (self._host.line(LOOKING) or "")[:WORDS]
        if before:  # it is said before anything is looked at: this look may hang as well
            text = "a look did not come to its end: %s" % before
            self._say(merge(self._findings, [verdict(HANGS, where, "fail", "every look ends", None, text)], (), moment), moment)
            self._end(moment, [])
        self._tell("beginning")
        whole = self._due or self._began is None or moment.since(_stamp(self._began)) >= HOUR
        verdicts: List[Verdict] = []
        if whole:
            self._last = self._whole()
            verdicts = [item for item in verdicts_and_parts(self._last)[0] if not item.check.startswith(("gpu.", "port.", "pci."))]
        look = cheap_look(self._host, self._last, self._tell)
        healthy, parts = verdicts_and_parts(look)
        self._last["facts"]["health"] = look["health"]
        grown = growth(self._counters, parts)
        self._counters = {part.key: part.counters for part in parts}
        self._flaps = {part.key: self._flaps.get(part.key, 0) for part in parts if DOWNS in part.counters}
        add(self._hour, grown)
        if self._began is None or moment.since(_stamp(self._began)) >= HOUR:
            self._close_hour(moment)
        news = self._remember(grown, parts, moment)
        judged = [item for item in verdicts if item.check not in {each.check for each in healthy}]
        judged += [item for item in healthy if item.check != "port.flaps"] + flap_verdicts(
            self._last["node"], parts, self._downs, moment, self._settings.flaps)
        judged += error_verdicts(self._last["node"], parts, (self._hour_before, self._hour))
        if not before:
            judged.append(verdict(HANGS, where, "pass", "", None, ""))
        self._say(merge(self._findings, judged, parts, moment), moment)
        self._due = news and not whole
        self._try(lambda: self._host.write(LAST, json.dumps(self._last), 0o600))
        self._try(lambda: self._host.remove(LOOKING))
        return self._end(moment, parts)

    def _tell(self, text: str) -> None:
        """In place: it is written before each file and command, and lies in memory."""
        if not self._host.exists(LOOKING):
            self._try(lambda: self._host.write(LOOKING, " " * WORDS, 0o600))
        self._try(lambda: self._host.set_value(LOOKING, text[:WORDS].ljust(WORDS)))

    def _whole(self) -> Dict[str, Any]:
        """A cable that the NIC did not tell of this time is the one that it told of before."""
        found = whole_look(self._host, self._settings.values, self._tell)
        before = {port.get("netdev"): port.get("module") for port in mapping(self._last["facts"].get("health")).get("ports") or []}
        for port in mapping(found["facts"].get("health")).get("ports") or []:
            port["module"] = port.get("module") or before.get(port.get("netdev"))
        return found

    def _begin(self, moment: Moment) -> None:
        """The first look after a boot: counters begin anew."""
        self._counters, self._until, self._boot, self._due = {}, 0.0, moment.boot, True
        self._note(moment, "boot")

    def _remember(self, grown: Mapping[str, Mapping[str, int]], parts: Sequence[Part], moment: Moment) -> bool:
        """Records of what is new since the last look; whether there was anything."""
        names = {part.key: part.name for part in parts}
        downs = [(key, counters[DOWNS]) for key, counters in grown.items() if counters.get(DOWNS)]
        for key, times in downs:
            row = {"part": key, "name": names.get(key, ""), "n": times, "own": self._own(moment)}
            self._note(moment, "down", **row)
            if not row["own"]:
                self._flaps[key] = self._flaps.get(key, 0) + times
                self._downs.append(dict(row, t=moment.t, up=moment.up, boot=moment.boot))
        self._downs = [row for row in self._downs if moment.since(row) <= FLAP_HOURS * HOUR]
        fresh = [event for event in self._events() if event["last"] > self._until]
        for event in fresh:
            self._note(moment, "kernel", at=event["last"], n=event["count"],
                       **{name: event[name] for name in ("event", "device", "number", "text")})
        self._until = max([self._until] + [event["last"] for event in fresh])
        return bool(downs or fresh)

    def _events(self) -> List[Dict[str, Any]]:
        """Of the kernel's log since boot, as the last look saw it."""
        return mapping(mapping(self._last["facts"].get("health")).get("log")).get("events") or []

    def _own(self, moment: Moment) -> bool:
        """Links may go and come in the half hour after boot, and around an apply of ours."""
        applies = mapping(self._last["facts"].get("health")).get("applies") or []
        return moment.up < QUIET_HOURS * HOUR or any(-APPLY_SECONDS <= moment.t - when <= APPLY_SECONDS for when in applies)

    def _close_hour(self, moment: Moment) -> None:
        if self._began is not None and self._hour:
            self._note(moment, "hour", grown=self._hour)
        self._hour_before, self._hour, self._began = self._hour, {}, moment

    def _say(self, changes: Sequence[News], moment: Moment) -> None:
        for change in changes:
            self._note(moment, change.kind, **{name: change.finding[name] for name in ("id", "check", "subject", "part", "status", "text")})

    def _note(self, moment: Moment, kind: str, **fields: Any) -> None:
        self._trouble = self._history.append(moment, kind, **fields) or ""

    def _end(self, moment: Moment, parts: Sequence[Part]) -> None:
        """What somebody knows of, then the state and what others read. A full disk keeps the status, which lies in memory, up to date."""
        directory = "%s/%s" % (self._settings.directory, ACKS)
        for name in self._host.listdir(directory)[:64]:
            said = json_object(self._host.read("%s/%s" % (directory, name), 4096)) or {}
            change = acknowledge(self._findings, name, str(said.get("reason") or "")[:200], str(said.get("by") or "")[:64], moment)
            self._say([change] if change else [], moment)
            self._try(lambda path="%s/%s" % (directory, name): self._host.remove(path))
        state = {"findings": self._findings, "counters": self._counters, "boot": self._boot, "until": self._until, "flaps": self._flaps,
                 "downs": self._downs[-DOWNS_KEPT:], "hour": self._hour, "hour_before": self._hour_before, "began": self._began,
                 "due": self._due}
        self._try(lambda: self._host.write("%s/%s" % (self._settings.directory, STATE), json.dumps(state), 0o600))
        report = Report(self._last["node"], self._settings.mode, moment, self._findings, parts, self._flaps,
                        self._events(), self._trouble, self._history.lost)
        for path in write_report(self._host, report, self._settings.textfile):
            self._trouble = self._trouble or "%s could not be written" % path

    def _try(self, act: Any) -> None:
        try:
            act()
        except OSError as error:
            self._trouble = str(error)


def _stamp(moment: Moment) -> Dict[str, Any]:
    return dict(moment._asdict())


def _is_finding(row: Any) -> bool:
    return isinstance(row, dict) and all(name in row for name in ("id", "key", "check", "status", "first", "cured", "known"))
