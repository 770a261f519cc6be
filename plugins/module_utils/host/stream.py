# SPDX-License-Identifier: GPL-3.0-or-later
"""A line again and again on standard output, for as long as somebody listens: who watches a node says so over standard input."""

import os
import select
import time
from typing import Callable

STDIN, STDOUT = 0, 1


def tell(make: Callable[[], bytes], period: float, patience: float) -> None:
    """What ``make`` gives every ``period`` (s), until standard input ends, nobody reads the output, or nothing came in for ``patience``:
    of a controller that lost its power nobody closes the connection.

    Nothing waits for a slow reader: while a line is not written whole no other one is made.
    """
    os.set_blocking(STDIN, False)
    os.set_blocking(STDOUT, False)
    heard = due = time.monotonic()
    left = b""
    while True:
        now = time.monotonic()
        if now >= due:
            due = max(due + period, now)
            left = left or make()
        readable, writable, _none = select.select([STDIN], [STDOUT] if left else [], [], max(0.0, due - time.monotonic()))
        try:
            if readable:
                if not os.read(STDIN, 4096):
                    return
                heard = time.monotonic()
            if writable:
                left = left[os.write(STDOUT, left):]
        except BlockingIOError:
            continue
        except OSError:
            return
        if time.monotonic() - heard > patience:
            return
