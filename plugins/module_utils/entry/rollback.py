# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the rdma_rollback module: the restore points of a node, the plan of a rollback, its proof, and the rollback itself."""

from typing import Any, Dict

from ..apply.confirm import switch_of
from ..apply.journal import new_run_id, points
from ..apply.transaction import exclusive
from ..apply.watchdog import TIMER
from ..errors import RailwrightError
from ..host.host import Host
from ..observe.identity import observe_identity
from ..observe.nics import ancestors_connection_address
from ..observe.package_locks import wait_for_locks
from ..rollback.apply import carry_out
from ..rollback.packages import MANAGERS, dry_run_rollback, names_for, observe_packages, record_after, record_before
from ..rollback.plan import Rollback, plan_rollback, refused, repository_changes, runs
from ..spec.model import Spec
from ..types import Identity, as_dicts, change_as_dict, needs_consent


def answer(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    mode = params["mode"]
    try:
        return {"inspect": list_runs, "packages_before": before, "packages_after": after}.get(mode, roll_back)(host, params, dry)
    except OSError as error:
        raise RailwrightError("%s: %s%s" % (
            error.filename, error.strerror, "" if mode == "packages_after" else "; nothing was changed")) from error


def list_runs(host: Host, _params: Dict[str, Any], _dry: bool) -> Dict[str, Any]:
    history = points(host)
    manager = observe_identity(host, None).platform.package_manager
    now = observe_packages(host, manager)["versions"] if manager in MANAGERS and any(point.packages for point in history) else {}
    return {"restore_points": runs(history, now)}


def before(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    """A package manager whose packages cannot be restored needs no record."""
    manager = observe_identity(host, None).platform.package_manager
    if dry or manager not in MANAGERS:
        return {"record": ""}
    return {"record": record_before(host, manager, run_name(params), params["rows"])["run"]}


def after(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    name = params["record"] or ""
    if dry or not name:
        return {"record": "", "packages_changed": []}
    point = next((point for point in points(host) if point.name == name), None)
    if point is None or not point.packages:
        raise RailwrightError("restore point %r has no record of packages" % name)
    return {"record": name, "packages_changed": list(record_after(host, point))}


def run_name(params: Dict[str, Any]) -> str:
    return str(params["run_id"] or new_run_id())


def roll_back(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    """Modes plan, prove and apply; each plans anew, so that none trusts what was true a minute ago."""
    spec, identity = Spec(params["spec"]), observe_identity(host, ancestors_connection_address(host))
    applying = params["mode"] == "apply" and not dry
    with exclusive(host, wanted=applying):
        if params["mode"] != "plan" and not dry:  # apt may still be at work for a rollback that was killed
            wait_for_locks(host, identity.platform.package_manager, spec["rdma_stack_lock_wait_s"])
        rollback = plan_rollback(host, identity, params["to"], params["force"])
        found = result_of(rollback, host)
        if not rollback.known or params["mode"] == "plan":
            return found
        why = refused(rollback, params["expected"])
        if why is not None:
            raise RailwrightError(why)
        if params["mode"] == "prove":
            names = names_for(rollback.rows, identity.platform.package_manager)
            if names.wanted:
                dry_run_rollback(host, identity, names, repository_changes(rollback.undone), spec["rdma_stack_lock_wait_s"])
            return found
        found["changed"] = bool(rollback.changes)
        if applying and rollback.changes:
            found.update(done(params, host, rollback, spec, identity))
    return found


def result_of(rollback: Rollback, host: Host) -> Dict[str, Any]:
    """The form of every plan, so that consent, events and the command line read it as such."""
    return {
        "changed": False, "plan": [change_as_dict(change) for change in rollback.changes], "problems": as_dicts(rollback.problems),
        "notes": list(rollback.notes), "reboot_needed": list(rollback.reboots), "known": rollback.known,
        "restore_points": [] if rollback.known else [
            {"run": name} for name in dict.fromkeys(point.base for point in reversed(points(host)))],
        "undone": [point.name for point in rollback.undone], "to": rollback.run,
    }


def done(params: Dict[str, Any], host: Host, rollback: Rollback, spec: Spec, identity: Identity) -> Dict[str, Any]:
    missing = [change for change in rollback.changes if needs_consent(change.disruption, spec.consent)]
    if missing:
        raise RailwrightError("refused without consent: %s; nothing was changed. To allow it, put the classes into rdma_consent "
                              "in the inventory" % "; ".join("%s (%s)" % (change.key, change.disruption) for change in missing))
    found = carry_out(host, rollback, run_name(params), identity.platform.package_manager, spec["rdma_stack_lock_wait_s"],
                      switch_of(params, identity), params["force"])
    answer: Dict[str, Any] = {"restore_point": found.restore_point, "notes": list(rollback.notes + found.notes)}
    if found.unconfirmed:
        answer["confirm"] = {"unit": TIMER, "seconds": params["confirm_seconds"], "run": found.unconfirmed}
    return answer
