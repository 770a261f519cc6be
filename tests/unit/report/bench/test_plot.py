# SPDX-License-Identifier: GPL-3.0-or-later
"""The plots: the data is in the picture where the axes say, and no name is more than text."""

import math
import os
import re
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench_documents import document, half, one_run, row, stored_run
from railwright.report.plot import Plot, Series, plots, png, svg, ticks
from railwright.runs import save_run as store

SVG = "{http://www.w3.org/2000/svg}"
NOW = "20260103T000000Z-bench"


def picture(plot: Plot) -> ET.Element:
    return ET.fromstring(svg(plot))


def path_of(root: ET.Element, name: str) -> list[tuple[float, float]]:
    """The corners of a line, in the picture's coordinates."""
    [group] = [element for element in root.iter(SVG + "g") if element.get("id") == name]
    path = group.find(SVG + "path")
    assert path is not None
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", str(path.get("d")))]


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(SVG + "text")]


def marks(root: ET.Element, name: str) -> list[tuple[float, float]]:
    [group] = [element for element in root.iter(SVG + "g") if element.get("id") == name]
    return [(float(use.get("x", "nan")), float(use.get("y", "nan"))) for use in group.iter(SVG + "use")]


def one_plot(**more: Any) -> Plot:
    [plot] = plots(stored_run(NOW, document(one_run(**more))))
    return plot


def test_points_lie_where_the_axes_say() -> None:
    """Sizes on a scale of powers of two, bandwidths from 0: measured against the floor's line and each other."""
    plot = one_plot()
    root = picture(plot)
    found = path_of(root, "out_of_place")
    assert len(found) == 4
    powers = [math.log2(size) for size, _busbw in plot.now.out_of_place]
    values = [busbw for _size, busbw in plot.now.out_of_place]
    across = [(found[index][0] - found[0][0]) / (powers[index] - powers[0]) for index in (1, 2, 3)]
    assert across == pytest.approx([across[0]] * 3, rel=1e-3)
    up = (found[3][1] - found[0][1]) / (values[3] - values[0])
    assert up < 0, "y grows downwards in SVG"
    assert found[2][1] == pytest.approx(found[0][1] + up * (values[2] - values[0]), abs=0.05)
    floor = path_of(root, "floor")
    assert [y for _x, y in floor] == [pytest.approx(found[0][1] + up * (340.0 - values[0]), abs=0.05)] * 2
    in_place = path_of(root, "in_place")
    assert in_place[0][1] == pytest.approx(found[0][1] + up * (39.0 - 40.0), abs=0.05)


def test_words_and_units_are_there() -> None:
    root = picture(one_plot())
    said = texts(root)
    assert {"message size", "bus bandwidth (GB/s)", "out-of-place", "in-place", "1 GiB", "4 GiB", "judged"} <= set(said)
    assert "all_reduce: 4 ranks on 2 nodes, openmpi4" in said
    assert "floor 340 GB/s (0.85 of 8 NICs x 400 Gb/s)" in said
    assert not any("previous" in text for text in said)


def test_without_a_floor_or_a_second_half_there_is_no_line_for_it() -> None:
    root = picture(one_plot(floor=None, rows=[row(8, 1.0), row(16, 2.0)]))
    ids = {element.get("id") for element in root.iter()}
    assert {"floor", "in_place", "previous_out_of_place", "judged"} & ids == set()
    assert "out_of_place" in ids
    assert "in-place" not in texts(root)


def test_the_ceiling_is_a_line_with_what_makes_it() -> None:
    root = picture(one_plot(ceiling=400.0, limit="8 NICs x 400 Gb/s"))
    assert "ceiling 400 GB/s (8 NICs x 400 Gb/s)" in texts(root)
    assert path_of(root, "ceiling")[0][1] < path_of(root, "floor")[0][1], "y grows downwards in SVG"
    assert not any(text.startswith("ceiling") for text in texts(picture(one_plot())))


def test_wrong_values_are_marked_where_they_are() -> None:
    damaged = row(1 << 28, 200.0) | {"out_of_place": half(200.0, 7)}
    plot = one_plot(rows=[row(1 << 20, 40.0), damaged, row(1 << 30, 300.0)])
    assert plot.wrong == ((1 << 28, 200.0),)
    root = picture(plot)
    assert marks(root, "wrong") == [pytest.approx(path_of(root, "out_of_place")[1], abs=0.05)]
    assert "wrong values" in texts(root)


def test_the_same_data_is_the_same_picture() -> None:
    assert svg(one_plot()) == svg(one_plot())
    assert b"date" not in svg(one_plot()).lower()
    assert png(one_plot()) == png(one_plot())
    assert png(one_plot()).startswith(b"\x89PNG")


HOSTILE = ['<script>alert("x")</script>', "$\\frac{a}{b}$ $x", "]]>&lt;!--", "\x00\x1b[31m\ud800\ufffe", "a\nb", "\u202eevil", "x" * 5000]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_is_text_and_no_more(text: str) -> None:
    plain = {element.tag for element in picture(one_plot()).iter()}
    plot = one_plot(collective=text, node=text, floor_source=text)
    root = picture(plot)
    assert {element.tag for element in root.iter()} == plain
    assert re.fullmatch(r"busbw-[A-Za-z0-9_]{1,40}", plot.file)
    assert max(map(len, texts(root))) <= 90


def test_two_runs_of_one_collective_have_two_files() -> None:
    found = plots(stored_run(NOW, document(one_run(node="n1"), one_run(node="n2"), one_run("alltoall"))))
    assert [plot.file for plot in found] == ["busbw-all_reduce", "busbw-all_reduce-2", "busbw-alltoall"]


def test_a_run_that_measured_nothing_has_no_plot() -> None:
    empty = row(0, 0.0)
    found = plots(stored_run(NOW, document(one_run(rows=[]), one_run("alltoall", rows=[empty]), one_run("broadcast"))))
    assert [(plot.number, plot.file) for plot in found] == [(2, "busbw-broadcast")]
    assert plots(stored_run(NOW, None)) == []


def save_run(identity: str, *runs: dict[str, Any], inventory: str = "/inv", **more: Any) -> None:
    store(stored_run(identity, document(*runs, **more), inventory))


def before(**more: Any) -> str:
    return one_plot(**more).before_id


def test_the_previous_run_is_the_newest_that_can_be_compared() -> None:
    old = [row(1 << 20, 30.0, 29.0), row(1 << 30, 300.0, 299.0)]
    save_run("20260101T000000Z-bench", one_run(rows=old))
    save_run("20260102T000000Z-bench", one_run(rows=old))
    save_run("20260104T000000Z-bench", one_run())  # later
    plot = one_plot()
    assert plot.before_id == "20260102T000000Z-bench"
    assert plot.before == Series(((1 << 20, 30.0), (1 << 30, 300.0)), ((1 << 20, 29.0), (1 << 30, 299.0)))
    root = picture(plot)
    assert len(path_of(root, "previous_out_of_place")) == 2
    assert path_of(root, "previous_out_of_place")[0][1] > path_of(root, "out_of_place")[0][1], "slower is lower"
    assert {"previous out-of-place", "previous in-place"} <= set(texts(root))


@pytest.mark.parametrize("other", [
    {"inventory": "/other"}, {"ranks": 8}, {"launcher": "slurm"}, {"run": {"collective": "alltoall"}}, {"run": {"node": "n2"}},
    {"run": {"rows": []}},
])
def test_a_run_of_something_else_is_not_the_previous_one(other: dict[str, Any]) -> None:
    save_run("20260102T000000Z-bench", one_run(**other.pop("run", {})), **other)
    assert before() == ""


def test_a_broken_record_is_passed_over(tmp_path: Any) -> None:
    save_run("20260101T000000Z-bench", one_run())
    broken = tmp_path / "railwright" / "runs" / "20260102T000000Z-bench"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    assert before() == "20260101T000000Z-bench"


@pytest.mark.parametrize(("sizes", "found"), [
    ([8], [8]), ([8, 16], [8, 16]), ([1 << 10, 1 << 20], [1 << k for k in (10, 12, 14, 16, 18, 20)]),
    ([1000, 5000], [512, 1024, 2048, 4096]),
])
def test_labels_of_the_size_axis_are_powers_of_two(sizes: list[int], found: list[int]) -> None:
    assert ticks(sizes) == found


def test_a_home_that_cannot_be_written_is_not_talked_about() -> None:
    """matplotlib warns of it when it is imported, so that another process has to."""
    program = ("from railwright.report.plot import png\nfrom railwright.report.plot import Plot, Series\n"
               "line = Series(((8, 1.0), (16, 2.0)), ())\n"
               "assert png(Plot(0, 'x', 't', line, None, '', None, '', (), None, ''))[:4] == b'\\x89PNG'")
    environment = {"PATH": os.environ["PATH"], "HOME": "/proc", "XDG_CACHE_HOME": "/proc", "XDG_CONFIG_HOME": "/proc"}
    found = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
