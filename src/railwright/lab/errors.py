# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception this package raises on purpose."""

from __future__ import annotations


class LabError(Exception):
    """Something the operator can act on; the message says what and how."""
