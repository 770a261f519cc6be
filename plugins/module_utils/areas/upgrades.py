# SPDX-License-Identifier: GPL-3.0-or-later
"""Newer versions that the node's own package index knows: what ``rdma_stack_packages_state: latest`` asks for.

Nothing is downloaded: a plan only reads. An index that is days old knows days-old
versions; the package step refreshes it.
"""

import re
from typing import Dict, Sequence, Tuple

from ..host.host import Host

TIMEOUT = 60.0
COMMANDS: Dict[str, Tuple[str, ...]] = {
    "apt": ("apt-cache", "policy"),
    "dnf": ("dnf", "-q", "-C", "list", "--upgrades"),
    "yum": ("yum", "-q", "-C", "list", "updates"),
    "zypper": ("zypper", "--quiet", "--no-refresh", "--non-interactive", "list-updates"),
}
_APT = re.compile(r"^(\S+):\n(?:  .*\n)*?  Candidate: (\S+)$", re.MULTILINE)
_RPM = re.compile(r"^(\S+)\.\w+\s+(\S+)\s+\S+$", re.MULTILINE)


def candidates(host: Host, manager: str, names: Sequence[str]) -> Dict[str, str]:
    """The newest known version of each of ``names``; without those that have none newer, or none at all."""
    if manager not in COMMANDS or not names:
        return {}
    # zypper's list-updates takes no names
    out = host.run(COMMANDS[manager] + (() if manager == "zypper" else tuple(names)), TIMEOUT).out
    if manager == "apt":
        found = {name: version for name, version in _APT.findall(out) if version != "(none)"}
    elif manager == "zypper":
        rows = [[cell.strip() for cell in line.split("|")] for line in out.splitlines()]
        found = {row[2]: row[4] for row in rows if len(row) == 6}
    else:
        found = {name: without_epoch(version) for name, version in _RPM.findall(out)}
    return {name: found[name] for name in names if name in found}


def without_epoch(version: str) -> str:
    """dnf prints ``1:2.3-4``, our query of what is installed leaves the epoch out."""
    return version.rpartition(":")[2]
