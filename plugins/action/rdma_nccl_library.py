# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_nccl_library: the Spec, and a look at the file that the operator has here before it travels to any node."""

from __future__ import annotations

from ansible_collections.railwright.rdma.plugins.plugin_utils.prefix_action import PrefixAction


class ActionModule(PrefixAction):
    """NCCL, for role nccl."""

    module = "railwright.rdma.rdma_nccl_library"
    role = "nccl"
    archive = "nccl_archive"
    returned = "library"
