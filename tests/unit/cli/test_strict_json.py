# SPDX-License-Identifier: GPL-3.0-or-later
"""What a strict JSON reader refuses is text in our documents."""

import json

import pytest

from railwright.writing import json_text


def refused(word: str) -> float:
    raise AssertionError(word)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_has_not_is_text(number: float) -> None:
    word = json.dumps(number)
    text = json_text({"n1": [{"found": number}, {"found": (1.5, number)}]})
    assert json.loads(text, parse_constant=refused) == {"n1": [{"found": word}, {"found": [1.5, word]}]}


def test_the_rest_stays_as_it_is() -> None:
    assert json_text({"a": [1, 2.5, None, True, "ü"]}) == '{\n  "a": [\n    1,\n    2.5,\n    null,\n    true,\n    "\\u00fc"\n  ]\n}\n'
