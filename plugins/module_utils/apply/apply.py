# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out a plan as one transaction: in order, journalled, undone as a whole on failure."""

import time
from itertools import islice
from typing import Iterable, NamedTuple, Optional, Sequence, Tuple

from ..errors import RailwrightError
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..observe.dkms import make_log_tail
from ..plan.plan import Plan, check_expected, make_plan
from ..spec.model import Spec
from ..types import Change, Op, needs_consent
from .confirm import Switch, journalled
from .journal import Journal
from .transaction import exclusive, fail

__all__ = ["Applied", "apply_plan", "carry_out", "exclusive", "fail", "refuse", "settle"]


class Applied(NamedTuple):
    """What an apply left behind."""

    restore_point: str  # path of the journal on the node; empty when there was nothing to do
    remaining: Tuple[Change, ...]  # what only came to light through the changes; the next plan shows it
    interrupted: Tuple[str, ...] = ()  # journals of earlier applies that died half-way
    reboots: Tuple[str, ...] = ()  # keys of the changes that wait for a reboot now
    unconfirmed: str = ""  # the run that the node reverts unless it is confirmed


SETTLE_SECONDS = 20.0  # links come up and network managers answer within this, TCG virtual machines included


def apply_plan(
    host: Host, spec: Spec, plan: Plan, run_id: str, areas: Optional[Sequence[str]] = None, expected: Optional[Sequence[str]] = None,
    switch: Optional[Switch] = None,
) -> Applied:
    """Make the state changes of ``plan``; return what it left behind. The caller holds ``exclusive``.

    Refuses before anything changes: problems, changes without consent, changes that ``expected`` (the keys of the plan that was shown) does
    not hold, packages that are still missing. Raises RailwrightError then, ApplyError when an effect failed. ``switch``: a change of
    networking waits for the controller's confirmation afterwards.
    """
    refuse(spec, plan, expected)
    changes = [change for change in plan.changes if not change.external]
    if not changes:
        return Applied("", (), (), reboots_of(plan.changes))
    with journalled(host, run_id, changes, switch) as journal:
        carry_out(host, changes, journal)
        remaining, journal.reboots = settle(host, spec, plan, areas, journal)
    return Applied(journal.path, remaining, tuple(journal.interrupted), tuple(journal.reboots), journal.unconfirmed)


def reboots_of(changes: Sequence[Change]) -> Tuple[str, ...]:
    return tuple(change.key for change in changes if change.needs_reboot)


def refuse(spec: Spec, plan: Plan, expected: Optional[Sequence[str]], *, check: bool = False) -> None:
    """Raise when the plan must not be carried out at all; in check mode packages may be missing, nothing has installed them."""
    if plan.problems:
        raise RailwrightError("; ".join("%s: %s: %s" % (problem.area, problem.subject, problem.message) for problem in plan.problems))
    check_expected(plan.changes, expected)
    left = [change for change in plan.changes if change.package is not None]
    if left and not check:
        raise RailwrightError("the package step did not do its work, nothing was changed: %s" % ", ".join(
            "%s is %s, not %s" % (change.package, change.before or "absent", change.after or "absent") for change in left))
    unwanted = [change for change in plan.changes if needs_consent(change.disruption, spec.consent)]
    if unwanted:
        raise RailwrightError("refused without consent: %s. To allow it, put %s into rdma_consent in the inventory." % (
            "; ".join("%s (%s)" % (change.key, change.disruption) for change in unwanted),
            " and ".join(sorted({change.disruption for change in unwanted}))))


def carry_out(host: Host, changes: Sequence[Change], journal: Journal) -> None:
    """Every effect in order. Of refreshes with nothing but files between them the last one is run; the journal names them all."""
    effects = [(change, op) for change in changes for op in change.ops]
    for index, (change, op) in enumerate(effects):
        try:
            entry = journal.record(change.key, op, change.disruption)
            if not repeats_later(op, (later for _change, later in islice(effects, index + 1, None))):
                execute(host, op)
        except (OSError, RailwrightError) as error:
            fail(host, journal, "%s: %s%s" % (change.key, describe(error, op), build_log(host, op)))
        journal.done(entry)


def repeats_later(op: Op, later: Iterable[Op]) -> bool:
    """A refresh (a command without an undo) that is repeated before any command or value could miss it.

    ``systemctl enable`` reads unit files from the disk and ends with a reload of its own (systemctl(1), ``--no-reload``).
    """
    if op.kind != "run" or op.undo:
        return False
    for other in later:
        if other.kind not in ("write", "remove"):
            enables = op.argv == ("systemctl", "daemon-reload") and other.argv[:2] == ("systemctl", "enable")
            return other.kind == "run" and (enables or (other.argv, other.undo) == (op.argv, ()))
    return False


def settle(
    host: Host, spec: Spec, plan: Plan, areas: Optional[Sequence[str]], journal: Journal
) -> Tuple[Tuple[Change, ...], Tuple[str, ...]]:
    """Inspect again until nothing of the plan is left, for a bounded time; else revert it all.

    Returns changes that the plan could not show: loading a module may bring a device
    to light that has needs of its own. They are for the next plan, not for this one. And what waits for a reboot.
    """
    deadline = time.monotonic() + SETTLE_SECONDS
    planned = [change.key for change in plan.changes]
    while True:
        again = make_plan(InspectedHost(host), spec, areas, plan.management).changes
        found = [change for change in again if not change.external]
        left = [change for change in found if change.key in planned]
        if not left:
            return tuple(found), reboots_of(again)
        if time.monotonic() > deadline:
            fail(host, journal, "did not hold: " + "; ".join(
                "%s is %r, wanted %r" % (change.key, change.before, change.after) for change in left))
        time.sleep(0.5)


def execute(host: Host, op: Op) -> None:
    """One effect. Raises OSError or RailwrightError with the node's own words."""
    if op.kind == "write":
        host.write(op.path, op.content, op.mode)
    elif op.kind == "remove":
        host.remove(op.path)
    elif op.kind == "value":
        host.set_value(op.path, op.content)
    elif op.kind == "run":
        result = host.run(op.argv, op.seconds, op.content or None)
        if not result.ok:
            raise RailwrightError("%s: exit %d: %s" % (" ".join(op.argv), result.rc, (result.err or result.out).strip()[-2000:]))
    else:
        raise RailwrightError("unknown effect %r" % op.kind)


def describe(error: Exception, op: Op) -> str:
    if isinstance(error, OSError):
        place = error.filename if isinstance(error.filename, str) else op.path  # the journal's file may be the one that failed
        return "%s %s: %s" % (op.kind, place or op.path, error.strerror)
    return str(error)


def build_log(host: Host, op: Op) -> str:
    """What the compiler said, where DKMS failed: its own message only names the file."""
    if op.kind != "run" or op.argv[:2] != ("dkms", "install"):
        return ""
    module, _slash, version = op.argv[2].partition("/")
    tail = make_log_tail(host, module, version)
    return "" if tail is None else "\nThe end of its make.log:\n" + tail
