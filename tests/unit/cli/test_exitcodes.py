# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of exit codes, and what wins when several hold."""

from itertools import permutations

import pytest

from railwright.exitcodes import CommandError, ExitCode, InputError, RunError, combine


def test_numbers_are_the_documented_ones() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0,
        "FAILED": 1,
        "DRIFT": 2,
        "UNREACHABLE": 3,
        "UNJUDGED": 4,
        "USAGE": 64,
        "INTERRUPTED": 130,
    }


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [
        ((), 0),
        ((0,), 0),
        ((0, 2), 2),
        ((0, 1, 2), 1),
        ((0, 2, 4), 4),
        ((0, 1, 2, 4), 1),
        ((0, 1, 2, 3, 4), 3),
        ((2, 3), 3),
        ((0, 1, 2, 3, 4, 64), 64),
        ((64, 2), 64),
    ],
)
def test_precedence_whatever_the_order(codes: tuple[int, ...], wanted: int) -> None:
    for order in permutations(ExitCode(code) for code in codes):
        assert combine(order) == wanted


def test_errors_carry_their_code() -> None:
    assert (CommandError.code, InputError.code, RunError.code) == (1, 64, 1)
