# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright explain``: why a node gets what it gets: its path between HCAs and GPU memory; its NCCL profile (``explain_profile``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from railwright.cli import console, explain_profile
from railwright.cli.captured import captured_tree
from railwright.cli.facts import Sysroot
from railwright.cli.options import Format, Limit, OptionalInventory, OutputFormat
from railwright.exitcodes import ExitCode, InputError
from railwright.report.text import value_text

HELP = "Say why a node gets what it gets. Nothing is changed."
GPUDIRECT_HELP = """Say which path the HCAs of each node take to GPU memory, why, and why not the others.

DMA-BUF, nvidia_peermem or nv_peer_mem, by kernel, driver, RDMA stack and HCA; shown with every piece of evidence and where it was read. \
Ends 0, or 3 when a node does not answer. With --sysroot a captured tree is explained as it is, without an inventory.

\b
Examples:
  railwright explain gpudirect -i mycluster --limit node1
  railwright explain gpudirect --sysroot capture/node1
"""
ABSENT = "-"


def build() -> typer.Typer:
    app = typer.Typer(help=HELP, no_args_is_help=True)
    app.command("gpudirect", help=GPUDIRECT_HELP)(gpudirect)
    app.command("profile", help=explain_profile.HELP)(explain_profile.profile)
    return app


def gpudirect(inventory: OptionalInventory = None, limit: Limit = None, sysroot: Sysroot = None, form: OutputFormat = Format.TEXT) -> None:
    if sysroot is not None:
        if inventory is not None or limit is not None:
            raise InputError("--sysroot reads one captured tree; it does not go with --inventory or --limit")
        _captured(sysroot, form)
    elif inventory is not None:
        raise typer.Exit(_live(inventory, limit, form))
    else:
        raise InputError("nothing to explain: give -i INVENTORY, or --sysroot DIR")


def _captured(sysroot: Path, form: Format) -> None:
    from ansible_collections.railwright.rdma.plugins.module_utils.entry.gpudirect import explain_tree

    explanation = explain_tree(captured_tree(sysroot))
    if form is Format.JSON:
        console.print_json(explanation)
    else:
        show(explanation)


def _live(inventory: Path, limit: str | None, form: Format) -> ExitCode:
    from railwright.cli.session import Session, heading, overall, require

    session = Session("explain", inventory, limit, form)
    outcome = session.run("explain")
    require(outcome, lambda host: host.explanation is not None, "explanation")
    if form is Format.JSON:
        console.print_json({name: host.explanation for name, host in outcome.hosts.items()})
    for host in outcome.hosts.values():
        if form is Format.JSON:
            if host.status != "ok":
                console.note(f"{host.name}: {host.status}: {host.message}")
            continue
        heading(host)
        if host.explanation is not None:
            show(host.explanation)
    return overall(outcome)


def show(explanation: dict[str, Any]) -> None:
    """The path and the reason, then the alternatives, then what it rests on."""
    path, problem = str(explanation.get("path")), explanation.get("problem")
    console.say("  path:", console.styled(path, "fail" if problem else "dim" if path == "none" else "ok"))
    console.say(f"  because: {explanation.get('reason')}")
    if problem:
        console.say("  problem:", console.styled(problem, "fail"))
    refused = explanation.get("refused") or []
    if refused:
        rows = [(item.get("path"), "no" if item.get("certain") else "not chosen", item.get("why")) for item in refused]
        console.table(("alternative", "possible", "why not"), rows)
    evidence = explanation.get("evidence") or []
    if explanation.get("gpus") and evidence:
        rows = [(row.get("what"), _shown(row.get("value")), row.get("source")) for row in evidence]
        console.table(("evidence", "value", "read from"), rows)


def _shown(value: Any) -> str:
    return ABSENT if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else value_text(value)
