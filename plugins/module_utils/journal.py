# SPDX-License-Identifier: GPL-3.0-or-later
"""The restore point of one apply: written ahead of every effect, kept on the node.

``/var/lib/railwright/restore/<run>/journal.json`` holds, per effect, what it takes to
undo it. It is on disk before the effect happens, so that a node that loses power in
between still knows how it was. Mode 0600: old file contents may hold secrets.
"""

import json
from typing import Any, Dict, List

from .errors import RailwrightError
from .host import Host
from .types import Op

ROOT = "/var/lib/railwright/restore"
KEEP = 20  # restore points kept on a node; older ones are removed after a successful apply


class Journal:
    """Entries in the order of their effects; each is JSON and enough to undo it."""

    def __init__(self, host, run_id):
        # type: (Host, str) -> None
        if not run_id or not all(char.isalnum() or char in "-_.:" for char in run_id) or run_id.startswith("."):
            raise RailwrightError("run id %r: letters, digits and -_.: only" % run_id)
        self._host = host
        self.run_id = unused(host, run_id)
        self.path = "%s/%s/journal.json" % (ROOT, self.run_id)
        self.entries = []  # type: List[Dict[str, Any]]
        self.state = "applying"

    def record(self, key, op):
        # type: (str, Op) -> Dict[str, Any]
        """Write down how to undo ``op``; call before executing it."""
        entry = {"change": key, "kind": op.kind, "path": op.path, "argv": list(op.argv), "undo": [list(item) for item in op.undo],
                 "done": False}
        if op.kind in ("write", "remove"):
            entry["content"] = self._host.read(op.path)
            entry["mode"] = self._host.mode(op.path)
        elif op.kind == "value":
            entry["content"] = self._host.line(op.path)
        self.entries.append(entry)
        self.save()
        return entry

    def close(self, state):
        # type: (str) -> None
        """``state``: applied, rolled back, or rollback incomplete."""
        self.state = state
        self.save()

    def save(self):
        # type: () -> None
        document = {"version": 1, "run": self.run_id, "state": self.state, "entries": self.entries}
        self._host.write(self.path, json.dumps(document, indent=1, sort_keys=True) + "\n", 0o600)


def unused(host, run_id):
    # type: (Host, str) -> str
    """The run id, numbered when it is taken: several roles of one run apply one after the other."""
    name, number = run_id, 1
    while host.exists("%s/%s" % (ROOT, name)):
        number += 1
        name = "%s.%d" % (run_id, number)
    return name


def prune(host):
    # type: (Host) -> None
    """Drop the oldest restore points beyond ``KEEP`` (run ids sort by time)."""
    runs = host.listdir(ROOT)
    for name in runs[:-KEEP]:
        host.remove("%s/%s/journal.json" % (ROOT, name))
        host.rmdir("%s/%s" % (ROOT, name))
