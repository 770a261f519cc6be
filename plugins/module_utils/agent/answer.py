# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller hears of a node's agent: its status, when each link went down last, and what it says to people."""

import time
from typing import Any, Dict, List

from ..host.host import Host
from .history import HOUR, now
from .main import remembered, text_of

NOBODY: Dict[str, Any] = {"mode": "off", "word": "none", "age": None, "reason": "", "trouble": "", "findings": [], "offenders": []}
SEEN = ("mode", "word", "reason", "trouble", "offenders")
FINDING = ("id", "check", "subject", "part", "status", "text", "known")
LINES = 100


def answer(host: Host, params: Dict[str, Any], _dry: bool) -> Dict[str, Any]:
    """Of mode ``agent``. A node without one has the word none."""
    moment = now(host, time.time())
    records, findings, said = remembered(host)
    downs: List[Dict[str, Any]] = [
        {"part": record["part"], "name": record["name"], "ago": moment.since(record)} for record in records
        if record["kind"] == "down" and not record.get("own") and moment.since(record) <= 12 * HOUR]
    found = dict(NOBODY, **{name: said[name] for name in SEEN if name in said})
    if said:
        found["age"] = max(moment.up - float(said["up"]), 0.0)
    found["findings"] = [{name: row.get(name) for name in FINDING} for row in findings]
    return {"agent": dict(found, downs=downs[-100:], text=text_of(params["node"], records, findings, said, moment)[:LINES])}
