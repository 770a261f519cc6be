# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a node: ``look`` (what the timer starts), ``events``, ``known ID REASON``; areas/system/agent.py starts it."""

import gc
import json
import sys
import time
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..formats.outside import json_object, read_json
from ..formats.text import first_of
from ..host.host import Host
from .findings import open_findings
from .history import DIRECTORY, History, now
from .service import ACKS, STATE, STATE_LIMIT, Agent, Settings
from .status import event_lines

ID = "0123456789abcdef"


def main(arguments: Sequence[str], settings: str) -> int:
    """``settings``: of ``look``, as a JSON object. Ends 0, or 64 for other usage."""
    command, rest = (arguments[0] if arguments else ""), list(arguments[1:])
    host = Host()
    if command == "look" and not rest:
        gc.disable()  # it is over soon
        Agent(host, Settings(**read_json(settings))).minute(time.time())
        return 0
    if command == "events" and not rest:
        sys.stdout.write("\n".join(event_text(host)) + "\n")
        return 0
    if command == "known" and len(rest) == 2:
        say_known(host, rest[0], rest[1], host.login())
        return 0
    sys.stderr.write("usage: agent look | events | known ID REASON\n")
    return 64


def remembered(host: Host, directory: str = DIRECTORY) -> Tuple[List[Dict[str, Any]], List[Mapping[str, Any]]]:
    """(records, findings that are not cured) of this node."""
    state = json_object(host.read("%s/%s" % (directory, STATE), STATE_LIMIT)) or {}
    kept = {key: row for key, row in (state.get("findings") or {}).items() if isinstance(row, dict) and not row.get("cured")}
    records = list(History(host, directory).records(now(host, time.time())))
    return records, open_findings(kept) + [row for row in kept.values() if row.get("known")]


def event_text(host: Host, directory: str = DIRECTORY) -> List[str]:
    records, findings = remembered(host, directory)
    return event_lines(host.line("/proc/sys/kernel/hostname") or "localhost", records, findings, now(host, time.time()))


def say_known(host: Host, stamp: str, reason: str, by: str, directory: str = DIRECTORY) -> None:
    """The agent takes it up within a minute. Raises ValueError, OSError."""
    ids = [row["id"] for row in remembered(host, directory)[1]]
    if stamp not in ids or set(stamp) - set(ID):
        raise ValueError("%s is no open finding; open are: %s" % (stamp[:20], first_of(ids, 8) or "none"))
    host.write("%s/%s/%s" % (directory, ACKS, stamp), json.dumps({"reason": reason, "by": by}), 0o600)
