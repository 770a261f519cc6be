# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks that fail on much of the fleet at once: more likely a check, a driver or a firmware that is wrong than so many faulty nodes. Pure.

Two groups of nodes are looked at: all of one model, and of those the ones with the same new version (driver, firmware, railwright). The
second recognises a check that an upgrade made wrong while the upgrade has reached only a part of the fleet.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.rules.check_modes import ENFORCE, is_held

LEAST = 3  # nodes on which a check must fail before it counts as the fleet's
HOUR, DAY = 3600.0, 86400.0

Said = Mapping[str, Any]  # the answer of one agent (agent/main.py)


class Mass(NamedTuple):
    """A check that fails on much of a group. ``since``: the new version of the group, or ''; ``acts``: a node of it has it in enforce."""

    code: str
    model: str
    firing: int
    total: int
    since: str
    acts: bool

    @property
    def text(self) -> str:
        since = f" since {self.since}" if self.since else ""
        return f"{self.code} fails on {self.firing} of {self.total} nodes with {self.model or 'no known model'}{since}"


def failing(said: Said) -> list[Mapping[str, Any]]:
    """Return the findings of a node that fail and that nobody has acked."""
    return [row for row in said["findings"] if row["status"] == "fail" and not row["known"]]


def acting(said: Said, held: Collection[str] = ()) -> list[Mapping[str, Any]]:
    """Return the findings of a node that may have it drained: failed, enforced, and not held."""
    return [row for row in failing(said) if row["mode"] == ENFORCE and not is_held(row["check"], [*held, *said["held"]])]


def waiting(said: Said, stopped: Collection[str], others: Collection[Said], window_s: float) -> str:
    """Return why a node's findings wait; '' where at least one of them need not.

    A check that first failed within the window after an upgrade of the node waits until the window has passed, and for a day as long as the
    new version is on fewer than three nodes and the check fails on all of them.
    """
    reasons = [_waits(row, said, others, window_s) for row in acting(said, stopped)]
    return reasons[0] if reasons and all(reasons) else ""


def _waits(row: Mapping[str, Any], said: Said, others: Collection[Said], window_s: float) -> str:
    for version in said["versions"]:
        if version["ago"] is None or not 0 <= version["ago"] - row["ago"] <= window_s:
            continue
        name = f"{version['name']} {version['value']}"
        if row["fresh"] or version["ago"] < window_s:
            return f"{row['check']} first failed after the upgrade to {name}: it acts once {window_s / HOUR:g} h have passed"
        alike = [other for other in others if (other["model"], _value(other, version["name"])) == (said["model"], version["value"])]
        if version["ago"] < DAY and len(alike) < LEAST and all(_fails(other, row["check"]) for other in alike):
            return f"{row['check']} fails on all {len(alike)} nodes that have {name}: it acts a day after the upgrade"
    return ""


def masses(answers: Collection[Said], share: float, window_s: float) -> list[Mass]:
    """Return the checks that fail on more than ``share`` of a group within the window; of one check and model the one with a version."""
    totals: Counter[tuple[str, str]] = Counter()
    firing: dict[tuple[str, str, str], list[bool]] = {}  # model, version or '', code -> of each node whether it is enforced
    for said in answers:
        bad = failing(said)
        for since, began in _openings(said):
            totals[said["model"], since] += 1
            for code, enforced in _begun(bad, began, window_s).items():
                firing.setdefault((said["model"], since, code), []).append(enforced)
    found: dict[tuple[str, str], Mass] = {}
    for (model, since, code), nodes in sorted(firing.items()):
        if len(nodes) >= LEAST and len(nodes) > share * totals[model, since]:
            found[code, model] = Mass(code, model, len(nodes), totals[model, since], since, any(nodes))
    return list(found.values())


def _openings(said: Said) -> Iterator[tuple[str, float | None]]:
    """Yield each group of a node, and how long ago its window opened: '' with None for the window that ends now."""
    yield "", None
    for row in said["versions"]:
        yield f"{row['name']} {row['value']}", row["ago"] if row["ago"] is not None else float("inf")


def _begun(bad: Collection[Mapping[str, Any]], opened: float | None, window_s: float) -> dict[str, bool]:
    """Return the checks of which a finding began within the window, each with whether it is enforced."""
    found: dict[str, bool] = {}
    for row in bad:
        if row["ago"] <= window_s if opened is None else 0 <= opened - row["ago"] <= window_s:
            found[row["check"]] = found.get(row["check"], False) or row["mode"] == ENFORCE
    return found


def _value(said: Said, name: str) -> str:
    return next((str(row["value"]) for row in said["versions"] if row["name"] == name), "")


def _fails(said: Said, code: str) -> bool:
    return any(row["check"] == code for row in failing(said))
