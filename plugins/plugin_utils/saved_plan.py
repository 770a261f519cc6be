# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan that somebody has seen and agreed to: on its node exactly that is made, or nothing.

The command line lays each node's part into a private directory (variable ``VARIABLE``); who runs the playbook himself has none. A node is
planned anew before it is changed, and what differs from the part is the answer of ``departure``.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import HIDDEN
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of

from .scanned import keep_answer, kept_answer
from .text import printable

VARIABLE = "__railwright_saved"  # an extra variable: the directory
PARTS = ("key", "before", "after", "disruption")  # what a change is; the rest are words about it
SHOWN = 4  # changes named before the rest is counted


def keep_part(directory: Path, node: str, changes: Sequence[Mapping[str, Any]], *, begun: bool = False) -> None:
    """``begun``: the node was being changed when its run was cut off: what is done already is gone from its plan."""
    keep_answer(directory, node, {"changes": [{part: change.get(part) for part in PARTS} for change in changes], "begun": begun})


def part_of(variables: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of the task's host; None where no plan was saved. A host that is not in the saved plan has an empty one."""
    if VARIABLE not in variables:
        return None
    return kept_answer(variables, VARIABLE, once=False) or {"changes": [], "begun": False}


def _alike(was: Any, now: Any) -> bool:
    """Whether a part may be what was saved: secrets are hidden there, and each of them stands for any text."""
    saved, found = (value if isinstance(value, str) else json.dumps(value, sort_keys=True) for value in (was, now))
    first, *others = saved.split(HIDDEN)
    if not others:
        return bool(was == now)
    at = len(first) if found.startswith(first) else -1
    for part in others[:-1]:
        at = found.find(part, at) + len(part) if at >= 0 and part in found[at:] else -1
    return at >= 0 and found[at:].endswith(others[-1])


def departure(part: Mapping[str, Any], found: Sequence[Mapping[str, Any]], *, on_the_way: bool = False) -> str:
    """Why this is not the plan that was saved; '' where it is. ``on_the_way``: a part of it is made already, so less is no difference."""
    was = {str(change["key"]): change for change in part["changes"]}
    now = {str(change.get("key")): {name: change.get(name) for name in PARTS} for change in found}
    less = on_the_way or part["begun"]
    rows = {
        "new": [key for key in now if key not in was],
        "gone": [] if less else [key for key in was if key not in now],
        "another": [key for key, now_is in now.items() if not less and key in was
                    and not all(_alike(was[key][part], now_is[part]) for part in PARTS)],
    }
    said = "; ".join(f"{word}: {first_of([printable(key) for key in keys], SHOWN)}" for word, keys in rows.items() if keys)
    if not said:
        return ""
    if on_the_way:
        return f"came to light on the way and is not in the plan that was agreed to ({said}); plan the node again"
    return f"the node is no longer as it was when this was planned ({said}); it is left as it is, plan it again"
