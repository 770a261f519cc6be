# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of ports, their peers and their RDMA devices."""

from __future__ import annotations

from .edits import DOWN, Fault, Healthy, nothing, port, remove

FAULTS = (
    Fault("h200-roce", "a link that is up and not active", port("mlx5_3", state="2: INIT"), "port.state", "fail", "INIT"),
)

HEALTHY = (
    Healthy("h200-roce", "the base tree", nothing),
)
