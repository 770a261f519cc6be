# SPDX-License-Identifier: GPL-3.0-or-later
"""What every verb that contacts nodes does around its playbook: judge the inventory first, run, store.

An inventory with errors stops here: no node is contacted.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from railwright import __version__
from railwright.cli import console
from railwright.cli.options import Format, settings
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import ExitCode, InputError, combine
from railwright.report.text import printable_lines
from railwright.runs import Run, new_id, save, site_path

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
    from railwright.inventory import Inventory


@dataclass(frozen=True)
class Judged:
    """An inventory without errors."""

    inventory: Inventory  # as it is written
    specs: dict[str, Spec]  # of each host, with the extra variables in force
    variables: dict[str, Any]  # the extra variables: a mapping with what the inventory's own has beside it


class Session:
    """One verb on one inventory."""

    def __init__(self, verb: str, inventory: Path, limit: str | None, form: Format) -> None:
        self.verb = verb
        with bad_input(inventory, form):
            self.inventory = present(inventory)
        self.limit = limit
        self.form = form
        self.started = datetime.now(UTC)
        self.id = new_id(verb, self.started)
        self.nodes: list[str] | None = None  # that the inventory names; known once it is judged

    def run(self, playbook: str, extra_vars: Mapping[str, Any] | None = None) -> RunOutcome:
        """Lint, then run the playbook with live progress."""
        from railwright.progress import shown
        from railwright.run import run_playbook

        if self.nodes is None:
            self.judge()
        nodes = self.nodes or []
        with shown(self.verb, console.err(), debug=settings.debug) as listener:
            variables = {"rdma_run_id": self.id, **(extra_vars or {})}
            outcome = run_playbook(playbook, self.inventory, self.limit, variables, listener, echo if settings.debug else None)
        complete(outcome, nodes)
        return outcome

    def judge(self, extra_vars: Mapping[str, Any] | None = None, options: Mapping[str, str] | None = None) -> Judged:
        """Lint the inventory with these variables in force; ``judged_inventory`` says how."""
        judged = judged_inventory(self.inventory, self.limit, self.form, extra_vars, options)
        self.nodes = list(judged.inventory.hosts)
        return judged

    def store(
        self, nodes: dict[str, dict[str, Any]], verdicts: list[dict[str, Any]], summary: dict[str, Any], code: ExitCode, **documents: Any
    ) -> Run | None:
        """Keep the run for `railwright report`; the record, or None when it could not be written. ``documents``: more fields of it."""
        run = self.record(nodes, verdicts, summary, code, **documents)
        try:
            save(run)
        except OSError as error:
            # The nodes were judged or changed all the same, and that is the result.
            console.note(f"railwright: warning: this run is not stored for `railwright report`: {error.filename}: {error.strerror}")
            return None
        return run

    def finish(
        self, document: dict[str, Any], code: ExitCode, show: Callable[[], None], verdicts: list[dict[str, Any]] | None = None, **more: Any
    ) -> NoReturn:
        """Store the run, print its document or ``show`` it, and end with its code. ``verdicts`` and ``more``: for the record."""
        self.store(document["nodes"], verdicts or [], document["summary"], code, **more)
        if self.form is Format.JSON:
            console.print_json(document)
        else:
            show()
        raise typer.Exit(code)

    def record(
        self, nodes: dict[str, dict[str, Any]], verdicts: list[dict[str, Any]], summary: dict[str, Any], code: ExitCode, **documents: Any
    ) -> Run:
        """The run as every report takes it; not stored."""
        return Run(
            id=self.id,
            verb=self.verb,
            inventory=site_path(self.inventory),
            limit=self.limit,
            started=self.started.isoformat(timespec="seconds"),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            railwright=__version__,
            exit_code=int(code),
            nodes=nodes,
            verdicts=verdicts,
            summary=summary,
            **documents,
        )


def judged_inventory(
    path: Path,
    limit: str | None,
    form: Format,
    extra_vars: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
    tolerated: Collection[str] = (),
) -> Judged:
    """Read and lint an inventory with these variables in force; findings go to stderr. Raises InputError when there are errors.

    ``options``: variable -> the option that sets it, for the findings. A mapping adds to the inventory's own. ``tolerated``: keys in
    which hosts may differ; a host's own error is none of that.
    """
    inventory = opened(path, limit, form)
    with bad_input(path, form):
        from railwright.inventory import override
        from railwright.lint.lint import judge_with_specs

        variables = merged(inventory.hosts, extra_vars or {}, options or {})
        findings, specs = judge_with_specs(override(inventory, variables, options or {}))
    for finding in findings:
        console.note(str(finding))
    alone = len(specs) < len(inventory.hosts)  # a host's own error leaves it without a Spec
    errors = [item for item in findings if item.severity == "error" and (alone or item.key not in tolerated)]
    if errors:
        if form is Format.JSON:
            console.print_json(findings_document(findings))
        raise InputError(f"{path}: {console.count(len(errors), 'error')}; no node was contacted")
    return Judged(inventory, specs, variables)


def opened(path: Path, limit: str | None, form: Format) -> Inventory:
    """An inventory that is read, not judged. Raises InputError where it or Ansible's configuration cannot be read."""
    with bad_input(path, form):
        from railwright.ansible_start import check_configuration

        present(path)
        check_configuration()
        # What judges it is imported first: once Ansible has read an inventory, its own importer refuses modules of ours that are new.
        importlib.import_module("railwright.lint")
        from railwright.inventory import load

        return load(path, limit)


def merged(hosts: Mapping[str, Mapping[str, Any]], variables: Mapping[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    """An extra variable replaces the inventory's whole; what a mapping says beside the option must stay in force."""
    found: dict[str, Any] = {}
    for name, value in variables.items():
        if not isinstance(value, Mapping):
            found[name] = value
            continue
        own = [host[name] for host in hosts.values() if isinstance(host.get(name), Mapping)]
        if any(other != own[0] for other in own) or len(own) not in (0, len(hosts)):
            raise InputError(f"{options.get(name, name)}: {name} differs between the nodes of the inventory; set it there")
        found[name] = {**(own[0] if own else {}), **value}
    return found


def echo(line: str) -> None:
    """Ansible's own output, in --debug only: nodes have a say in it, so it has no colours and no other escapes."""
    console.err().out(printable_lines(line), highlight=False)


def present(inventory: Path) -> Path:
    """The path itself, if there is something; whether it is an inventory is lint's to say."""
    if not inventory.exists():
        raise InputError(
            f"inventory {inventory} does not exist; write one with: railwright init {shlex.quote(str(inventory))} --fabric roce"
        )
    return inventory


def findings_document(findings: list[Any]) -> dict[str, Any]:
    """The JSON form of a lint run; also what the other verbs print when they stop at its errors."""
    severities = [finding.severity for finding in findings]
    return {
        "findings": [finding.as_dict() for finding in findings],
        "summary": {"errors": severities.count("error"), "warnings": severities.count("warning")},
    }


@contextmanager
def bad_input(inventory: Path, form: Format) -> Iterator[None]:
    """Whoever reads JSON gets a document also when the inventory cannot be read at all: its one line as a finding."""
    try:
        yield
    except InputError as error:
        if form is Format.JSON:
            # Spelt out: the class is in a package that imports Ansible, which may be what does not work.
            place: dict[str, Any] = {"file": str(inventory), "line": None, "hosts": [], "key": "", "value": None}
            finding = place | {"message": str(error), "allowed": "", "severity": "error"}
            console.print_json({"findings": [finding], "summary": {"errors": 1, "warnings": 0}})
        raise


def complete(outcome: RunOutcome, nodes: Iterable[str]) -> None:
    """Every node of the inventory has an outcome, and nobody else, such as the controller itself, unless it failed."""
    wanted = dict.fromkeys(nodes)
    found = outcome.hosts
    outcome.hosts = {name: found.get(name) or HostOutcome(name, "failed", message="the run ended before this node") for name in wanted}
    outcome.hosts |= {name: host for name, host in found.items() if name not in wanted and host.status != "ok"}


def require(outcome: RunOutcome, has: Callable[[HostOutcome], bool], what: str) -> None:
    """A node without the result that the verb is about has not passed: somebody else's failure ended the run early."""
    for host in outcome.hosts.values():
        if host.status == "ok" and not has(host):
            host.status, host.message = "failed", f"the run ended before this node's {what}"


def codes(hosts: Iterable[HostOutcome]) -> list[ExitCode]:
    """One code a node."""
    by_status = {"ok": ExitCode.OK, "failed": ExitCode.FAILED, "unreachable": ExitCode.UNREACHABLE}
    found = []
    for host in hosts:
        found.append(by_status[host.status])
        if host.problems:
            found.append(ExitCode.FAILED)
    return found


def verdict_codes(verdicts: Iterable[Mapping[str, Any]]) -> list[ExitCode]:
    return [ExitCode.FAILED for verdict in verdicts if verdict.get("status") not in ("pass", "warn", "unknown", "unproven", "skipped")]


def overall(outcome: RunOutcome, *more: ExitCode) -> ExitCode:
    return combine([*codes(outcome.hosts.values()), *verdict_codes(outcome.verdicts), *more])


def node_document(host: HostOutcome) -> dict[str, Any]:
    """What every verb says about a node, in JSON and in the record."""
    document: dict[str, Any] = {"status": host.status, "message": host.message, "task": host.task}
    if host.refused:
        document["refused"] = host.refused
    return document


def node_counts(outcome: RunOutcome) -> dict[str, int]:
    statuses = [host.status for host in outcome.hosts.values()]
    return {"nodes": len(statuses)} | {status: statuses.count(status) for status in ("ok", "failed", "unreachable")}


def heading(host: HostOutcome, text: str = "", judged: str = "ok") -> None:
    """The line above a node's table. ``judged``: the word for a node that answered, which is no praise where a verdict failed."""
    # A node that fails for its problems has them in a table of its own.
    shown = host.message if host.status != "ok" and not host.problems else text
    where = f" (task: {host.task})" if host.status == "failed" and host.task else ""
    console.out().line()
    console.say(console.styled(host.name, "node"), console.styled(judged if host.status == "ok" else host.status), shown + where)
