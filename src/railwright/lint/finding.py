# SPDX-License-Identifier: GPL-3.0-or-later
"""One line of lint: a finding at its place, for all hosts that share it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

SHOWN_VALUE = 60  # characters of a value in a line; JSON output has all of it
SHOWN_HOSTS = 3


@dataclass(frozen=True)
class LintFinding:
    """What is wrong, where, on which hosts. ``everywhere``: on all managed hosts."""

    file: str
    line: int | None  # None: nothing is written anywhere (a missing key), or the file has no lines we know
    hosts: tuple[str, ...]
    key: str
    value: Any
    message: str
    allowed: str
    severity: str  # error or warning
    everywhere: bool = True

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        warning = "warning: " if self.severity == "warning" else ""
        value = "" if self.value is None else f"{shorten(self.value)}: "
        hosts = "" if self.everywhere or not self.hosts else f" ({self.hosts_text()})"
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{where}: {warning}{self.key}: {value}{self.message}{hosts}{allowed}"

    def hosts_text(self) -> str:
        """``n1, n2, n3 and 397 more``."""
        more = len(self.hosts) - SHOWN_HOSTS
        return ", ".join(self.hosts[:SHOWN_HOSTS]) + (f" and {more} more" if more > 0 else "")

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "file": self.file,
            "line": self.line,
            "hosts": list(self.hosts),
            "key": self.key,
            "value": self.value if _is_json(self.value) else str(self.value),
            "message": self.message,
            "allowed": self.allowed,
            "severity": self.severity,
        }


def shorten(value: Any) -> str:
    """A value on one line: text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)
    return text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 3] + "..."


def _is_json(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, list, dict))
