# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware parameters of NVIDIA NICs, by ``tables/nic_parameters.yml``: which values each can have."""

import re
from typing import Any, NamedTuple

from ..tables.rows import read_table, rows


class Parameter(NamedTuple):
    """``words`` (with the numbers that stand for them) or a range of integers; a switch is False, True."""

    name: str
    words: tuple[tuple[str, int], ...]
    low: int
    high: int
    meaning: str


_SWITCH = (("False", 0), ("True", 1))
PARAMETERS = rows(Parameter, read_table("nic_parameters"))
NAMES = tuple(row.name for row in PARAMETERS)


def find_parameter(name: str) -> Parameter | None:
    """The row of a parameter, for any port."""
    return next((row for row in PARAMETERS if row.name == re.sub(r"_P[1-4]\Z", "_P1", name)), None)


def value_fits(row: Parameter, value: Any) -> bool:
    """Whether a value, as people write it (true, 1, True(1), ETH), is one that the parameter can have."""
    if isinstance(value, bool):
        return row.words == _SWITCH
    word, _bracket, number = str(value).partition("(")
    if number:
        return any(word.lower() == name.lower() and number == "%d)" % code for name, code in row.words)
    if re.match(r"[0-9]+\Z", word):
        return row.low <= int(word) <= row.high
    return any(word.lower() == name.lower() for name, _code in row.words)


def allowed(row: Parameter) -> str:
    if row.words == _SWITCH:
        return "true or false"
    return ", ".join(name for name, _code in row.words) if row.words else "an integer from %d to %d" % (row.low, row.high)
