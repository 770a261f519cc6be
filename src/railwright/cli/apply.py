# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright apply``: make the planned changes, all at once or in batches, and show what was done on each node."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from railwright.cli import console, verdicts
from railwright.cli.changes import change_line, disruptions, nodes_line, show_changes, show_hosts
from railwright.cli.completing import of_consent
from railwright.cli.options import Areas, Format, Limit, OptionalInventory, OutputFormat, Yes, option
from railwright.cli.plan import conclusion, known_plan_areas, planned, save, show_plan
from railwright.cli.rollout import (
    NONE_ASKED,
    Asked,
    Batch,
    Canary,
    MaxFailures,
    MaxUnavailable,
    Resume,
    Rollout,
    asked,
    left_of,
    unfinished,
)
from railwright.cli.session import Conclusion, Session, check_configuration, concluded, require
from railwright.events import HostOutcome, RunOutcome
from railwright.exitcodes import CommandError, ExitCode, InputError
from railwright.inventories import Inventories, quoted

if TYPE_CHECKING:
    from railwright.saved_plan import SavedPlan
    from railwright.upgrade.journal import State

HELP = """Make the changes that `plan` shows, as one transaction a node, and nothing else.

Shows the plan and asks first; with FILE it is the one that `plan -o FILE` has saved, and a node that is no longer as it was then is \
refused; name the inventory with -i if somebody else made the file. \
In batches the first one with a node that fails is the last. Changes that disturb a running node need consent: the inventory's \
`rdma_consent`, or --consent. Ends 0 also when something was changed, 1 when a task failed or consent was refused, 2 when the changes \
brought further needs to light (apply again), 3 when a node does not answer.

\b
Examples:
  railwright apply -i mycluster
  railwright apply -i mycluster --canary 1 --batch 10% --consent link,restart
  railwright apply -i mycluster --resume
  railwright apply friday.plan -i mycluster --yes
"""

CONSENT_HELP = (
    "Disruption classes to allow in this run, in place of the inventory's list: restart, link, repair, "
    "downgrade, reload, storage, management, secure_boot, firmware, reboot."
)
Consent = Annotated[str | None, option("--consent", metavar="CLASS,...", help=CONSENT_HELP, autocompletion=of_consent)]
File = Annotated[Path | None, typer.Argument(metavar="[FILE]", show_default=False, help="A plan that `plan -o FILE` has saved.")]
SHOWN = 20  # programs of an inventory that are named before the rest is counted
PLAN = "plan.json"  # beside the journal of a run in batches


def command(
    file: File = None, inventory: OptionalInventory = None, limit: Limit = None, area: Areas = None, consent: Consent = None,
    batch: Batch = None, canary: Canary = None, max_failures: MaxFailures = None, max_unavailable: MaxUnavailable = None,
    resume: Resume = False, yes: Yes = False, form: OutputFormat = Format.TEXT,
) -> None:  # fmt: skip
    said = asked(batch, canary, max_failures, max_unavailable)
    _agree(file, {"--area": bool(area), "--limit": limit is not None, "--batch": said.given()}, resume=resume)
    console.expect_answers("apply", yes=yes, form=form)
    from railwright.saved_plan import read_plan

    saved = None if file is None else read_plan(file)
    chosen = inventory or (_named_by(saved, file, yes=yes) if saved is not None and file is not None else None)
    if chosen is None:
        raise InputError("no inventory is named: give -i INVENTORY, or a FILE that `plan -o FILE` has saved")
    said = asked(*saved.batches) if saved is not None and not said.given() else said
    session = Session("apply", chosen, limit, form)
    if resume:
        _resume(session, consented(consent), yes=yes)
    work = Apply(session, consented(consent), (area if saved is None else saved.areas) or [])
    if yes and saved is None and not said.given():
        work.finish(work.run())
    if saved is None:
        work.planned = planned(session, work.areas).hosts
    elif file is not None:
        known_plan_areas(saved.areas)
        _as_saved(work, saved, file)
    work.make(said, yes=yes)


def _named_by(saved: SavedPlan, file: Path, *, yes: bool) -> Inventories:
    """The inventory that a plan names; the operator agrees to what loading it runs. Raises InputError, Declined."""
    from railwright.saved_plan import own_inventory

    content = own_inventory(saved, file)
    check_configuration()
    from railwright.inventory_programs import programs

    found = list(programs(content))
    for line in [*found[:SHOWN], *([f"… and {len(found) - SHOWN} more"] if len(found) > SHOWN else [])]:
        console.note(f"  {line}")
    if found and yes:
        name = shlex.quote(str(file))
        raise InputError(f"{saved.inventory} runs this on the controller, and {file} alone names it; with --yes name it yourself: "
                         f"railwright apply {name} -i INVENTORY --yes")  # fmt: skip
    if found:
        console.agree(f"{file} names the inventory {saved.inventory}, which runs this on the controller. Load it?", yes=False)
    return saved.inventory


def _agree(file: Path | None, given: Mapping[str, bool], *, resume: bool) -> None:
    """Options that cannot stand together."""
    for name in (name for name, there in given.items() if there and resume):
        raise InputError(f"{name} has no meaning with --resume, which goes on with what was begun")
    if resume and file is not None:
        raise InputError(f"{file} has no meaning with --resume, which goes on with the plan that was begun")
    if file is not None and given["--area"]:
        raise InputError(f"--area has no meaning with {file}: a saved plan is made whole; allowed: --limit")


class Apply:
    """One call of the verb. ``planned``: what each node's plan was when it was shown."""

    def __init__(self, session: Session, consent: dict[str, list[str]], areas: list[str]) -> None:
        self.session, self.areas = session, areas
        self.extra: dict[str, Any] = consent | ({"rdma_areas": areas} if areas else {})
        self.planned: dict[str, HostOutcome] = {}

    def run(self, names: Sequence[str] | None = None, begun: Sequence[str] = ()) -> RunOutcome:
        """On these nodes what was planned of them and nothing else; None: on all whatever they need."""
        from ansible_collections.railwright.rdma.plugins.plugin_utils.saved_plan import VARIABLE, keep_part

        if names is None:
            outcome = self.session.run("apply", self.extra)
        else:
            with TemporaryDirectory(prefix="railwright-") as private:
                for name in names:
                    keep_part(Path(private), name, self.planned[name].changes, begun=name in begun)
                outcome = self.session.run("apply", {**self.extra, VARIABLE: private}, names)
        require(outcome, lambda host: host.planned, "plan")
        return outcome

    def nodes(self) -> list[str]:
        """Those whose plan can be made. Raises CommandError where nodes would no longer talk to each other."""
        from ansible_collections.railwright.rdma.plugins.plugin_utils.consent import mixed_modes

        names = [name for name, host in self.planned.items() if host.status == "ok" and not host.problems]
        why = mixed_modes((name, {"erdma": self.planned[name].wire}) for name in names)
        if why is not None:
            raise CommandError(why)
        return names

    def make(self, said: Asked, *, yes: bool) -> NoReturn:
        """Show the plan, ask, make it, report."""
        shown = RunOutcome(dict(self.planned))
        names = self.nodes()
        changed = [name for name in names if self.planned[name].changes]
        if not changed:
            self.finish(shown, ())
        if self.session.form is not Format.JSON:
            show_plan(shown, conclusion(shown))
        self._ask(changed, said, yes=yes)
        if not said.given():
            made = self.run(names)
            self.finish(_with(made, shown), list(made.hosts))
        away = {name: host.message for name, host in self.planned.items() if host.status == "unreachable"}
        head = {"limit": self.session.limit, "areas": self.areas, "consent": self.extra.get("rdma_consent")}
        rollout = Rollout("apply", self.session.inventory, self.run)
        self._end(rollout, rollout.begin(self.session.id, head, changed, said, away, self._keep), shown)

    def resume(self, path: Path, state: State, *, yes: bool) -> NoReturn:
        self._ask(left_of(state), Asked(*state.head["asked"]), yes=yes)
        self.session.id = state.run
        rollout = Rollout("apply", self.session.inventory, self.run)
        self._end(rollout, rollout.resume(path), RunOutcome({name: HostOutcome(name, planned=True) for name in state.nodes}))

    def _ask(self, changed: Sequence[str], said: Asked, *, yes: bool) -> None:
        number = sum(len(self.planned[name].changes) for name in changed)
        how = " in batches" if said.given() else ""
        console.agree(f"Make {console.count(number, 'change')} on {console.count(len(changed), 'node')}{how}?", yes=yes)

    def _keep(self, directory: Path) -> None:
        save(self.session, directory / PLAN, self.areas, RunOutcome(dict(self.planned)), NONE_ASKED)

    def _end(self, rollout: Rollout, state: State, shown: RunOutcome) -> NoReturn:
        late = [name for name in left_of(state) if name not in rollout.outcome.hosts]
        if late:
            console.note(f"not touched: {', '.join(late)}")
        if not state.finished:
            console.note(f"stopped: {state.stopped}; go on with: railwright apply -i {quoted(self.session.inventory)} --resume")
        self.finish(_with(rollout.outcome, shown), list(rollout.outcome.hosts), failed=not state.finished)

    def finish(self, outcome: RunOutcome, touched: Sequence[str] | None = None, *, failed: bool = False) -> NoReturn:
        """``touched``: the nodes that were to be changed, None for all; of the others what was planned is said, as not made."""
        codes = [ExitCode.DRIFT for host in outcome.hosts.values() if host.remaining or host.reboot_needed]
        codes += [ExitCode.FAILED] if failed else []
        made = outcome.hosts if touched is None else touched
        end = concluded(outcome, lambda host: _document(host, made), lambda nodes: _totals(outcome, nodes), codes=codes)
        judged = {"verdicts": outcome.verdicts}
        more = {"traffic": outcome.traffic, "reachability": outcome.reachability}
        self.session.finish(end, lambda: _show(outcome, end), judged, **judged, **more)


def _with(made: RunOutcome, shown: RunOutcome) -> RunOutcome:
    """The nodes that were not touched beside those that were."""
    return replace(made, hosts=shown.hosts | made.hosts)


def _as_saved(work: Apply, saved: SavedPlan, file: Path) -> None:
    """What the file says of the nodes that were asked for. Raises InputError where the inventory is not the one that was planned."""
    from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
    from railwright.saved_plan import other_wishes

    session = work.session
    hosts = session.judge().inventory.hosts
    strange = [name for name in hosts if name not in saved.nodes] if session.limit else [name for name in saved.nodes if name not in hosts]
    if strange:
        has = f"{file} has no plan for" if session.limit else f"{file} plans nodes that {session.inventory} has not:"
        raise InputError(f"{has} {first_of(strange)}; plan it again")
    names = [name for name in saved.nodes if name in hosts]
    other = other_wishes(saved, session.wishes(), names)
    if other:
        says = f"{session.inventory} says something else of {first_of(other)}"
        raise InputError(f"{file} was planned with another inventory: {says}; plan it again")
    work.planned = {name: saved.nodes[name] for name in names}


def _resume(session: Session, consent: dict[str, list[str]], *, yes: bool) -> NoReturn:
    from railwright.saved_plan import read_plan

    path, state = unfinished("apply", session.inventory)
    saved = read_plan(path.parent / PLAN)
    given = {"rdma_consent": state.head["consent"]} if state.head["consent"] is not None else {}
    work = Apply(session, given | consent, saved.areas)
    _as_saved(work, saved, path.parent / PLAN)
    work.resume(path, state, yes=yes)


def consented(text: str | None) -> dict[str, list[str]]:
    """The variable that --consent sets, its classes each known; nothing where it was not given."""
    if text is None:
        return {}
    from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTIONS

    classes = [part.strip() for part in text.split(",") if part.strip()]
    for name in classes:
        if name not in DISRUPTIONS[1:]:
            raise InputError(f"--consent {name}: no such disruption class; allowed: {', '.join(DISRUPTIONS[1:])}")
    return {"rdma_consent": classes}


def _document(host: HostOutcome, touched: Collection[str]) -> dict[str, Any]:
    # Every planned change is made or the node fails; of a failed node only what a task reported done is known to be.
    done = set(host.applied)
    whole = host.status == "ok" and host.name in touched
    changes = [change | {"applied": whole or change.get("key") in done} for change in host.changes]
    left = {"restore_point": host.restore_point, "reboot_needed": host.reboot_needed, "reverted": host.reverted}
    return {"changes": changes, "problems": host.problems, "notes": host.notes} | left


def _totals(outcome: RunOutcome, nodes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    changes = [change for node in nodes.values() for change in node["changes"]]
    return {
        "changes": sum(change["applied"] for change in changes),
        "not_applied": sum(not change["applied"] for change in changes),
        "problems": sum(len(node["problems"]) for node in nodes.values()),
        "disruptions": disruptions(outcome.hosts.values()),
        "verdicts": verdicts.counts(outcome.verdicts),
    }


def _show(outcome: RunOutcome, end: Conclusion) -> None:
    summary = end.summary
    show_hosts(outcome.hosts, "restore point on the node")
    show_changes(end.nodes, state=True)
    if outcome.verdicts:
        verdicts.show_verdicts(outcome.verdicts, passes=False)
    line = change_line(summary["changes"], summary["disruptions"] if not summary["not_applied"] else {})
    for name, host in sorted(outcome.hosts.items()):
        if host.remaining:
            found = ", ".join(str(change.get("what")) for change in host.remaining)
            console.say(console.styled(name, "node"), f"needs another apply, for what these changes brought to light: {found}")
        if host.reboot_needed:
            waiting = "; ".join(host.reboot_needed)
            console.say(console.styled(name, "node"), f"waits for a reboot (consent to reboot, and apply again): {waiting}")
    left = f", {summary['not_applied']} not applied" if summary["not_applied"] else ""
    console.say(f"{nodes_line(summary)}: {line}{left}")
