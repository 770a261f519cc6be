# SPDX-License-Identifier: GPL-3.0-or-later
"""What a search isolated is kept from new jobs, by the schedulers' adapters that an upgrade uses (docs/drain.md).

It waits for no job and ends none. Whose a drain is stands in its reason: an upgrade leaves ours alone, and we leave all others alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of, grouped
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import ISOLATED, OURS
from ansible_collections.railwright.rdma.plugins.plugin_utils.draining import isolation_reason
from railwright.events import HostOutcome
from railwright.exitcodes import CommandError, InputError
from railwright.isolate.model import Finding, rate_text

if TYPE_CHECKING:
    from railwright.cli.session import Judged, Session

# What blames one node. A path, a leaf and a plane are no node's fault; what is unclear or was not measured blames nobody.
GUILTY = ("node", "rail", "direction", "flapping", "late gpu", "hang")
SHOWN = 5  # hosts named in a message
WAYS = {"out": " outwards", "in": " inwards"}


class Drained(NamedTuple):
    """What became of one node; `text` is for people."""

    node: str
    state: str  # drained: by this run; kept: it took no jobs before, or its reason is another one; failed
    reason: str  # at the scheduler
    text: str


def reasons_of(run: str, findings: Sequence[Finding]) -> dict[str, str]:
    """Node -> ``railwright isolate RUN: rail2 41 of 392 Gb/s with 3 partners``."""
    found = grouped((finding.nodes[0], _text(finding)) for finding in findings if finding.kind in GUILTY)
    return {node: isolation_reason(run, "; ".join(texts)) for node, texts in found.items()}


def _text(finding: Finding) -> str:
    bad = [row for row in finding.evidence if not row.good]
    figures = sorted(row.figure for row in bad)
    what = finding.rail or ("node" if finding.gpu is None else f"GPU {finding.gpu}")
    how = {"flapping": " flaps,", "late gpu": " is late,"}.get(finding.kind, WAYS.get(finding.way, ""))
    measured = f" {rate_text(figures[len(figures) // 2])} of {rate_text(bad[0].like)} Gb/s" if bad else ""
    partners = len({row.partner for row in bad})
    return f"{what}{' hangs' if finding.kind == 'hang' else how + measured} with {partners} partner{'' if partners == 1 else 's'}"


def check_drain(judged: Judged) -> None:
    """Before anything is measured: whether every node has a scheduler that can keep the reason. Raises InputError."""
    of = {name: spec["upgrade_scheduler"] for name, spec in judged.specs.items()}
    wrong = {"upgrade_scheduler": ([name for name in of if of[name] == "none"],
                                   "is none: --drain needs a scheduler; allowed: slurm, kubernetes or command")}  # fmt: skip
    for key in ("upgrade_drain_command", "upgrade_undrain_command"):
        silent = [name for name in of if of[name] == "command" and not any("{reason}" in word for word in judged.specs[name][key])]
        wrong[key] = silent, "has no word with {reason}: by it alone an upgrade's drain is told from that of --drain; allowed: one that has"
    for key, (names, text) in wrong.items():
        if names:
            origin = judged.inventory.origin(names[0], key)
            file, line = (origin.file, origin.line) if origin is not None else (judged.inventory.path, None)
            raise InputError(f"{file}{f':{line}' if line else ''}: {key} of {first_of(names, SHOWN)} {text}", file, line)


def drain(session: Session, reasons: Mapping[str, str]) -> tuple[Drained, ...]:
    """``reasons``: of ``reasons_of``. That nobody could be asked is said of each node: the search has its findings all the same."""
    if not reasons:
        return ()
    try:
        hosts = session.run("isolate_drain", {"rdma_isolate_reasons": dict(reasons)}, list(reasons)).hosts
    except CommandError as error:
        hosts = {name: HostOutcome(name, "failed", message=str(error)) for name in reasons}
    return tuple(_drained(hosts[name], wanted) for name, wanted in reasons.items())


def _drained(host: HostOutcome, wanted: str) -> Drained:
    drain = host.drain or {}
    reason = str(drain.get("reason") or "")
    if host.status != "ok" or not drain:
        return Drained(host.name, "failed", reason, f"{host.name} is NOT drained: {host.message or 'its scheduler did not say'}")
    if reason.startswith(wanted):
        jobs = [str(item) for item in drain.get("jobs") or []]
        still = f"; still on it: {first_of(jobs, SHOWN)}" if jobs else ""
        return Drained(host.name, "drained", reason, f"{host.name} takes no new jobs ({reason}){still}")
    whose = " of an earlier search" if reason.startswith(ISOLATED) else " of an upgrade, which opens it," if reason.startswith(OURS) else ""
    return Drained(host.name, "kept", reason, f"{host.name} takes no new jobs; the reason{whose} stays: {reason or '(none)'}")
