# SPDX-License-Identifier: GPL-3.0-or-later
"""How every check comes to its verdict: four rules in one place.

1. What the inventory does not expect is ``skipped``, with the key that would make it an expectation.
2. What is expected but cannot be read is ``unknown``; it never passes.
3. Expectations come from the inventory, else from the catalogue, else from at least four peers (checks/peers.py), never from one part.
4. A floor that needs no expectation (ACTIVE, LinkUp) is judged always.
"""

from typing import Any, Callable, Mapping, NamedTuple, Optional, Tuple

from ..spec.match import RailTarget, match_rails
from ..spec.model import Spec
from ..types import Identity, Verdict

UNREADABLE = "%s cannot be read on this node"


class Inspection(NamedTuple):
    """One inspection of one node: all that its verdicts are made of."""

    node: str
    spec: Spec
    identity: Identity
    facts: Mapping[str, Any]
    targets: Tuple[RailTarget, ...]


def inspection_of(node: str, spec: Spec, identity: Identity, facts: Mapping[str, Any]) -> Inspection:
    return Inspection(node, spec, identity, facts, tuple(match_rails(spec, identity)[0]))


class VerdictSubject(NamedTuple):
    """The thing that is judged. ``node`` is '' for the cluster as a whole."""

    node: str
    hca: Optional[str]
    port: Optional[int]
    subject: str


def verdict(check: str, where: VerdictSubject, status: str, expected: Any, found: Any, message: str) -> Verdict:
    return Verdict(check, where.node, where.hca, where.port, where.subject, status, expected, found, message)


def decided(check: str, where: VerdictSubject, *rows: Tuple[Any, str, Any, Any, str]) -> Verdict:
    """The first row that holds: (whether, status, expected, found, message)."""
    return next(verdict(check, where, *row[1:]) for row in rows if row[0])


def no_expectation(check: str, where: VerdictSubject, key: str, found: Any) -> Verdict:
    """Report what was found; the inventory says nothing to hold it against."""
    return verdict(check, where, "skipped", None, found, "the inventory expects nothing (%s)" % key)


def unreadable(check: str, where: VerdictSubject, expected: Any, what: str) -> Verdict:
    return verdict(check, where, "unknown", expected, None, UNREADABLE % what)


def equal(check: str, where: VerdictSubject, expected: Any, found: Any, key: str, what: str) -> Verdict:
    """Found must be exactly what ``key`` of the inventory says."""
    return _compared(check, where, expected, found, key, what, "not", lambda wanted, value: value == wanted, str)


def at_least(check: str, where: VerdictSubject, floor: Optional[float], found: Optional[float], key: str, what: str) -> Verdict:
    """Found must not be below the floor; better than asked is no fault."""
    return _compared(check, where, floor, found, key, what, "below", lambda bound, value: value >= bound, number_text)


def at_most(check: str, where: VerdictSubject, ceiling: Optional[float], found: Optional[float], key: str, what: str) -> Verdict:
    return _compared(check, where, ceiling, found, key, what, "above", lambda bound, value: value <= bound, number_text)


def _compared(
    check: str, where: VerdictSubject, wanted: Any, found: Any, key: str, what: str, beyond: str, holds: Callable[[Any, Any], bool],
    words: Callable[[Any], str],
) -> Verdict:
    if wanted is None:
        return no_expectation(check, where, key, found)
    if found is None:
        return unreadable(check, where, wanted, what)
    if holds(wanted, found):
        return verdict(check, where, "pass", wanted, found, "%s is %s" % (what, words(found)))
    return verdict(check, where, "fail", wanted, found, "%s is %s, %s %s" % (what, words(found), beyond, words(wanted)))


def number_text(value: Any) -> str:
    """400 for 400.0, 2.5 for 2.5: as a person writes it."""
    return "%g" % value if isinstance(value, float) else str(value)
