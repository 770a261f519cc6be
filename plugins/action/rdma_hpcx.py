# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_hpcx: the Spec, and a look at the archive that the operator has here before it travels to any node."""

from __future__ import annotations

from ansible_collections.railwright.rdma.plugins.plugin_utils.prefix_action import PrefixAction


class ActionModule(PrefixAction):
    """HPC-X, for role mpi."""

    module = "railwright.rdma.rdma_hpcx"
    role = "mpi"
    archive = "mpi_archive"
    returned = "hpcx"
