# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions as numbers, lists as people say them, last words, generations of GPUs. Pure."""

import re
import shlex
from typing import Dict, Iterable, List, Optional, Sequence, Tuple, TypeVar

from .outside import lines_in

Key = TypeVar("Key")
Value = TypeVar("Value")

# Where str.splitlines ends a line: for texts that pip and Ansible take apart with it.
PYTHON_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
LONGEST_LINE = 4096  # characters
# PCI device ids rise with the generations: Turing begins at 0x1e00 (TU102), the last Volta is 0x1dff. The list of GPUs that the open
# kernel modules support (README of open-gpu-kernel-modules) begins with 1E02.
FIRST_TURING = 0x1E00


def numbers(version: Optional[str]) -> Tuple[int, ...]:
    """The numbers that a version begins with: (5, 14, 0) of 5.14.0-570.el9; () of what has none."""
    found = re.match(r"[0-9]{1,18}(?:\.[0-9]{1,18})*", version or "")
    return tuple(int(part) for part in found.group(0).split(".")) if found else ()


def join_names(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; of more than four only the first ones by name."""
    names = [str(word) for word in words]
    if len(names) > 4:
        return "%s and %d more" % (", ".join(names[:3]), len(names) - 3)
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part) if names else "none"


def turing_or_newer(device_ids: Sequence[str]) -> Optional[bool]:
    """Whether every GPU is; None when there is none, or an id cannot be read."""
    known = [int(text, 16) >= FIRST_TURING for text in device_ids if re.match(r"0x[0-9a-f]{4}\Z", text)]
    return all(known) if known and len(known) == len(device_ids) else None


def first_of(names: Sequence[str], limit: int = 8) -> str:
    """``node1, node2`` or, of many, the first and how many more."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (" and %d more" % more if more > 0 else "")


def grouped(pairs: Iterable[Tuple[Key, Value]]) -> Dict[Key, List[Value]]:
    """The values of each key, both in the order in which they come."""
    found: Dict[Key, List[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def shell_words(line: str, *, comments: bool = False) -> List[str]:
    """Split a line as a shell does, or at its blanks where its quotes are not closed or it is longer than any real one.

    The time of ``shlex`` grows with the square of a word's length.
    """
    try:
        return shlex.split(line, comments) if len(line) <= LONGEST_LINE else line.split()
    except ValueError:
        return line.split()


def last_line(text: str, limit: int = 300) -> str:
    """What a program said last, as one short line."""
    lines = [line.strip() for line in lines_in(text) if line.strip()]
    return lines[-1][:limit] if lines else "it said nothing"
