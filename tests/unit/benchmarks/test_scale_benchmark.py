# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make bench-scale` writes and claims. No limit is put on a time here."""

from tests.bench.meter import Cost
from tests.bench.scale import figures, missed


def test_the_ratio_is_a_nodes() -> None:
    found = figures(1000, Cost(20.0, 60.0, 2, "railwright: 1000 nodes by ssh\n{", 390.0), 100, Cost(25.0, 30.0, 0, "", 200.0))
    assert (found["nodes"], found["drift_cpu_s"], found["drift_rss_mb"], found["ping_over_drift_per_node"]) == (1000, 20.0, 390, 12.5)
    assert found["ways"] == "railwright: 1000 nodes by ssh"
    assert missed(found) == []


def test_what_is_claimed_and_not_so_is_said() -> None:
    found = figures(1000, Cost(30.0, 60.0, 2, "", 401.0), 100, Cost(25.0, 30.0, 0, "", 200.0))
    assert [line.split(" ")[0] for line in missed(found)] == ["drift_cpu_s", "drift_rss_mb", "ping_over_drift_per_node"]
