# SPDX-License-Identifier: GPL-3.0-or-later
"""What really happened to a cluster: read where it cannot be embellished, and nothing of it is railwright's word.

Slurm's own states, second by second (molecule/upgrade/recorder.py), Slurm's record of ended jobs, what the jobs wrote themselves,
dpkg.log, and each boot by its id.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from harness import Container

MOST = 2  # upgrade_max_unavailable of the site
RECORD = "/var/log/recorder.jsonl"
META = {"3.2.2-035000": "A", "3.2.3-019000": "B"}  # of doca-ofed, the meta package of the stack
AWAY = ("DRAIN", "DOWN", "FAIL", "UNKNOWN", "NOT_RESPONDING")
LEASE = "/var/lib/railwright/upgrade.json"


class Mark(NamedTuple):
    """How things stood when something began."""

    at: float
    boots: Mapping[str, int]
    packages: Mapping[str, int]  # lines of dpkg.log
    jobs: int  # that had ended


class Witness:
    """Of the nodes by their name in the inventory, which is their name in Slurm, too."""

    def __init__(self, controller: Container, nodes: Mapping[str, Container]) -> None:
        self._controller, self._nodes = controller, dict(nodes)

    def mark(self) -> Mark:
        """By the controller's clock, which is the recorder's."""
        at = float(self._controller.out("date", "+%s.%N"))
        boots = {name: len(self._boots(name)) for name in self._nodes}
        return Mark(at, boots, {name: len(self._log(name)) for name in self._nodes}, len(self._ended()))

    def installed(self) -> dict[str, str]:
        """The release that each node has, whole; else what dpkg says of it."""
        argv = ("dpkg-query", "-W", "-f", "${db:Status-Abbrev}|${Version}", "doca-ofed")
        rows = {name: node.run(*argv, check=False).stdout.partition("|") for name, node in self._nodes.items()}
        unfinished = {name: node.out("dpkg", "--audit").strip() for name, node in self._nodes.items()}
        return {name: unfinished[name] or (META.get(version, version) if status.strip() == "ii" else status.strip())
                for name, (status, _bar, version) in rows.items()}

    def reboots(self, mark: Mark) -> dict[str, int]:
        return {name: len(self._boots(name)) - mark.boots[name] for name in self._nodes}

    def unpacked(self, mark: Mark) -> dict[str, Counter[str]]:
        """By node, how often each package was unpacked since."""
        lines = {name: [line.split() for line in self._log(name)[mark.packages[name]:]] for name in self._nodes}
        return {name: Counter(row[3] for row in rows if row[2] in ("install", "upgrade")) for name, rows in lines.items()}

    def repeated(self, mark: Mark) -> dict[str, list[str]]:
        """By node, the packages that were unpacked more than once since."""
        return {name: sorted(package for package, many in counted.items() if many > 1) for name, counted in self.unpacked(mark).items()}

    def leased(self, name: str) -> bool:
        return self._nodes[name].run("test", "-e", LEASE, check=False).returncode == 0

    # Slurm, over the time since a mark.

    def samples(self, mark: Mark) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in self._controller.out("cat", RECORD).splitlines()]
        return [row for row in rows if row["at"] >= mark.at]

    def most_away(self, mark: Mark) -> int:
        """The most nodes that took no work at one moment, whatever for."""
        return max(sum(is_away(node["state"]) for node in row["nodes"].values()) for row in self.samples(mark))

    def drains(self, mark: Mark) -> dict[str, int]:
        """How often each node went away."""
        found, before = dict.fromkeys(self._nodes, 0), dict.fromkeys(self._nodes, False)
        for row in self.samples(mark):
            for name, node in row["nodes"].items():
                away = is_away(node["state"])
                found[name] += away and not before[name]
                before[name] = away
        return found

    def order(self, mark: Mark) -> list[str]:
        """The nodes as they went away for the first time; those of one second in the order of their names."""
        seen: dict[str, None] = {}
        for row in self.samples(mark):
            seen.update(dict.fromkeys(sorted(name for name, node in row["nodes"].items() if is_away(node["state"]))))
        return list(seen)

    # Slurm, now.

    def states(self) -> dict[str, str]:
        lines = self._controller.out("scontrol", "--oneliner", "show", "nodes").splitlines()
        found = [(re.match(r"NodeName=(\S+)", line), re.search(r" State=(\S+)", line)) for line in lines]
        return {name.group(1): state.group(1) for name, state in found if name and state}

    def away_now(self) -> list[str]:
        return [name for name, state in self.states().items() if is_away(state.split("+"))]

    def reason(self, name: str) -> str:
        return self._controller.out("sinfo", "--noheader", f"--nodes={name}", "--format=%E").strip().splitlines()[0]

    def queue(self) -> list[str]:
        return self._controller.out("squeue", "--noheader", "--format=%i %T %N").splitlines()

    def job(self, number: str) -> str:
        return self._controller.run("squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%T", check=False).stdout.strip()

    def not_whole(self, mark: Mark) -> list[str]:
        """Jobs that did not come to their end, by Slurm's record or by their own words; of all that ended since, and none runs now."""
        rows = self._ended()[mark.jobs:]
        found = [f"job {row['JobId']} on {row['NodeList']}: {row['JobState']}" for row in rows if row["JobState"] != "COMPLETED"]
        for name, node in self._nodes.items():
            whole = node.run("sh", "-c", "cd /var/lib/jobs && grep -l -x end -- *.log", check=False).stdout.split()
            mine = [row["JobId"] for row in rows if row["NodeList"] == name]
            found += [f"job {number} on {name} did not write its end" for number in mine if f"{number}.log" not in whole]
        return found

    def _ended(self) -> list[dict[str, str]]:
        lines = self._controller.run("cat", "/var/log/slurm/jobs", check=False).stdout.splitlines()
        return [dict(word.partition("=")[::2] for word in line.split() if "=" in word) for line in lines]

    def _boots(self, name: str) -> list[str]:
        return self._nodes[name].out("cat", "/var/lib/stand-in/boots").splitlines()

    def _log(self, name: str) -> list[str]:
        return self._nodes[name].out("cat", "/var/log/dpkg.log").splitlines()


def is_away(words: list[str]) -> bool:
    """A star: it does not answer."""
    return any(word.rstrip("*") in AWAY or word.endswith("*") for word in words)
