# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright nccl lint -i``: a job's traffic class against the QoS profile of an inventory, its own one too."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Make = Callable[[Mapping[str, object]], Path]
CUSTOM = "rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: custom\nrdma_qos_custom: {dscp: 34}\n"


def nccl_lint(words: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]]]:
    from railwright.cli import console
    from railwright.cli.main import run

    console.out.cache_clear()  # they hold the streams of the test before
    console.err.cache_clear()
    code = run(["nccl", "lint", *words, "--format", "json"])
    console.out.cache_clear()
    console.err.cache_clear()
    return int(code), json.loads(capfd.readouterr().out)


@pytest.mark.parametrize(("site", "tc", "words"), [
    (CUSTOM, 138, None),
    (CUSTOM, 106, "106 >> 2 = DSCP 26, 106 >> 5 = priority 3, PFC is on 4"),
    ("rdma_fabric: roce\nrdma_mtu: 9000\n", 106, None),
    ("rdma_fabric: roce\nrdma_mtu: 9000\n", 41, "41 >> 2 = DSCP 10, 41 >> 5 = priority 1, PFC is on 3"),
    ("rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: none\n", 41, None),
], ids=["custom", "against-custom", "default", "against-default", "none"])
def test_a_jobs_traffic_class(
        make: Make, capfd: pytest.CaptureFixture[str], site: str, tc: int, words: str | None) -> None:
    inventory = make({"site": site})
    Path("job.sh").write_text(f"export NCCL_IB_TC={tc}\n", encoding="utf-8")
    code, items = nccl_lint(["-i", str(inventory), "job.sh"], capfd)
    assert code == (words is not None)
    assert [words in item["message"] for item in items if words is not None] == [True] * (words is not None)
    assert len(items) == (words is not None)


def test_the_inventorys_own_profile_is_among_what_is_checked(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    inventory = make({"site": CUSTOM.replace("dscp: 34", "tc: 41, lossless: [3]")})
    code, items = nccl_lint(["-i", str(inventory)], capfd)
    assert (code, [item["variable"] for item in items]) == (1, ["lossless"])
