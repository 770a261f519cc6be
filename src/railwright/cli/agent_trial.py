# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright agent trial``, ``promote`` and ``demote``: a check earns the right to drain by what it would have done."""

import getpass
import re
import time
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from railwright.agent.decide import Node
from railwright.agent.trial import DAY, PERSON, SLURM, Failure, Outage, Trial, as_document, by_of, judge, tickets
from railwright.cli import console
from railwright.cli.agent_drain import kept_object, locked, state_file
from railwright.cli.agent_hold import checked
from railwright.cli.options import Format, Inventory, OutputFormat, option
from railwright.cli.session import Judged, Session, concluded
from railwright.exitcodes import InputError
from railwright.inventories import quoted
from railwright.reading import file_name, read_bounded
from railwright.writing import json_text, make_directories, write_atomic

TRIAL_HELP = """For each check, show the nodes that it would have drained, and who took them out of service within 72 hours.

Each node's agent gives its failures. Nodes that Slurm or people took out are those that `agent status` and `agent drain` saw closed, so \
run one of them by a timer; --tickets adds a CSV with the columns node, time (ISO 8601) and reason. Nodes that were taken out although no \
check failed on them are listed at the end. `agent promote` goes by the last trial.

\b
Examples:
  railwright agent trial -i mycluster --for 30d
  railwright agent trial -i mycluster --for 30d --tickets repairs.csv
"""
PROMOTE_HELP = """Let a check refuse jobs and drain: write `enforce` for it into the inventory.

It needs a trial of the last seven days in which every node that the check would have drained was taken out by others, over seven days of \
history or more; or --reason and --by. The entry goes to group_vars/all/rdma_checks.yml; `railwright apply` brings it to the nodes.

\b
Examples:
  railwright agent promote gpu.nvlink -i mycluster
  railwright agent promote gpu.nvlink -i mycluster --reason 'replaced 4 of 4 that it named' --by anna
"""
DEMOTE_HELP = """Take the right to drain from a check: write `observe` for it into the inventory. It is shown and counted as before.

\b
Example:
  railwright agent demote gpu.nvlink -i mycluster
"""
HEAD = "# Written by `railwright agent promote` and `demote`; other keys of this file would be lost.\n"
FILE = "group_vars/all/rdma_checks.yml"
FRESH_S, LEAST_DAYS, MOST = 7 * DAY, 7.0, 10_000
SPAN = re.compile(r"([1-9][0-9]?)d")

Code = Annotated[str, typer.Argument(metavar="CODE", show_default=False, help="Of the check.")]
Span = Annotated[str, option("--for", metavar="DAYS", help="How far back, such as 30d; agents remember 30 days.")]
Tickets = Annotated[Path | None, option("--tickets", metavar="FILE", help="A CSV of nodes that were taken out: node,time,reason.")]
Reason = Annotated[str | None, option("--reason", metavar="TEXT", help="Why, without a trial; needs --by.")]
By = Annotated[str | None, option("--by", metavar="NAME", help="Who answers for it.")]


def trial(inventory: Inventory, span: Span = "30d", file: Tickets = None, form: OutputFormat = Format.TEXT) -> None:
    from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.check_modes import NODE_CODES
    from railwright.cli.agent import hear, judged_with_agents
    from railwright.scan.questions import Question, module_step

    days = SPAN.fullmatch(span)
    if days is None or int(days.group(1)) > 30:
        raise InputError(f"--for: {span!r} is no number of days; allowed: 1d to 30d")
    session = Session("agent", inventory, None, form)
    judged = judged_with_agents(session)
    others = tickets_of(file, judged)
    record_outages(session, hear(session, judged).nodes)
    answers: dict[str, dict[str, Any]] = {}
    scanned = session.ask_all(Question("rdma_check", "Read the history", lambda _node, _spec: {"mode": "trial"}, module_step),
                              judged, answers.__setitem__)  # fmt: skip
    since, told = time.time() - int(days.group(1)) * DAY, {name: answer["trial"] for name, answer in answers.items() if "trial" in answer}
    failures = [Failure(name, row["check"], time.time() - row["began"]) for name, said in told.items() for row in said["failures"]]
    outages = [item for item in [*known_outages(session), *others] if item.at >= since]
    reach = min((said["days"] for said in told.values()), default=0.0)
    found = judge([item for item in failures if item.at >= since], outages, NODE_CODES, len(told), min(reach, float(days.group(1))))
    document = as_document(found) | {"at": time.time()}
    make_directories(state_file(session, "trial").parent, 0o700)
    write_atomic(state_file(session, "trial"), json_text(document), 0o600)
    end = concluded(scanned.outcome, lambda _host: {}, lambda _nodes: {"checks": len(found.rows)})
    session.finish(end, lambda: show(found, session), {"agent": document})


def tickets_of(file: Path | None, judged: Judged) -> list[Outage]:
    if file is None:
        return []
    try:
        return tickets(read_bounded(file, file_name(file), 1 << 24, "allowed: at most 16 MiB").decode("utf-8"), judged.specs.keys())
    except ValueError as error:
        raise InputError(f"--tickets: {file}: {error}") from error


def show(found: Trial, session: Session) -> None:
    rows = [row for row in found.rows if row.drained]
    for row in rows:
        by = ", ".join(f"{name} {number}" for name, number in row.by.items() if number) or "nobody"
        left = f"; stayed in service: {first_of(row.stayed, 4)}" if row.stayed else ""
        console.say(f"{row.code}: would have drained {console.count(row.drained, 'node')}; "
                    f"taken out within 72 h: {row.drained - len(row.stayed)} ({by}){left}")  # fmt: skip
    console.say(f"{len(found.rows) - len(rows)} other checks would have drained no node")
    names = first_of(sorted({outage.node for outage in found.missed}), 8)
    console.say(f"taken out while no check failed: {names or 'no node'}")
    console.say(f"{console.count(found.nodes, 'node')}, {found.days:.0f} days of history; next: "
                f"railwright agent promote CODE -i {quoted(session.inventory)}")  # fmt: skip


def promote(
    inventory: Inventory, code: Code, reason: Reason = None, by: By = None, form: OutputFormat = Format.TEXT
) -> None:  # fmt: skip
    checked([code])
    session = Session("agent", inventory, None, form)
    session.judge()
    entry = {"mode": "enforce"}
    if reason is None and by is None:
        entry |= {"by": getpass.getuser(), "reason": proof(session, code)}
    elif reason and by:
        entry |= {"by": by, "reason": reason}
    else:
        raise InputError("--reason and --by belong together: a promotion without a trial needs a reason and a name")
    write_entry(session, code, entry)


def demote(inventory: Inventory, code: Code, form: OutputFormat = Format.TEXT) -> None:
    checked([code])
    write_entry(Session("agent", inventory, None, form), code, "observe")


def proof(session: Session, code: str) -> str:
    """Return what the last trial says for a check. Raises InputError where that is not enough."""
    instead = "; allowed: railwright agent trial first, or --reason TEXT --by NAME"
    file = state_file(session, "trial")
    document = kept_object(file)
    if document is None or time.time() - float(document["at"]) > FRESH_S:
        raise InputError(f"{code}: there is no trial of the last seven days{instead}")
    row = next((row for row in document["checks"] if row["check"] == code), None)
    if row is None or document["days"] < LEAST_DAYS:
        raise InputError(f"{code}: the trial has {document['days']:.0f} days of history, and seven are needed{instead}")
    if row["stayed"]:
        raise InputError(f"{code}: would have drained {first_of(row['stayed'], 4)}, which nobody took out within 72 hours{instead}")
    return f"trial of {document['days']:.0f} days on {document['nodes']} nodes: would have drained {row['drained']}, all taken out"


def write_entry(session: Session, code: str, entry: Any) -> None:
    """Write one entry of rdma_checks. Raises InputError where the inventory keeps them elsewhere."""
    import yaml

    judged = session.judge()
    file = file_of(session)
    text = file.read_bytes().decode("utf-8") if file.exists() else ""
    if text and not text.startswith(HEAD):
        raise InputError(f"{file}: was not written by railwright; allowed: add {code} to rdma_checks yourself")
    entries = (yaml.safe_load(text) or {}).get("rdma_checks", {}) if text else {}
    if strangers := sorted(name for name, spec in judged.specs.items() if set(spec["checks"]) != set(entries)):
        raise InputError(f"rdma_checks of {first_of(strangers, 4)} is set outside {file}; allowed: add {code} there yourself")
    entries[code] = entry
    make_directories(file.parent, 0o755)
    write_atomic(file, HEAD + yaml.safe_dump({"rdma_checks": entries}, sort_keys=True, allow_unicode=True, width=140), 0o644)
    mode = entry if isinstance(entry, str) else entry["mode"]
    if session.form is Format.JSON:
        console.print_json({"check": code, "mode": mode, "file": str(file)})
    else:
        console.say(f"{code}: {mode}, in {file}; next: railwright apply -i {quoted(session.inventory)}")


def file_of(session: Session) -> Path:
    """Return the file for our entries beside the inventory. Raises InputError for an inventory without a directory of its own."""
    places = [path if path.is_dir() else path.parent for path in map(Path, session.inventory) if path.exists()]
    if not places:
        raise InputError("the inventory is no file and no directory; allowed: add the entry to rdma_checks yourself")
    return places[-1] / FILE


def record_outages(session: Session, nodes: Collection[Node]) -> None:
    """Keep which nodes others closed since the last run. Those that were closed before the first run have no time, and do not count."""
    closed = {node.name: str((node.drain or {}).get("reason") or "") for node in nodes if node.closed and not node.ours}
    asked = {node.name for node in nodes if node.drain is not None}
    with locked(state_file(session, "outages")) as kept:
        before, outages = kept.get("closed"), kept.setdefault("outages", [])
        new = {name: reason for name, reason in closed.items() if before is not None and name not in before}
        outages += [[name, time.time(), by_of(reason), reason[:200]] for name, reason in new.items()]
        # A node whose scheduler did not answer is as it was.
        still = {name: reason for name, reason in (before or {}).items() if name not in asked}
        kept.update(closed=still | closed, outages=outages[-MOST:])


def known_outages(session: Session) -> list[Outage]:
    kept = kept_object(state_file(session, "outages")) or {}
    return [Outage(str(name), float(at), SLURM if by == SLURM else PERSON, str(reason)) for name, at, by, reason in kept.get("outages", ())]
