# SPDX-License-Identifier: GPL-3.0-or-later
"""A test has no terminal: it agrees beforehand to what a verb would ask."""

from collections.abc import Sequence

ASKING = ("apply", "remediate", "rollback", "upgrade")


def agreed(words: Sequence[str]) -> tuple[str, ...]:
    """``words``: the verb and its arguments."""
    asks = words[0] in ASKING or tuple(words[:2]) == ("agent", "drain") or "--drain" in words
    return ("--yes",) if asks and "--yes" not in words else ()
