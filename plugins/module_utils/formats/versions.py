# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of two package versions is newer, by Debian's and by RPM's rules, and whether a version is the wanted one.

Both formats are ``[epoch:]version[-release]``. Where an epoch stands on one side only, RPM's
tools leave it out as often as not (``rpm -q`` does, ``dnf list`` does not), so it is compared
only when both sides have one; Debian's tools always print it, and there none means 0.
"""

import fnmatch
import re
from typing import List, Optional, Tuple

from .outside import by_value, is_digits

GLOB = re.compile(r"[*?\[]")
_PARTS = re.compile(r"([0-9]+)")
NUMBER = 4  # how a number ranks among rpm's segments
END: Tuple[List[int], Tuple[int, str]] = ([0], (0, ""))
_RPM_SEGMENTS = re.compile(r"[0-9]+|[A-Za-z]+|[~^]")


def compare(one: str, other: str, family: str) -> int:
    """-1 when ``one`` is older, 0 when they are equal, 1 when it is newer. ``family`` is a platform's (debian, redhat, suse)."""
    if family == "debian":
        return _compare_debian(one, other)
    return _compare_rpm(one, other)


def matches(version: str, wanted: str, family: str = "redhat") -> bool:
    """Whether ``version`` is the wanted one: an exact version, or a glob like ``3.2.3*``."""
    if family != "debian":
        version, wanted = _same_form(version, wanted)
    if GLOB.search(wanted):
        return fnmatch.fnmatchcase(version, wanted)
    return version == wanted or compare(version, wanted, family) == 0


def direction(found: str, wanted: str, family: str) -> int:
    """-1 when going from ``found`` to ``wanted`` (a version or a glob) goes back to an older version, 0: no change, 1: forward."""
    if matches(found, wanted, family):
        return 0
    bare = GLOB.split(wanted, 1)[0].rstrip(".-+~")
    if not bare:
        return 1
    return -1 if compare(found, bare, family) > 0 else 1


def without_epoch(version: str) -> str:
    return _split_epoch(version)[1]


def _split_epoch(version: str) -> Tuple[Optional[int], str]:
    head, colon, rest = version.partition(":")
    if colon and is_digits(head):
        return int(head), rest
    return None, version


def _same_form(one: str, other: str) -> Tuple[str, str]:
    """Both with their epoch, or both without it."""
    if (_split_epoch(one)[0] is None) != (_split_epoch(other)[0] is None):
        return without_epoch(one), without_epoch(other)
    return one, other


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _compare_debian(one: str, other: str) -> int:
    """deb-version(7): epoch, upstream version, revision."""
    (epoch, rest), (other_epoch, other_rest) = _split_epoch(one), _split_epoch(other)
    if (epoch or 0) != (other_epoch or 0):
        return _sign((epoch or 0) - (other_epoch or 0))
    upstream, _dash, revision = rest.rpartition("-") if "-" in rest else (rest, "", "0")
    other_upstream, _dash, other_revision = other_rest.rpartition("-") if "-" in other_rest else (other_rest, "", "0")
    return _debian_part(upstream, other_upstream) or _debian_part(revision, other_revision)


def _debian_part(one: str, other: str) -> int:
    """Text and numbers in turn: text letter by letter (``~`` before the end, letters before the rest), numbers by value."""
    left, right = _debian_key(one), _debian_key(other)
    for index in range(max(len(left), len(right))):
        text, number = left[index] if index < len(left) else END
        other_text, other_number = right[index] if index < len(right) else END
        if text != other_text:
            return -1 if text < other_text else 1
        if number != other_number:
            return -1 if number < other_number else 1
    return 0


def _debian_key(part: str) -> List[Tuple[List[int], Tuple[int, str]]]:
    pieces = _PARTS.split(part) + ["0"]  # text, digits, text, digits …: a text at the end has no number after it
    return [([_debian_order(letter) for letter in pieces[at]] + [0], by_value(pieces[at + 1])) for at in range(0, len(pieces) - 1, 2)]


def _debian_order(letter: str) -> int:
    if letter == "~":
        return -1
    return ord(letter) if letter.isalpha() else ord(letter) + 256


def _compare_rpm(one: str, other: str) -> int:
    """Epoch, version, release; a release that one side leaves out is not compared, as rpm's own dependencies do."""
    one, other = _same_form(one, other)
    (epoch, rest), (other_epoch, other_rest) = _split_epoch(one), _split_epoch(other)
    if (epoch or 0) != (other_epoch or 0):
        return _sign((epoch or 0) - (other_epoch or 0))
    version, _dash, release = rest.partition("-")
    other_version, _dash, other_release = other_rest.partition("-")
    found = _rpm_part(version, other_version)
    if found == 0 and release and other_release:
        return _rpm_part(release, other_release)
    return found


def _rpm_part(one: str, other: str) -> int:
    """rpm's documented order: ``~``, the end, ``^``, letters, then numbers by value."""
    left, right = _RPM_SEGMENTS.findall(one), _RPM_SEGMENTS.findall(other)
    for index in range(max(len(left), len(right))):
        mine = left[index] if index < len(left) else ""
        theirs = right[index] if index < len(right) else ""
        if mine == theirs:
            continue
        rank, other_rank = _rpm_rank(mine), _rpm_rank(theirs)
        if rank != other_rank:
            return _sign(rank - other_rank)
        if rank == NUMBER and by_value(mine) != by_value(theirs):
            return -1 if by_value(mine) < by_value(theirs) else 1
        if rank != NUMBER:
            return -1 if mine < theirs else 1
    return 0


def _rpm_rank(segment: str) -> int:
    if segment == "~":
        return 0
    if segment == "":
        return 1
    if segment == "^":
        return 2
    return NUMBER if "0" <= segment[0] <= "9" else 3
