# SPDX-License-Identifier: GPL-3.0-or-later
"""Text in Markdown tables."""

import re
from typing import Any

import yaml

# The five documents that railwright grew from, as the catalogue names them: title, page.
SEEDS = {
    "Scnet's page": "scnet.md",
    "the guide to NCCL with MPI": "multi-node.md",
    "the guide to InfiniBand in containers": "infiniband.md",
    "the guide to RoCE": "roce.md",
    "the guide to eRDMA": "erdma.md",
}
SEED = re.compile("|".join(map(re.escape, SEEDS)))
ABBREVIATIONS = re.compile(r"\b(AIA|ALI|AZ|CEA|EFA|ERC|ERD|GCT|HCM|LSR|NPM|OCI|OGK|PAI|SA)\b")


def cell(text: str) -> str:
    """Text that cannot break out of its cell, and whose braces, stars and angle brackets are shown."""
    for char in ("\\", "|", "*", "<", ">", "_"):
        text = text.replace(char, "\\" + char)
    return " ".join(text.split())


def literal(value: Any) -> str:
    """A value as code, in YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10000).removesuffix("\n...\n").strip()
    return f"`{text}`".replace("|", "\\|")


def source(text: str) -> str:
    """Where something was read, with links, for a page of docs/reference."""
    linked = ABBREVIATIONS.sub(r"[\1](sources.md)", cell(text))
    return SEED.sub(lambda found: f"[{found[0]}](../seeds/{SEEDS[found[0]]})", linked)

