# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges an inventory with no node touched: every finding with file, line, key, value and what is allowed."""

from railwright.lint.finding import LintFinding
from railwright.lint.lint import judge, lint

__all__ = ("LintFinding", "judge", "lint")
