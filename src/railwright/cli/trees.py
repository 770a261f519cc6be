# SPDX-License-Identifier: GPL-3.0-or-later
"""A verb that prints one document a node: of the nodes of an inventory, or of one captured tree.

With --sysroot neither Ansible nor the network is needed, and neither is imported.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from railwright.cli import console
from railwright.cli.options import Format, Transport, option
from railwright.cli.session import Session, heading, overall, require
from railwright.events import HostOutcome
from railwright.exitcodes import ExitCode, InputError
from railwright.inventories import Given

PARTS = ("sys", "proc", "etc", "var", "lib", "usr", "boot", "cmd")  # docs/reference/facts.md: what a captured tree holds
Sysroot = Annotated[Path | None, option("--sysroot", metavar="DIR", help="Read a captured tree (sys/, proc/, cmd/ …), not a live node.")]


def captured_tree(sysroot: Path) -> str:
    """The path of a tree; any other directory would be shown as a node without RDMA devices and GPUs, which it is not."""
    if not sysroot.is_dir():
        raise InputError(f"--sysroot {sysroot}: {'not a directory' if sysroot.exists() else 'does not exist'}")
    if not any((sysroot / part).is_dir() for part in PARTS):
        raise InputError(f"--sysroot {sysroot}: is no captured tree; allowed: a directory that holds any of {', '.join(PARTS)}")
    return str(sysroot)


def show_documents(
    verb: str, inventory: Given | None, limit: str | None, sysroot: Path | None, form: Format, of_tree: Callable[[str], dict[str, Any]],
    of_host: Callable[[HostOutcome], dict[str, Any] | None], show: Callable[[dict[str, Any]], None], transport: Transport,
) -> ExitCode:  # fmt: skip
    """Print one document a node, as JSON or by ``show``. ``verb`` names the playbook, and in messages what a node lacks."""
    if sysroot is not None:
        if inventory is not None or limit is not None:
            raise InputError("--sysroot reads one captured tree; it does not go with --inventory or --limit")
        document = of_tree(captured_tree(sysroot))
        console.answer(form, document, lambda: show(document))
        return ExitCode.OK
    if inventory is None:
        raise InputError("no node is named: give -i INVENTORY, or --sysroot DIR")
    outcome = Session(verb, inventory, limit, form).scan(verb, transport)
    require(outcome, lambda host: of_host(host) is not None, {"explain": "explanation"}.get(verb, verb))
    if form is Format.JSON:
        console.print_json({name: of_host(host) for name, host in outcome.hosts.items()})
    for host in outcome.hosts.values():
        if form is not Format.JSON:
            heading(host)
            if (found := of_host(host)) is not None:
                show(found)
        elif host.status != "ok":
            console.note(f"{host.name}: {host.status}: {host.message}")
    return overall(outcome)
