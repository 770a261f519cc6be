# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of a node's health in docs are the catalogue and the list of injected faults."""

from __future__ import annotations

import pytest
from tests.fixtures.health_page import ROOT, TABLES, rendered


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_what_the_code_says(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == rendered(name), "run python -m tests.fixtures.health_page"
