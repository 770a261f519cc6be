# SPDX-License-Identifier: GPL-3.0-or-later
"""What every verb that contacts nodes does around its playbook: judge the inventory first, run, store.

An inventory with errors stops here: no node is contacted.
"""

from __future__ import annotations

import copy
import importlib
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import typer

from railwright import __version__
from railwright.cli import console
from railwright.cli.options import Format, Transport, settings
from railwright.cli.regional import places, regions_of
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import BY_STATUS, ExitCode, InputError, combine
from railwright.inventories import Given, Inventories, inventories
from railwright.limits import parts, slurm_parts
from railwright.report.text import printable_lines
from railwright.runs import Run, new_id, runs_directory, save_run, site_path

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
    from railwright.inventory import Inventory
    from railwright.scan.nodes import ScannedInventory
    from railwright.scan.questions import Question
    from railwright.scan.scan import Keep


class Judged(NamedTuple):
    """An inventory without errors."""

    inventory: Inventory  # as it is written
    specs: dict[str, Spec]  # of each host, with the extra variables in force
    variables: dict[str, Any]  # the extra variables: a mapping with what the inventory's own has beside it


class Conclusion(NamedTuple):
    """What a verb says of its run."""

    nodes: dict[str, dict[str, Any]]  # a document each
    summary: dict[str, Any]
    code: ExitCode


class Session:
    def __init__(self, verb: str, inventory: Given, limit: str | None, form: Format) -> None:
        self.verb = verb
        with bad_input(inventory, form):
            self.inventory = present(inventory)
            runs_directory()  # refused before a node is contacted
        self.limit = limit
        self.form = form
        self.started = datetime.now(UTC)
        self.id = new_id(verb, self.started)
        self.nodes: list[str] | None = None  # that the inventory names; known once it is judged
        self.out_of_service: dict[str, str] = {}  # of them, each with why
        self.judged: Judged | None = None  # as it is written, with no more in force
        self.only: list[str] | None = None  # of its nodes those that are asked
        self._extra: dict[str, str] = {}  # variables of -e that still count
        self.in_force: Judged | None = None  # as it was judged last, with a verb's own variables in force

    def run(self, playbook: str, extra_vars: Mapping[str, Any] | None = None, only: Sequence[str] | None = None) -> RunOutcome:
        """Lint, then run the playbook with live progress. ``only``: some of the nodes."""
        from railwright.progress import shown
        from railwright.run import run_playbook

        judged = self.judge() if self.in_force is None else self.in_force
        only = self.only if only is None else only
        regions = regions_of(judged, playbook, self.verb)
        if only is None and (parts(self.limit) or regions is not None):  # not all of it is a pattern of Ansible's, or they go apart
            only = self.nodes
        variables = {"rdma_run_id": self.id, **(extra_vars or {})}
        self._outdone(variables)
        with shown(self.verb, console.err(), debug=settings.debug) as listener:
            said = echo if settings.debug else None
            first, *others = places(regions, playbook, only)
            outcome = run_playbook(playbook, self.inventory, self.limit, variables, listener, said, first, regions)
            for nodes in others:
                if all(host.status == "ok" for host in outcome.hosts.values()):
                    outcome.add(run_playbook(playbook, self.inventory, self.limit, variables, listener, said, nodes, regions))
        complete(outcome, self.nodes or [] if only is None else only)
        return self._excused(outcome)

    def scan(
        self, playbook: str, transport: Transport, extra_vars: Mapping[str, Any] | None = None,
        question: Callable[[Judged], Question] | None = None,
    ) -> RunOutcome:  # fmt: skip
        """The same for a playbook that only reads: over our own ssh, and by Ansible where it alone can reach a node."""
        judged = self.judge()  # the variables are the playbook's own
        if transport is Transport.ANSIBLE:
            return self.run(playbook, extra_vars)
        from railwright.scan.questions import QUESTIONS

        scanned = self.ask_all(QUESTIONS[playbook] if question is None else question(judged), judged)
        outcome = scanned.outcome
        if scanned.by_ansible:
            outcome.hosts.update(self.run(playbook, extra_vars, scanned.by_ansible).hosts)
        complete(outcome, self.nodes or [])
        return self._excused(outcome)

    def _excused(self, outcome: RunOutcome) -> RunOutcome:
        """A node that is out of service has its results, and no say in the exit code."""
        for name, why in self.out_of_service.items():
            if name in outcome.hosts:
                outcome.hosts[name].out_of_service = why
        return outcome

    def run_after_scan(self, playbook: str, transport: Transport, extra_vars: Mapping[str, Any] | None = None) -> RunOutcome:
        """Run a playbook whose first task asks every node what a scan may ask: who has answered that is not asked again."""
        judged = self.judge(extra_vars)
        if transport is Transport.ANSIBLE:
            return self.run(playbook, extra_vars)
        from ansible_collections.railwright.rdma.plugins.plugin_utils.scanned import VARIABLE, keep_answer
        from railwright.scan.questions import QUESTIONS

        with TemporaryDirectory(prefix="railwright-") as private:
            self.ask_all(QUESTIONS[playbook], judged, partial(keep_answer, Path(private)))
            return self.run(playbook, {**(extra_vars or {}), VARIABLE: private})

    def part(self, names: list[str]) -> Session:
        """The same run on some of its nodes."""
        other = copy.copy(self)
        other.judged = other.in_force = some_of(self.judge(), names)
        other.only, other.nodes = names, names
        return other

    def ask_all(self, question: Question, judged: Judged, keep: Keep | None = None) -> ScannedInventory:
        """One question to every node over our own ssh, with live progress. ``keep`` gets what a node answered."""
        from railwright.progress import shown
        from railwright.scan.nodes import scan_inventory

        with shown(self.verb, console.err(), debug=settings.debug) as listener:
            found = scan_inventory(question, judged, listener, echo if settings.debug else None, keep)
        for line in found.lines:
            console.note(f"railwright: {line}")
        self._excused(found.outcome)
        return found

    def judge(self, extra_vars: Mapping[str, Any] | None = None, options: Mapping[str, str] | None = None) -> Judged:
        """Lint the inventory with these variables in force; ``judged_inventory`` says how."""
        plain = not extra_vars and not options
        if self.judged is not None and plain:
            return self.judged
        judged = judged_inventory(self.inventory, self.limit, self.form, extra_vars, options)
        if self.nodes is None:
            self._extra = dict(judged.inventory.options)
        self._outdone(extra_vars or {})
        judged = judged if self.only is None else some_of(judged, self.only)
        self.in_force, self.judged, self.nodes = judged, judged if plain else self.judged, list(judged.inventory.hosts)
        self.out_of_service = {name: str(spec["out_of_service"]["reason"]) for name, spec in judged.specs.items() if spec["out_of_service"]}
        for name, why in self.out_of_service.items():
            console.note(f"{name} is out of service ({why}): its results change no exit code")
        return judged

    def wishes(self) -> dict[str, str]:
        """By node, the digest of what the inventory wants of it; once it is judged."""
        from railwright.saved_plan import wish_of

        judged = self.judge()
        return {name: wish_of(spec, judged.inventory.hosts[name]) for name, spec in judged.specs.items()}

    def _outdone(self, variables: Iterable[str]) -> None:
        """What the verb says itself, by an option of its own, lies over -e as over the inventory. That is told once."""
        for name in self._extra.keys() & variables:
            console.note(f"railwright: note: {self._extra.pop(name)} does not count: {self.verb} sets {name} itself")

    def store(self, end: Conclusion, verdicts: list[dict[str, Any]] | None = None, **documents: Any) -> Run | None:
        """Keep the run for `railwright report`; the record, or None when it could not be written. ``documents``: more fields of it."""
        run = self.record(end, verdicts, **documents)
        try:
            save_run(run)
        except OSError as error:
            # The nodes were judged or changed all the same, and that is the result.
            console.note(f"railwright: warning: this run is not stored for `railwright report`: {error.filename}: {error.strerror}")
            return None
        return run

    def show(self, end: Conclusion, show: Callable[[], None], **document: Any) -> None:
        """Print the run's document, with these fields beside its nodes and summary, or ``show`` it."""
        console.answer(self.form, {"nodes": end.nodes, **document, "summary": end.summary}, show)

    def finish(self, end: Conclusion, show: Callable[[], None], document: Mapping[str, Any] | None = None, **record: Any) -> NoReturn:
        """Store the run, with what ``record`` has beside, print it, and end with its code."""
        self.store(end, **record)
        self.show(end, show, **(document or {}))
        raise typer.Exit(end.code)

    def record(self, end: Conclusion, verdicts: list[dict[str, Any]] | None = None, **documents: Any) -> Run:
        """The run as every report takes it; not stored."""
        from railwright.leaves import leaf_of_rails

        leaves = {} if self.in_force is None else leaf_of_rails(self.in_force.specs, self.in_force.inventory.groups)
        return Run(
            id=self.id, verb=self.verb, inventory=site_path(self.inventory), limit=self.limit,
            started=self.started.isoformat(timespec="seconds"), finished=datetime.now(UTC).isoformat(timespec="seconds"),
            railwright=__version__, exit_code=int(end.code), nodes=end.nodes, verdicts=verdicts or [], summary=end.summary,
            leaves=leaves, **documents,
        )  # fmt: skip


def some_of(judged: Judged, names: Sequence[str]) -> Judged:
    inventory = replace(judged.inventory, hosts={name: judged.inventory.hosts[name] for name in names})
    return judged._replace(inventory=inventory, specs={name: judged.specs[name] for name in names})


def judged_inventory(
    path: Given, limit: str | None, form: Format, extra_vars: Mapping[str, Any] | None = None, options: Mapping[str, str] | None = None,
    tolerated: Collection[str] = (),
) -> Judged:  # fmt: skip
    """Read and lint an inventory with these variables in force; findings go to stderr. Raises InputError when there are errors.

    ``options``: variable -> the option that sets it, for the findings. A mapping adds to the inventory's own. ``tolerated``: keys in
    which hosts may differ; a host's own error is none of that.
    """
    inventory = opened(path, limit, form)
    with bad_input(path, form):
        from railwright.inventory import override
        from railwright.lint import judge_with_specs

        variables = merged(inventory.hosts, extra_vars or {}, options or {})
        findings, specs = judge_with_specs(override(inventory, variables, options or {}))
    for finding in findings:
        console.note(str(finding))
    alone = len(specs) < len(inventory.hosts)  # a host's own error leaves it without a Spec
    errors = [item for item in findings if item.severity == "error" and (alone or item.key not in tolerated)]
    if errors:
        if form is Format.JSON:
            console.print_json(findings_document(findings))
        raise InputError(f"{inventories(path)}: {console.count(len(errors), 'error')}; no node was contacted")
    return Judged(inventory, specs, variables)


def opened(path: Given, limit: str | None, form: Format) -> Inventory:
    """An inventory that is read, not judged. Raises InputError where it or Ansible's configuration cannot be read."""
    with bad_input(path, form):
        present(path)
        check_configuration()
        from railwright.inventory import load_inventory

        if limit is None or not slurm_parts(limit):
            return load_inventory(path, limit)
        from railwright.cli.job_nodes import slurm_hosts

        return load_inventory(path, limit, partial(slurm_hosts, limit))


def check_configuration() -> None:
    """Ansible reads ansible.cfg and ANSIBLE_* while it is imported: a broken file, a wrong value, a home that cannot be written."""
    from ansible.errors import AnsibleError

    try:
        importlib.import_module("ansible.constants")
    except AnsibleError as error:
        text = " ".join(str(error).split())
        hint = "; allowed: a HOME that can be written" if "Unable to create local" in text else ""
        raise InputError(f"Ansible's configuration: {text}{hint}") from error


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


def present(given: Given) -> Inventories:
    """The paths themselves, if there is something at each; whether it is an inventory is lint's to say."""
    found = inventories(given)
    for path in found:
        if not path.exists():
            raise InputError(f"inventory {path} does not exist; write one with: railwright init {shlex.quote(str(path))} --fabric roce")
    return found


def findings_document(findings: list[Any]) -> dict[str, Any]:
    """The JSON form of a lint run; also what the other verbs print when they stop at its errors."""
    severities = [finding.severity for finding in findings]
    return {
        "findings": [finding.as_dict() for finding in findings],
        "summary": {"errors": severities.count("error"), "warnings": severities.count("warning")},
    }


@contextmanager
def bad_input(inventory: Given, form: Format) -> Iterator[None]:
    """Whoever reads JSON gets a document also when the inventory cannot be read at all: its one line as a finding."""
    try:
        yield
    except InputError as error:
        if form is Format.JSON:
            # Spelt out: the class is in a package that imports Ansible, which may be what does not work.
            file = str(error.file or inventories(inventory))
            place: dict[str, Any] = {"file": file, "line": error.line, "hosts": [], "key": "", "value": None}
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
    found = []
    for host in (host for host in hosts if not host.out_of_service):
        found.append(BY_STATUS[host.status])
        if host.problems:
            found.append(ExitCode.FAILED)
    return found


def verdict_codes(verdicts: Iterable[Mapping[str, Any]]) -> list[ExitCode]:
    return [ExitCode.FAILED for verdict in verdicts if verdict.get("status") not in ("pass", "warn", "unknown", "unproven", "skipped")]


def overall(outcome: RunOutcome, *more: ExitCode) -> ExitCode:
    excused = {host.name for host in outcome.hosts.values() if host.out_of_service}
    counted = [verdict for verdict in outcome.verdicts if verdict.get("node") not in excused]
    return combine([*codes(outcome.hosts.values()), *verdict_codes(counted), *more])


def concluded(
    outcome: RunOutcome, node: Callable[[HostOutcome], dict[str, Any]], totals: Callable[[dict[str, dict[str, Any]]], dict[str, Any]],
    drift: Callable[[dict[str, Any]], Any] | None = None, codes: Iterable[ExitCode] = (),
) -> Conclusion:  # fmt: skip
    """``node``: what the verb says of one node beside its status; ``totals``: of all these documents; ``drift``: whether one has some."""
    nodes = {name: node_document(host) | node(host) for name, host in sorted(outcome.hosts.items())}
    drifted = [ExitCode.DRIFT] if drift is not None and any(drift(node) for node in nodes.values() if "out_of_service" not in node) else []
    code = overall(outcome, *codes, *drifted)
    return Conclusion(nodes, node_counts(outcome) | totals(nodes) | {"exit_code": int(code)}, code)


def node_document(host: HostOutcome) -> dict[str, Any]:
    """What every verb says about a node, in JSON and in the record."""
    document: dict[str, Any] = {"status": host.status, "message": host.message, "task": host.task}
    if host.refused:
        document["refused"] = host.refused
    if host.out_of_service:
        document["out_of_service"] = host.out_of_service
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


def failed_headings(outcome: RunOutcome) -> None:
    """The nodes that did not get to their end, each with why."""
    for _name, host in sorted(outcome.hosts.items()):
        if host.status != "ok":
            heading(host)
