# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of two package versions is newer, by Debian's and by RPM's rules, and whether a version is the wanted one.

Both formats are ``[epoch:]version[-release]``. Where an epoch stands on one side only, RPM's tools leave it out as often as not (``rpm -q``
does, ``dnf list`` does not), so it is compared only when both sides have one; Debian's tools always print it, and there none means 0.
"""

import fnmatch
import re
from itertools import zip_longest
from typing import Any, List, Optional, Tuple

from .outside import by_value, is_digits

GLOB = re.compile(r"[*?\[]")
_PARTS = re.compile(r"([0-9]+)")
RPM_END = (1, (0, ""))
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
    (upstream, _dash, revision), (other_upstream, _dash, other_revision) = (
        text.rpartition("-") if "-" in text else (text, "", "0") for text in (rest, other_rest))
    return (_sign((epoch or 0) - (other_epoch or 0)) or _compare_keys(_debian_key(upstream), _debian_key(other_upstream), END)
            or _compare_keys(_debian_key(revision), _debian_key(other_revision), END))


def _compare_keys(left: List[Any], right: List[Any], end: Any) -> int:
    """Part by part; ``end`` stands for what the shorter one has not."""
    pairs = [(mine, theirs) for mine, theirs in zip_longest(left, right, fillvalue=end) if mine != theirs]
    return 0 if not pairs else -1 if pairs[0][0] < pairs[0][1] else 1


def _debian_key(part: str) -> List[Tuple[List[int], Tuple[int, str]]]:
    """Text and numbers in turn: text letter by letter (``~`` before the end, letters before the rest), numbers by value."""
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
    version, _dash, release = rest.partition("-")
    other_version, _dash, other_release = other_rest.partition("-")
    found = _sign((epoch or 0) - (other_epoch or 0)) or _compare_keys(_rpm_key(version), _rpm_key(other_version), RPM_END)
    return found or (_compare_keys(_rpm_key(release), _rpm_key(other_release), RPM_END) if release and other_release else 0)


def _rpm_key(part: str) -> List[Tuple[int, Tuple[int, str]]]:
    """rpm's documented order: ``~``, the end, ``^``, letters, then numbers by value."""
    return [(4, by_value(segment)) if "0" <= segment[0] <= "9" else ({"~": 0, "^": 2}.get(segment, 3), (0, segment))
            for segment in _RPM_SEGMENTS.findall(part)]
