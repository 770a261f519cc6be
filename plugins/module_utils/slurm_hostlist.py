# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's short form of many node names, ``gpu[001-003,7],login1``, as single names. Pure."""

import re
from typing import List

LIMIT = 65536  # names; Slurm's own MAX_SLURM_NODES is of this order, and a range of a damaged line must not fill memory
SHOWN = 200  # letters of a bad line in a message
_RANGE = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?\Z")


def expand(text: str) -> List[str]:
    """Every name, in order. Raises ValueError for what is no host list."""
    names: List[str] = []
    for part in _parts(text):
        names += _expand_part(part)
        if len(names) > LIMIT:
            raise ValueError("a host list of more than %d names" % LIMIT)
    return names


def _parts(text: str) -> List[str]:
    """Split at the commas that stand outside of brackets."""
    parts: List[str] = []
    begin = depth = 0
    for at, letter in enumerate(text + ","):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth not in (0, 1) or (depth and at == len(text)):
            raise ValueError("brackets of %r do not match" % text[:SHOWN])
        if letter == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [part for part in parts if part]


def _expand_part(part: str) -> List[str]:
    """``rack[1-2]n[01-02]``: the last bracket runs fastest."""
    names = [""]
    for piece in re.split(r"(\[[^\[\]]*\])", part):
        ends = _numbers(piece[1:-1]) if piece.startswith("[") else [piece]
        if len(names) * len(ends) > LIMIT:
            raise ValueError("a host list of more than %d names" % LIMIT)
        names = [name + end for name in names for end in ends]
    return names


def _numbers(ranges: str) -> List[str]:
    """``001-003,7``: leading zeros are kept."""
    found: List[str] = []
    for item in ranges.split(","):
        match = _RANGE.match(item)
        if match is None:
            raise ValueError("%r is no range of numbers" % item[:SHOWN])
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) - int(first) + len(found) >= LIMIT:
            raise ValueError("a host list of more than %d names" % LIMIT)
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found
