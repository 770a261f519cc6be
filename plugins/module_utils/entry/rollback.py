# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the rdma_rollback module: the restore points of a node, the plan of a rollback, its proof, and the rollback itself."""

from typing import Any, Dict, List

from ..apply.confirm import Switch
from ..apply.journal import new_run_id, points
from ..apply.transaction import exclusive
from ..apply.watchdog_units import TIMER
from ..errors import ApplyError, RailwrightError
from ..host.host import Host
from ..observe.identity import observe_identity
from ..observe.nics import ancestors_connection_address
from ..observe.package_locks import wait_for_locks
from ..rollback.apply import carry_out
from ..rollback.package_records import MANAGERS, names_for, observe_packages, record_after, record_before
from ..rollback.package_transaction import prove
from ..rollback.plan import Rollback, plan_rollback, refused, repository_changes
from ..rollback.points import runs
from ..spec.model import Spec
from ..types import Identity, as_dicts, change_as_dict, needs_consent


def run_rollback(module: Any) -> None:
    host, mode = Host(), module.params["mode"]
    try:
        answer = {"look": list_runs, "packages_before": before, "packages_after": after}.get(mode, roll_back)(module, host)
    except ApplyError as error:
        module.fail_json(msg=str(error), rolled_back=error.rolled_back)
    except RailwrightError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg="%s: %s%s" % (error.filename, error.strerror, "" if mode == "packages_after" else "; nothing was changed"))
    module.exit_json(**answer)


def list_runs(module: Any, host: Host) -> Dict[str, Any]:
    history = points(host)
    manager = observe_identity(host, None).platform.package_manager
    now = observe_packages(host, manager)["versions"] if manager in MANAGERS and any(point.packages for point in history) else {}
    return {"changed": False, "restore_points": runs(history, now)}


def before(module: Any, host: Host) -> Dict[str, Any]:
    """A package manager whose packages cannot be put back needs no record."""
    manager = observe_identity(host, None).platform.package_manager
    if module.check_mode or manager not in MANAGERS:
        return {"changed": False, "record": ""}
    return {"changed": False, "record": record_before(host, manager, run_name(module), module.params["rows"] or {})["run"]}


def after(module: Any, host: Host) -> Dict[str, Any]:
    name = module.params["record"] or ""
    if module.check_mode or not name:
        return {"changed": False, "record": "", "packages_changed": []}
    point = next((point for point in points(host) if point.name == name), None)
    if point is None or not point.packages:
        raise RailwrightError("restore point %r has no record of packages" % name)
    return {"changed": False, "record": name, "packages_changed": list(record_after(host, point))}


def run_name(module: Any) -> str:
    return str(module.params["run_id"] or new_run_id())


def roll_back(module: Any, host: Host) -> Dict[str, Any]:
    """Modes plan, prove and apply; each plans anew, so that none trusts what was true a minute ago."""
    params = module.params
    if params["spec"] is None or not params["to"]:
        raise RailwrightError("rdma_rollback got no spec or no run: its action plugin did not run; call it by its full name")
    spec, identity = Spec(params["spec"]), observe_identity(host, ancestors_connection_address(host))
    applying = params["mode"] == "apply" and not module.check_mode
    with exclusive(host, wanted=applying):
        if params["mode"] != "plan" and not module.check_mode:  # apt may still be at work for a rollback that was killed
            wait_for_locks(host, identity.platform.package_manager, spec["rdma_stack_lock_wait_s"])
        rollback = plan_rollback(host, identity, params["to"], params["force"])
        answer = result_of(rollback, host)
        if not rollback.known or params["mode"] == "plan":
            return answer
        why = refused(rollback, params["expected"])
        if why is not None:
            raise RailwrightError(why)
        if params["mode"] == "prove":
            prove_packages(host, identity, rollback, spec)
            return answer
        answer["changed"] = bool(rollback.changes)
        if applying and rollback.changes:
            answer.update(done(module, host, rollback, spec, identity))
    return answer


def result_of(rollback: Rollback, host: Host) -> Dict[str, Any]:
    """The form of every plan, so that consent, events and the command line read it as such."""
    return {
        "changed": False, "plan": [change_as_dict(change) for change in rollback.changes], "problems": as_dicts(rollback.problems),
        "notes": list(rollback.notes), "reboot_needed": list(rollback.reboots), "known": rollback.known,
        "restore_points": [] if rollback.known else [{"run": name} for name in newest_runs(host)],
        "undone": [point.name for point in rollback.undone], "to": rollback.run,
    }


def newest_runs(host: Host) -> List[str]:
    return list(dict.fromkeys(point.base for point in reversed(points(host))))


def prove_packages(host: Host, identity: Identity, rollback: Rollback, spec: Spec) -> None:
    names = names_for(rollback.rows, identity.platform.package_manager)
    if names.wanted:
        prove(host, identity, names, repository_changes(rollback.undone), spec["rdma_stack_lock_wait_s"])


def done(module: Any, host: Host, rollback: Rollback, spec: Spec, identity: Identity) -> Dict[str, Any]:
    params = module.params
    missing = [change for change in rollback.changes if needs_consent(change.disruption, spec.consent)]
    if missing:
        raise RailwrightError("refused without consent: %s; nothing was changed. To allow it, put the classes into rdma_consent "
                              "in the inventory" % "; ".join("%s (%s)" % (change.key, change.disruption) for change in missing))
    switch = None
    if params["confirm_token"]:  # only systemd has the timer
        switch = Switch(params["confirm_seconds"] if identity.has("systemd") else 0, params["confirm_token"])
    found = carry_out(host, rollback, run_name(module), identity.platform.package_manager, spec["rdma_stack_lock_wait_s"], switch,
                      params["force"])
    answer: Dict[str, Any] = {"restore_point": found.restore_point, "notes": list(rollback.notes + found.notes)}
    if found.unconfirmed:
        answer["confirm"] = {"unit": TIMER, "seconds": params["confirm_seconds"], "run": found.unconfirmed}
    return answer
