# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of a screen: they fit, the worst comes first, and no number breaks a column."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import repo
from railwright.top.picture import SORTS, VIEWS, Wish, bar, fixed, ordered, screen, shares, short, whole
from railwright.top.sample import read_document
from railwright.top.terminal import pressed

from .conftest import document, gpu, seen


def fleet(count: int = 30, rails: int = 8) -> dict[str, Any]:
    nodes = {f"gpu{number:03d}": seen(380, rails=rails, gpus=[gpu(index) for index in range(8)]) for number in range(count)}
    nodes["gpu007"] = seen(380, rails=rails, slow={3: 40}, gpus=[gpu(0, held_back=["hw_slowdown"]), gpu(1)])
    return document(**nodes)


@pytest.mark.parametrize("wish", [Wish(), Wish(view=VIEWS[1]), Wish(view=VIEWS[2]), Wish(filter="gpu00"), Wish(filter="nothing")])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (40, 10), (20, 4)])
def test_it_fits_the_terminal(wish: Wish, width: int, height: int) -> None:
    lines = screen(fleet(), wish, width, height)
    assert len(lines) <= height and max(map(len, lines)) <= width and all(line.isprintable() or not line for line in lines)


def test_the_worst_comes_first() -> None:
    lines = screen(fleet(), Wish())
    assert lines[2].startswith("< gpu007       mlx5_3     40.0")
    assert lines[next(at for at, line in enumerate(lines) if "MHz" in line) + 1].startswith("h gpu007       0")


def test_a_node_with_eight_rails_and_gpus_is_on_one_screen() -> None:
    lines = screen(document(gpu1=seen(380, rails=8, gpus=[gpu(index) for index in range(8)])), Wish())
    assert sum("mlx5_" in line for line in lines) == 8 and sum("80G" in line for line in lines) == 8


def test_nodes_that_do_not_answer_are_lines_of_their_own() -> None:
    away = {"status": "silent", "message": "for 5 s", "rails": [], "gpus": [], "gpus_unknown": None, "marks": [], "behind": None}
    found = document(gpu1=seen(380), gpu2=away, **{f"gpu{number}": {**away, "status": "unreachable"} for number in range(3, 60)})
    lines = screen(found, Wish())
    assert lines[0].startswith("railwright top  59 nodes, 1 silent, 57 unreachable; 760Gb/s out")
    assert "X gpu2         silent: for 5 s" in lines
    assert any(line.endswith("more lines about nodes") for line in lines) and any("mlx5_1" in line for line in lines)


def test_a_node_behind_is_a_line() -> None:
    lines = screen(document(gpu1=seen(380), gpu2=seen(380), gpu3=seen(100)), Wish())
    assert lines[1] == "< gpu3         behind its like: 200 Gb/s, their median is 760"


def test_marks_are_words_where_there_is_room() -> None:
    assert any(line.endswith("  behind") for line in screen(fleet(), Wish(), width=120))


def test_sorts() -> None:
    rows = [(name, row) for name, node in document(gpu10=seen(100), gpu2=seen(300)).get("nodes", {}).items() for row in node["rails"]]
    assert [name for name, _row in ordered(rows, SORTS[1])] == ["gpu2", "gpu2", "gpu10", "gpu10"]
    assert [name for name, _row in ordered(rows, SORTS[2])] == ["gpu2", "gpu2", "gpu10", "gpu10"]
    assert [name for name, _row in ordered(rows, SORTS[0])] == ["gpu10", "gpu10", "gpu2", "gpu2"]


@pytest.mark.parametrize(("wanted", "room", "found"), [
    ([9, 9], 20, [9, 9]), ([30, 30], 20, [10, 10]), ([30, 5], 20, [15, 5]), ([5, 30], 20, [5, 15]), ([30], 20, [20]), ([9, 9], 0, [0, 0]),
])  # fmt: skip
def test_shares(wanted: list[int], room: int, found: list[int]) -> None:
    assert shares(wanted, room) == found


@given(st.floats(0, 1e20))
def test_no_number_breaks_its_column(value: float) -> None:
    assert len(short(value)) <= 4 and len(fixed(value)) <= 5 and len(whole(value)) <= 5
    assert math.isfinite(float(short(value).rstrip("kMGTPE")))


@pytest.mark.parametrize(("value", "text"), [
    (None, "?"), (0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12k"), (3.2e6, "3.2M"), (9.99e9, "10G"),
])  # fmt: skip
def test_short(value: float | None, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(("moved", "most", "text"), [
    (200, 400, "#####....."), (0, 400, ".........."), (900, 400, "##########"), (None, 400, "??????????"), (5, None, "??????????"),
])  # fmt: skip
def test_bar(moved: float | None, most: float | None, text: str) -> None:
    assert bar(moved, most) == text


def keyed(keys: str) -> Wish:
    wish = Wish()
    for key in keys:
        wish = pressed(wish, key)
    return wish


@pytest.mark.parametrize(("keys", "wanted"), [
    ("s", {"sort": SORTS[1]}), ("sss", {}), ("v", {"view": VIEWS[1]}), ("f", {"frozen": True}), ("ff", {}), (" ", {"frozen": True}),
    ("/gpu1\n", {"filter": "gpu1"}), ("/gpq\x7f1\r", {"filter": "gp1"}), ("/gp\x1b", {}), ("/a\n/", {"typing": True}), ("\x00xyz", {}),
    ("/s\n", {"filter": "s"}), ("/" + "x" * 100 + "\n", {"filter": "x" * 40}),
])  # fmt: skip
def test_keys(keys: str, wanted: dict[str, Any]) -> None:
    assert keyed(keys) == Wish()._replace(**wanted)


def test_the_page_shows_what_the_program_makes_of_its_sample() -> None:
    recorded = read_document(Path(__file__).with_name("sample.json").read_bytes())
    assert "\n".join(screen(recorded, Wish())) + "\n```" in repo.text("docs/top.md")
