# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a node: ``look`` and ``whole`` (what the timer starts), ``events``, ``ack ID REASON``; areas/system/agent.py starts it."""

import contextlib
import gc
import json
import sys
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..formats.outside import json_object, mapping, read_json, rows
from ..formats.text import first_of
from ..host.host import Host
from ..rules.check_modes import MODES, OBSERVE
from .findings import is_shown, open_findings
from .history import DIRECTORY, HOUR, History, Moment, is_down, now
from .service import ACKS, LOOKING, STATE, STATE_LIMIT, Agent, Settings
from .status import DOCUMENT, RUN, event_lines, head_line
from .upgrades import remembered as kept_versions
from .upgrades import told

ID = "0123456789abcdef"
NAME = "railwright-agent"
LOCK = RUN + "/lock"
WHOLE_FIRST = 75  # EX_TEMPFAIL of sysexits.h; areas/system/agent.py knows it
NOBODY: Dict[str, Any] = {"mode": "off", "word": "none", "age": None, "reason": "", "trouble": "", "findings": [], "offenders": [],
                          "held": [], "model": "", "observed": "", "versions": []}
SEEN = ("mode", "word", "reason", "trouble", "offenders", "held", "model", "observed")
FINDING = ("id", "check", "subject", "part", "status", "text", "known", "mode", "fresh")
LINES = 100


def main(arguments: Sequence[str], settings: str) -> int:
    """``settings``: of ``look`` and ``whole``, as a JSON object. Ends 0, WHOLE_FIRST where a look must be preceded by a whole one, 64 for
    other usage."""
    command, rest = (arguments[0] if arguments else ""), list(arguments[1:])
    host = Host()
    if command in ("look", "whole") and not rest:
        return look(host, command, Settings(**read_json(settings)))
    if command == "events" and not rest:
        sys.stdout.write("\n".join(event_text(host)) + "\n")
        return 0
    if command == "ack" and len(rest) == 2:
        say_known(host, rest[0], rest[1], host.login())
        return 0
    sys.stderr.write("usage: agent look | whole | events | ack ID REASON\n")
    return 64


def look(host: Host, command: str, settings: Settings) -> int:
    """One at a time. Whatever ends it early, but for a hang, is no finding of the node's."""
    gc.disable()  # it is over soon
    with contextlib.suppress(OSError):
        host.set_value("/proc/self/comm", NAME)  # who asks what holds a GPU sees whose moment it is
    if not host.exists(LOCK):
        host.write(LOCK, "", 0o600)
    if host.lock(LOCK) is None:
        return 0
    try:
        agent = Agent(host, settings)
        if command == "look" and agent.due(time.time()):
            return WHOLE_FIRST
        (agent.minute if command == "look" else agent.whole)(time.time())
    except Exception:
        host.remove(LOOKING)
        raise
    return 0


def remembered(host: Host, directory: str = DIRECTORY) -> Tuple[List[Dict[str, Any]], List[Mapping[str, Any]], Dict[str, Any]]:
    """(records, findings that are not cured, the status) of this node. Records and the state are root's; the status, which has the findings
    too, is everybody's, and of this boot alone."""
    moment = now(host, time.time())
    said = json_object(host.read(DOCUMENT, STATE_LIMIT)) or {}
    said = said if said.get("boot") == moment.boot and isinstance(said.get("up"), (int, float)) else {}
    state = json_object(host.read("%s/%s" % (directory, STATE), STATE_LIMIT)) or {}
    published = {row["id"]: row for row in rows(said.get("findings")) if is_shown(row)}
    kept = {row["id"]: dict(row, cured=None, known=row.get("known"), **_mode(published.get(row["id"])))
            for row in list(mapping(state.get("findings")).values()) or list(published.values())
            if is_shown(row) and not row.get("cured") and (not said or row["id"] in published)}  # what is off is not published
    records = [record for record in History(host, directory).records(moment) if record["kind"] != "down" or is_down(record)]
    return records, open_findings(kept) + [row for row in kept.values() if row.get("known")], said


def _mode(published: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    """Return whether the check of a finding acts, by the last status; without one it does not."""
    row = published or {}
    return {"mode": row["mode"] if row.get("mode") in MODES else OBSERVE, "fresh": row.get("fresh") is True}


def event_text(host: Host, directory: str = DIRECTORY) -> List[str]:
    node = host.line("/proc/sys/kernel/hostname") or "localhost"
    return text_of(node, *remembered(host, directory), moment=now(host, time.time()))


def text_of(
    node: str, records: Sequence[Dict[str, Any]], findings: Sequence[Mapping[str, Any]], said: Mapping[str, Any], moment: Moment
) -> List[str]:
    """For people: of what ``remembered`` gives."""
    age = moment.up - float(said["up"]) if said else None
    return [head_line(node, findings, age)] + event_lines(records, findings, moment)


def say_known(host: Host, stamp: str, reason: str, by: str, directory: str = DIRECTORY) -> None:
    """The agent takes it up within a minute. Raises ValueError, OSError."""
    ids = [row["id"] for row in remembered(host, directory)[1]]
    if stamp not in ids or set(stamp) - set(ID):
        raise ValueError("%s is no open finding; open are: %s" % (stamp[:20], first_of(ids, 8) or "none"))
    host.write("%s/%s/%s" % (directory, ACKS, stamp), json.dumps({"reason": reason, "by": by}), 0o600)


def answer(host: Host, params: Dict[str, Any], _dry: bool) -> Dict[str, Any]:
    """What the controller hears, of mode ``agent``: the status, when each link went down last, and what it says to people. A node without
    an agent has the word none."""
    moment = now(host, time.time())
    records, findings, said = remembered(host)
    downs: List[Dict[str, Any]] = [
        {"part": record["part"], "name": record["name"], "ago": moment.since(record)} for record in records
        if record["kind"] == "down" and not record.get("own") and moment.since(record) <= 12 * HOUR]
    found = dict(NOBODY, **{name: said[name] for name in SEEN if name in said})
    if said:
        found["age"] = max(moment.up - float(said["up"]), 0.0)
    found["findings"] = [dict({name: row.get(name) for name in FINDING}, ago=max(moment.t - float(row["first"]), 0.0))
                         for row in findings]
    found["versions"] = told(kept_versions(said.get("versions")), moment)
    return {"agent": dict(found, downs=downs[-100:], text=text_of(params["node"], records, findings, said, moment)[:LINES])}
