# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of `rdma_upgrade` (mode report) and `rdma_drain`, held to their form and their bounds: nodes and schedulers wrote them."""

from __future__ import annotations

from typing import Any

from railwright.documents import flag, items, mapping, record, text

MANY = 4096

LEASE = record(run=text(), controller=text(), user=text(), since=text(), step=text(32))
DRAIN = record(
    ("state",),
    scheduler=text(32),
    node=text(),
    state=text(32),
    jobs=items(text(), MANY),
    holders=items(text(), MANY),
    reason=text(),
    by=text(32),
    message=text(),
)
PACKAGE = record(("name",), **{"name": text(), "from": text(), "to": text()})
UPGRADE = record(
    pending=flag,
    plan=items(text(), MANY),
    classes=items(text(32), 32),
    before=mapping(text(), 64),
    packages=items(PACKAGE, MANY),
    prefixes=items(text(), 64),
    notes=items(text(), MANY),
    scheduler=DRAIN,
    lease=LEASE,
)


def upgrade_document(result: Any) -> dict[str, Any] | None:
    """None where nothing says whether anything is to be done."""
    found: dict[str, Any] | None = UPGRADE(result.get("upgrade")) if isinstance(result, dict) else None
    return found if found is not None and found["pending"] is not None else None


def drain_document(result: Any) -> dict[str, Any] | None:
    found: dict[str, Any] | None = DRAIN(result.get("drain")) if isinstance(result, dict) else None
    return found
