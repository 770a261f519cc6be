# SPDX-License-Identifier: GPL-3.0-or-later
"""What each check would have drained, held against the nodes that were taken out of service by others. Pure."""

import csv
import io
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

HOUR, DAY = 3600.0, 86400.0
AFTER_S = 72 * HOUR  # a node that was taken out so long after a check failed on it was rightly named
BEFORE_S = HOUR  # and one that others took out a little earlier as well: whoever was first, the node was faulty
SLURM, PERSON, TICKET = "Slurm", "people", "tickets"
# Reasons that slurmctld and slurmd set themselves; any other is a person's or a script's.
# Source: src/slurmctld (node_mgr.c, ping_nodes.c, job_mgr.c) and src/slurmd/slurmd/req.c of Slurm 23.11, read 2026-11.
OF_SLURM = ("not responding", "prolog error", "epilog error", "kill task failed", "low ", "gres/", "node unexpectedly rebooted",
            "duplicate jobid", "batch job complete failure", "health check failed", "reboot", "scheduled reboot")


class Failure(NamedTuple):
    """A check that failed on a node. ``at``: seconds since the epoch."""

    node: str
    code: str
    at: float


class Outage(NamedTuple):
    """A node that somebody else took out of service. ``by``: Slurm, people or tickets."""

    node: str
    at: float
    by: str
    reason: str


class Row(NamedTuple):
    """One check. ``drained``: nodes that it would have drained; ``by``: how many of them who took out; ``stayed``: the others."""

    code: str
    drained: int
    by: Mapping[str, int]
    stayed: tuple[str, ...]

    @property
    def proven(self) -> bool:
        """Whether every node that the check would have drained was taken out."""
        return not self.stayed


class Trial(NamedTuple):
    """``missed``: nodes that were taken out while no check failed on them. ``days``: the shortest history of a node."""

    rows: tuple[Row, ...]
    missed: tuple[Outage, ...]
    nodes: int
    days: float


def by_of(reason: str) -> str:
    return SLURM if reason.lower().startswith(OF_SLURM) else PERSON


def judge(failures: Iterable[Failure], outages: Collection[Outage], codes: Iterable[str], nodes: int, days: float) -> Trial:
    """``codes``: all checks that were tried, so that one that never failed has its row."""
    failed: dict[str, dict[str, list[float]]] = {code: {} for code in codes}
    for failure in failures:
        failed.setdefault(failure.code, {}).setdefault(failure.node, []).append(failure.at)
    of_node: dict[str, list[Outage]] = {}
    for outage in outages:
        of_node.setdefault(outage.node, []).append(outage)
    rows = []
    for code, times in sorted(failed.items()):
        taken = {node: hits[0].by for node, ats in times.items()
                 if (hits := [outage for outage in of_node.get(node, ()) if any(_belongs(outage, at) for at in ats)])}
        by = {name: sum(value == name for value in taken.values()) for name in (SLURM, PERSON, TICKET)}
        rows.append(Row(code, len(times), by, tuple(sorted(times.keys() - taken.keys()))))
    missed = tuple(outage for outage in outages if not any(
        _belongs(outage, at) for times in failed.values() for at in times.get(outage.node, ())))
    return Trial(tuple(rows), missed, nodes, days)


def _belongs(outage: Outage, at: float) -> bool:
    return -BEFORE_S <= outage.at - at <= AFTER_S


def tickets(text: str, nodes: Collection[str]) -> list[Outage]:
    """Read a CSV with the columns node, time (ISO 8601) and reason. Raises ValueError with the line's number."""
    table = csv.DictReader(io.StringIO(text))
    if not {"node", "time"} <= set(table.fieldnames or ()):
        raise ValueError(f"line 1: has the columns {', '.join(table.fieldnames or ()) or 'none'}; allowed: node,time,reason")
    found = []
    for row in table:
        try:
            at = datetime.fromisoformat(str(row["time"])).timestamp()
        except ValueError as error:
            raise ValueError(f"line {table.line_num}: time: {row['time']!r}; allowed: a time such as 2026-11-29T08:00+00:00") from error
        if row["node"] not in nodes:
            raise ValueError(f"line {table.line_num}: node: {row['node']!r} is not in the inventory")
        found.append(Outage(str(row["node"]), at, TICKET, str(row.get("reason") or "")))
    return found


def as_document(trial: Trial) -> dict[str, Any]:
    return {"nodes": trial.nodes, "days": trial.days, "checks": [
        {"check": row.code, "drained": row.drained, "by": dict(row.by), "stayed": list(row.stayed)} for row in trial.rows],
        "missed": [outage._asdict() for outage in trial.missed]}  # fmt: skip
