# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: one file a verb; ``main`` turns every expected failure into one line and an exit code."""

from railwright.cli.main import main

__all__ = ["main"]
