# SPDX-License-Identifier: GPL-3.0-or-later
"""Collects what is wrong with one host's values, and names the nearest known word."""

import difflib
from collections.abc import Sequence
from functools import cache
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import masked_text, masked_value
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding

MISSING = object()
SHOWN = 3  # hosts named in a message before the rest is counted


class Findings:
    """The findings of one host (or of the site: ``host`` None), in the order found."""

    def __init__(self, host: str | None) -> None:
        self.host = host
        self.items: list[Finding] = []

    def of(self, host: str) -> "Findings":
        """The same list, for findings of this host."""
        other = Findings(host)
        other.items = self.items
        return other

    def error(self, key: str, value: Any, message: str, allowed: str = "") -> Any:
        """MISSING: what a check gives back in place of a value."""
        self.add("error", key, value, message, allowed)
        return MISSING

    def warning(self, key: str, value: Any, message: str, allowed: str = "") -> None:
        self.add("warning", key, value, message, allowed)

    def add(self, severity: str, key: str, value: Any, message: str, allowed: str) -> None:
        self.items.append(Finding(self.host, key, masked_value(key, value), masked_text(message), allowed, severity))

    def has_error(self, path: str) -> bool:
        """Whether something at or below this path is an error already: a rule that reads it would only repeat it."""
        return any(item.severity == "error" and (item.key == path or item.key.startswith((path + ".", path + "["))) for item in self.items)

    def error_count(self) -> int:
        return sum(item.severity == "error" for item in self.items)


@cache  # 400 hosts share one typo
def _nearest(word: str, candidates: tuple[str, ...]) -> str | None:
    lower = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    found = found or [lower[match] for match in difflib.get_close_matches(word.lower(), list(lower), n=1, cutoff=0.6)]
    return found[0] if found else None


def nearest(word: str, candidates: Sequence[str]) -> str | None:
    """The candidate that a misspelt word most probably meant."""
    return _nearest(word, tuple(candidates))


def did_you_mean(word: str, candidates: Sequence[str]) -> str:
    """``; did you mean rdma_mtu?`` or nothing."""
    found = nearest(word, candidates)
    return f"; did you mean {found}?" if found is not None else ""


def join_hosts(hosts: Sequence[str]) -> str:
    """``n1, n2, n3 and 397 more``."""
    return first_of(hosts, SHOWN)
