# SPDX-License-Identifier: GPL-3.0-or-later
"""Results on stdout, everything else on stderr; text from nodes is shown, never interpreted.

On a terminal tables fit its width. Into a file or a pipe no cell is wrapped, so that
`grep` finds a line whole. rich heeds NO_COLOR, FORCE_COLOR and TERM=dumb itself.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from railwright.cli.options import Format
from railwright.exitcodes import CommandError, InputError
from railwright.report.text import printable
from railwright.writing import json_text

PIPE_WIDTH = 4096  # wider than any row that we print: cells are cut at report.text.SHORT

STYLE = {
    **dict.fromkeys(("dim", "none"), "dim"),
    "node": "bold",
    **dict.fromkeys(("ok", "pass"), "green"),
    **dict.fromkeys(("fail", "failed", "error"), "bold red"),
    "unreachable": "bold magenta",
    **dict.fromkeys(("warn", "warning", "unknown", "unproven", "link", "reload"), "yellow"),
    "restart": "cyan",
    **dict.fromkeys(("management", "reboot"), "red"),
}


@cache
def out() -> Console:
    """Where results go."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, markup=False, emoji=False)


@cache
def err() -> Console:
    """Where progress, hints and errors go."""
    return Console(file=sys.stderr, width=None if sys.stderr.isatty() else PIPE_WIDTH, highlight=False, markup=False, emoji=False)


def print_json(document: Any) -> None:
    """The one document of JSON mode."""
    sys.stdout.write(json_text(document))


def raw(text: str) -> None:
    """A document in a form of its own."""
    sys.stdout.write(text)


def answer(form: Format, document: Any, show: Callable[[], None]) -> None:
    """A result: the one document of JSON mode, or what ``show`` prints."""
    if form is Format.JSON:
        print_json(document)
    else:
        show()


def say(*parts: str | Text) -> None:
    """One line of a text result."""
    out().print(*(part if isinstance(part, Text) else Text(printable(part)) for part in parts if part), soft_wrap=True)


def note(text: str) -> None:
    """One line for the operator that is not part of the result."""
    err().print(Text(printable(text)), soft_wrap=True)


def expect_answers(verb: str, *, yes: bool, form: Format = Format.TEXT) -> None:
    """Before anything is contacted: whether somebody can be asked. Raises InputError."""
    if not yes and (form is Format.JSON or not (sys.stdin.isatty() and sys.stderr.isatty())):
        why = "--format json asks nobody" if form is Format.JSON else "there is no terminal to ask on"
        raise InputError(f"{verb} asks before it changes a node, and {why}; allowed: --yes")


def agree(question: str, *, yes: bool) -> None:
    """Go on only if the operator says so. Raises Declined, by which nothing was changed."""
    if yes:
        return
    err().print(Text(f"{printable(question)} [y/N] "), end="", soft_wrap=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Declined("not agreed to; nothing was changed")


class Declined(CommandError):
    """The operator has said no."""


def styled(text: object, kind: str | None = None) -> Text:
    """Text in the colour of its kind (by default: of itself)."""
    return Text(printable(text), style=STYLE.get(kind or str(text), ""))


def pairs(values: Mapping[str, str]) -> None:
    for label, value in values.items():
        say(f"  {label}: {value}")


def fields(document: Mapping[str, Any]) -> None:
    """What a name means, a line each; what is empty is left out."""
    for label, value in document.items():
        if value not in (None, [], ""):
            said = ", ".join(value) if isinstance(value, list) else {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
            say(f"{label.replace('_', ' '):12} {said}")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], indent: int = 2) -> None:
    """A table on stdout. Cells are text; a Text keeps its style."""
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*(cell if isinstance(cell, Text) else Text(printable(cell)) for cell in row))
    padded = Table.grid(padding=0)
    padded.add_column(width=indent)
    padded.add_column(overflow="fold")
    padded.add_row("", grid)
    if out().is_terminal:
        out().print(padded)
        return
    with out().capture() as captured:
        out().print(padded)
    # rich fills every row to the table's width; in a file that is only noise.
    sys.stdout.write("".join(line.rstrip() + "\n" for line in lines_in(captured.get())))


@contextmanager
def paged() -> Iterator[None]:
    """What the block prints on stdout, where it is longer than the screen, goes through a pager as git's does: PAGER, or less -FRX."""
    pager = shlex.split(os.environ.get("RAILWRIGHT_PAGER", os.environ.get("PAGER", "less")))
    if not out().is_terminal or out().is_dumb_terminal or not sys.stdout.isatty() or not pager or shutil.which(pager[0]) is None:
        yield
        return
    with out().capture() as captured:
        yield
    if captured.get().count("\n") < out().height:
        sys.stdout.write(captured.get())
    else:
        sys.stdout.flush()
        subprocess.run(pager, input=captured.get().encode(errors="backslashreplace"), env={"LESS": "FRX", **os.environ}, check=False)


def count(number: int, noun: str) -> str:
    """`1 change`, `2 changes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
