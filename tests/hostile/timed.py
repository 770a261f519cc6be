# SPDX-License-Identifier: GPL-3.0-or-later
"""A bound on what a test does in its own process: a reader that waits for somebody ends as a failure, not with the stage."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def in_time(seconds: int) -> Iterator[None]:
    """Raise AssertionError in the main thread after ``seconds``; choose them for a machine at a load of eight."""

    def late(_number: int, _frame: object) -> None:
        raise AssertionError(f"not done in {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
