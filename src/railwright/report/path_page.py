# SPDX-License-Identifier: GPL-3.0-or-later
"""A packet's way as one HTML page that needs no network: hosts, cables and switches side by side, the first break in red."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from railwright.path import Step, first_break

MARKS = {"pass": "\N{CHECK MARK}", "fail": "\N{MULTIPLICATION X}", "warn": "!", "unknown": "?"}  # not by colour alone


def path_page(found: Sequence[Step], profile: str, ends: Sequence[str]) -> str:
    """``ends``: the two rails, as the operator names them. What nodes and switches say is text, never HTML."""
    environment = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    bad = first_break(found)
    said = "Every hop agrees." if all(step.status == "pass" for step in found) else "No hop breaks, and not every one is known."
    places = [{"name": name, "kind": _kind(name, ends), "broken": any(step.status == "fail" for step in own), "steps": own}
              for name, own in ((name, list(own)) for name, own in groupby(found, lambda step: step.place))]  # fmt: skip
    return environment.get_template("path.html.j2").render(
        title=f"{' to '.join(ends)}, {profile}", places=places, marks=MARKS,
        said=said if bad is None else f"It breaks first at {bad.place}: {bad.hop} is {bad.found}, not {bad.expected}.")  # fmt: skip


def _kind(name: str, ends: Sequence[str]) -> str:
    return "host" if name in ends else "cable" if " to " in name else "switch"
