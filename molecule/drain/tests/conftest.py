# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster, idle before each test and after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drain_steps import Slurm


@pytest.fixture(scope="session")
def cluster_once(scenario: str) -> Slurm:
    return Slurm(scenario)


@pytest.fixture
def slurm(cluster_once: Slurm) -> Iterator[Slurm]:
    cluster_once.clean()
    yield cluster_once
    cluster_once.clean()
