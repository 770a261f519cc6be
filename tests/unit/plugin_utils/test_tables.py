# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of a table are held to the annotations of their class."""

from typing import Any, NamedTuple

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.rows import HERE, read_table, rows


class Part(NamedTuple):
    name: str
    number: int = 0


class Whole(NamedTuple):
    name: str
    parts: tuple[Part, ...] = ()
    pair: tuple[str | None, int] = (None, 0)
    limit: float | None = None
    data: Any = None


def test_mappings_and_lists_become_rows() -> None:
    given = [{"name": "a", "parts": [{"name": "p"}, ["q", 2]], "pair": [None, 3]}, ["b", [], ["x", 1], 0.5, {"any": [1]}], ["c"]]
    assert rows(Whole, given) == (
        Whole("a", (Part("p"), Part("q", 2)), (None, 3)), Whole("b", (), ("x", 1), 0.5, {"any": [1]}), Whole("c"))


@pytest.mark.parametrize("item", [
    [1], {"name": None}, ["a", [["p", "2"]]], ["a", [], ["x"]], ["a", [], [None, 1], "0.5"], ["a", [], [None, 1], 1, 2, 3],
    {"name": "a", "nmae": "b"}, {},
])
def test_what_is_no_row_is_refused(item: Any) -> None:
    with pytest.raises((TypeError, ValueError, KeyError)):
        rows(Whole, [item])


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*.yml")))
def test_each_table_is_read(name: str) -> None:
    assert read_table(name)
