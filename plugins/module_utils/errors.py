# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors that the core raises. The adapter alone turns them into module failures."""

from typing import Iterable


class RailwrightError(Exception):
    """Something a person must mend; the text says what and where."""


class ApplyError(RailwrightError):
    """An effect failed. ``rolled_back`` tells whether everything before it was taken back."""

    def __init__(self, message, rolled_back, details=()):
        # type: (str, bool, Iterable[str]) -> None
        super().__init__(message)
        self.rolled_back = rolled_back
        self.details = tuple(details)


class PlanDiverged(RailwrightError):
    """At apply time the node asked for changes that the plan did not show."""
