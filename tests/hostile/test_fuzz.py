# SPDX-License-Identifier: GPL-3.0-or-later
"""No parser of foreign text raises anything but its documented error, and none takes long, not even for one word of 2 MB: fuzz_table.py has
them all.

In ``make test`` each gets 40 texts, always the same ones. RAILWRIGHT_FUZZ_SECONDS=60 tries new ones for that long, each parser.
"""

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.hostile.fuzz_table import HEAVY, TABLE_OF_PARSERS, Row
from tests.lib import foreign

EXAMPLES = 40
ROUND = 500  # texts of one go of a timed run
SLOWEST_S = 2.0  # CPU time of one text, none of which has 100 kB
SECONDS = float(os.environ.get("RAILWRIGHT_FUZZ_SECONDS", "0"))
# One long word: of WORD letters first, and where that takes a while up to LONGEST.
WORD, LONGEST = 125_000, 2_000_000
SCREEN_S = 0.03
LETTERS = ("a", ",", "'", "\\x")
LINES, WORDS = 8, 4  # of a sample


def tried(row: Row, value: object) -> None:
    start = time.process_time()
    with contextlib.suppress(*row.errors):
        row.parse(value)
    assert time.process_time() - start < SLOWEST_S, f"{row.name} takes long"


def go(row: Row, examples: int, *, same: bool) -> None:
    """``same``: the texts of every run."""
    kept = settings(
        max_examples=examples, derandomize=same, database=None, deadline=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink), print_blob=False,
    )  # fmt: skip
    kept(given(row.inputs)(lambda value: tried(row, value)))()


@pytest.mark.parametrize("row", TABLE_OF_PARSERS, ids=lambda row: row.name)
def test_nothing_but_the_documented_error(row: Row) -> None:
    if not SECONDS:
        go(row, HEAVY if row.heavy else EXAMPLES, same=True)
        return
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        go(row, HEAVY if row.heavy else ROUND, same=False)


@pytest.mark.parametrize("row", [row for row in TABLE_OF_PARSERS if row.documents], ids=lambda row: row.name)
def test_a_value_of_another_type(row: Row) -> None:
    """Every value of every document, by each other type: chance alone would need an hour for all of them."""
    for sample in row.samples:
        for text in foreign.of_other_types(sample):
            tried(row, text)


def seconds(row: Row, text: str) -> float:
    """CPU time of one trial, without that of the collector: it goes through all objects of the tests, too."""
    gc.disable()
    start = time.process_time()
    try:
        with contextlib.suppress(*row.errors):
            row.parse(text)
        return time.process_time() - start
    finally:
        gc.enable()


def filled(before: str, letter: str, behind: str, size: int) -> str:
    return before + letter * (size // len(letter)) + behind + "\n"


def long_words(row: Row) -> Iterator[Callable[[int], str]]:
    """A line of the row's samples by the length of one of its words, each in turn: it has no blank."""
    lines = [line for sample in row.samples for line in list(dict.fromkeys(sample.split("\n")))[:LINES] if line.strip()]
    for words in (line.split(" ") for line in lines):
        for place in [at for at, word in enumerate(words) if word][:WORDS]:
            for letter in LETTERS:
                before, behind = " ".join(words[: place + 1]), " ".join(["", *words[place + 1 :]])
                yield partial(filled, before, letter, behind)


def slow(row: Row, made: Callable[[int], str]) -> str | None:
    """What is wrong with the parser on this text; None: twice the word takes at most three times the time."""
    size, half = WORD, seconds(row, made(WORD))
    while half > SCREEN_S and size < LONGEST:
        size *= 2
        for _again in range(3):  # a machine that was busy elsewhere is asked anew
            whole = min(seconds(row, made(size)) for _again in range(2))
            if whole <= 3 * half:
                break
            half = min(seconds(row, made(size // 2)) for _again in range(2))
        else:
            return f"{half:.2f} s for {size // 2} letters of {made(40)!r}, {whole:.2f} s for {size}"
        half = whole
    return None


@pytest.mark.parametrize("row", [row for row in TABLE_OF_PARSERS if row.samples and not row.heavy], ids=lambda row: row.name)
def test_one_long_word_takes_no_quadratic_time(row: Row) -> None:
    assert next((complaint for made in long_words(row) if (complaint := slow(row, made)) is not None), None) is None


def test_the_table_is_whole() -> None:
    """One name a row; the issue that asked for this wanted 35."""
    assert len({row.name for row in TABLE_OF_PARSERS}) == len(TABLE_OF_PARSERS) >= 80
