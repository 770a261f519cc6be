# SPDX-License-Identifier: GPL-3.0-or-later
"""When each table was last compared, and with what (compared.yml). Pure."""

import datetime as dt
from typing import NamedTuple

from .rows import read_table, rows

OLD_AFTER = dt.timedelta(days=365)


class Comparison(NamedTuple):
    """``packages``: (name in a Python index, its newest release on that day)."""

    table: str  # its path in the repository
    compared: dt.date
    against: str
    packages: tuple[tuple[str, str], ...] = ()


def comparisons() -> tuple[Comparison, ...]:
    """Return every table's last comparison, the oldest first."""
    return tuple(sorted(rows(Comparison, read_table("compared")), key=lambda row: (row.compared, row.table)))


def old_tables(today: dt.date) -> tuple[Comparison, ...]:
    """Return the tables whose last comparison is more than a year before ``today`` (the caller owns the clock), the oldest first."""
    return tuple(row for row in comparisons() if today - row.compared > OLD_AFTER)
