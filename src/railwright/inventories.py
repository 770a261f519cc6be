# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories that one command line names: each -i is one more, and the later lies over the earlier, as with Ansible."""

import shlex
from collections.abc import Sequence
from pathlib import Path

BETWEEN = " -i "  # as text they are one word of messages and records, which a command line takes as it is


class Inventories(tuple[Path, ...]):
    __slots__ = ()

    def __str__(self) -> str:
        return BETWEEN.join(map(str, self))


def stored_text(path: object) -> str:
    """A path for a document that any reader of UTF-8 takes; one that is not UTF-8 cannot be found by it again."""
    return str(path).encode("utf-8", "backslashreplace").decode()


Given = Path | Sequence[Path]


def inventories(given: Given) -> Inventories:
    """One, or as many as there are, each once."""
    return Inventories((given,) if isinstance(given, Path) else dict.fromkeys(given))


def quoted(named: object) -> str:
    """Their text in a command for a shell, behind -i."""
    return BETWEEN.join(shlex.quote(path) for path in str(named).split(BETWEEN))
