# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's work: look, remember, say. It writes below its own directories and nowhere else, starts only what looks, and ends nothing.

A timer starts a process for each look, which keeps nothing open and no memory between two. A whole look comes at the start, each hour, and
in the minute after the kernel or a counter told of something new; it is a process of its own, since NVML takes as much memory again. What a
look is about to do stands in a file: one that never ended is the next one's finding. Time is the monotonic clock's; a calendar that jumps
moves nothing.
"""

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ..catalogue.health import FLAP_HOURS, FLAPS, QUIET_HOURS
from ..checks.health_log import APPLY_SECONDS
from ..formats.outside import json_object, mapping, rows
from ..host.host import Host
from ..host.kernel_ring import uptime
from ..observe.kernel_log import AGENT, AGENT_LIMIT, TRUSTED, functions_of
from ..rules.check_modes import modes_from
from ..rules.comparisons import VerdictSubject, verdict
from .counters import DOWNS, Part, add, growth
from .findings import HANGS, Acting, News, acknowledge, error_verdicts, flap_verdicts, is_finding, merge, missing_answers
from .history import DIRECTORY, HOUR, History, Moment, is_down, is_stamped, is_time, now
from .hold import held
from .look import EMPTY, cheap_look, verdicts_and_parts, whole_look
from .status import RUN, Report, write_report
from .upgrades import last_upgrade, model, remembered, renewed, versions

STATE = "state.json"
DAMAGED = "state.json was damaged: findings of before, and what was known of them, are lost; begin anew: rm it"
LAST, LAST_LIMIT = AGENT, AGENT_LIMIT  # the last whole look, until the next boot
REST = 600.0  # seconds in which nobody looks after a look that hung
LOOKING, WORDS = RUN + "/looking", 200  # what a look is about to do, and how many characters of it
DOWNS_KEPT = 200
ACKS = "known"  # a directory: one file a finding that somebody knows of
STATE_LIMIT = 1024 * 1024


class Settings(NamedTuple):
    """``values``: of a Spec without a wish. ``textfile``: node_exporter's directory; '' for none. ``checks``: modes of the checks."""

    mode: str
    values: Mapping[str, Any]
    flaps: int = FLAPS
    textfile: str = ""
    directory: str = DIRECTORY
    checks: Mapping[str, Any] = {}


class Agent:
    """One look (``minute``), and what is kept from one to the next."""

    def __init__(self, host: Host, settings: Settings) -> None:
        self._host, self._settings = host, settings
        self._history = History(host, settings.directory)
        self._trouble = ""  # why the last record could not be kept
        self._last: Dict[str, Any] = dict(EMPTY, node=host.line("/proc/sys/kernel/hostname") or "localhost")
        self._last.update(json_object(host.read(LAST, LAST_LIMIT)) or {})
        kept = self._kept()
        self._findings: Dict[str, Dict[str, Any]] = {key: row for key, row in mapping(kept.get("findings")).items() if is_finding(row)}
        self._counters: Dict[str, Dict[str, int]] = _counts(kept.get("counters"))
        self._hour: Dict[str, Dict[str, int]] = _counts(kept.get("hour"))  # growth since the last hour's record
        self._hour_before: Dict[str, Dict[str, int]] = _counts(kept.get("hour_before"))
        self._began, self._seen = _moment(kept.get("began")), _moment(kept.get("seen"))  # of that hour; when the last whole look was
        until = kept.get("until")
        self._boot, self._until = str(kept.get("boot") or ""), min(float(until or 0.0), uptime(host)) if is_time(until) else 0.0
        self._downs: List[Dict[str, Any]] = [row for row in rows(kept.get("downs")) if is_down(row)]  # that count, of the last hours
        self._flaps: Dict[str, int] = _counts({"": kept.get("flaps")})[""]  # downs that count, by part
        # Serial number by interface, because a NIC does not report it each time.
        self._cables = {name: serial for name, serial in mapping(kept.get("cables")).items() if isinstance(serial, str)}
        self._history.lost = kept["lost"] if isinstance(kept.get("lost"), int) else 0
        self._damaged = bool(kept.get("damaged"))  # until somebody has looked after it: findings and what was known are gone
        self._missing: List[str] = []  # needed answers that no look got
        self._versions = remembered(kept.get("versions"))
        self._modes, self._held = modes_from(settings.checks), held(host)
        self._due = bool(kept.get("due", True)) or not self._last["facts"]  # a whole look, whatever the hour

    def _kept(self) -> Dict[str, Any]:
        path = "%s/%s" % (self._settings.directory, STATE)
        found = json_object(self._host.read(path, STATE_LIMIT))
        if found is None and self._host.exists(path):
            return {"damaged": True}
        return found or {}

    def due(self, t: float) -> bool:
        """Whether a whole look comes first. ``t``: what the calendar says."""
        moment = now(self._host, t)
        return self._due or self._boot != moment.boot or self._seen is None or moment.since(_stamp(self._seen)) >= HOUR

    def whole(self, t: float) -> None:
        """A whole look, for the look that follows."""
        moment = self._enter(t)
        if moment is not None:
            before = self._last
            self._last = dict(self._whole(), fresh=True)
            self._last["functions"] = sorted(functions_of(before) | functions_of(self._last))
            self._versions = renewed(self._versions, versions(self._last["facts"], str(self._settings.checks.get("release") or "")), moment)
            self._seen, self._due = moment, False
            self._leave()
            self._keep()

    def minute(self, t: float) -> None:
        """One look. Never raises for what a node does."""
        hung = bool(self._host.exists(LOOKING))
        moment = self._enter(t)
        if moment is None:
            return
        fresh = bool(self._last.pop("fresh", False))
        whole = verdicts_and_parts(dict(self._last, parts=[]))[0] if self._last.get("verdicts") else []
        verdicts = whole if fresh else []
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
        asked = {each.check for each in healthy}
        self._missing = missing_answers([item for item in whole if item.check not in asked] + healthy, self._acting(moment))
        judged = [item for item in verdicts if item.check not in {each.check for each in healthy}]
        judged += [item for item in healthy if item.check != "port.flaps"] + flap_verdicts(
            self._last["node"], parts, self._downs, moment, self._settings.flaps)
        judged += error_verdicts(self._last["node"], parts, (self._hour_before, self._hour))
        if not hung:
            judged.append(verdict(HANGS, self._where(), "pass", "", None, ""))
        self._say(merge(self._findings, judged, parts, moment), moment)
        self._due = news and not fresh
        self._leave()
        self._end(moment, parts)

    def _enter(self, t: float) -> Optional[Moment]:
        """What an earlier look hung in is said before anything else. As this one may hang as well, none looks for ten minutes (None)."""
        moment = now(self._host, t)
        if self._boot != moment.boot:
            self._begin(moment)
        before = (self._host.line(LOOKING) or "")[:WORDS]
        if before:
            text = "a look did not come to its end: %s" % before
            self._say(merge(self._findings, [verdict(HANGS, self._where(), "fail", "every look ends", None, text)], (), moment), moment)
            self._end(moment, [])
            if abs(t - (self._host.mtime(LOOKING) or 0.0)) < REST:
                return None
        self._tell("beginning")
        return moment

    def _leave(self) -> None:
        self._try(lambda: self._host.write(LAST, json.dumps(self._last), 0o600))
        self._try(lambda: self._host.remove(LOOKING))

    def _where(self) -> VerdictSubject:
        return VerdictSubject(self._last["node"], None, None, "the inspection")

    def _tell(self, text: str) -> None:
        """In place: it is written before each file and command, and lies in memory."""
        if not self._host.exists(LOOKING):
            self._try(lambda: self._host.write(LOOKING, " " * WORDS, 0o600))
        self._try(lambda: self._host.set_value(LOOKING, text[:WORDS].ljust(WORDS)))

    def _whole(self) -> Dict[str, Any]:
        """A cable that the NIC did not tell of this time is the one that it told of before."""
        found = whole_look(self._host, self._settings.values, self._tell)
        for port in mapping(found["facts"].get("health")).get("ports") or []:
            netdev, module = str(port.get("netdev")), port.get("module")
            if module and module.get("serial"):
                self._cables[netdev] = module["serial"]
            elif netdev in self._cables:
                port["module"] = dict({"values": [], "limits": {}}, **dict(module or {}, serial=self._cables[netdev]))
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
        """Return the events of the kernel's log since boot that are evidence."""
        log = mapping(mapping(self._last["facts"].get("health")).get("log"))
        return [event for event in log.get("events") or [] if event.get("listed")] if log.get("source") in TRUSTED else []

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
        said = {name: json_object(self._host.read("%s/%s" % (directory, name), 4096)) or {} for name in self._host.listdir(directory)[:64]}
        for name, word in said.items():
            change = acknowledge(self._findings, name, str(word.get("reason") or "")[:200], str(word.get("by") or "")[:64], moment)
            self._say([change] if change else [], moment)
        if self._keep():
            for name in said:
                self._try(lambda path="%s/%s" % (directory, name): self._host.remove(path))
        trouble = self._trouble or (DAMAGED if self._damaged else "")
        write_report(self._host, Report(
            self._last["node"], self._settings.mode, moment, self._findings, parts, self._flaps, self._events(), trouble,
            self._history.lost, self._missing, self._acting(moment), model(self._last["facts"]), self._versions),
            self._settings.textfile)

    def _acting(self, moment: Moment) -> Acting:
        window = float(self._settings.checks.get("window") or 0.0)
        return Acting(self._modes, self._held, last_upgrade(self._versions, moment, window))

    def _keep(self) -> bool:
        state = {"findings": self._findings, "counters": self._counters, "boot": self._boot, "until": self._until, "flaps": self._flaps,
                 "downs": self._downs[-DOWNS_KEPT:], "hour": self._hour, "hour_before": self._hour_before, "began": self._began,
                 "seen": self._seen, "due": self._due, "cables": self._cables, "lost": self._history.lost,
                 "damaged": self._damaged, "versions": self._versions}
        return self._try(lambda: self._host.write("%s/%s" % (self._settings.directory, STATE), json.dumps(state), 0o600))

    def _try(self, act: Any) -> bool:
        try:
            act()
        except OSError as error:
            self._trouble = str(error)
            return False
        return True


def _moment(kept: Any) -> Optional[Moment]:
    """Return the moment that ``state.json`` holds as a list; None for anything else."""
    row = dict(zip(Moment._fields, kept)) if isinstance(kept, list) else None
    return Moment(**row) if row is not None and is_stamped(row) else None


def _counts(kept: Any) -> Dict[str, Dict[str, int]]:
    """Return counters by part, as ``state.json`` holds them; what is no counter is left out."""
    return {key: {name: count for name, count in mapping(row).items() if isinstance(count, int)} for key, row in mapping(kept).items()}


def _stamp(moment: Moment) -> Dict[str, Any]:
    return dict(moment._asdict())
