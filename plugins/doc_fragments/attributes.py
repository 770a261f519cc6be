# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module says of check mode, of --diff and of where it runs; a module names only what is otherwise with it."""

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
