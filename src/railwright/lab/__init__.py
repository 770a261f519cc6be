# SPDX-License-Identifier: GPL-3.0-or-later
"""The embedded lab: a real RDMA fabric without hardware, as an inventory like any other.

Everything an outside caller needs is here. Failures are LabError; nothing prints, nothing exits.
"""

from railwright.lab.core import BARE, NodeStatus, current, down, ssh_argv, status, up
from railwright.lab.image import Progress
from railwright.lab.recipe import PLAIN, Recipe
from railwright.lab.state import Hardware, LabState, Node, Rail
from railwright.lab.tools import LabError, missing_packages

__all__ = [
    "BARE", "PLAIN", "Hardware", "LabError", "LabState", "Node", "NodeStatus", "Progress", "Rail", "Recipe", "current", "down",
    "missing_packages", "ssh_argv", "status", "up",
]  # fmt: skip
