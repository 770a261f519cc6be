# SPDX-License-Identifier: GPL-3.0-or-later
"""What an action plugin fills in; it is documented because Ansible documents every option of a module."""

from __future__ import annotations


class ModuleDocFragment:
    """``railwright.rdma.filled``: one option for all of it."""

    DOCUMENTATION = r"""
options:
  filled:
    description: What the action plugin asks of the node, the inventory's wishes among it. Do not set it.
    type: dict
"""
