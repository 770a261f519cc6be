# SPDX-License-Identifier: GPL-3.0-or-later
"""The exit codes of the command line, and the errors that carry one.

Scripts and CI read these: an unreachable node, a failed check, a missing answer and drift are
four different things and must never share a number.
"""

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1  # a verdict or a task failed, consent was refused
    DRIFT = 2  # plan is not empty
    UNREACHABLE = 3  # at least one node did not answer
    UNJUDGED = 4  # nothing failed, but a check could not read what it needs (catalogue/needed.py)
    USAGE = 64  # EX_USAGE of sysexits.h: bad usage or bad input, no node was contacted
    INTERRUPTED = 130  # 128 + SIGINT, as shells report it


# Where several hold, the first of these wins: what is wrong with the input explains all
# else; a node that did not answer makes every other statement about the site incomplete.
PRECEDENCE = (
    ExitCode.INTERRUPTED, ExitCode.USAGE, ExitCode.UNREACHABLE, ExitCode.FAILED, ExitCode.UNJUDGED, ExitCode.DRIFT, ExitCode.OK,
)  # fmt: skip


# The codes of a node's three states.
BY_STATUS = {"ok": ExitCode.OK, "failed": ExitCode.FAILED, "unreachable": ExitCode.UNREACHABLE}


def combine(codes: Iterable[ExitCode]) -> ExitCode:
    """The one exit code of several outcomes; OK when there are none."""
    present = set(codes)
    return next((code for code in PRECEDENCE if code in present), ExitCode.OK)


class CommandError(Exception):
    """An expected failure: one line for the operator and an exit code, never a traceback."""

    code = ExitCode.FAILED


class InputError(CommandError):
    """What was typed, or a file that it names, is wrong. No node was contacted. ``file``, ``line``: where, if the text says so."""

    code = ExitCode.USAGE

    def __init__(self, text: str, file: object = None, line: int | None = None) -> None:
        super().__init__(text)
        self.file, self.line = file, line


class RunError(CommandError):
    """The playbook could not be run at all; says nothing about any node."""
