# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts of nodes as the controller takes them: in our words, counted by node and status."""

from __future__ import annotations

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.types import VERDICT_STATUSES, Verdict


def own_verdict(node: str, item: dict[str, Any]) -> dict[str, Any]:
    given = {field: item.get(field) for field in Verdict._fields}
    status = given["status"] if given["status"] in VERDICT_STATUSES else "fail"
    texts = {field: str(given[field] or "") for field in ("check", "subject", "message")}
    return {**given, **texts, "node": node, "status": status}


def summarise(nodes: list[str], verdicts: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Counts by node and status. A failure of the whole cluster ('' as its node) counts for every node: none of it is proven."""
    summary = {node: dict.fromkeys(VERDICT_STATUSES, 0) for node in nodes}
    for item in verdicts:
        concerned = [item["node"]] if item["node"] else nodes
        for node in concerned:
            summary.setdefault(node, dict.fromkeys(VERDICT_STATUSES, 0))[item["status"]] += 1
    return summary
