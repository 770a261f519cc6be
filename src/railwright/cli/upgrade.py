# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright upgrade``: from one pinned set to another, a batch at a time, with a journal that outlives the controller."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from railwright.cli import console
from railwright.cli.apply import CONSENT_HELP, consented
from railwright.cli.options import Format, Inventory, Limit, OutputFormat
from railwright.exitcodes import InputError

HELP = """Move the cluster from one pinned set (kernel, stack, GPU driver, firmware, NCCL) to the one of a release file, a batch of nodes \
at a time, without killing a job.

First a look at every node: nothing begins unless all of them can be upgraded. Then canaries, then one failure domain after the other: \
drain, change, validate, gate, back to the jobs. A node that fails stays drained and stops the roll-out after its batch. Every step is \
in a journal on this controller before it begins: killed at any moment, --resume goes on. Ends 0 when every node is done, 1 when the \
roll-out stopped, 3 when a node does not answer.

\b
Examples:
  railwright upgrade -i mycluster --to release.yml --dry-run
  railwright upgrade -i mycluster --to release.yml --consent reboot,restart
  railwright upgrade -i mycluster --status
  railwright upgrade -i mycluster --resume
"""

TO_HELP = "The release: a YAML file with name and pins."
To = Annotated[Path | None, typer.Option("--to", metavar="FILE", help=TO_HELP, show_default=False)]
Consent = Annotated[str | None, typer.Option("--consent", metavar="CLASS,...", help=CONSENT_HELP, show_default=False)]
Dry = Annotated[
    bool, typer.Option("--dry-run", help="Look at all nodes and show the order; take no lease, download nothing, change nothing.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the last upgrade of this inventory.")]
Status = Annotated[bool, typer.Option("--status", help="Show where the last upgrade of this inventory is; contact no node.")]
BACK_HELP = "Bring nodes that fail back to how they were before this upgrade; they stay drained."
Back = Annotated[bool, typer.Option("--rollback-failed", help=BACK_HELP)]
OVER_HELP = "Take nodes over from another upgrade that will never go on: its controller is gone."
Over = Annotated[bool, typer.Option("--take-over", help=OVER_HELP)]


def command(
    inventory: Inventory,
    to: To = None,
    limit: Limit = None,
    consent: Consent = None,
    dry_run: Dry = False,
    resume: Resume = False,
    status: Status = False,
    rollback_failed: Back = False,
    take_over: Over = False,
    form: OutputFormat = Format.TEXT,
) -> None:
    _agree(
        to,
        {
            "--dry-run": dry_run,
            "--resume": resume,
            "--status": status,
            "--limit": limit is not None,
            "--rollback-failed": rollback_failed,
            "--take-over": take_over,
        },
    )
    from railwright.cli import upgrade_run as work

    request = work.Request(inventory, to, limit, None if consent is None else consented(consent), rollback_failed, take_over, form)
    if status:
        raise typer.Exit(work.status(request))
    if dry_run:
        raise typer.Exit(work.look(request))
    with _interruptible(inventory):
        code = work.resume(request) if resume else work.begin(request)
    raise typer.Exit(code)


def _agree(to: Path | None, given: dict[str, bool]) -> None:
    """Options that cannot stand together, each pair named."""
    modes = [name for name in ("--dry-run", "--resume", "--status") if given[name]]
    if len(modes) > 1:
        raise InputError(f"{modes[0]} and {modes[1]} are two things; allowed: one of them")
    if to is None and not (given["--resume"] or given["--status"]):
        raise InputError("--to is missing; allowed: a release file (or --resume, --status)")
    wrong = {
        "--resume": ("--limit", "--take-over"),
        "--status": ("--limit", "--rollback-failed", "--take-over"),
        "--dry-run": ("--rollback-failed", "--take-over"),
    }
    for mode in modes:
        for name in wrong[mode]:
            if given[name]:
                raise InputError(f"{name} has no meaning with {mode}")


@contextmanager
def _interruptible(inventory: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        console.note(f"go on with: railwright upgrade -i {shlex.quote(str(inventory))} --resume")
        raise
