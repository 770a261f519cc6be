# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command line of a machine, as the user nobody reads them: what is in one is told to everybody."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

PLANTED = "hf_7Qm2x9"  # the value of a job's variable
READ = """
import json, os
found = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as stream:
            found.append(stream.read().replace(b"\\0", b" ").decode("utf-8", "replace").strip())
    except OSError:
        continue
print(json.dumps(found))
"""
AS_NOBODY = ("runuser", "-u", "nobody", "--", "/usr/bin/python3", "-I", "-c", READ)


def command_lines(on: Callable[[str, Sequence[str], str], str], node: str) -> list[str]:
    """``on`` runs a command on a node as root and returns what it printed."""
    return [line for line in json.loads(on(node, AS_NOBODY, "")) if line]


def assert_kept(lines: Sequence[str], runs: str) -> None:
    """What was planted is in none. ``runs``: what the job is known by, so that a look at the wrong moment is noticed."""
    assert any(runs in line for line in lines), lines
    assert not [line for line in lines if PLANTED in line]
