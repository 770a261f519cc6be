# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that only the action plugin of a module fills."""

from __future__ import annotations


class ModuleDocFragment:
    """``railwright.rdma.filled`` has ``spec``, ``.node`` and ``.now`` have those; ``.all`` is one option for all of it."""

    DOCUMENTATION = r"""
options:
  spec:
    description: The validated wishes for this host. The action plugin fills it from the inventory; do not set it.
    type: dict
"""
    ALL = r"""
options:
  filled:
    description: What the action plugin asks of the node, in place of options of their own. Do not set it.
    type: dict
"""
    NODE = r"""
options:
  node:
    description: The node's name in the inventory. The action plugin fills it; do not set it.
    type: str
"""
    NOW = r"""
options:
  now:
    description: The controller's clock in seconds since the epoch. The action plugin fills it; do not set it.
    type: float
"""
