# SPDX-License-Identifier: GPL-3.0-or-later
"""Every field of the facts is read by a check, or says why none reads it."""

from __future__ import annotations

import re

from tests.fixtures.fields_page import PAGE, UNREAD, measured, page, reason_of


def test_the_page_is_what_the_judgement_reads() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.fixtures.fields_page"


def test_a_field_has_a_check_or_a_reason_and_not_both() -> None:
    fields, alone, described = measured()
    read = {name for name in fields if alone.get(name) or described.get(name)}
    assert len(read) > 250
    assert sorted(name for name in fields - read if reason_of(name) is None) == []
    assert sorted(name for name in read if reason_of(name) is not None) == []
    patterns = [pattern for group in UNREAD.values() for pattern in group]
    assert [pattern for pattern in patterns if not any(re.fullmatch(pattern, name) for name in fields)] == []
