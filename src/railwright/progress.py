# SPDX-License-Identifier: GPL-3.0-or-later
"""Live progress of a run on stderr: a line for every finished step, a row for every busy node.

Not on a terminal it is one plain line a step, as a CI log wants it. It never writes to
stdout and knows nothing about results: it only shows that, and where, work goes on.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from railwright.events import Listener, Update
from railwright.report.text import printable

Clock = Callable[[], float]

RETRY_EVERY = 10  # seconds between the lines of one step that asks again and again: a log is no terminal

MARKS = {
    "running": ("…", "cyan"),
    "ok": ("✔", "green"),
    "skipped": ("–", "dim"),
    "failed": ("✘", "bold red"),
    "unreachable": ("!", "bold magenta"),
}
# Which nodes to show when there are more than lines: the bad ones, then the busy ones.
PRIORITY = {"unreachable": 0, "failed": 0, "running": 1, "ok": 2, "skipped": 3}


@contextmanager
def shown(verb: str, console: Console, *, debug: bool = False) -> Iterator[Listener]:
    """Show a run's progress while the block runs; yields the listener to give to the run."""
    if not console.is_terminal or console.is_dumb_terminal or debug:
        yield PlainProgress(verb, console).listen
        return
    progress = LiveProgress(verb, console)
    with Live(progress, console=console, refresh_per_second=8, transient=True, redirect_stdout=False, redirect_stderr=False):
        yield progress.listen


def elapsed_text(seconds: float) -> str:
    """``1:05``; hours only when there are some."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class PlainProgress:
    """One line a step and one for every node that fails."""

    def __init__(self, verb: str, console: Console, clock: Clock = time.monotonic) -> None:
        self._verb, self._console, self._clock = verb, console, clock
        self._begin = clock()
        self._nodes: set[str] = set()
        self._task = ""
        self._retried = float("-inf")

    def listen(self, update: Update) -> None:
        if update.host:
            self._nodes.add(update.host)
        if update.kind == "task":
            if update.task != self._task:  # Ansible announces a step like reset_connection once a node
                self._print(update.task)
            self._task, self._retried = update.task, float("-inf")
        elif update.kind == "retry":
            now = self._clock()
            if update.message and now - self._retried >= RETRY_EVERY:
                self._retried = now
                self._print(f"{update.host}: {update.message}")
        elif update.kind in ("failed", "unreachable"):
            self._print(f"{update.host}: {update.kind}: {update.message}")
        elif update.kind == "end":
            self._print(f"done, {len(self._nodes)} node{'' if len(self._nodes) == 1 else 's'}")

    def _print(self, text: str) -> None:
        stamp = elapsed_text(self._clock() - self._begin)
        self._console.print(Text(f"[{stamp}] {self._verb}: {printable(text)}"), soft_wrap=True)


@dataclass
class _Node:
    state: str = "ok"
    task: str = ""
    message: str = ""
    since: float = 0.0


class LiveProgress:
    """A rich renderable; the Live display asks it for its picture several times a second."""

    def __init__(self, verb: str, console: Console, clock: Clock = time.monotonic) -> None:
        self._verb, self._console, self._clock = verb, console, clock
        self._begin = clock()
        self._task = "starting Ansible"
        self._task_begin = self._begin
        self._results: dict[str, str] = {}  # of the current task, by node
        self._nodes: dict[str, _Node] = {}
        self._spinner = Spinner("dots", style="cyan")

    def listen(self, update: Update) -> None:
        now = self._clock()
        if update.kind in ("task", "end"):
            self._close_task(now)
            self._task, self._task_begin, self._results = update.task, now, {}
        elif update.kind == "start":
            node = self._nodes.setdefault(update.host, _Node())
            node.state, node.task, node.since, node.message = "running", update.task, now, ""
        elif update.kind == "retry":
            self._nodes.setdefault(update.host, _Node("running", update.task, since=now)).message = update.message
        elif update.kind in MARKS:
            node = self._nodes.setdefault(update.host, _Node())
            node.state, node.message = update.kind, update.message
            self._results[update.host] = update.kind

    def _close_task(self, now: float) -> None:
        """Leave a line behind for a step that did something on some node."""
        states = list(self._results.values())
        if not states or all(state == "skipped" for state in states):
            return
        worst = min(states, key=lambda state: PRIORITY[state])
        line = Text()
        line.append(f"{MARKS[worst][0]} ", MARKS[worst][1])
        line.append(f"{elapsed_text(now - self._begin):>5}  ", "dim")
        line.append(printable(self._task))
        parts = [f"{states.count(state)} {state}" for state in MARKS if state in states]
        line.append(f"  {', '.join(parts)}, {now - self._task_begin:.0f} s", "dim")
        self._console.print(line)
        for name, state in self._results.items():
            if state in ("failed", "unreachable"):
                self._console.print(Text(f"        {printable(name)}: {printable(self._nodes[name].message)}", MARKS[state][1]))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = Table.grid(padding=(0, 1))
        head.add_row(
            self._spinner,
            Text(f"railwright {self._verb}", "bold"),
            Text(printable(self._task)),
            Text(f"{len(self._results)} of {len(self._nodes)}" if self._nodes else "", "dim"),
            Text(elapsed_text(self._clock() - self._begin), "dim"),
        )
        yield Group(head, self._node_rows(max(3, (options.max_height or console.height) - 4)))

    def _node_rows(self, room: int) -> Table:
        grid = Table.grid(padding=(0, 1), expand=True)
        for ratio in (None, None, 1):  # a long message takes nothing from mark and name
            grid.add_column(no_wrap=True, overflow="ellipsis", ratio=ratio)
        # A copy: the runner's events come in one thread and this picture is drawn in another.
        nodes = sorted(dict(self._nodes).items(), key=lambda item: PRIORITY[item[1].state])
        for name, node in nodes[:room]:
            mark, style = MARKS[node.state]
            busy = elapsed_text(self._clock() - node.since) if node.state == "running" else ""
            told = node.message if node.state in ("failed", "unreachable", "running") else ""
            text = "  ".join(part for part in (busy, told) if part)
            grid.add_row(Text(f"  {mark}", style), Text(printable(name)), Text(printable(text), "dim"))
        if len(nodes) > room:
            grid.add_row("", Text(f"and {len(nodes) - room} more", "dim"), "")
        return grid
