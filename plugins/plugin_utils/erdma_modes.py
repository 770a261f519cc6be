# SPDX-License-Identifier: GPL-3.0-or-later
"""Before anything changes: all nodes of a play must end up in eRDMA modes that talk to each other.

Every node's plan says what it will talk (``erdma``: mode and letter); what the inventory alone shows is lint's to say. A node
whose driver is left alone, or found only there, shows on the node.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.rules.erdma_mode import WORDS

from .results import names, result_of

SHOWN = 3  # nodes named before the rest is counted


def mixed_modes(task_vars: dict[str, Any], registered: str) -> str | None:
    """Why no node may be changed; None where all agree. ``registered``: under which name every node has its plan."""
    camps: dict[str, list[str]] = {}
    for node in names(task_vars, "ansible_play_hosts_all"):
        letter = planned_letter(result_of(task_vars, node, registered))
        if letter is not None:
            camps.setdefault(letter, []).append(node)
    if len(camps) < 2:
        return None
    parts = sorted(camps.items(), key=lambda item: (-len(item[1]), item[0]))
    return ("erdma: erdma_mode: nodes in different modes cannot talk RDMA to each other, and these would be: "
            f"{'; '.join(f'{WORDS[letter]} on {some(nodes)}' for letter, nodes in parts)}. Nothing was changed on any of them; "
            "set one erdma_mode for all (compat and ofed are one on the wire), and erdma_driver: leave on none that runs in another")


def planned_letter(plan: dict[str, Any] | None) -> str | None:
    """A node's own words, and nothing but a letter that we know."""
    found = (plan or {}).get("erdma")
    letter = found.get("letter") if isinstance(found, dict) else None
    return letter if isinstance(letter, str) and letter in WORDS else None


def some(nodes: list[str]) -> str:
    more = len(nodes) - SHOWN
    return ", ".join(nodes[:SHOWN]) + (f" and {more} more" if more > 0 else "")
