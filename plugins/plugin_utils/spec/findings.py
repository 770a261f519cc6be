# SPDX-License-Identifier: GPL-3.0-or-later
"""Collects what is wrong with one host's values, and names the nearest known word."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import masked_text, masked_value
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding


class Findings:
    """The findings of one host (or of the site: ``host`` None), in the order found."""

    def __init__(self, host: str | None) -> None:
        self.host = host
        self.items: list[Finding] = []

    def error(self, key: str, value: Any, message: str, allowed: str = "") -> None:
        self._add(key, value, message, allowed, "error")

    def warning(self, key: str, value: Any, message: str, allowed: str = "") -> None:
        self._add(key, value, message, allowed, "warning")

    def _add(self, key: str, value: Any, message: str, allowed: str, severity: str) -> None:
        self.items.append(Finding(self.host, key, masked_value(key, value), masked_text(message), allowed, severity))

    def has_error(self, path: str) -> bool:
        """Whether something at or below this path is an error already: a rule that reads it would only repeat it."""
        return any(item.severity == "error" and (item.key == path or item.key.startswith((path + ".", path + "["))) for item in self.items)

    def error_count(self) -> int:
        return sum(item.severity == "error" for item in self.items)


_NEAREST: dict[tuple[str, tuple[str, ...]], str | None] = {}


def nearest(word: str, candidates: Sequence[str]) -> str | None:
    """The candidate that a misspelt word most probably meant. Remembered: 400 hosts share one typo."""
    question = (word, tuple(candidates))
    if question not in _NEAREST:
        found = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
        if not found:
            lower = {candidate.lower(): candidate for candidate in candidates}
            found = [lower[match] for match in difflib.get_close_matches(word.lower(), list(lower), n=1, cutoff=0.6)]
        _NEAREST[question] = found[0] if found else None
    return _NEAREST[question]


def did_you_mean(word: str, candidates: Sequence[str]) -> str:
    """``; did you mean rdma_mtu?`` or nothing."""
    found = nearest(word, candidates)
    return f"; did you mean {found}?" if found is not None else ""
