# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands out among its like, and how seldom a healthy cluster does."""

import random
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.outliers import judge_outliers, outliers

RAILS = 4000
FACTS = {"facts": {"hcas": [{"name": f"mlx5_{at}", "hca_type": "MT4129", "ports": [{"number": 1, "rate_gbps": 400}]} for at in range(8)]}}


def measured(node: str, rail: int, figure: Any, check: str = "perftest.write_bw") -> dict[str, Any]:
    return {"check": check, "node": node, "hca": f"mlx5_{rail}", "port": 1, "subject": f"rail{rail} to peer", "found": figure}


def bandwidths(*odd: float, count: int = 32) -> list[dict[str, Any]]:
    values = [390 + at % 5 for at in range(count - len(odd))] + list(odd)
    return [measured(f"n{at // 8}", at % 8, value) for at, value in enumerate(values)]


def judged(items: list[dict[str, Any]]) -> list[Any]:
    return judge_outliers({f"n{at}": FACTS for at in range(8)}, items)


@pytest.mark.parametrize("seed", range(24))
def test_healthy_rails_give_no_warning(seed: int) -> None:
    draw = random.Random(seed)
    values = [draw.gauss(392, 392 * 0.03) for _rail in range(RAILS)]
    assert outliers(values, 0.03, low_is_bad=True) == []
    assert outliers([draw.gauss(2.5, 0.075) for _rail in range(RAILS)], 0.10, low_is_bad=False) == []


def test_a_slow_rail_is_named_with_its_distance() -> None:
    (found,) = judged(bandwidths(41.0))
    assert (found.status, found.node, found.hca, found.found) == ("warn", "n3", "mlx5_7", 41.0)
    assert "in the median of 32 alike" in found.message
    assert "scaled MADs away" in found.message


@pytest.mark.parametrize(("values", "places"), [
    ([100.0] * 9, []), ([100.0] * 8 + [98.0], []), ([100.0] * 8 + [96.0], [8]), ([100.0] * 8 + [150.0], []),
    ([100.0] * 8 + [50.0, 20.0], [9, 8]), ([0.0] * 9, []),
])
def test_where_all_others_are_alike(values: list[float], places: list[int]) -> None:
    found = outliers(values, 0.03, low_is_bad=True)
    assert found is not None
    assert [item.at for item in found] == places


@pytest.mark.parametrize(("value", "odd"), [(85.3, False), (85.0, True), (114.7, False), (115.0, False)])
def test_a_value_stands_out_from_five_scaled_mads_on(value: float, odd: bool) -> None:
    """Of a median of 100 and a MAD of 2: 5 x 1.4826 x 2 = 14.83 below it. That is far more than 3 % of the median."""
    found = outliers([98.0] * 10 + [102.0] * 10 + [100.0] * 3 + [value], 0.03, low_is_bad=True)
    assert found is not None
    assert [item.at for item in found] == [23] * odd


def test_a_high_latency_stands_out_and_a_low_one_does_not() -> None:
    items = [measured(f"n{at}", 0, 2.0 + at * 0.01, "perftest.read_lat") for at in range(8)]
    assert [item.status for item in judged(items)] == ["pass"]
    (found,) = judged([*items, measured("n1", 1, 9.0, "perftest.read_lat"), measured("n1", 2, 0.1, "perftest.read_lat")])
    assert (found.status, found.hca) == ("warn", "mlx5_1")


def test_few_measurements_are_not_enough_to_tell() -> None:
    (found,) = judged(bandwidths(1.0, count=7))
    assert found.status == "skipped"
    assert "not enough to tell" in found.message


def test_other_hardware_is_not_alike() -> None:
    slow = [measured("old", at, 95.0) for at in range(8)]
    old = {"facts": {"hcas": [{"name": f"mlx5_{at}", "hca_type": "MT4115", "ports": [{"number": 1, "rate_gbps": 100}]} for at in range(8)]}}
    found = judge_outliers({**{f"n{at}": FACTS for at in range(4)}, "old": old}, [*bandwidths(), *slow])
    assert [item.status for item in found] == ["pass", "pass"]


@pytest.mark.parametrize("lie", [None, True, "400", [], {}])
def test_what_is_no_figure_is_left_out(lie: Any) -> None:
    assert [item.status for item in judged([*bandwidths(), measured("n0", 0, lie)])] == ["pass"]
    assert judge_outliers({"n0": {"facts": None}}, [measured("n0", 0, lie)]) == []
