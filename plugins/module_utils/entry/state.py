# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of the rdma_state module: parameters in, one JSON result out."""

from typing import Any, Callable, Dict, Sequence

from ..apply.apply import Applied, apply_plan, exclusive, refuse
from ..apply.confirm import confirm, notes, outcome, switch_of
from ..apply.journal import new_run_id
from ..apply.watchdog import TIMER
from ..areas.erdma.drivers import planned_wire
from ..areas.kernel.secure_boot import NAME as SECURE_BOOT
from ..errors import ApplyError, RailwrightError
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..observe.facts import observe_summary
from ..observe.nics import ancestors_connection_address
from ..plan.package_steps import downloads, needs_dry_run, package_steps
from ..plan.plan import Plan, SkippedChange, cut_plan, make_plan
from ..spec.model import Spec
from ..types import UNENROLLED, as_dicts, change_as_dict
from .containers import inspect_container_access
from .gpudirect import explain, needed_source


def answer(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    """Body of the rdma_state module."""
    if params["mode"] in ("confirm", "outcome"):  # keep what waits for its confirmation, or only say what became of it
        ask = confirm if params["mode"] == "confirm" and not dry else outcome
        said = ask(host, params["run_id"] or "", params.get("confirm_token") or "")
        return {"confirm": said, "restore_point": said["restore_point"]}
    spec = Spec(params["spec"])
    if params["mode"] in READING:
        return READING[params["mode"]](host, spec, params)
    return change(host, spec, params, applying=params["mode"] == "apply" and not dry)


READING: Dict[str, Callable[[Host, Spec, Dict[str, Any]], Dict[str, Any]]] = {
    "explain": lambda host, spec, _params: {"explanation": explain(host, spec)},
    "source": lambda host, spec, _params: {"source": needed_source(host, spec)},
    "container": lambda host, spec, params: {
        "container": inspect_container_access(host, spec, params["image"], ancestors_connection_address(host))},
}


def change(host: Host, spec: Spec, params: Dict[str, Any], *, applying: bool) -> Dict[str, Any]:
    """The plan, and what came of applying it."""
    refused: Dict[str, Any] = {}
    try:
        with exclusive(host, wanted=applying):
            inspected = InspectedHost(host)  # with the lock held; an apply inspects the node again
            whole = make_plan(inspected, spec, params["areas"], ancestors_connection_address(host), params["now"])
            whole = whole if applying or params["only"] is not None or params["consented_only"] else enrolled_first(whole)
            plan, left = cut_plan(inspected, whole, spec.consent, params["only"], consented_only=params["consented_only"])
            result = dict(plan_result(plan, spec), **cut_result(params, plan, left))
            result["notes"] += notes(inspected)
            result["erdma"] = planned_wire(inspected, spec, plan.identity)
            if params["areas"] is None and not applying:  # of the whole plan: a role's slice says nothing of the rest
                result["drivers"] = observe_summary(inspected, plan.identity)
            refused = {"plan": result["plan"], "problems": result["problems"]}
            applied = Applied("", ())
            if applying:
                run_id = params["run_id"] or new_run_id()
                applied = apply_plan(host, spec, plan, run_id, params["areas"], params["expected"], switch_of(params, plan.identity))
            elif params["mode"] == "apply":
                refuse(spec, plan, params["expected"], check=True)  # what apply would refuse, check mode must not call fine
    except RailwrightError as error:
        undone = {"rolled_back": error.rolled_back} if isinstance(error, ApplyError) else {}
        return dict(refused, failed=True, msg=str(error), **undone)
    applied = without_left(applied, left)
    if applying:
        result["reboot_needed"] = list(applied.reboots)
        if applied.unconfirmed:
            result["confirm"] = {"unit": TIMER, "seconds": params["confirm_seconds"], "run": applied.unconfirmed}
    result["notes"] += ["an earlier apply was cut off half-way; its restore point is %s" % path for path in applied.interrupted]
    # A plan is a question, not a change; an apply, also in check mode, is one when there is something to do.
    return dict(result, changed=params["mode"] == "apply" and bool(plan.changes), restore_point=applied.restore_point,
                remaining=[change_as_dict(item) for item in applied.remaining])


def enrolled_first(plan: Plan) -> Plan:
    """No problem that a plan's own steps solve. Who carries it out makes those alone before the others (carry_out.yml of rdma_stack)."""
    if not any(change.area == SECURE_BOOT for change in plan.changes):
        return plan
    return plan._replace(problems=tuple(problem for problem in plan.problems if problem.code != UNENROLLED))


def cut_result(params: Dict[str, Any], plan: Plan, left: Sequence[SkippedChange]) -> Dict[str, Any]:
    """``only`` tells the steps after a cut plan to keep to it; a whole plan has none."""
    result: Dict[str, Any] = {"left": [item.as_dict() for item in left]}
    if params["only"] is not None or params["consented_only"]:
        result["only"] = [change.key for change in plan.changes]
    return result


def without_left(applied: Applied, left: Sequence[SkippedChange]) -> Applied:
    """An apply inspects the whole node again; what its plan left out has not come to light by it."""
    known = [item.change.key for item in left]
    return applied._replace(remaining=tuple(change for change in applied.remaining if change.key not in known),
                            reboots=tuple(key for key in applied.reboots if key not in known))


def plan_result(plan: Plan, spec: Spec) -> Dict[str, Any]:
    return {
        "plan": plan.as_dicts(),
        "problems": as_dicts(plan.problems),
        "before": plan.before,
        "after": plan.after,
        "notes": list(plan.notes),
        "packages": dict(package_steps(plan.changes, plan.identity.platform.package_manager), needed=needs_dry_run(plan.changes),
                         downloads=downloads(spec, plan.identity, plan.changes)),
        "reboot_needed": [change.key for change in plan.changes if change.needs_reboot],
    }
