# SPDX-License-Identifier: GPL-3.0-or-later
"""The modes of the checks of a host: what its inventory says, else what the table of checks says of release and hardware."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.rules.check_modes import ENFORCE, OBSERVE

from .checks import BY_CODE, CHANGED, RELEASED, SECTIONS

NODE_SECTIONS = ("rails", "node", "alone", "health", "machine", "gpudirect", "gds")
CONFIG = "config."  # of an area: what the inventory says itself, so its change is as old as the inventory

NODE_CODES = tuple(row.check for name in NODE_SECTIONS for row in SECTIONS[name] if not row.check.startswith(CONFIG))


class Default(NamedTuple):
    """The mode of a check that no entry names, and why."""

    mode: str
    why: str


def default_mode(code: str, release: str | None) -> Default:
    """``release``: the site's rdma_checks_release; None: it trusts none yet."""
    if code.startswith(CONFIG):
        return Default(ENFORCE, "it holds what the inventory says")
    row = BY_CODE.get(code)
    if row is None or release is None or numbers(row.changed) > numbers(release):
        since = row.changed if row is not None else "a later release"
        return Default(OBSERVE, f"its judgement is of {since}, and rdma_checks_release is {release or 'unset'}")
    if not row.seen:
        return Default(OBSERVE, "it was never seen on hardware")
    return Default(ENFORCE, f"seen on {row.seen}")


def observed(release: str | None, checks: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the codes of a node's checks that act on nothing and that no entry of rdma_checks names, by why."""
    found: dict[str, list[str]] = {}
    for code in sorted(set(NODE_CODES) - set(checks)):
        default = default_mode(code, release)
        if default.mode == OBSERVE:
            found.setdefault(default.why, []).append(code)
    return found


def derived_modes(checks: dict[str, Any], release: str | None) -> dict[str, Any]:
    """What a node's agent gets (module_utils/rules/check_modes.py): the codes that act, and the entries."""
    enforced = [code for code in NODE_CODES if default_mode(code, release).mode == ENFORCE]
    return {"enforced": sorted(enforced), "entries": checks, "release": max((RELEASED, *CHANGED.values()), key=numbers)}


def numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
