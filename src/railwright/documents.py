# SPDX-License-Identifier: GPL-3.0-or-later
"""The documents in a task's result (`bench`, `ddp`, `traffic`, `drift`, `upgrade` …): what of them is kept, shown and stored.

Nodes, schedulers and programs on nodes wrote what is in them. Each key has a form and a bound here; what has another form
becomes null or is left out, and what no key names is not kept. Those of benchmarks: docs/bench.md.
"""

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from railwright.report.text import size_text

Form = Callable[[Any], Any]

TEXT = 1000  # characters of a name, a path, a message
FILE = 512 * 1024  # characters of a topology or graph dump
LINES = 100  # of the end of a program's output
ROWS = 256  # of one run: 60 doublings lead from a byte to more memory than there is
NODES = 4096
RUNS = NODES + 512  # each node by itself, and the wider groups
PORTS = 128  # of a node
WORDS = 1024  # of a command line; lines that drift says
FINDINGS = 4096  # of one node
POINTS = 4096  # restore points of one node; a node keeps those of twenty runs
CUT = "… (cut)"

# Variables that a record may hold. Anything else may be a password of the site.
KEPT_VARIABLES = re.compile(r"NCCL_[A-Z0-9_]{1,64}\Z")
# What a command line needs besides, to be given again by hand.
KEPT_WORDS = re.compile(KEPT_VARIABLES.pattern + r"|(RAILWRIGHT_BENCH|LD_LIBRARY_PATH)\Z")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=", re.ASCII)
HIDDEN = "(hidden)"
_LARGEST = sys.float_info.max


def text(limit: int = TEXT) -> Form:
    """Text of at most so many characters; null for anything else."""

    def form(value: Any) -> str | None:
        if not isinstance(value, str):
            return None
        return value if len(value) <= limit else value[:limit] + CUT

    return form


def finite_number(value: Any) -> float | int | None:
    """A finite number that a float can hold: math.isfinite would raise OverflowError for a larger whole one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST <= value <= _LARGEST:
        return None
    return value


def moment(seconds: float | None) -> str | None:
    """A time of a node in ISO 8601; None for one that is no date (milliseconds, 1e300): it must not end a run on many nodes."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return None


def integer(value: Any) -> int | None:
    """A whole number of at most 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 63:
        return None
    return value


def flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def items(form: Form, limit: int) -> Form:
    """A list of what fits the form; the rest is left out."""

    def whole(value: Any) -> list[Any]:
        found = [form(item) for item in value[:limit]] if isinstance(value, list) else []
        return [item for item in found if item is not None]

    return whole


def mapping(form: Form, limit: int) -> Form:
    """A mapping from names to what fits the form."""

    def whole(value: Any) -> dict[str, Any]:
        pairs = list(value.items())[:limit] if isinstance(value, dict) else []
        found = {str(key)[:TEXT]: form(item) for key, item in pairs}
        return {key: item for key, item in found.items() if item is not None}

    return whole


def record(required: tuple[str, ...] = (), **forms: Form) -> Form:
    """An object with exactly these keys; null when it is none, or a required one is null."""

    def whole(value: Any) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            return None
        found = {name: form(value.get(name)) for name, form in forms.items()}
        return None if any(found[name] is None for name in required) else found

    return whole


def any_json(value: Any) -> Any:
    """A value of a plan. What is larger than a file becomes text, and is cut."""
    if value is None or isinstance(value, bool) or (type(value) is str and len(value) < TEXT):
        return value
    try:
        written = json.dumps(value)
    except (TypeError, ValueError):
        return None
    return value if len(written) <= FILE else text(FILE)(written)


def list_below(key: str, form: Form) -> Form:
    """The form of a document that has a list below ``key``; null without one."""
    return lambda value: form(value) if isinstance(value, dict) and isinstance(value.get(key), list) else None


def below(key: str, form: Form) -> Form:
    """The form of a document that stands below ``key``."""
    return lambda value: form(value.get(key)) if isinstance(value, dict) else None


def nccl_variables(value: Any) -> dict[str, str]:
    """NCCL's variables only."""
    found: dict[str, str] = mapping(text(), WORDS)(value)
    return {name: item for name, item in found.items() if KEPT_VARIABLES.match(name)}


def command_line(value: Any) -> list[str]:
    """A command line whose assignments (`env A=B`, `mpirun -x A=B`, Hydra's `-genv A B`) hold values of NCCL's variables only."""
    words: list[str] = items(text(), WORDS)(value)
    return [_kept(word, words[max(0, place - 2) : place]) for place, word in enumerate(words)]


def _kept(word: str, before: list[str]) -> str:
    assigned = _ASSIGNMENT.match(word)
    if assigned is not None and not KEPT_WORDS.match(assigned[1]):
        return assigned[0] + HIDDEN
    if before[:1] == ["-genv"] and len(before) == 2 and not KEPT_WORDS.match(before[1]):
        return HIDDEN
    return word


HALF = record(("busbw",), time_us=finite_number, algbw=finite_number, busbw=finite_number, wrong=integer)
ROW = record(
    ("size", "out_of_place"), size=integer, count=integer, type=text(32), redop=text(32), root=integer, out_of_place=HALF, in_place=HALF
)
TRANSPORT = record(networks=items(text(), 32), connections=mapping(integer, 64), hcas=mapping(items(text(), 64), NODES * 16))
LATE = record(
    ("rank",), rank=integer, node=text(), gpu=text(64), collective=text(64), ms=finite_number, most_ms=finite_number, share=finite_number,
    late=integer, of=integer, own_ms=finite_number,
)  # fmt: skip
RUN = record(
    ("collective",), collective=text(64), group=text(32), label=text(), nodes=items(text(), NODES), ranks=integer, node=text(),
    argv=command_line, environment=nccl_variables, seconds=finite_number, rc=integer, rows=items(ROW, ROWS), avg_busbw=finite_number,
    out_of_bounds=integer, complete=flag, judged_busbw=finite_number, floor=finite_number, floor_source=text(), ceiling=finite_number,
    limit=text(), transport=TRANSPORT, tail=items(text(), LINES), init_seconds=mapping(finite_number, NODES),
    late=items(LATE, 64),
)  # fmt: skip
NEAR = record(gpu=text(64), hca=text(64), port=integer, path=text(16), near=flag)
TOPOLOGY = record(matrix=items(NEAR, 4096), nccl_topo=text(FILE), nccl_graph=text(FILE))
VERSIONS = mapping(mapping(text(200), 16), NODES)
bench_document = record(
    purpose=text(64), launcher=text(64), hosts=items(text(), NODES), ranks=integer, gpus=mapping(items(text(200), 64), NODES),
    versions=VERSIONS, runs=items(RUN, RUNS), topology=mapping(TOPOLOGY, NODES), left_out=items(text(), NODES),
)  # fmt: skip
CHECKSUM = record(("rank", "node", "together", "alone"), rank=integer, node=text(), gpu=integer, device=text(200), uuid=text(64),
                  together=text(64), alone=text(64))  # fmt: skip
ddp_document = record(
    hosts=items(text(), NODES), world_size=integer, backend=text(64), steps=integer, batch=integer, samples_per_s=finite_number,
    step_ms=record(p50=finite_number, p75=finite_number, p90=finite_number, p95=finite_number), versions=VERSIONS,
    late=items(LATE, 64), checksums=items(CHECKSUM, NODES * 16), transport=TRANSPORT,
)  # fmt: skip
VERDICT = record(
    ("check", "status"), check=text(64), node=text(), hca=text(64), port=integer, subject=text(), status=text(16), expected=any_json,
    found=any_json, message=text(),
)  # fmt: skip
PART = {"serial": text(100), "what": text(16), "node": text(), "name": text(200)}
BLAMED = record(("serial", "check", "status"), **PART, check=text(64), status=text(16))
SUMS = record(("key", "together", "alone"), key=text(64), together=text(64), alone=mapping(text(64), NODES * 16))
burn_in_round = record(
    ("number", "seconds"), number=integer, began=text(64), seconds=finite_number, failed=flag, result=flag, counts=mapping(integer, 16),
    figures=mapping(finite_number, 64), away=mapping(lambda value: found if len(found := items(text(), 2)(value)) == 2 else None, NODES),
    verdicts=items(VERDICT, 64), parts=items(BLAMED, NODES), repeatable=text(16), sums=SUMS,
)  # fmt: skip
BURNT = record(("serial",), **PART, failures=mapping(integer, 64), warnings=mapping(integer, 64))
burn_in_document = record(
    ("rounds", "parts"), hours=finite_number, spent_hours=finite_number, rounds=items(burn_in_round, 1 << 15),
    parts=items(BURNT, NODES * 32), repeatable=text(16), stopped=text(),
)  # fmt: skip
TRAFFIC = record(
    ("rail", "hca"), rail=text(200), hca=text(64), port=integer, peer=text(), seconds=finite_number, counters=mapping(integer, 64),
    interfaces=mapping(mapping(integer, 128), 16), backwards=items(text(64), 128),
)  # fmt: skip
RAIL = record(("rail",), rail=text(200), asked=integer, full=integer, small=integer, none=integer, unknown=integer)
CELL = record(("rail", "peer_rail", "seen"), rail=text(200), peer_rail=text(200), seen=text(16))
PAIR = record(("node", "peer"), node=text(), peer=text(), cells=items(CELL, 1024))
reachability_document = record(("rails", "pairs"), rails=items(RAIL, 128), pairs=items(PAIR, NODES), pairs_left_out=integer)

COUNTED = ("asked", "full", "small", "none", "unknown")


def both_reached(first: dict[str, Any] | None, second: dict[str, Any] | None) -> dict[str, Any] | None:
    """Who reached whom in two runs on different nodes: none of the one was asked for any of the other."""
    if first is None or second is None:
        return first or second
    rails = {row["rail"]: row for row in first["rails"]}
    for row in second["rails"]:
        own = rails.get(row["rail"], {})
        rails[row["rail"]] = {"rail": row["rail"], **{name: (own.get(name) or 0) + (row.get(name) or 0) for name in COUNTED}}
    left = (first.get("pairs_left_out") or 0) + (second.get("pairs_left_out") or 0)
    return {**first, "rails": list(rails.values()), "pairs": [*first["pairs"], *second["pairs"]], "pairs_left_out": left}


ASKED = record(("rails", "way"), rails=items(text(200), PORTS), way=text(16), gbps=finite_number)
TRIAL = record(("nodes",), nodes=items(text(), 2), failure=text(32), figures=items(ASKED, 3 * PORTS + 1))
ROUND = record(("number",), number=integer, seconds=finite_number, trials=items(TRIAL, NODES))
MEASURED = record((), round=integer, partner=text(), figure=finite_number, like=finite_number, good=flag)
ISOLATED = record(
    ("kind", "text"), kind=text(32), text=text(), nodes=items(text(), NODES), rail=text(200), way=text(16), leaf=text(200), gpu=integer,
    share=finite_number, evidence=items(MEASURED, ROWS),
)  # fmt: skip
DRAINED = record(("node", "state"), node=text(), state=text(32), reason=text(), text=text())
search_document = record(
    ("nodes", "rails"), tool=text(32), nodes=items(text(), NODES), rails=items(text(200), PORTS),
    leaves=mapping(items(items(text(), 2), NODES * 8), NODES), likes=mapping(finite_number, PORTS + 1), rounds=items(ROUND, ROWS),
    findings=items(ISOLATED, FINDINGS), drained=items(DRAINED, NODES), stopped=text(), seconds=finite_number, node_minutes=finite_number,
)  # fmt: skip


def traffic_document(value: Any, node: str) -> list[dict[str, Any]]:
    """What the counters of one node grew by while perftest ran; the node is whose answer it was, whatever it says."""
    return [{"node": node, **item} for item in items(TRAFFIC, PORTS)(value)]


LEASE = record(run=text(), controller=text(), user=text(), since=text(), step=text(32))
DRAIN = record(
    ("state",), scheduler=text(32), node=text(), state=text(32), jobs=items(text(), NODES), holders=items(text(), NODES), reason=text(),
    by=text(32), message=text(), raw=text(), closed=flag, empty=flag, done=flag,
)  # fmt: skip
PACKAGE = record(("name",), **{"name": text(), "from": text(), "to": text()})
UPGRADE = record(  # without ``pending`` nothing says whether anything is to be done
    ("pending",), pending=flag, plan=items(text(), NODES), classes=items(text(32), 32), before=mapping(text(), 64),
    packages=items(PACKAGE, NODES), prefixes=items(text(), 64), notes=items(text(), NODES), scheduler=DRAIN, lease=LEASE,
)  # fmt: skip
POINT = record(
    ("run",), run=text(), points=integer, when=finite_number, state=text(64), files=integer, values=integer, commands=integer,
    packages=integer, packages_assumed=flag, undid=items(text(), POINTS),
)  # fmt: skip
# What `drift` found, and what a remediation made of it.
FINDING = record(
    ("key", "kind", "area", "what", "severity"), key=text(), kind=text(32), area=text(64), what=text(), expected=any_json, found=any_json,
    severity=text(32), disruption=text(32), why=text(), since=finite_number, by=text(),
)  # fmt: skip
REMEDIED = record(
    ("key", "area", "what"), key=text(), kind=text(32), area=text(64), what=text(), severity=text(32), disruption=text(32),
    cause=text(32), reason=text(), needs=text(),
)  # fmt: skip
REMEDIED_ROWS = dict.fromkeys(("tried", "left", "fixed", "still", "new"), items(REMEDIED, FINDINGS))
REMEDIATION = record(
    ("stage",), stage=text(32), round=integer, fix=items(text(), FINDINGS), **REMEDIED_ROWS, clean=flag, consent=items(text(32), 64),
)  # fmt: skip
DRIFT = record(
    findings=items(FINDING, FINDINGS), judged=items(text(64), WORDS), unknown=items(text(), WORDS), unasked=items(text(64), WORDS),
    drivers=mapping(text(), 64), notes=items(text(), WORDS),
)  # fmt: skip
ROLLBACK = record(known=flag, to=text(), undone=items(text(), POINTS), restore_points=items(POINT, POINTS))

# The whole result is the document; a result without its list is another one: nothing found and nothing said are two things.
drift_document, rollback_document = list_below("findings", DRIFT), list_below("restore_points", ROLLBACK)
remediation_document, upgrade_document, drain_document = below("remediation", REMEDIATION), below("upgrade", UPGRADE), below("drain", DRAIN)
_progress = record(collective=text(64), size=integer, seconds=finite_number, step=integer, steps=integer, busbw=finite_number)


def progress_text(result: dict[str, Any]) -> str:
    """How far a benchmark has come, by a poll: ``all_reduce: 256 MiB after 12 s, 198.2 GB/s busbw``; what it did not say is left out."""
    said = _progress(result.get("progress")) or _progress({})
    step = "" if said["step"] is None or said["steps"] is None else f"step {said['step']} of {said['steps']}"
    reached = size_text(said["size"]) if (said["size"] or 0) > 0 else step
    after = "" if said["seconds"] is None else f"{said['seconds']:.0f} s"
    told = " after ".join(part for part in (reached, after) if part)
    told += f", {said['busbw']:.1f} GB/s busbw" if told and said["busbw"] is not None else ""
    return ": ".join(part for part in (said["collective"], told) if part)
