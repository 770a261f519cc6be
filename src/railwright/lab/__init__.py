# SPDX-License-Identifier: GPL-3.0-or-later
"""The embedded lab: a real RDMA fabric without hardware, as an inventory like any other.

Everything an outside caller needs is here. Failures are LabError; nothing prints, nothing exits.
"""

from railwright.lab.core import BARE, NodeStatus, current, down, power_off, power_on, restore, run_in, snapshot, ssh_argv, status, up
from railwright.lab.image import Progress
from railwright.lab.recipe import GRUB, PLAIN, Recipe
from railwright.lab.state import Hardware, LabState, Node, Rail
from railwright.lab.tools import LabError, missing_packages

__all__ = [
    "BARE", "GRUB", "PLAIN", "Hardware", "LabError", "LabState", "Node", "NodeStatus", "Progress", "Rail", "Recipe", "current", "down",
    "missing_packages", "power_off", "power_on", "restore", "run_in", "snapshot", "ssh_argv", "status", "up",
]  # fmt: skip
