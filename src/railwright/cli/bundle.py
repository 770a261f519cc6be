# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright bundle``: what a check reads of a node, as one archive."""

import re
from pathlib import Path
from typing import Annotated

import typer

from railwright.cli import console
from railwright.cli.check import Sudo, asked
from railwright.cli.drift import expect_writable
from railwright.cli.options import option
from railwright.exitcodes import BY_STATUS
from railwright.writing import write_atomic

HELP = """Write what `check` reads of this node, or of HOST, as one archive: for a bug report, a test, or to judge it later.

Unpacked it is a tree for --sysroot: files, links and the answers of commands. Keys, passwords, tokens and other people's environment are \
left out; names of hosts and devices and addresses are in it.

\b
Examples:
  railwright bundle
  railwright bundle gpu017 -o gpu017.tar.gz
  tar -xzf gpu017.tar.gz; railwright check --sysroot gpu017
"""

HostName = Annotated[str | None, typer.Argument(metavar="[[USER@]HOST]", show_default=False, help="The node; none: this machine.")]
Archive = Annotated[Path | None, option("--output", "-o", metavar="FILE", help="The archive; default: HOST.tar.gz, here.")]


def command(host: HostName = None, output: Archive = None, sudo: Sudo = False) -> None:
    if output is not None:
        expect_writable(output, "--output")
    outcomes, _verdicts = asked("bundle", [host] if host else [], sudo=sudo)
    (name, found), = outcomes.items()
    if found.status != "ok" or found.bundle is None:
        console.note(f"{name}: {found.status}: {found.message or 'it answered without a bundle'}")
        raise typer.Exit(BY_STATUS[found.status] or BY_STATUS["failed"])
    from railwright.check import archive

    short = re.sub(r"[^A-Za-z0-9._-]", "_", name.rpartition("@")[2]).lstrip(".-") or "node"
    target = output or Path(f"{short}.tar.gz")
    data = archive(found.bundle, short)
    write_atomic(target, data)
    console.say(f"{target}: {len(found.bundle['entries'])} files, links and answers, {len(data) >> 10} KiB")
    if found.bundle["left_out"]:
        console.say(f"left out: {', '.join(found.bundle['left_out'][:8])}{' …' if len(found.bundle['left_out']) > 8 else ''}")
