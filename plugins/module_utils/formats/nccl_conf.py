# SPDX-License-Identifier: GPL-3.0-or-later
"""The grammar of nccl.conf, as NCCL 2.30.7 reads it (setEnvFile in src/misc/param.cc). It is not shell.

A line goes on to the line feed, or over 4095 bytes as a line of its own; a NUL ends it, and a carriage return before its end is left out
(NCCL before 2.30 keeps it, and has no limit). ``#`` in the first column is a comment. A line without ``=`` is passed over; else it is
taken apart at the first one, nothing is trimmed, and both sides keep their first 1023 bytes. The first assignment of a name counts, and
whatever stands in the environment before all of them.
"""

from typing import Dict, List, NamedTuple, Optional

LINE_BYTES = 4095
KEPT_BYTES = 1023


class Line(NamedTuple):
    """A line that is no comment and not empty. ``value`` None: it has no ``=``. ``returned``: a carriage return was left out."""

    number: int
    name: str
    value: Optional[str]
    returned: bool


def conf_lines(text: str) -> List[Line]:
    found: List[Line] = []
    for number, line in enumerate(text.encode("utf-8", "replace").split(b"\n"), 1):
        for start in range(0, len(line), LINE_BYTES):
            bare = line[start:start + LINE_BYTES].partition(b"\0")[0]
            returned = bare.endswith(b"\r")
            bare = bare[:-1] if returned else bare
            name, equals, value = bare.partition(b"=")
            if bare and not bare.startswith(b"#"):
                found.append(Line(number, _kept(name), _kept(value) if equals else None, returned))
    return found


def conf_variables(text: Optional[str]) -> Dict[str, str]:
    """What NCCL takes from a file (None: there is none), by name."""
    found: Dict[str, str] = {}
    for line in conf_lines(text or ""):
        if line.name and line.value is not None:
            found.setdefault(line.name, line.value)
    return found


def _kept(side: bytes) -> str:
    return side[:KEPT_BYTES].decode("utf-8", "replace")
