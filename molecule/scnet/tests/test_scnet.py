# SPDX-License-Identifier: GPL-3.0-or-later
"""The Scnet example site by the command line on apt and dnf: no word from lint, a plan, an apply, and nothing more to do."""

from __future__ import annotations

from typing import Any

import pytest

from cluster import Cluster
from verbs import Verb, but_examples, site

NODES = ("debian12", "says-rocky9")


@pytest.fixture(scope="session")
def verbs(scenario: str) -> dict[str, Verb]:
    return site(Cluster(scenario).inventory)


def test_the_example_site_lints_without_a_word(verbs: dict[str, Verb]) -> None:
    assert verbs["lint"].code == 0, verbs["lint"]
    assert but_examples(verbs["lint"]) == []


def test_plan_then_apply_then_nothing(verbs: dict[str, Verb]) -> None:
    assert verbs["plan"].code == 2, verbs["plan"]
    assert set(verbs["plan"].changes()) == set(NODES)
    assert all(verbs["plan"].changes().values())
    assert verbs["apply"].code == 0, verbs["apply"]
    assert verbs["apply again"].code == 0
    assert verbs["apply again"].changes() == verbs["plan again"].changes() == {node: [] for node in NODES}
    assert verbs["plan again"].code == 0


@pytest.mark.parametrize("node", NODES)
def test_nccl_has_the_platforms_variables_corrected(verbs: dict[str, Verb], scenario: str, node: str) -> None:
    assert verbs["apply"].code == 0
    lines: list[Any] = Cluster(scenario).container(node).out("cat", "/etc/nccl.conf").splitlines()
    for wanted in ("NCCL_IB_TC=136", "NCCL_IB_TIMEOUT=22", "NCCL_IB_QPS_PER_CONNECTION=8", "NCCL_DEBUG=INFO"):
        assert wanted in lines
    assert [line for line in lines if line.startswith(("NCCL_IB_GID_INDEX", "NCCL_IB_DISABLE"))] == []
    (link,) = Cluster(scenario).container(node).json("ip", "-j", "link", "show", "dev", "eth1")
    assert link["mtu"] == 9000
