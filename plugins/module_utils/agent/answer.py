# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller hears of a node's agent: its status, when each link went down last, and what it says to people."""

import time
from typing import Any, Dict, List

from ..formats.outside import json_object
from ..host.host import Host
from . import status
from .history import DIRECTORY, HOUR, now
from .main import remembered

NOBODY: Dict[str, Any] = {"mode": "off", "word": "none", "age": None, "reason": "", "trouble": "", "findings": [], "offenders": []}
SEEN = ("mode", "word", "reason", "trouble", "offenders")
LINES = 100


def answer(host: Host, params: Dict[str, Any], _dry: bool) -> Dict[str, Any]:
    """Of mode ``agent``. A node without one has the word none."""
    moment = now(host, time.time())
    said = json_object(host.read(status.DOCUMENT, 1024 * 1024)) or {}
    alive = said.get("boot") == moment.boot and isinstance(said.get("up"), (int, float))
    records, findings = remembered(host, DIRECTORY)
    downs: List[Dict[str, Any]] = [
        {"part": record["part"], "name": record["name"], "ago": moment.since(record)} for record in records
        if record["kind"] == "down" and not record.get("own") and moment.since(record) <= 12 * HOUR]
    found = dict(NOBODY, **({name: said[name] for name in SEEN if name in said} if alive else {}))
    if alive:
        found["age"] = max(moment.up - float(said["up"]), 0.0)
    found["findings"] = [{name: row[name] for name in ("id", "check", "subject", "part", "status", "text", "known")} for row in findings]
    return {"agent": dict(found, downs=downs[-100:], text=status.event_lines(params["node"], records, findings, moment)[:LINES])}
