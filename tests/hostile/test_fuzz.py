# SPDX-License-Identifier: GPL-3.0-or-later
"""No parser of foreign text raises anything but its documented error, and none takes long: fuzz_table.py has them all.

In ``make test`` each gets 40 texts, always the same ones. RAILWRIGHT_FUZZ_SECONDS=60 tries new ones for that long, each parser.
"""

import contextlib
import os
import time

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.hostile.fuzz_table import HEAVY, TABLE_OF_PARSERS, Row
from tests.lib import foreign

EXAMPLES = 40
ROUND = 500  # texts of one go of a timed run
SLOWEST_S = 2.0  # CPU time of one text, none of which has 100 kB
SECONDS = float(os.environ.get("RAILWRIGHT_FUZZ_SECONDS", "0"))


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


def test_the_table_is_whole() -> None:
    """One name a row; the issue that asked for this wanted 35."""
    assert len({row.name for row in TABLE_OF_PARSERS}) == len(TABLE_OF_PARSERS) >= 80
