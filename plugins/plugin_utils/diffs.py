# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's diff data, which ``--diff`` shows: made on the controller, from an answer that has passed the gate.

Texts are bounded, masked as reports mask them, and without control characters.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import HIDDEN, masked, masked_text

from .text import printable, printable_lines

HEADER = 1000  # characters
LIMIT = 100_000  # characters of one value: about as much as ansible.builtin.copy shows of a file
OTHER = "another value\n"


def diffs(rows: Iterable[tuple[Any, Any, Any]]) -> list[dict[str, str]]:
    """Of (key, before, after). What is absent is empty; two secrets, which are hidden alike, still make a diff."""
    found = []
    for key, old, new in rows:
        header, before, after = printable(key)[:HEADER], _text(old), _text(new)
        if after == before and HIDDEN in after:
            after += OTHER
        found.append({"before_header": header, "after_header": header, "before": before, "after": after})
    return found


def clean_diff(diff: Any) -> list[dict[str, str]]:
    """The diff of a module that makes its own, in the same form."""
    parts = [item for item in (diff if isinstance(diff, list) else [diff]) if isinstance(item, dict) and {"before", "after"} & item.keys()]
    return diffs((item.get("before_header") or item.get("after_header") or "", item.get("before"), item.get("after")) for item in parts)


def _text(value: Any) -> str:
    if value is None or value == "":
        return ""
    whole = masked_text(value) if isinstance(value, str) else json.dumps(masked(value), indent=1, sort_keys=True, ensure_ascii=False)
    if len(whole) > LIMIT:  # two long texts that begin alike must not look alike
        digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()
        whole = f"{whole[:LIMIT]}\n… ({len(whole)} characters, sha256 {digest})"
    return printable_lines(whole).removesuffix("\n") + "\n"
