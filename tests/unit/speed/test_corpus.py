# SPDX-License-Identifier: GPL-3.0-or-later
"""The model against every published figure of docs/reference/speed-corpus.yml: nothing faster than its ceiling, tuned runs near it."""

import statistics
from collections import Counter

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.boards import RACK, linked_board
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.floors import Site, floor_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.ceilings import JUDGED_FROM
from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.machine import machine_of
from published_figures import Row, facts_of, published

ROWS = published()
KNOWN = [row for row in ROWS if row.ceiling.gbs is not None]
ABOVE = 1.25  # of a tuned run, at most
RATES_UNTOLD = {"oci-rtxpro-4n-tree", "oci-rtxpro-4n-ring", "ocp-l40s-2n-1gpu", "ocp-l40s-2n-2gpu", "optcast-v100pcie-2n-ring"}


def is_large(row: Row) -> bool:
    """The figure is of the plateau, or its source does not tell the size."""
    return (row.raw.get("size") or JUDGED_FROM) >= JUDGED_FROM


TUNED = [row for row in KNOWN
         if row.tuned and row.state == "healthy" and not row.threshold and is_large(row) and "exception" not in row.raw]


def ids(rows: list[Row]) -> list[str]:
    return [row.id for row in rows]


def test_the_corpus_is_wide() -> None:
    boards = Counter(row.raw["board"] for row in ROWS)
    assert {"A100-SXM4-80GB", "H100 80GB HBM3", "H200", "B200", "B300 SXM6 AC", "L40S", "H100 PCIe", "A100 80GB PCIe"} <= set(boards)
    assert {"roce", "infiniband", "efa"} <= {row.raw.get("fabric") for row in ROWS}
    assert len(ROWS) > 200
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert all(row.raw["source"] for row in ROWS)
    assert all(row.raw.get("cause") for row in ROWS if row.state == "sick")


@pytest.mark.parametrize("row", KNOWN, ids=ids(KNOWN))
def test_nothing_is_faster_than_its_ceiling(row: Row) -> None:
    assert row.figure <= (row.ceiling.gbs or 0), row.ceiling.text


@pytest.mark.parametrize("row", TUNED, ids=ids(TUNED))
def test_a_tuned_run_is_near_its_ceiling(row: Row) -> None:
    assert (row.ceiling.gbs or 0) <= ABOVE * row.figure, row.ceiling.text


def test_half_of_the_tuned_runs_are_very_near() -> None:
    excess = [1 / row.share - 1 for row in TUNED if row.share]
    assert len(excess) > 50
    assert statistics.median(excess) < 0.06


def test_what_has_no_ceiling_is_what_nobody_described() -> None:
    unknown = {row.id for row in ROWS if row.ceiling.gbs is None}
    boards = {row.id: linked_board(row.raw["board"]) for row in ROWS if not row.test.startswith("ib_")}
    racks = {row.id for row in ROWS if row.nodes > 1 and (board := boards.get(row.id)) is not None and board.nvlink == RACK}
    assert unknown == RATES_UNTOLD | racks | {name for name, board in boards.items() if board is None}


def test_exceptions_are_few_and_explained() -> None:
    assert 0 < sum("exception" in row.raw for row in ROWS) <= 15
    assert all(len(row.raw["exception"]) > 20 for row in ROWS if "exception" in row.raw)


def floor(row: Row) -> float | None:
    """What bench would ask of such nodes: two are forced to a ring, and plugins that are no RDMA are not judged."""
    raw = row.raw
    if row.test.startswith("ib_") or raw.get("fabric") == "tcp" or "exception" in raw:
        return None
    machine = machine_of(facts_of(raw))
    algorithm = row.algorithm or ("Ring" if row.nodes == 2 else "")
    site = Site((machine,) * row.nodes, rate_known=True, largest=raw.get("size") or JUDGED_FROM, algorithm=algorithm)
    return floor_of(row.test, {}, site).gbs


def test_the_default_floor_passes_the_healthy_and_fails_the_sick() -> None:
    judged = {row.id: floor(row) for row in ROWS}
    below = [row for row in ROWS if (judged[row.id] or 0) > row.figure]
    healthy = [row for row in ROWS if row.state == "healthy" and judged[row.id] is not None and not row.threshold]
    failing = [row.id for row in below if row.state == "healthy" and not row.threshold]
    assert len(healthy) > 50
    assert len(failing) <= 0.05 * sum(row.state == "healthy" for row in ROWS), failing
    assert sum(row.state == "sick" for row in below) >= 10
