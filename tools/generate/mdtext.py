# SPDX-License-Identifier: GPL-3.0-or-later
"""Text in Markdown tables."""

from typing import Any

import yaml


def cell(text: str) -> str:
    """Text that cannot break out of its cell, and whose braces, stars and angle brackets are shown."""
    for char in ("\\", "|", "*", "<", ">", "_"):
        text = text.replace(char, "\\" + char)
    return " ".join(text.split())


def literal(value: Any) -> str:
    """A value as code, in YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10000).removesuffix("\n...\n").strip()
    return f"`{text}`".replace("|", "\\|")
