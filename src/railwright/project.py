# SPDX-License-Identifier: GPL-3.0-or-later
"""What the package is called, and the project's addresses that are set. Generated from pyproject.toml (tools/generate/project.py)."""

NAME = "railwright"
ADDRESSES: dict[str, str] = {}
