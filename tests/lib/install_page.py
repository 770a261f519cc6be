# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of docs/install.md that take a new user from nothing to a run, by way: what stands behind `<!-- way: NAME -->`."""

from __future__ import annotations

import re

import repo

PAGE = "docs/install.md"
_BLOCK = re.compile(r"^<!-- way: ([a-z -]+) -->\n```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def ways() -> dict[str, list[str]]:
    """Each way's commands, in order; what goes on behind a backslash is one command. A line that is none is an error."""
    found = {}
    for name, block in _BLOCK.findall(repo.text(PAGE)):
        lines = block.replace("\\\n", "").splitlines()
        if not all(line.startswith("$ ") for line in lines):
            raise ValueError(f"{PAGE}, {name}: a line is no command: {lines}")
        found[name] = [line.removeprefix("$ ") for line in lines]
    return found
