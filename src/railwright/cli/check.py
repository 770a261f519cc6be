# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright check``: is this node healthy, or those; without an inventory."""

import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from railwright import __version__
from railwright.cli import console, one_line
from railwright.cli.drift import DriftForm, DriftFormat, Output, check_output, expect_writable, machine_form, print_result
from railwright.cli.options import option, settings
from railwright.cli.session import check_configuration, echo, node_document
from railwright.cli.trees import Sysroot, captured_tree
from railwright.drift import verdicts_as_prometheus
from railwright.events import HostOutcome
from railwright.exitcodes import ExitCode, InputError
from railwright.runs import Run, new_id
from railwright.writing import write_atomic

if TYPE_CHECKING:
    from railwright.check import Outcomes

HELP = """Is this node healthy? Or each HOST, over ssh, as ssh's configuration says. No inventory, nothing to install there, no root.

It shows the node as it is seen, then every verdict that needs no inventory, worst first, each with its code and the next command. A node \
takes 15 seconds at most: what hangs is left alone and is the finding. Ends 0 when every accelerator and RDMA port that was seen \
was judged and none failed, 1 when a verdict or a node failed, 3 when a node does not answer, 4 when nothing failed but a needed answer \
is missing.

\b
Examples:
  railwright check
  railwright check gpu017 root@gpu018
  railwright check --emit check.pyz      # then, on a node: python3 check.pyz
  railwright check --sysroot tree/gpu017 # of railwright bundle
"""

Hosts = Annotated[list[str] | None, typer.Argument(metavar="[[USER@]HOST ...]", show_default=False, help="Nodes; none: this machine.")]
All = Annotated[bool, typer.Option("--all", "-a", help="Every verdict, whole; not only what fits a screen.")]
Sudo = Annotated[bool, typer.Option("--sudo", help="Ask the hosts by sudo: a few things can be read by root alone.")]
EMIT_HELP = "Write the node's half there as one file, which a node's Python (3.6 or newer) runs by itself."
Emit = Annotated[Path | None, option("--emit", metavar="FILE", help=EMIT_HELP)]


def command(
    hosts: Hosts = None, every: All = False, sudo: Sudo = False, sysroot: Sysroot = None, emit: Emit = None,
    form: DriftForm = DriftFormat.TEXT, output: Output = None,
) -> None:  # fmt: skip
    if sum((bool(hosts), sysroot is not None, emit is not None)) > 1:
        raise InputError("HOST, --sysroot and --emit exclude each other: name hosts, a captured tree, or the file to write")
    check_output(form, output)
    if emit is not None:
        expect_writable(emit, "--emit")
        from railwright.check import one_file

        write_atomic(emit, one_file(), 0o755)
        console.say(f"{emit}: copy it to a node, and there: python3 {emit.name}")
        return
    started = datetime.now(UTC)
    outcomes, verdicts = of_tree(sysroot) if sysroot is not None else asked("check", hosts or [], sudo=sudo)
    found = report(outcomes, verdicts)
    if form is DriftFormat.TEXT and settings.one_line:
        one_line.show(found["nodes"], found["verdicts"], passes=every)
    elif form is DriftFormat.TEXT:
        show(found, every=every)
    else:
        nodes, verdicts = found["nodes"], found["verdicts"]
        run = Run(id=new_id("check", started), verb="check", inventory="", limit=None, started=started.isoformat(timespec="seconds"),
                  finished=datetime.now(UTC).isoformat(timespec="seconds"), railwright=__version__, nodes=nodes, verdicts=verdicts)
        print_result(machine_form(form, run, partial(verdicts_as_prometheus, nodes, verdicts), found), output)
    raise typer.Exit(ExitCode(found["summary"]["exit_code"]))


def report(outcomes: dict[str, HostOutcome], verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    """The document that `check` prints in any form, with its exit code."""
    from ansible_collections.railwright.rdma.plugins.module_utils.checks.check_report import document
    from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import COMMANDS

    nodes = {name: {part: node_document(host)[part] for part in ("status", "message")} | {"overview": host.overview or {}}
             for name, host in outcomes.items()}
    return document(nodes, verdicts, COMMANDS)


def asked(mode: str, names: Sequence[str], *, sudo: bool) -> "Outcomes":
    """This machine, or these over ssh."""
    from railwright.check import ask_here, hosts_of

    if not names:
        return ask_here(mode, socket.gethostname())
    hosts = hosts_of(names)
    check_configuration()  # the options of Ansible's ssh hold here too
    from railwright.progress import shown
    from railwright.scan.nodes import ask_hosts

    with shown(mode, console.err(), debug=settings.debug) as listener:
        return ask_hosts(mode, hosts, listener, echo if settings.debug else None, sudo=sudo)


def of_tree(sysroot: Path) -> "Outcomes":
    from ansible_collections.railwright.rdma.plugins.module_utils.entry.alone import judged_alone
    from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec

    found = judged_alone(TreeHost(captured_tree(sysroot)), "", nobodys_spec().as_dict())
    return {found["node"]: HostOutcome(found["node"], overview=found["overview"])}, found["verdicts"]


def show(found: dict[str, Any], *, every: bool) -> None:
    """A screen a node; of several, those with nothing to say are one line."""
    from ansible_collections.railwright.rdma.plugins.module_utils.checks.check_report import LABEL, WORST, is_missing, node_lines

    worst = {str(item["node"]) for item in found["verdicts"] if item["status"] in WORST or is_missing(item)}
    for name in found["nodes"]:
        lines = node_lines(found, name, every)
        for kind, text in lines if every or len(found["nodes"]) == 1 or name in worst else lines[:1]:
            style = console.styled("", kind).style
            console.say(Text.assemble((text[:LABEL], style), text[LABEL:] if kind in WORST else (text[LABEL:], style)))
