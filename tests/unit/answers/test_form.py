# SPDX-License-Identifier: GPL-3.0-or-later
"""The language of forms: what fits comes back as plain data, what does not says where, what is allowed, and what was found."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import (
    DATA,
    DEPTH_LIMIT,
    VALUES_LIMIT,
    Choice,
    Either,
    Map,
    Misfit,
    Text,
    Whole,
    fitted,
)

NAME = Text(r"[a-z]+", "a name of small letters", 8)


class Tagged(str):
    """As ansible-core 2.19 marks texts."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (str, "text"), (str, ""), (int, 5), (int, -5), (float, 1.5), (float, 3), (bool, False), (None, None), ([int], [1, 2]), ([int], []),
        ({"a": int, "b?": str}, {"a": 1}), ({"a": int, "b?": str}, {"a": 1, "b": "x"}), (Map(int), {"x": 1, "y y": 2}), (Map(int), {}),
        (Either(str, None), None), (Either(str, None), "x"), (NAME, "abc"), (Choice("a", "b"), "b"), (Whole(1, 3), 3),
        (DATA, {"a": [1, None, {"b": [True, "x", 1.5]}]}),
    ],
)  # fmt: skip
def test_what_fits_comes_back_as_it_is(form: Any, value: Any) -> None:
    assert fitted(form, value) == value


@pytest.mark.parametrize(
    ("form", "value", "words"),
    [
        (str, 5, "it is the number 5; allowed: a text"),
        (int, True, "it is true; allowed: a whole number"),
        (int, 1.0, "it is the number 1.0; allowed: a whole number"),
        (int, 10**400, "it is a number of too many digits; allowed: a whole number"),
        (float, math.inf, "it is no finite number; allowed: a number"),
        (float, math.nan, "it is no finite number; allowed: a number"),
        (None, 0, "it is the number 0; allowed: null"),
        ([int], {"a": 1}, "it is an object; allowed: a list"),
        ([int], [1, "x"], "[1] is the text 'x'; allowed: a whole number"),
        ({"a": [{"b": int}]}, {"a": [{"b": None}]}, "a[0].b is null; allowed: a whole number"),
        ({"a": int}, {"b": 1}, "it is without a; allowed: an object with a"),
        (Map(int), {"x": "1"}, ".x is the text '1'; allowed: a whole number"),
        (NAME, "ABC", "it is the text 'ABC'; allowed: a name of small letters"),
        (NAME, "abc\n", r"it is the text 'abc\n'; allowed: a name of small letters"),
        (NAME, "a" * 9, "it is the text 'aaaaaaaaa'; allowed: a name of small letters"),
        (Choice("a", "b"), "c", "it is the text 'c'; allowed: a, b"),
        (Choice("a"), ["a"], "it is a list; allowed: a"),
        (Whole(1, 3), 4, "it is the number 4; allowed: 1 to 3"),
        (Either(int, None), "x", "it is the text 'x'; allowed: a whole number"),
        (DATA, {1, 2}, "it is something else; allowed: plain JSON"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(form: Any, value: Any, words: str) -> None:
    with pytest.raises(Misfit) as caught:
        fitted(form, value)
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def test_names_that_a_form_does_not_have_are_dropped() -> None:
    assert fitted({"a": {"b": int}}, {"a": {"b": 1, "ansible_facts": {}}, "add_host": {}}) == {"a": {"b": 1}}


def test_a_text_of_somebody_elses_type_is_plain_afterwards() -> None:
    found = fitted({"a": str, "b": DATA}, {"a": Tagged("x"), "b": {Tagged("k"): [Tagged("y")]}})
    assert type(found["a"]) is str
    assert [type(key) for key in found["b"]] == [str]
    assert type(found["b"]["k"][0]) is str


def test_halves_of_characters_do_not_reach_a_file() -> None:
    assert fitted([str], ["a\ud800b"])[0].encode() == b"a?b"


def test_depth_and_number_are_bounded_and_a_place_is_cut() -> None:
    deep: Any = []
    for _level in range(DEPTH_LIMIT + 2):
        deep = [deep]
    with pytest.raises(Misfit, match=f"nested deeper; allowed: at most {DEPTH_LIMIT} levels"):
        fitted(DATA, deep)
    with pytest.raises(Misfit, match=f"larger; allowed: at most {VALUES_LIMIT} values"):
        fitted([int], [1] * (VALUES_LIMIT + 1))
    with pytest.raises(Misfit) as caught:
        fitted(Map(int), {"\x1b[2J" + "x" * 4000: "1"})
    assert len(str(caught.value)) < 200
    assert "\x1b" not in str(caught.value)
