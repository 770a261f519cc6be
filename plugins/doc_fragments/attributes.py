# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules say of check mode, of --diff, of where they run, and of what the action plugin fills in; a module names only what is
otherwise with it."""

from __future__ import annotations


class ModuleDocFragment:
    """``railwright.rdma.attributes``."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    support: full
    description: Reads only, so check mode makes no difference.
  diff_mode:
    support: none
    description: Changes nothing that lasts.
  platform:
    platforms: linux
    support: full
    description: Linux nodes.
  action_group:
    support: full
    membership: [railwright.rdma.rdma]
    description: C(module_defaults) of the group C(railwright.rdma.rdma) are this module's too.
"""
    # ``railwright.rdma.attributes.filled``; it is there because Ansible documents every option of a module.
    FILLED = r"""
options:
  filled:
    description: What the action plugin asks of the node, the inventory's wishes among it. Do not set it.
    type: dict
"""
