# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress: plain lines for logs, a bounded live picture for terminals, never a node's control characters."""

import io

from rich.console import Console

from railwright.events import Update
from railwright.progress import LiveProgress, PlainProgress, elapsed_text, shown


def console(*, terminal: bool, height: int = 24) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, height=height, color_system=None, highlight=False, markup=False)


def text_of(where: Console) -> str:
    assert isinstance(where.file, io.StringIO)
    return where.file.getvalue()


def picture(progress: LiveProgress, where: Console) -> str:
    with where.capture() as captured:
        where.print(progress)
    return captured.get()


def test_elapsed() -> None:
    assert [elapsed_text(seconds) for seconds in (0, 65.9, 3725)] == ["0:00", "1:05", "1:02:05"]


def test_plain_lines() -> None:
    where = console(terminal=False)
    ticks = iter(range(100))
    progress = PlainProgress("plan", where, lambda: next(ticks))
    for update in (
        Update("task", task="Plan"),
        Update("start", "n1"),
        Update("ok", "n1"),
        Update("unreachable", "n2", "Plan", "timed\x1b[2Jout"),
        Update("end"),
    ):
        progress.listen(update)
    assert text_of(where).splitlines() == [
        "[0:01] plan: Plan",
        "[0:02] plan: n2: unreachable: timed\\u001b[2Jout",
        "[0:03] plan: done, 2 nodes",
    ]


def test_not_a_terminal_means_plain() -> None:
    where = console(terminal=False)
    with shown("plan", where) as listener:
        listener(Update("task", task="Plan"))
    assert text_of(where) == "[0:00] plan: Plan\n"


def test_live_picture_shows_who_works_at_what() -> None:
    where = console(terminal=True)
    progress = LiveProgress("apply", where, lambda: 0.0)
    progress.listen(Update("task", task="Install [bold]packages"))
    progress.listen(Update("start", "n1", "Install"))
    progress.listen(Update("start", "n2", "Install"))
    progress.listen(Update("failed", "n2", "Install", "no space\x07"))
    shown_text = picture(progress, where)
    assert "railwright apply" in shown_text
    assert "Install [bold]packages" in shown_text
    assert "… n1" in shown_text
    assert "✘ n2 no space\\u0007" in shown_text


def test_live_picture_fits_the_screen_and_keeps_the_bad_nodes() -> None:
    where = console(terminal=True, height=10)
    progress = LiveProgress("plan", where, lambda: 0.0)
    for number in range(50):
        progress.listen(Update("start", f"n{number}", "Plan"))
    progress.listen(Update("unreachable", "n49", "Plan", "gone"))
    lines = picture(progress, where).splitlines()
    assert len(lines) <= 10
    assert any("n49" in line for line in lines)
    assert any("and 44 more" in line for line in lines)


def test_a_polling_step_logs_a_line_every_ten_seconds() -> None:
    where = console(terminal=False)
    now = [0.0]
    progress = PlainProgress("bench", where, lambda: now[0])
    progress.listen(Update("task", task="Wait"))
    for second in (1, 6, 11, 16, 22):
        now[0] = float(second)
        progress.listen(Update("retry", "n1", "Wait", f"all_reduce: {second} s"))
    progress.listen(Update("task", task="Wait for the next"))
    progress.listen(Update("retry", "n1", "Wait for the next", "alltoall\x1b[2J"))
    progress.listen(Update("retry", "n2", "Wait for the next", ""))
    assert text_of(where).splitlines() == [
        "[0:00] bench: Wait", "[0:01] bench: n1: all_reduce: 1 s", "[0:11] bench: n1: all_reduce: 11 s",
        "[0:22] bench: n1: all_reduce: 22 s", "[0:22] bench: Wait for the next", "[0:22] bench: n1: alltoall\\u001b[2J"]


def test_a_terminal_shows_how_far_each_node_is() -> None:
    where = console(terminal=True)
    now = [0.0]
    progress = LiveProgress("bench", where, lambda: now[0])
    progress.listen(Update("start", "n1", "Wait"))
    now[0] = 5.0
    progress.listen(Update("retry", "n1", "Wait", "all_reduce: 1 GiB after 5 s"))
    assert "… n1 0:05  all_reduce: 1 GiB after 5 s" in picture(progress, where)
    progress.listen(Update("start", "n1", "Next"))
    assert "all_reduce" not in picture(progress, where)


def test_a_finished_step_leaves_a_line_and_a_skipped_one_none() -> None:
    where = console(terminal=True)
    progress = LiveProgress("plan", where, lambda: 0.0)
    progress.listen(Update("task", task="Skipped step"))
    progress.listen(Update("skipped", "n1"))
    progress.listen(Update("task", task="Done step"))
    progress.listen(Update("ok", "n1"))
    progress.listen(Update("unreachable", "n2", "", "gone"))
    progress.listen(Update("end"))
    text = text_of(where)
    assert "Skipped step" not in text
    assert "Done step  1 ok, 1 unreachable" in text
    assert "n2: gone" in text
