# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright upgrade``: from one pinned set to another, a batch at a time, with a journal that outlives the controller."""

from pathlib import Path
from typing import Annotated, Any

import typer

from railwright.cli import console
from railwright.cli.apply import Consent, consented
from railwright.cli.options import Format, Inventory, Limit, OutputFormat, Yes, option
from railwright.cli.rollout import Batch, Canary, MaxFailures, MaxUnavailable, asked
from railwright.drift import fold
from railwright.exitcodes import InputError
from railwright.inventories import inventories, quoted
from railwright.report.text import short

HELP = """Move the cluster from one pinned set (kernel, stack, GPU driver, firmware, NCCL) to the one of a release file, a batch of nodes \
at a time, without killing a job.

First a scan of all nodes: nothing begins unless all of them can be upgraded. Then canaries, then one failure domain after the other: \
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

To = Annotated[Path | None, option("--to", metavar="FILE", help="The release: a YAML file with name and pins.")]
Dry = Annotated[
    bool, typer.Option("--dry-run", help="Inspect all nodes and show the order; take no lease, download nothing, change nothing.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the last upgrade of this inventory.")]
Status = Annotated[bool, typer.Option("--status", help="Show where the last upgrade of this inventory is; contact no node.")]
BACK_HELP = "Bring nodes that fail back to how they were before this upgrade; they stay drained."
Back = Annotated[bool, typer.Option("--rollback-failed", help=BACK_HELP)]
OVER_HELP = "Take nodes over from another upgrade that will never go on: its controller is gone."
Over = Annotated[bool, typer.Option("--take-over", help=OVER_HELP)]


def command(
    inventory: Inventory, limit: Limit = None, to: To = None, dry_run: Dry = False, consent: Consent = None, batch: Batch = None,
    canary: Canary = None, max_failures: MaxFailures = None, max_unavailable: MaxUnavailable = None, status: Status = False,
    resume: Resume = False, rollback_failed: Back = False, take_over: Over = False, yes: Yes = False, form: OutputFormat = Format.TEXT,
) -> None:  # fmt: skip
    given = {"--dry-run": dry_run, "--resume": resume, "--status": status, "--limit": limit is not None}
    _agree(to, given | {"--rollback-failed": rollback_failed, "--take-over": take_over})
    console.expect_answers("upgrade", yes=yes or status or dry_run, form=form)
    from railwright.cli import upgrade_run as work

    request = work.Request(
        inventories(inventory), to, limit, consented(consent).get("rdma_consent"), rollback_failed, take_over, form, yes=yes,
        batches=asked(batch, canary, max_failures, max_unavailable))
    if status:
        raise typer.Exit(work.status(request))
    if dry_run:
        raise typer.Exit(work.dry_run(request))
    try:
        code = work.resume(request) if resume else work.begin(request)
    except KeyboardInterrupt:
        console.note(f"go on with: railwright upgrade -i {quoted(request.inventory)} --resume")
        raise
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


STYLES = {"done": "ok", "failed": "failed", "rolled_back": "warn", "waiting": "dim"}


def show_upgrade(document: dict[str, Any]) -> None:
    """The end of an upgrade, or where it is."""
    nodes = document["nodes"]
    if nodes:
        console.table(
            ("node", "state", "batch", "time", "what changed, or what is wrong"), [_row(name, node) for name, node in nodes.items()]
        )
    for name, node in nodes.items():
        for text in node["notes"]:
            console.say(console.styled("  note:", "dim"), f"{name}: {text}")
        if node["help"]:
            _help(name, node)
    _leftovers(document["inventory_changes"])
    counted = ", ".join(f"{many} {state.replace('_', ' ')}" for state, many in document["summary"]["states"].items())
    if document["stopped"]:
        console.say(console.styled("stopped:", "failed"), document["stopped"])
    console.say(f"upgrade to {document['release']['name']}, run {document['run']}: {console.count(len(nodes), 'node')}: {counted}")


def _row(name: str, node: dict[str, Any]) -> tuple[object, ...]:
    took = "" if node["seconds"] is None else f"{node['seconds']:.0f} s"
    wrong = node["message"] if node["state"] != "done" or not node["after"] else ""
    state = console.styled(node["state"].replace("_", " "), STYLES.get(node["state"], "warn"))
    return console.styled(name, "node"), state, node["batch"] or "", took, wrong or ", ".join(changed(node["before"], node["after"]))


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """``kernel 6.1.0-44-amd64 -> 6.1.0-48-amd64``, of what is another one now."""
    return [f"{label} {before.get(label, 'none')} -> {text}" for label, text in after.items() if before.get(label) != text]


def _help(name: str, node: dict[str, Any]) -> None:
    console.out().line()
    where = f" (task: {node['task']})" if node["task"] else ""
    at = "rolled back" if node["state"] == "rolled_back" else f"{node['status']} at {node['step']}"
    console.say(console.styled(name, "node"), console.styled(at, "failed"), node["message"] + where)
    if node["restore_points"]:
        console.say(f"  restore points on the node: {', '.join(node['restore_points'])}")
    words = ("go on:", "revert it:", "give it back to its jobs as it is:")
    chosen = words if len(node["help"]) == len(words) else [words[0], words[1] if "rollback" in node["help"][-1] else words[2]]
    for word, command in zip(chosen, node["help"], strict=False):
        console.say(f"  {word} {command}")


def _leftovers(rows: list[dict[str, Any]]) -> None:
    """Until the inventory says what the nodes have, drift reports it and apply reverts it."""
    if not rows:
        return
    console.out().line()
    console.say("Write this into the inventory now; until then drift reports the release, and apply would undo it:")
    console.table(
        ("key", "inventory has", "write", "nodes"),
        [(row["key"], short(row["found"]), short(row["write"]), fold(list(row["nodes"]))) for row in rows],
    )


def show_inspection(names: list[str], batches: list[list[str]], inspection: Any, outcome: Any) -> None:
    """A dry run: what each node would go through, and when."""
    place = {name: number for number, batch in enumerate(batches, start=1) for name in batch}
    rows: list[tuple[object, ...]] = []
    for name in names:
        upgrade = outcome.hosts[name].upgrade if name in outcome.hosts else None
        if name in inspection.refused:
            rows.append((console.styled(name, "node"), "", console.styled("cannot be upgraded", "failed"), inspection.refused[name]))
        elif upgrade is not None:
            what = f"{console.count(len(upgrade['plan']), 'change')} ({', '.join(upgrade['classes']) or 'none'})"
            packages = ", ".join(f"{row['name']} {row['from'] or 'none'} -> {row['to'] or 'none'}" for row in upgrade["packages"][:SHOWN])
            more = f" and {len(upgrade['packages']) - SHOWN} more" if len(upgrade["packages"]) > SHOWN else ""
            said = [packages + more] + ([f"takes no work now: {inspection.away[name]}"] if name in inspection.away else [])
            plan = what if upgrade["pending"] else console.styled("has the set already", "ok")
            rows.append((console.styled(name, "node"), place.get(name, ""), plan, "; ".join(text for text in said if text)))
    console.table(("node", "batch", "plan", "what"), rows)


SHOWN = 4  # packages of a node in a dry run; JSON has them all
