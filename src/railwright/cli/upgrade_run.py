# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``railwright upgrade`` does: judge, lock, look, go through the engine, whose steps are runs of the collection's playbooks on some
nodes each, report. Slow to import: Ansible is.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, NamedTuple

from railwright import __version__
from railwright.cli import console
from railwright.cli.options import Format, settings
from railwright.cli.regional import regions_of
from railwright.cli.rollout import NONE_ASKED, Asked, left_of, overruled
from railwright.cli.session import Conclusion, Session, complete, echo, findings_document, node_document
from railwright.cli.upgrade import show_inspection, show_upgrade
from railwright.events import Echo, Listener, RunOutcome
from railwright.exitcodes import CommandError, ExitCode, InputError
from railwright.inventories import Given, Inventories, quoted, stored_text
from railwright.inventory import GROUP, Inventory
from railwright.limits import settled
from railwright.progress import elapsed_text, shown
from railwright.regions import Regions
from railwright.run import run_playbook
from railwright.runs import site_path
from railwright.upgrade.engine import Engine
from railwright.upgrade.journal import Journal, State, create, holder, locked, newest, read_state, reopen
from railwright.upgrade.judge import Inspection, inspection_of, no_room, ready
from railwright.upgrade.order import Rules, Site, batches, canaries, leftovers, ordered, site_of
from railwright.upgrade.release import Release, ReleaseError, read_release
from railwright.upgrade.report import upgrade_document

PLAYBOOKS = {"preflight": "upgrade_preflight", "rollback": "rollback", "revalidate": "validate"}
TASKS = {"inspect": "scheduler"}  # how roles/upgrade calls it, where that is another word
# A node that was rolled back is judged by its inventory: it has nothing of the release any more.
WITHOUT_PINS = ("rollback", "revalidate")

Shown = Callable[[str], AbstractContextManager[Listener]]


class Playbooks:
    """``variables``: of every step; ``pins``: of those that know the release."""

    def __init__(
        self, inventory: Given, variables: Mapping[str, Any], pins: Mapping[str, Any], shown: Shown, echo: Echo | None = None,
        regions: Regions | None = None,
    ) -> None:  # fmt: skip
        self._regions = regions
        self._inventory, self._variables, self._pins = inventory, dict(variables), dict(pins)
        self._shown, self._echo = shown, echo

    def execute(self, step: str, nodes: Sequence[str], variables: Mapping[str, Any]) -> RunOutcome:
        if not nodes:
            return RunOutcome()  # no limit would mean every node
        given = {**self._variables, **({} if step in WITHOUT_PINS else self._pins), **variables}
        playbook = PLAYBOOKS.get(step, "upgrade_step")
        if playbook == "upgrade_step":
            given["rdma_upgrade_step"] = TASKS.get(step, step)
        with self._shown(step) as listener:
            if self._regions is None:
                return run_playbook(playbook, self._inventory, ",".join(nodes), given, listener, self._echo)
            return run_playbook(playbook, self._inventory, None, given, listener, self._echo, nodes, self._regions)


class Request(NamedTuple):
    inventory: Inventories
    to: Path | None
    limit: str | None
    consent: list[str] | None
    rollback_failed: bool
    take_over: bool
    form: Format
    yes: bool = False
    batches: Asked = NONE_ASKED


class Judged(NamedTuple):
    """An inventory that can be upgraded to a release."""

    session: Session
    inventory: Inventory  # as it is written
    pins: dict[str, Any]  # as extra variables: a mapping with what the inventory's own says beside it
    consent: dict[str, Any]  # the same, where --consent was given
    site: Site
    regions: Regions | None


def judge_pins(
    session: Session, pins: Mapping[str, Any], places: Mapping[str, str], consent: list[str] | None, said: Asked
) -> Judged:  # fmt: skip
    """Lint with the pins in force. Raises InputError; no node is contacted."""
    given = {} if consent is None else {"rdma_consent": consent}
    found = session.judge({**pins, **given}, {**places, "rdma_consent": "--consent"})
    site = site_of(found.specs, len(found.inventory.groups[GROUP]))
    if site.gate == "nccl_tests":
        from railwright.job_user import expect_job_user

        expect_job_user(found.inventory, found.specs)
    merged = {key: found.variables[key] for key in pins}
    rules = overruled(site.rules, said, ordered(list(found.inventory.hosts), site.rules))
    return Judged(session, found.inventory, merged, given, site._replace(rules=rules), regions_of(found))


def given_release(request: Request) -> Release:
    if request.to is None:
        raise InputError("--to is missing; allowed: a release file")
    try:
        return read_release(request.to)
    except ReleaseError as error:
        for finding in error.findings:
            console.note(str(finding))
        if request.form is Format.JSON:
            console.print_json(findings_document(list(error.findings)))
        raise


def status(request: Request) -> ExitCode:
    """From the journal alone."""
    session = Session("upgrade", request.inventory, None, request.form)
    path = newest(session.inventory)
    if path is None:
        raise InputError(f"{request.inventory} was never upgraded from this controller; allowed: railwright upgrade --to FILE")
    state = read_state(path)
    found = upgrade_document(state, {})
    at_work = holder(session.inventory)
    found["at_work"] = at_work
    if request.form is Format.JSON:
        console.print_json(found)
    else:
        show_upgrade(found)
        idle = "" if state.finished else f"; go on with: railwright upgrade -i {quoted(request.inventory)} --resume"
        console.say(f"at work on it: {at_work}" if at_work else f"nobody is at work on it{idle}")
    return ExitCode.OK


def dry_run(request: Request) -> ExitCode:
    """A dry run."""
    release = given_release(request)
    session = Session("upgrade", request.inventory, request.limit, request.form)
    site = judge_pins(session, release.pins, release.places(), request.consent, request.batches)
    names = ordered(list(site.inventory.hosts), site.site.rules)
    _tell, shows = _progress()
    base = _base(session.id, release.name) | site.consent | {"rdma_upgrade_dry": True}
    run = Playbooks(session.inventory, base, site.pins, shows, echo if settings.debug else None, site.regions)
    outcome = run.execute("preflight", names, {})
    complete(outcome, names)
    found = inspection_of(names, outcome)
    rules = site.site.rules
    coming = batches(found.pending, canaries(found.pending, rules), rules, found.away)
    full = no_room(found, rules)
    if request.form is Format.JSON:
        nodes = {name: node_document(host) | {"upgrade": host.upgrade} for name, host in sorted(outcome.hosts.items())}
        console.print_json({"release": release.name, "nodes": nodes, "order": names, "batches": coming, "away": found.away,
                            "refused": found.refused})  # fmt: skip
    else:
        show_inspection(names, coming, found, outcome)
        if full:
            console.say(console.styled("nothing could begin:", "failed"), full)
        console.say(f"{console.count(len(found.pending), 'node')} of {len(names)} to upgrade, in {_many(len(coming))}")
    if found.unreachable:
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED if found.refused or full else ExitCode.OK


def begin(request: Request) -> ExitCode:
    release = given_release(request)
    session = Session("upgrade", request.inventory, request.limit, request.form)
    site = judge_pins(session, release.pins, release.places(), request.consent, request.batches)
    with locked(session.inventory, session.id):
        _refuse_second(session.inventory, request)
        names = ordered(list(site.inventory.hosts), site.site.rules)
        head = {
            "inventory": site_path(session.inventory), "limit": request.limit, "release": release.name, "file": stored_text(release.path),
            "sha256": release.sha256, "pins": release.pins, "lines": release.lines, "consent": request.consent,
            "asked": list(request.batches), "take_over": request.take_over, "nodes": names, "railwright": __version__,
        }  # fmt: skip
        journal = create(session.id, head)
        with closing(journal):
            return _go(request, site, journal, take_over=request.take_over)


def resume(request: Request) -> ExitCode:
    """Go on with the newest upgrade of the inventory."""
    session = Session("upgrade", request.inventory, None, request.form)
    path = newest(session.inventory)
    if path is None:
        raise InputError(f"{request.inventory}: there is no upgrade to resume on this controller")
    with locked(session.inventory, path.parent.name):
        state = read_state(path)
        head = state.head
        if state.finished:
            raise InputError(f"the upgrade {state.run} of {request.inventory} has come to its end; there is nothing to resume")
        if request.to is not None and (other := given_release(request)).sha256 != head["sha256"]:
            raise InputError(
                f"--to {request.to}: is release {other.name} with another content than {head['file']} (release {head['release']}), which "
                f"run {state.run} began with; allowed: --resume without --to, or the same file"
            )
        session.id, session.limit = state.run, settled(head["limit"], state.nodes)
        consent = head["consent"] if request.consent is None else request.consent
        places = {key: f"{head['file']}:{line}" for key, line in head["lines"].items()}
        site = judge_pins(session, head["pins"], places, consent, Asked(*head.get("asked", ())))
        gone = [name for name in state.nodes if name not in site.inventory.hosts]
        if gone:
            raise InputError(f"{request.inventory} has no host {', '.join(gone)}, which run {state.run} upgrades; allowed: the same nodes")
        journal = reopen(path)
        with closing(journal):
            return _go(request, site, journal, take_over=bool(head.get("take_over")) and not state.ready)


def _refuse_second(inventory: Given, request: Request) -> None:
    """An upgrade that stopped half-way is finished first, or given up by name."""
    path = newest(inventory)
    state = read_state(path) if path is not None else None
    if state is not None and not state.finished and not request.take_over:
        name = quoted(request.inventory)
        raise CommandError(
            f"the upgrade {state.run} to {state.head['release']} is not finished: go on with railwright upgrade -i {name} --resume, or "
            "give it up with --take-over"
        )


def _go(request: Request, site: Judged, journal: Journal, *, take_over: bool) -> ExitCode:
    """From wherever the journal is to the end, and the report of it."""
    state, session = journal.state, site.session
    session.id = state.run
    tell, shows = _progress()
    base = _base(state.run, state.head["release"]) | ({"rdma_upgrade_take_over": True} if take_over else {})
    executor = Playbooks(session.inventory, base | site.consent, site.pins, shows, echo if settings.debug else None, site.regions)
    rules = site.site.rules
    was_ready = state.ready
    if was_ready:
        left = len(left_of(state))
        console.agree(f"Go on with the upgrade to {state.head['release']}, {left} of {console.count(len(state.nodes), 'node')} left?",
                      yes=request.yes)  # fmt: skip
    elif (code := _inspect(request, journal, executor, site, tell)) is not None:
        return code
    engine = Engine(executor, journal, rules, site.site.gate, tell, scheduled=site.site.scheduled, reboot_s=site.site.reboot_s)
    through = engine.roll_out(resumed=was_ready)
    if not through and request.rollback_failed:
        engine.roll_back_failed()
    return _report(request, site, state, through=through)


def _inspect(
    request: Request, journal: Journal, executor: Playbooks, site: Judged, tell: Callable[[str], None]
) -> ExitCode | None:  # fmt: skip
    """Every node, before anything begins; an exit code where nothing can. What it refuses is an end: there is nothing to resume."""
    names, rules = list(journal.state.nodes), site.site.rules
    outcome = executor.execute("preflight", names, {})
    found = inspection_of(names, outcome)
    full = no_room(found, rules)
    declined = "" if found.refused or full else _declined(request, names, found, rules, outcome)
    if not found.refused and not full and not declined:
        journal.add(*found.records, ready(found, rules))
        coming = batches(found.pending, journal.state.canary, rules, found.away)
        tell(f"{len(found.pending)} of {console.count(len(names), 'node')} to upgrade, in {_many(len(coming))} of at most {rules.most}")
        return None
    for name, why in found.refused.items():
        console.note(f"{name}: {why}")
    try:  # what forbids the upgrade is the news; a lease that stays is named by whoever asks next
        there = [name for name in names if (host := outcome.hosts.get(name)) is not None and host.status != "unreachable"]
        executor.execute("release", there, {})
    except CommandError as error:
        console.note(f"the leases could not be given back: {error}")
    why = declined or full or f"{', '.join(found.refused)} cannot be upgraded"
    journal.add(*found.records, {"kind": "finish", "why": f"nothing was changed: {why}"})
    _keep(site, journal.state, code := ExitCode.UNREACHABLE if found.unreachable else ExitCode.FAILED)
    if site.session.form is Format.JSON:
        console.print_json(upgrade_document(journal.state, {}) | {"refused": found.refused})
    else:
        console.say(console.styled("nothing was changed:", "failed"), why)
    return code


def _declined(request: Request, names: list[str], found: Inspection, rules: Rules, outcome: RunOutcome) -> str:
    """Show what is to come, and ask. Why it does not begin; '' where the operator agrees."""
    if request.yes or not found.pending:
        return ""
    coming = batches(found.pending, canaries(found.pending, rules), rules, found.away)
    show_inspection(names, coming, found, outcome)
    try:
        console.agree(f"Upgrade {console.count(len(found.pending), 'node')} in {_many(len(coming))}?", yes=False)
    except console.Declined:
        return "not agreed to"
    return ""


def _report(request: Request, site: Judged, state: State, *, through: bool) -> ExitCode:
    left = leftovers({name: site.inventory.hosts[name] for name in state.nodes}, site.pins) if through else []
    found = upgrade_document(state, site.site.undrain, left)
    code = ExitCode(found["summary"]["exit_code"])
    _keep(site, state, code)
    console.answer(request.form, found, lambda: show_upgrade(found))
    return code


def _keep(site: Judged, state: State, code: ExitCode) -> None:
    found = upgrade_document(state, {})
    site.session.store(Conclusion(found["nodes"], found["summary"] | {"exit_code": int(code)}, code))


def _base(run: str, release: str) -> dict[str, Any]:
    """What every step is given beside the pins."""
    return {"rdma_upgrade_run": run, "rdma_upgrade_release": release, "rdma_run_id": run}


def _many(number: int) -> str:
    return "1 batch" if number == 1 else f"{number} batches"


def _progress() -> tuple[Callable[[str], None], Shown]:
    """A line for every change of a node's state, and Ansible's own progress below it."""
    begin_time = time.monotonic()

    def tell(text: str) -> None:
        console.note(f"[{elapsed_text(time.monotonic() - begin_time)}] upgrade: {text}")

    return tell, lambda step: shown(f"upgrade {step}", console.err(), debug=settings.debug)
