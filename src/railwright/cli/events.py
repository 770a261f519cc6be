# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright events``: what a node remembers of its health."""

from typing import Annotated

import typer

from railwright.cli import console
from railwright.cli.check import Sudo, asked
from railwright.cli.options import Format, OutputFormat, option
from railwright.exitcodes import BY_STATUS, ExitCode, InputError, combine

HELP = """What has happened on this node, or on each HOST: what its agent found, and how often each link went down.

\b
Examples:
  railwright events
  railwright events gpu017 root@gpu018
  railwright events ack 3fa90c1e --reason 'cable ordered'   # on the node, as root: it counts no more
"""

Words = Annotated[list[str] | None, typer.Argument(metavar="[[USER@]HOST…|ack ID]", show_default=False, help="Nodes; none: this machine.")]
Reason = Annotated[str | None, option("--reason", metavar="TEXT", help="Of ack: what somebody knows, and does about it.")]


def command(words: Words = None, reason: Reason = None, sudo: Sudo = False, form: OutputFormat = Format.TEXT) -> None:
    names = list(words or [])
    if names[:1] == ["ack"]:
        return acknowledge(names[1:], reason)
    if reason is not None:
        raise InputError("--reason is for: railwright events ack ID --reason TEXT")
    hosts, _verdicts = asked("agent", names, sudo=sudo)
    if form is Format.JSON:
        console.print_json({"nodes": {name: {"status": host.status, "message": host.message, "agent": host.agent}
                                      for name, host in hosts.items()}})  # fmt: skip
    for name, host in hosts.items() if form is Format.TEXT else ():
        if host.status != "ok" or host.agent is None:
            console.note(f"{name}: {host.status}: {host.message or 'it answered without its events'}")
        elif host.agent["word"] == "none" and not host.agent["findings"] and not host.agent["downs"]:
            console.say(f"{name}: no agent runs here: agent_mode, in the inventory; docs/agent.md")
        else:
            console.say("\n".join(host.agent["text"]))
    raise typer.Exit(combine([ExitCode(BY_STATUS[host.status]) for host in hosts.values()]))


def acknowledge(words: list[str], reason: str | None) -> None:
    from ansible_collections.railwright.rdma.plugins.module_utils.agent.main import say_known
    from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host

    if len(words) != 1 or not reason or not reason.isprintable() or len(reason) > 200:
        raise InputError("ack takes the id of one finding and a reason of at most 200 characters: railwright events ack ID --reason TEXT")
    host = Host()
    try:
        say_known(host, words[0], reason, host.login())
    except ValueError as error:
        raise InputError(str(error)) from error
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}; allowed: as root, on the node itself") from error
    console.say("the agent takes it up within a minute")
