# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors that the core raises. Modules and their bodies turn them into module failures."""


class RailwrightError(Exception):
    """Something a person must fix; the text says what and where."""


class ApplyError(RailwrightError):
    """An effect failed. ``rolled_back`` tells whether everything before it was reverted."""

    def __init__(self, message: str, rolled_back: bool) -> None:
        super().__init__(message)
        self.rolled_back = rolled_back


class PlanDiverged(RailwrightError):
    """At apply time the node asked for changes that the plan did not show."""


class UnreadableText(RailwrightError, ValueError):
    """A text from outside that is no JSON document, or one beyond the bounds of ``formats/outside.py``."""
