# SPDX-License-Identifier: GPL-3.0-or-later
"""The one warning of lint about railwright itself: tables whose last comparison with their sources is more than a year ago."""

import datetime as dt

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.ages import old_tables
from railwright.inventory import Inventory
from railwright.lint import SHOWN_HOSTS, LintFinding

ALLOWED = "a newer railwright; `railwright --version --verbose` lists all tables with their sources"


def aged_tables(inventory: Inventory, today: dt.date) -> list[LintFinding]:
    """Return one warning for all tables that were last compared more than a year before ``today``, however many inventories and hosts."""
    old = old_tables(today)
    if not old:
        return []
    named = first_of([f"{row.table.rpartition('/')[2]} on {row.compared}" for row in old], SHOWN_HOSTS)
    message = f"railwright's tables were last compared with their sources more than a year ago: {named}"
    return [LintFinding(str(inventory.path), None, (), "tables", None, message, ALLOWED, "warning")]
