# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen of a live view and its keys: a terminal of any kind that knows the cursor; nothing is left on it."""

import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from railwright.top.picture import SORTS, VIEWS, Wish, screen

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
FILTER = 40  # characters


@contextmanager
def taken() -> Iterator["Screen"]:
    """Keys come one by one, unseen; the screen is another one meanwhile."""
    before = termios.tcgetattr(0)
    try:
        tty.setcbreak(0)
        sys.stdout.write(ENTER)
        yield Screen()
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


class Screen:
    """Shows the last document as the keys wish."""

    def __init__(self) -> None:
        self._wish = Wish()
        self._document: Mapping[str, Any] | None = None

    def show(self, document: Mapping[str, Any]) -> None:
        if not self._wish.frozen or self._document is None:
            self._document = document
            self.draw()

    def read_keys(self, quit_: Callable[[], object]) -> None:
        """What stands in standard input; its end is the end."""
        keys = os.read(0, 256).decode("ascii", "replace")
        for key in keys or "q":
            if key == "q" and not self._wish.typing:
                quit_()
            self._wish = pressed(self._wish, key)
        self.draw()

    def draw(self) -> None:
        if self._document is not None:
            size = os.get_terminal_size(1)
            lines = screen(self._document, self._wish, size.columns or 80, size.lines or 24)
            sys.stdout.write(HOME + f"{CLEAR_LINE}\r\n".join(lines) + CLEAR_LINE + CLEAR_BELOW)
            sys.stdout.flush()


def pressed(wish: Wish, key: str) -> Wish:
    """What one key makes of the wish. A key that says nothing changes nothing."""
    if wish.typing:
        if key in "\r\n":
            return wish._replace(typing=False)
        if key == "\x1b":
            return wish._replace(typing=False, filter="")
        if key in "\x7f\b":
            return wish._replace(filter=wish.filter[:-1])
        return wish._replace(filter=(wish.filter + key)[:FILTER]) if key.isprintable() else wish
    if key == "/":
        return wish._replace(typing=True, filter="")
    if key == "s":
        return wish._replace(sort=SORTS[(SORTS.index(wish.sort) + 1) % len(SORTS)])
    if key == "v":
        return wish._replace(view=VIEWS[(VIEWS.index(wish.view) + 1) % len(VIEWS)])
    return wish._replace(frozen=not wish.frozen) if key in "f " else wish
