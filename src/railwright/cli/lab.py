# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright lab``: Soft-RoCE virtual machines on this machine, as an inventory like any other."""

import os
import sys
from typing import Annotated

import typer

from railwright.cli import console
from railwright.cli.options import Format, OutputFormat
from railwright.exitcodes import InputError

UP_HELP = """Start the lab's machines, bare, and return when they answer over ssh.

The first start builds an image and takes minutes; later ones load a snapshot.

\b
Example:
  railwright lab up --nodes 2
"""
STATUS_HELP = """Show the lab's machines and its inventory.

\b
Example:
  railwright lab status --format json
"""
SSH_HELP = """Open a shell on a machine of the lab, or run a command there.

\b
Examples:
  railwright lab ssh node1
  railwright lab ssh node1 -- rdma link show
"""
DOWN_HELP = """Stop the lab's machines. Disks, keys and inventory stay, unless --destroy.

\b
Example:
  railwright lab down
"""


def node_names(incomplete: str) -> list[str]:
    """Shell completion of NODE."""
    from railwright.lab import LabError, current

    try:
        return [node.name for node in current().nodes if node.name.startswith(incomplete)]
    except LabError:
        return []


Nodes = Annotated[int, typer.Option("--nodes", "-n", min=1, metavar="N", help="How many machines.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="New disks and a new inventory.")]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="A machine of the lab.", autocompletion=node_names, show_default=False)]
COMMAND_HELP = "What to run there; a shell when left out."
Command = Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help=COMMAND_HELP, show_default=False)]
Destroy = Annotated[bool, typer.Option("--destroy", help="Remove disks, keys, state and inventory too.")]


def up(nodes: Nodes = 2, fresh: Fresh = False, form: OutputFormat = Format.TEXT) -> None:
    from railwright import lab

    state = lab.up(nodes=nodes, fresh=fresh, progress=console.note)
    if form is Format.JSON:
        console.print_json({"inventory": str(state.inventory), "nodes": [node.name for node in state.nodes]})
        return
    console.say(f"{console.count(len(state.nodes), 'bare node')}, inventory {state.inventory}")
    for verb in ("plan", "apply", "validate"):
        console.say(f"  railwright {verb} -i {state.inventory}")
    console.say("  railwright lab down")


def status(form: OutputFormat = Format.TEXT) -> None:
    from railwright import lab

    nodes = lab.status()
    inventory = str(lab.current().inventory) if nodes else None
    if form is Format.JSON:
        console.print_json({"inventory": inventory, "nodes": [node._asdict() for node in nodes]})
        return
    if not nodes:
        console.say("no lab; start one with: railwright lab up")
        return
    words = {True: console.styled("yes", "ok"), False: console.styled("no", "fail")}
    rows = [(node.name, words[node.running], words[node.ssh_answers], node.ssh_port) for node in nodes]
    console.table(("node", "running", "ssh answers", "ssh port"), rows)
    console.say(f"inventory {inventory}")


def ssh(node: NodeName, command: Command = None) -> None:
    from railwright import lab

    known = [member.name for member in lab.current().nodes]
    if node not in known:
        raise InputError(f"no node {node!r} in the lab; nodes: {', '.join(known) or 'none'}")
    argv = lab.ssh_argv(node, list(command) if command else None)
    sys.stdout.flush()
    # ssh takes this process's place: its exit code, its terminal and its signals are the user's own.
    os.execvp(argv[0], argv)


def down(destroy: Destroy = False) -> None:
    from railwright import lab

    lab.down(destroy=destroy, progress=console.note)
    console.note("the lab is gone" if destroy else "the lab's machines are stopped")


ABOUT = "A real RDMA fabric without hardware: Soft-RoCE virtual machines on this machine."
VERBS = {"up": (up, UP_HELP), "status": (status, STATUS_HELP), "ssh": (ssh, SSH_HELP), "down": (down, DOWN_HELP)}
