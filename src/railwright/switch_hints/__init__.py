# SPDX-License-Identifier: GPL-3.0-or-later
"""The switch side of a QoS profile, as text to review. Nothing here talks to a switch or a node.

``model.py`` is the profile as a switch sees it; ``templates`` has a file a platform over it, and what all of them share
(``sheet.j2``). A new platform is one more file and a row of PLATFORMS.
"""

import textwrap
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile
from railwright.switch_hints.model import PLATFORMS, Chain

__all__ = ["PLATFORMS", "hints"]

WIDTH = 110
TEMPLATES = Path(__file__).resolve().parent / "templates"


def hints(os: str, profile: QosProfile) -> list[str]:
    """The lines for one platform. Raises ValueError for a profile that no switch text can be written for."""
    platform = PLATFORMS[os]
    values = Chain.of(profile).values(platform.default)
    text = _environment().get_template(f"{os}.j2").render(values, comment=platform.comment)
    return _wrapped(text.rstrip("\n"), platform.comment)


@cache
def _environment() -> Environment:
    """Texts are for switches and shells, no HTML: nothing is escaped. Every value is the model's: a number, or a printable name."""
    loader = FileSystemLoader(TEMPLATES)
    return Environment(loader=loader, undefined=StrictUndefined, autoescape=select_autoescape(()), trim_blocks=True, lstrip_blocks=True)


def _wrapped(text: str, comment: str) -> list[str]:
    """Commands as they are; comments joined with the lines that continue them, then wrapped. What is indented stays so."""
    whole: list[str] = []
    for line in text.split("\n"):
        if line.startswith(f"{comment}    "):
            whole[-1] += " " + line.removeprefix(comment).strip()
        else:
            whole.append(line)
    lines: list[str] = []
    for line in whole:
        if not line.startswith(comment):
            lines.append(line)
            continue
        said = line.removeprefix(f"{comment} ").removeprefix(comment)
        indent = " " * (4 if said.startswith(" ") else 0)
        parts = textwrap.wrap(said, WIDTH - len(comment), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [f"{comment} {part}".rstrip() for part in parts]
    return lines
