# SPDX-License-Identifier: GPL-3.0-or-later
"""Cutting and cleaning of values for one cell."""

from typing import Any

import pytest

from railwright.report.text import is_shortened, printable, printable_lines, short, value_text, xml_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "absent"),
        ("", '""'),
        ("x", "x"),
        (9000, "9000"),
        (True, "true"),
        (["b", 1], '["b", 1]'),
        ("# comment\nfirst=1\nsecond=2\n", "first=1 … (3 lines)"),
        ("a\tb\x1b", "a\\tb\\u001b"),
        ("x" * 60, "x" * 47 + "…"),
    ],
)
def test_short(value: Any, text: str) -> None:
    assert short(value) == text
    assert len(short(value)) <= 48


def test_what_was_cut_is_said_to_be_cut() -> None:
    assert [is_shortened(value) for value in ("short\n", "two\nlines", "x" * 49, "x" * 48, None)] == [False, True, True, False, False]


def test_printable_keeps_people_s_letters() -> None:
    assert printable("Köln 上海 é") == "Köln 上海 é"
    assert printable("a\u202eb\nc") == "a\\u202eb\\nc"


def test_lines_keep_their_ends_and_tabs_and_nothing_that_a_terminal_obeys() -> None:
    assert printable_lines("a\tb\r\n\x1b[0;31mred\x1b[0m\n") == "a\tb\nred\n"
    assert printable_lines("\x1b]0;title\x07\x1b[2J\x9b2J\r\u202e") == "\\u001b]0;title\\u0007\\u001b[2J\\u009b2J\\r\\u202e"
    assert printable_lines("\x1b\x1b[0m[2J") == "\\u001b[2J", "what is left when a colour is gone is no escape either"


@pytest.mark.parametrize("char", ["\x1b", "\x9b", "\x85", "\x7f", "\x00"])
def test_xml_holds_nothing_that_a_terminal_obeys(char: str) -> None:
    assert xml_text(f"a{char}b") == "a\ufffdb"


def test_objects_are_json() -> None:
    assert value_text({"b": 1, "a": None}) == '{"a": null, "b": 1}'
