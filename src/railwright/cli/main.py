# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry point: run the command, and map what went wrong to one line on stderr and an exit code.

Only expected failures are caught. A mistake of ours keeps its traceback: hiding it would
help nobody.
"""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
from collections.abc import Sequence

import typer

from railwright.cli.app import command
from railwright.cli.options import settings
from railwright.exitcodes import CommandError, ExitCode, InputError
from railwright.report.text import printable, printable_lines

# typer carries its own copy of click from some version on; the base of its public exceptions is right in both cases.
USAGE_ERRORS: tuple[type[Exception], ...] = tuple(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main(argv: Sequence[str] | None = None) -> None:
    """What the console script calls."""
    _open_closed_streams()
    sys.exit(run(argv))


def _open_closed_streams() -> None:
    """A stream that the caller closed (``>&-``) is the null device: its number would else go to the next file that is opened."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    settings.debug = False
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, never a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _refuse_empty(arguments)
        code = command().main(args=arguments, prog_name="railwright", standalone_mode=False)
    except USAGE_ERRORS as error:
        return _usage(error)
    except CommandError as error:
        return _failed(str(error), error.code)
    except (KeyboardInterrupt, typer.Abort):
        return _stopped()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _failed(f"{where}{error.strerror or error}", ExitCode.FAILED)
    if code == ExitCode.INTERRUPTED:
        return _stopped()
    return code if isinstance(code, int) else ExitCode.OK


def _refuse_empty(arguments: list[str]) -> None:
    """`--limit "$NODE"` with NODE unset must not mean every node, and `-i ""` not this directory."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for place, argument in enumerate(ours):
        option = ours[place - 1] if place and not argument else argument.rstrip("=") if re.fullmatch(r"--[a-z-]+=", argument) else None
        # No class at all is something that --consent can say.
        if option is not None and option != "--consent":
            raise InputError(f"{option}: the value is empty; is a shell variable not set?")


def _usage(error: Exception) -> int:
    """click and typer use 2 here, which means drift with us."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        text = str(getattr(error, "message", "")).strip()
        if text:  # empty where rich has printed the help already
            typer.echo(text, err=True)
        return ExitCode.USAGE
    # Newlines and tabs are click's layout of choices, "Value error, " is pydantic's; one plain line says the same.
    text = " ".join(getattr(error, "format_message", error.__str__)().split()).replace("Value error, ", "")
    hint = f" (see: {context.command_path} --help)" if context is not None else ""
    return _failed(text.rstrip(".") + hint, ExitCode.USAGE)


def _failed(text: str, code: ExitCode) -> int:
    if settings.debug:
        typer.echo(printable_lines(traceback.format_exc()), err=True, nl=False)
    typer.echo(f"railwright: error: {printable(text)}", err=True)
    return code


def _stopped() -> int:
    typer.echo("railwright: stopped", err=True)
    return ExitCode.INTERRUPTED
