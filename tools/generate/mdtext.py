# SPDX-License-Identifier: GPL-3.0-or-later
"""Text in Markdown tables."""

import re
from typing import Any

import yaml

# The five documents that railwright grew from, as the catalogue names them: title, page.
SEEDS = (
    ("Scnet's page", "scnet.md"),
    ("the guide to NCCL with MPI", "multi-node.md"),
    ("the guide to InfiniBand in containers", "infiniband.md"),
    ("the guide to RoCE", "roce.md"),
    ("the guide to eRDMA", "erdma.md"),
)
SEED = re.compile(r"\bS([0-4])\b(?::(\d+)((?:-| to )\d+)?)?(?: \(the eRDMA document\))?")
# How well something is known: nothing is said of what was read where it is made.
EVIDENCE = {" [V]": "", " [S]": " (second-hand)", " [I]": " (inferred)", " [K]": " (common knowledge)"}
ABBREVIATIONS = re.compile(r"\b(ALI|AZ|EFA|ERC|ERD|HCM|LSR|NPM|OCI|OGK|PAI|SA)\b")


def cell(text: str) -> str:
    """Text that cannot break out of its cell, and whose braces, stars and angle brackets are shown."""
    for char in ("\\", "|", "*", "<", ">", "_"):
        text = text.replace(char, "\\" + char)
    return " ".join(text.split())


def literal(value: Any) -> str:
    """A value as code, in YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10000).removesuffix("\n...\n").strip()
    return f"`{text}`".replace("|", "\\|")


def source(text: str, *, links: bool = True) -> str:
    """Where something was read, as readers know it: titles and links in place of the catalogue's codes. ``links``: for docs/reference."""
    for code, words in EVIDENCE.items():
        text = text.replace(code, words)
    text = re.sub(r"\bdomain [A-Z][0-9]+", "usual practice", text)
    if links:
        text = ABBREVIATIONS.sub(r"[\1](sources.md)", cell(text))
    return SEED.sub(lambda found: _seed(found, links=links), text)


def _seed(found: re.Match[str], *, links: bool) -> str:
    title, page = SEEDS[int(found[1])]
    name = f"[{title}](../seeds/{page})" if links else title
    return name if found[2] is None else f"{name}, line{'s' if found[3] else ''} {found[2]}{found[3] or ''}"
