# SPDX-License-Identifier: GPL-3.0-or-later
"""Every variable that NCCL 2.30.7 reads, and those that people set in vain. Controller only.

The rows lie in variables_network.py, variables_general.py and variables_foreign.py; nothing on a node
imports them, so the modules stay small.
"""

from __future__ import annotations

from .variable_row import Other, Removed, Variable
from .variables_foreign import NEVER_IN_NCCL, OWNED_BY_OTHERS, PLUGIN_ROWS, REMOVED_ROWS
from .variables_general import ROWS as _GENERAL
from .variables_network import ROWS as _NETWORK

VERSION = "2.30.7"
VARIABLES: dict[str, Variable] = {row.name: row for row in _NETWORK + _GENERAL}
PLUGIN_VARIABLES: dict[str, Variable] = {row.name: row for row in PLUGIN_ROWS}
REMOVED: dict[str, Removed] = {row.name: row for row in REMOVED_ROWS}

__all__ = ("NEVER_IN_NCCL", "OWNED_BY_OTHERS", "PLUGIN_VARIABLES", "REMOVED", "VARIABLES", "VERSION", "Other", "Removed", "Variable")
