# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_check: see plugin_utils/judging_action.py."""

from __future__ import annotations

from ansible_collections.railwright.rdma.plugins.plugin_utils.judging_action import JudgingAction


class ActionModule(JudgingAction):
    """Runs the module with the host's validated wishes."""

    module = "railwright.rdma.rdma_check"
