# SPDX-License-Identifier: GPL-3.0-or-later
"""The failures of each check in a node's history, for `railwright agent trial`."""

import time
from typing import Any, Dict, Iterable, List, Mapping

from ..host.host import Host
from .history import DAY, KEPT_DAYS, History, Moment, now

MOST = 500  # failures that are reported, the newest
KINDS = ("found", "worse", "better", "cured", "known")


def failures(records: Iterable[Mapping[str, Any]], moment: Moment) -> List[Dict[str, Any]]:
    """Return each failure of a check, the oldest first: from the record in which a finding failed to the one that ended it."""
    found: List[Dict[str, Any]] = []
    running: Dict[str, Dict[str, Any]] = {}
    for record in records:
        stamp = record.get("id")
        if record["kind"] not in KINDS or not all(isinstance(record.get(name), str) for name in ("id", "check", "subject", "status")):
            continue
        if record["kind"] in ("found", "worse") and record["status"] == "fail" and stamp not in running:
            failure = {"check": record["check"], "subject": record["subject"], "began": moment.since(dict(record)), "ended": None}
            running[str(stamp)] = failure
            found.append(failure)
        elif record["kind"] in ("better", "cured", "known") and stamp in running:
            running.pop(str(stamp))["ended"] = moment.since(dict(record))
    return found[-MOST:]


def answer(host: Host, _params: Dict[str, Any], _dry: bool) -> Dict[str, Any]:
    """Return the failures of the last 30 days, and how many days the history reaches back."""
    moment = now(host, time.time())
    records = list(History(host).records(moment, KEPT_DAYS))
    days = moment.since(records[0]) / DAY if records else 0.0
    return {"trial": {"days": days, "failures": failures(records, moment)}}
