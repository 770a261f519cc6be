# SPDX-License-Identifier: GPL-3.0-or-later
"""A command line run in this process, with what it printed."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from railwright.cli import console
from railwright.cli.main import run


class Said(NamedTuple):
    code: int
    out: str
    err: str


def said_by(capfd: pytest.CaptureFixture[str], *words: str) -> Said:
    """``words``: the verb and its arguments. The consoles hold the streams of the test before, and must not keep ours."""
    console.out.cache_clear()
    console.err.cache_clear()
    capfd.readouterr()
    code = run([*words])
    console.out.cache_clear()
    console.err.cache_clear()
    return Said(int(code), *capfd.readouterr())
