# SPDX-License-Identifier: GPL-3.0-or-later
"""A running-config as commands within commands, by their indentation. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in, mapping

Block = Mapping[str, Any]  # a command -> what stands below it
DEEPEST = 32  # spaces
PART = re.compile(r"([0-9]{1,2})(?:-([0-9]{1,2}))?")


def indented(text: str, comment: str) -> Block:
    """``comment``: what its lines begin with. Blanks within a command count as one; the same command twice is one."""
    found: dict[str, Any] = {}
    above: list[tuple[int, dict[str, Any]]] = [(-1, found)]
    for line in lines_in(text):
        words = " ".join(line.split())
        if not words or words.startswith(comment):
            continue
        depth = min(len(line) - len(line.lstrip()), DEEPEST)
        while above[-1][0] >= depth:
            above.pop()
        below: dict[str, Any] = above[-1][1].setdefault(words, {})
        above.append((depth, below))
    return found


def spoken(commands: Block, words: tuple[str, ...]) -> bool:
    """Whether a command, or one below it, begins so: which platform's they are."""
    return any(word.startswith(words) for text, below in commands.items() for word in (text, *mapping(below)))


CHANNEL = re.compile(r"channel-group ([0-9]{1,4})(?: .{0,40})?")


def joined(commands: Block, own: Block, channel: str) -> Block:
    """A port that is a member of a channel has the channel's commands too, below its own. ``channel``: its head less the number."""
    number = next((found[1] for text in own if (found := CHANNEL.fullmatch(text))), None)
    return own if number is None else {**mapping(commands.get(f"{channel}{number}")), **own}


def numbers(text: str, most: int) -> Iterator[int]:
    """Of ``0-3,5 7``."""
    for part in re.split(r"[ ,]+", text.strip()):
        if found := PART.fullmatch(part):
            yield from range(int(found[1]), min(int(found[2] or found[1]), most) + 1)
