# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright top``: rails and GPUs live, while a job runs."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from railwright.cli import console
from railwright.cli.drift import expect_writable
from railwright.cli.options import Format, Limit, OptionalInventory, option
from railwright.exitcodes import ExitCode, InputError, combine

HELP = """Rails and GPUs, live, while a job runs: a sample a second, sorted by what stands out. Of an inventory's nodes, of each HOST over \
ssh, or of this machine. Only reads, needs no root, and leaves nothing there.

A node that falls behind its like is marked. Keys: s sort, / filter, v view, f freeze, q quit. Ends 0; 1 when a node failed, 3 when one \
does not answer at the end.

\b
Examples:
  railwright top -i mycluster --limit rack3
  railwright top                             # this machine
  railwright top -i mycluster --for 60 --format json > samples.jsonl
  railwright top --replay samples.jsonl
"""
Hosts = Annotated[list[str] | None, typer.Argument(metavar="[[USER@]HOST ...]", show_default=False, help="Nodes without an inventory.")]
FORMAT_HELP = "text: a screen, or of a pipe the last picture; json: one JSON document a sample, a line each."
Form = Annotated[Format, typer.Option("--format", "-f", metavar="text|json", help=FORMAT_HELP)]
Seconds = Annotated[int | None, option("--for", metavar="SECONDS", min=1, max=86400, help="End after so many samples, one a second.")]
Record = Annotated[Path | None, option("--record", metavar="FILE", help="Write each sample there too, as --format json does; a new file.")]
Replay = Annotated[Path | None, option("--replay", metavar="FILE", help="Show what was recorded, in place of nodes.")]
STATUSES = {"ok": ExitCode.OK, "failed": ExitCode.FAILED}  # of any other nothing came
Documents = AsyncGenerator[dict[str, Any]]


def command(
    hosts: Hosts = None, inventory: OptionalInventory = None, limit: Limit = None, seconds: Seconds = None, record: Record = None,
    replay: Replay = None, form: Form = Format.TEXT,
) -> None:  # fmt: skip
    if sum((bool(hosts), bool(inventory), replay is not None)) > 1:
        raise InputError("HOST, --inventory and --replay exclude each other: name hosts, an inventory, or a recording")
    if limit is not None and not inventory:
        raise InputError("--limit is for --inventory")
    live = sys.stdin.isatty() and sys.stdout.isatty() and not console.out().is_dumb_terminal and form is Format.TEXT
    if not live and seconds is None and replay is None and form is Format.TEXT:
        raise InputError("there is no terminal that can show it; allowed: --for SECONDS, or --format json")
    if record is not None:
        expect_writable(record, "--record")
    documents = replayed(replay, 1.0 if live else 0.0) if replay is not None else of_nodes(hosts or [], inventory, limit, form, seconds)
    try:
        last = asyncio.run(watch(documents, form, record, live=live))
    except FileExistsError as error:
        raise InputError(f"--record {record}: is there already; allowed: a new file") from error
    nodes = [] if last is None or replay is not None else last["nodes"].values()
    raise typer.Exit(combine(STATUSES.get(node["status"], ExitCode.UNREACHABLE) for node in nodes))


def of_nodes(hosts: list[str], inventory: list[Path] | None, limit: str | None, form: Format, seconds: int | None) -> Documents:
    from railwright.top.live import Target, documents

    if inventory:
        from railwright.cli.session import judged_inventory
        from railwright.scan.nodes import nodes_of

        judged = judged_inventory(inventory, limit, form)
        targets = [Target(node.name, node.spec, node.variables) for node in nodes_of(judged.inventory, judged.specs)]
    elif hosts:
        from railwright.check import hosts_of
        from railwright.cli.session import check_configuration
        from railwright.inventory import connection_variables, ready_plugins

        check_configuration()
        ready_plugins()
        extra = connection_variables()
        targets = [Target(host.name, None, {"ansible_host": host.address} | ({"ansible_user": host.user} if host.user else {}) | extra)
                   for host in hosts_of(hosts)]
    else:
        targets = [Target(socket.gethostname(), None, None)]
    return documents(targets, seconds)


async def replayed(file: Path, pause: float) -> Documents:
    for document in recorded(file, "--replay"):
        yield document
        await asyncio.sleep(pause)


def recorded(file: Path, given: str) -> Iterator[dict[str, Any]]:
    """A document at a time: an hour of a large cluster is large. ``given``: the option. Raises InputError."""
    from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import Misfit
    from railwright.top.sample import DOCUMENT, read_document

    try:
        with file.open("rb") as lines:
            for number, line in enumerate(iter(lambda: lines.readline(DOCUMENT), b""), 1):
                try:
                    yield read_document(line)
                except Misfit as misfit:
                    raise InputError(f"{given} {file}: line {number}: {misfit}") from misfit
    except OSError as error:
        raise InputError(f"{given} {file}: {error.strerror}") from error


async def watch(documents: Documents, form: Format, record: Path | None, *, live: bool) -> dict[str, Any] | None:
    """Show, write and record every document until they end or somebody ends it; the last one."""
    from railwright.top.picture import Wish, screen
    from railwright.top.terminal import taken
    from railwright.writing import json_text

    last: dict[str, Any] | None = None
    with ExitStack() as stack:
        writes = [sys.stdout.write] if form is Format.JSON else []
        if record is not None:
            writes.append(stack.enter_context(record.open("x", encoding="ascii")).write)
        shown = stack.enter_context(taken()) if live else None

        async def show() -> None:
            nonlocal last
            async for last in documents:
                line = json_text(last, None) if writes else ""
                for write in writes:
                    write(line)
                sys.stdout.flush()
                if shown is not None:
                    shown.show(last)

        showing, loop = asyncio.ensure_future(show()), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, showing.cancel)
        if shown is not None:
            loop.add_reader(0, shown.read_keys, showing.cancel)
            loop.add_signal_handler(signal.SIGWINCH, shown.draw)
        await asyncio.wait([showing])
        await documents.aclose()
    if not showing.cancelled():
        showing.result()
    if form is Format.TEXT and not live and last is not None:
        sys.stdout.write("".join(f"{line}\n" for line in screen(last, Wish())))
    return last
