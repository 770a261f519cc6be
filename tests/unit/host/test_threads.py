# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions that are asked at once: answers in order, no more threads than allowed, errors for who waits."""

import threading

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.threads import ask_at_once


def test_answers_come_in_order_and_all_are_asked_at_once() -> None:
    together = threading.Barrier(3, timeout=60)

    def ask(number: int) -> int:
        together.wait()
        return number * 2

    assert ask_at_once(ask, [3, 1, 2], 8) == [6, 2, 4]
    assert ask_at_once(ask, [], 8) == []


def test_no_more_threads_than_allowed() -> None:
    seen: set[int] = set()
    assert ask_at_once(lambda number: seen.add(threading.get_ident()) or number, list(range(50)), 2) == list(range(50))
    assert len(seen) <= 2


def test_an_error_is_for_who_waits() -> None:
    def ask(number: int) -> int:
        if number == 2:
            raise OSError("gone")
        return number

    with pytest.raises(OSError, match="gone"):
        ask_at_once(ask, [1, 2, 3], 2)
