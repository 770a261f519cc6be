# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright init``: write an inventory to start from."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from railwright.cli import console
from railwright.cli.check import Sudo, asked
from railwright.cli.options import Format, OutputFormat, option
from railwright.exitcodes import BY_STATUS, InputError, combine

HELP = """Write an inventory that `lint` accepts: commented, with every key, and with examples for nodes; or in its shortest form.

--from-facts reads each HOST over ssh, as `check` does, and writes its rails, addresses, MTU and stack. What railwright chose is marked \
`# guess:`. If a HOST does not answer, nothing is written.

\b
Examples:
  railwright init mycluster --fabric roce
  railwright init mycluster --fabric infiniband --minimal
  railwright init mycluster --from-facts gpu001 root@gpu002
"""
MINIMAL_HELP = "One file of 13 lines: nodes, rails, fabric and MTU; addresses stay what they are."


class Fabric(StrEnum):
    ROCE = "roce"
    INFINIBAND = "infiniband"
    ERDMA = "erdma"


Hosts = Annotated[list[str] | None, typer.Argument(metavar="[[USER@]HOST ...]", show_default=False, help="Nodes, with --from-facts.")]


def command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write it.", show_default=False)], hosts: Hosts = None,
    fabric: Annotated[Fabric | None, option("--fabric", metavar="FABRIC", help="roce, infiniband, erdma; of nodes: their own.")] = None,
    minimal: Annotated[bool, typer.Option("--minimal", help=MINIMAL_HELP)] = False,
    from_facts: Annotated[bool, typer.Option("--from-facts", help="Ask the HOSTs, and write what they have.")] = False, sudo: Sudo = False,
    form: OutputFormat = Format.TEXT,
) -> None:  # fmt: skip
    from railwright.init import expect_room, files, write_inventory

    if from_facts != bool(hosts) or (from_facts and minimal) or (sudo and not from_facts):
        raise InputError("allowed: init DIR --fabric FABRIC, with or without --minimal, or init DIR --from-facts HOST ...")
    if fabric is None and not from_facts:
        raise InputError("--fabric is missing; allowed: roce, infiniband, erdma, or --from-facts HOST ...")
    expect_room(directory)
    chosen = None if fabric is None else fabric.value
    written = write_inventory(directory, _seen(hosts, chosen, sudo=sudo) if hosts else files(str(chosen), minimal=minimal))
    if form is Format.JSON:
        console.print_json({"files": [str(path) for path in written]})
        return
    for path in written:
        console.say(str(path))
    console.note(f"Edit {'these files' if len(written) > 1 else 'this file'}, then: railwright lint -i {shlex.quote(str(directory))}")


def _seen(names: list[str], fabric: str | None, *, sudo: bool) -> dict[str, str]:
    """The files of what the nodes have; ends where one does not say it."""
    from railwright.check import hosts_of
    from railwright.init.from_facts import expect_names, files_from_facts

    hosts = hosts_of(names)
    expect_names(hosts)
    outcomes, _verdicts = asked("facts", names, sudo=sudo)
    away = {name: found for name, found in outcomes.items() if found.status != "ok" or found.facts is None}
    for name, found in away.items():
        console.note(f"{name}: {found.status}: {found.message or 'it answered without facts'}")
    if away:
        console.note("nothing was written")
        raise typer.Exit(combine(BY_STATUS[found.status] or BY_STATUS["failed"] for found in away.values()))
    return files_from_facts({host: outcomes[host.name].facts or {} for host in hosts}, fabric)
