# SPDX-License-Identifier: GPL-3.0-or-later
"""The rounds of a burn-in: what is kept of each, its journal (railwright/journal.py), and the document of all.

A round is written when it is whole; one that was cut off is done again. Of its verdicts those that are no pass are kept, bounded.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from railwright import documents
from railwright.burn_in.judge import Part, Parts, gpu_of
from railwright.events import RunOutcome
from railwright.exitcodes import InputError
from railwright.journal import Lines, begin, damaged, go_on, read

WORK = "burn-in"
KEPT = 64  # verdicts of a round that are no pass
ORDER = ("fail", "warn", "unknown", "unproven", "skipped")
STATUSES = ("unreachable", "failed", "ok")
Object = dict[str, Any]


class Options(NamedTuple):
    """With what it was begun, and goes on. ``extra``: variables of bench."""

    hours: float
    extra: Object
    nccl_tests: bool
    ddp: bool


def identity(hosts: Mapping[str, Mapping[str, Any]]) -> str:
    """A digest of what an inventory says about nodes and rails."""
    rails = {name: [rail.get("name") for rail in rows(variables.get("rdma_rails"))] for name, variables in hosts.items()}
    return hashlib.sha256(json.dumps(rails, sort_keys=True, default=str).encode()).hexdigest()


def create(path: Path, hosts: Mapping[str, Mapping[str, Any]], options: Options) -> Lines:
    return Lines(path, begin(path, {"inventory": identity(hosts), "nodes": list(hosts), **options._asdict()}, WORK), WORK)


def reopen(path: Path, hosts: Mapping[str, Mapping[str, Any]]) -> tuple[Lines, Options, list[Object]]:
    """Raises InputError for one of another inventory, and a damaged one."""
    records, good = read(path, WORK)
    try:
        head = records[0]
        if head["inventory"] != identity(hosts):
            raise InputError(f"{path}: is the journal of another inventory ({len(head['nodes'])} nodes, other names or rails)", path, 1)
        options = Options(float(head["hours"]), dict(head["extra"]), bool(head["nccl_tests"]), bool(head["ddp"]))
        done = [documents.burn_in_round(record) for record in records[1:]]
        numbers = [round_["number"] for round_ in done]
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, error, WORK) from error
    if numbers != list(range(1, len(done) + 1)):
        raise damaged(path, ValueError("rounds are missing"), WORK)
    return Lines(path, go_on(path, good), WORK), options, done


def named_parts(outcome: RunOutcome, parts: Parts) -> list[Object]:
    """Each failure or warning that names a GPU or HCA."""
    said = [(parts.get((str(verdict["node"]), str(verdict["hca"] or verdict["subject"]))), verdict["check"], verdict["status"])
            for verdict in outcome.verdicts]
    if outcome.ddp is not None:
        late = {row["rank"] for row in rows(outcome.ddp["late"])}
        said += [(gpu_of(row, parts), "ddp.straggler", "warn") for row in outcome.ddp["checksums"] if row["rank"] in late]
    return [{**part._asdict(), "check": check, "status": status} for part, check, status in said if part and status in ("fail", "warn")]


def measured(outcome: RunOutcome) -> bool:
    """Whether anything came of the round: a document alone may tell of runs that did not begin."""
    return any(run["rows"] for run in rows((outcome.bench or {}).get("runs"))) or bool((outcome.ddp or {}).get("samples_per_s"))


def why_not(outcome: RunOutcome) -> str:
    return next((f"{name}: {host.message}" for name, host in outcome.hosts.items() if host.status != "ok"), "no run began")


def round_of(number: int, began: str, seconds: float, outcome: RunOutcome, health: Mapping[str, Object], parts: Parts) -> Object:
    counts = Counter(str(verdict["status"]) for verdict in outcome.verdicts)
    away = {name: [host.status, host.message] for name, host in outcome.hosts.items() if host.status != "ok"}
    bits = [str(verdict["status"]) for verdict in outcome.verdicts if verdict["check"] == "ddp.repeatable"]
    heat = [gpu["celsius"] for said in health.values() for gpu in rows(said.get("gpus")) if gpu["celsius"] is not None]
    runs = [run for run in rows((outcome.bench or {}).get("runs")) if run["judged_busbw"] is not None]
    # The lowest where nodes ran by themselves.
    figures = {f"{run['collective']} GB/s": run["judged_busbw"] for run in sorted(runs, key=lambda run: -run["judged_busbw"])}
    figures |= {"samples/s": (outcome.ddp or {}).get("samples_per_s"), "hottest GPU in C": max(heat, default=None)}
    kept = sorted((verdict for verdict in outcome.verdicts if verdict["status"] in ORDER[:-1]),
                  key=lambda verdict: ORDER.index(verdict["status"]))
    found = {
        "number": number, "began": began, "seconds": round(seconds, 1), "failed": counts["fail"] > 0 or bool(away), "counts": counts,
        "result": measured(outcome), "figures": figures, "away": away, "verdicts": kept[:KEPT],
        "parts": named_parts(outcome, parts), "repeatable": {"pass": "yes", "fail": "no"}.get(bits[0] if bits else "", "unknown"),
        "sums": None,
    }
    whole: Object = documents.burn_in_round(found)
    return whole


def document_of(options: Options, done: Sequence[Object], parts: Iterable[Part], stopped: str) -> Object:
    """Its form: docs/bench.md. ``parts``: where each was seen, last at the end."""
    counted: dict[str, Object] = {}
    for row in [*(row for round_ in done for row in round_["parts"]), *(part._asdict() for part in parts)]:
        own = counted.setdefault(row["serial"], {"failures": Counter(), "warnings": Counter()})
        own |= {key: row[key] for key in Part._fields}
        if "check" in row:
            own["failures" if row["status"] == "fail" else "warnings"][row["check"]] += 1
    said = {round_["repeatable"] for round_ in done}
    found = {
        "hours": options.hours, "spent_hours": round(spent(done) / 3600, 3), "rounds": list(done), "stopped": stopped,
        "parts": sorted(counted.values(), key=lambda own: (-sum(own["failures"].values()), -sum(own["warnings"].values()), own["serial"])),
        "repeatable": next((word for word in ("no", "yes") if word in said), "unknown"),
    }
    whole: Object = documents.burn_in_document(found)
    return whole


def spent(done: Iterable[Object]) -> float:
    return float(sum(round_["seconds"] for round_ in done))


def folded(done: Sequence[Object]) -> list[Object]:
    """Each verdict that was no pass once: the worst of all rounds, and in how many it was so."""
    parts = ("check", "node", "hca", "port", "subject")
    found = grouped((tuple(str(verdict[part]) for part in parts), (round_["number"], verdict))
                    for round_ in done for verdict in round_["verdicts"])
    verdicts = []
    for rows_ in found.values():
        status = min((verdict["status"] for _number, verdict in rows_), key=ORDER.index)
        same = [(number, verdict) for number, verdict in rows_ if verdict["status"] == status]
        text = f"in {len(same)} of {len(done)} rounds, first in round {same[0][0]}: {same[0][1]['message']}"
        verdicts.append({**same[0][1], "message": text})
    return verdicts


def worst_hosts(done: Sequence[Object], nodes: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Each node's worst status in all rounds, and where it was so."""
    found = dict.fromkeys(nodes, ("ok", ""))
    for round_ in done:
        for name, (status, message) in round_["away"].items():
            if STATUSES.index(status) < STATUSES.index(found.get(name, ("ok", ""))[0]):
                found[name] = (status, f"in round {round_['number']}: {message}")
    return found
