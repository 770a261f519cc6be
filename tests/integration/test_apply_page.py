# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of pictures of plan, question and progress shows what the commands show today."""

from __future__ import annotations

from tests.fixtures.apply_page import PAGE, rendered


def test_the_pictures_are_those_of_today() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(), "run python -m tests.fixtures.apply_page"
