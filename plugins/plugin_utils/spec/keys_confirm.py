# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for changes of networking that the node takes back unless they are confirmed. ``schema.py`` joins them."""

from __future__ import annotations

from .key import Key

CONFIRM_KEYS = (
    Key("rdma_confirm_timeout_s", "site", "int", 120,
        "How long a node waits, after a change of its networking (MTU, addresses, routes, QoS, firewall), for the controller to confirm it "
        "over a fresh connection. Without it the node takes the change back by itself.",
        "netplan-try(8): 120 seconds", minimum=20, maximum=900),
)
