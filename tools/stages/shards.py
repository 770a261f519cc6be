# SPDX-License-Identifier: GPL-3.0-or-later
"""One part of a long list of work: files of tests (tests/conftest.py), steps of a stage. Standard library only."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def part(items: Sequence[T], wanted: str) -> Sequence[T]:
    """The I-th of N parts for ``I/N``. In turn, so that no part is empty while another has two. Raises ValueError in one line."""
    index, _slash, count = wanted.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise ValueError(f"--shard {wanted}: expected I/N with 1 <= I <= N, say 2/4")
    return items[int(index) - 1 :: int(count)]
