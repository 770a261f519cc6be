# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scheduler says, every second, as it says it: runs on the controller beside everything else, and is what the tests judge by.

One line of JSON each time: ``{"at", "nodes": {name: {"state": [], "reason"}}, "jobs": {id: [state, [nodes]]}}``.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

NODES = ("scontrol", "--oneliner", "show", "nodes")
JOBS = ("squeue", "--noheader", "--states=all", "--format=%i|%T|%N")
REASON = re.compile(r" Reason=(.*?)(?: \[[^\]]*\])?(?: Comment=.*)?$")


def ask(argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def look():
    nodes, jobs = ask(NODES), ask(JOBS)
    if nodes is None or jobs is None:  # slurmctld is busy or away: no sample is no statement
        return None
    found = {}
    for line in nodes:
        name = re.match(r"NodeName=(\S+)", line)
        state = re.search(r" State=(\S+)", line)
        reason = REASON.search(line)
        if name and state:
            found[name.group(1)] = {"state": re.split(r"[+]", state.group(1)), "reason": reason.group(1).strip() if reason else None}
    rows = [line.split("|") for line in jobs]
    return {"at": time.time(), "nodes": found, "jobs": {row[0]: [row[1], [row[2]] if row[2] else []] for row in rows}}


def main(path):
    with Path(path).open("a", encoding="utf-8") as stream:
        while True:
            seen = look()
            if seen is not None:
                stream.write(json.dumps(seen) + "\n")
                stream.flush()
            time.sleep(1)


main(sys.argv[1])
