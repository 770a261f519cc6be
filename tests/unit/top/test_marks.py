# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands out: beside its like, and only where the like is busy."""

from typing import Any

import pytest

from railwright.top.marks import behind

from .conftest import document, gpu, seen


def marks(found: dict[str, Any], node: str, kind: str = "rails", index: int = 0) -> list[str]:
    return list(found["nodes"][node][kind][index]["marks"])


@pytest.mark.parametrize(("moved", "wanted"), [
    ([380.0, 370.0, 360.0, 100.0], [None, None, None, 365.0]),
    ([380.0, 370.0, 360.0, 300.0], [None] * 4),  # 0.8 of the median and more
    ([380.0, 370.0, 2.0, 0.0], [None] * 4),  # idle: takes no part
    ([1.0, 0.9, 0.1, 0.8], [None] * 4),  # nobody is busy
    ([0.0, 0.0], [None, None]),
    ([380.0], [None]), ([380.0, None], [None, None]),
    ([400.0, 40.0], [None, 220.0]),
])  # fmt: skip
def test_who_falls_behind(moved: list[float | None], wanted: list[float | None]) -> None:
    assert behind((400, each, 400.0) for each in moved) == wanted


def test_others_are_no_like() -> None:
    assert behind([(400, 380.0, 400.0), (400, 370.0, 400.0), (100, 90.0, 100.0)]) == [None, None, None]


def test_a_slow_node_and_its_rails_are_marked() -> None:
    found = document(gpu1=seen(380), gpu2=seen(370), gpu3=seen(100))
    assert [node["marks"] for node in found["nodes"].values()] == [[], [], ["behind"]]
    assert found["nodes"]["gpu3"]["behind"] == 740.0
    assert marks(found, "gpu3") == ["behind"] and marks(found, "gpu1") == []


def test_one_slow_rail_of_a_node_is_marked_alone() -> None:
    found = document(gpu1=seen(380, rails=8), gpu2=seen(380, rails=8, slow={3: 40}))
    assert [row["rail"] for row in found["nodes"]["gpu2"]["rails"] if row["marks"]] == ["mlx5_3"]
    assert found["nodes"]["gpu2"]["marks"] == []


@pytest.mark.parametrize(("grown", "wanted"), [
    ({"retransmissions": 3}, ["lossy"]), ({"pauses_in": 1}, ["paused"]), ({"waits": 1}, ["paused"]), ({"cnp_out": 1}, ["congested"]),
    ({"out_of_sequence": 1}, ["reordered"]), ({"state": "DOWN"}, ["down"]), ({"state": None}, []),
    ({"cnp_in": 2, "retransmissions": 1}, ["lossy", "congested"]),
])  # fmt: skip
def test_marks_of_a_rail(grown: dict[str, Any], wanted: list[str]) -> None:
    assert marks(document(gpu1=seen(**grown)), "gpu1") == wanted


@pytest.mark.parametrize(("more", "wanted"), [
    ({"mhz": 900}, ["behind"]), ({"mhz": 900, "use": 3}, []), ({"mhz": None}, []), ({"held_back": ["hw_thermal_slowdown"]}, ["held_back"]),
    ({"held_back": ["sw_power_cap"]}, []), ({"lost": True, "use": None, "mhz": None}, ["lost"]),
])  # fmt: skip
def test_marks_of_a_gpu(more: dict[str, Any], wanted: list[str]) -> None:
    found = document(gpu1=seen(gpus=[gpu(0, **more), gpu(1), gpu(2)]))
    assert marks(found, "gpu1", "gpus") == wanted
    assert marks(found, "gpu1", "gpus", 1) == []
