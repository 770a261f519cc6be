# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of the rdma_state module: parameters in, one JSON result out."""

from typing import Any, Dict, Optional, Sequence

from ..apply.apply import Applied, apply_plan, exclusive, refuse
from ..apply.confirm import Switch, confirm, notes, outcome
from ..apply.journal import new_run_id
from ..apply.watchdog_units import TIMER
from ..areas.erdma.driver_choice import planned_wire
from ..errors import ApplyError, RailwrightError
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..observe.nics import ancestors_connection_address
from ..observe.summary import observe_summary
from ..plan.package_steps import downloads, needs_proof, package_steps
from ..plan.plan import Plan, make_plan
from ..plan.selection import Left, cut_plan
from ..spec.model import Spec
from ..types import as_dicts, change_as_dict
from .gpudirect import explain, needed_source


def run_state(module: Any) -> None:
    """Body of the rdma_state module."""
    params = module.params
    if params["mode"] in OTHER_MODES:
        OTHER_MODES[params["mode"]](module)
        return
    spec, host = spec_of(module), Host()
    refused: Dict[str, Any] = {}
    applying = params["mode"] == "apply" and not module.check_mode
    try:
        with exclusive(host, wanted=applying):
            inspected = InspectedHost(host)  # with the lock held; an apply inspects the node again
            whole = make_plan(inspected, spec, params["areas"], ancestors_connection_address(host), params["now"])
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
                applied = apply_plan(host, spec, plan, run_id, params["areas"], params["expected"], switch_of(params, plan))
            elif params["mode"] == "apply":
                refuse(spec, plan, params["expected"], check=True)  # what apply would refuse, check mode must not call fine
    except ApplyError as error:
        module.fail_json(msg=str(error), rolled_back=error.rolled_back, plan=plan.as_dicts(), problems=as_dicts(plan.problems))
    except RailwrightError as error:
        module.fail_json(msg=str(error), **refused)
    # A plan is a question, not a change; an apply, also in check mode, is one when there is something to do.
    changed = params["mode"] == "apply" and bool(plan.changes)
    applied = without_left(applied, left)
    if applying:
        result["reboot_needed"] = list(applied.reboots)
        if applied.unconfirmed:
            result["confirm"] = {"unit": TIMER, "seconds": params["confirm_seconds"], "run": applied.unconfirmed}
    result["notes"] += ["an earlier apply was cut off half-way; its restore point is %s" % path for path in applied.interrupted]
    module.exit_json(
        changed=changed, restore_point=applied.restore_point, remaining=[change_as_dict(change) for change in applied.remaining], **result)


def cut_result(params: Dict[str, Any], plan: Plan, left: Sequence[Left]) -> Dict[str, Any]:
    """``only`` tells the steps after a cut plan to keep to it; a whole plan has none."""
    result: Dict[str, Any] = {"left": [item.as_dict() for item in left]}
    if params["only"] is not None or params["consented_only"]:
        result["only"] = [change.key for change in plan.changes]
    return result


def without_left(applied: Applied, left: Sequence[Left]) -> Applied:
    """An apply looks at the whole node again; what its plan left out has not come to light by it."""
    known = [item.change.key for item in left]
    return applied._replace(remaining=tuple(change for change in applied.remaining if change.key not in known),
                            reboots=tuple(key for key in applied.reboots if key not in known))


def switch_of(params: Dict[str, Any], plan: Plan) -> Optional[Switch]:
    """Only a controller that will come back to confirm asks for one, and only systemd has the timer."""
    if not params["confirm_token"]:
        return None
    return Switch(params["confirm_seconds"] if plan.identity.has("systemd") else 0, params["confirm_token"])


def spec_of(module: Any) -> Spec:
    if module.params["spec"] is None:
        module.fail_json(msg="rdma_state got no spec: its action plugin did not run; call it as railwright.rdma.rdma_state from a playbook")
    return Spec(module.params["spec"])


def run_explanation(module: Any) -> None:
    """The choice of the GPUDirect path, or the archive that it wants."""
    spec, host = spec_of(module), Host()
    try:
        answer = {"explanation": explain(host, spec)} if module.params["mode"] == "explain" else {"source": needed_source(host, spec)}
    except RailwrightError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **answer)


def run_confirmation(module: Any) -> None:
    """Modes confirm and outcome: keep what waits for its confirmation, or only say what became of it."""
    params = module.params
    keep = params["mode"] == "confirm" and not module.check_mode
    try:
        answer = (confirm if keep else outcome)(Host(), params["run_id"] or "", params["confirm_token"] or "")
    except RailwrightError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, confirm=answer, restore_point=answer["restore_point"])


OTHER_MODES = {"confirm": run_confirmation, "outcome": run_confirmation, "explain": run_explanation, "source": run_explanation}


def plan_result(plan: Plan, spec: Spec) -> Dict[str, Any]:
    return {
        "plan": plan.as_dicts(),
        "problems": as_dicts(plan.problems),
        "before": plan.before,
        "after": plan.after,
        "notes": list(plan.notes),
        "packages": dict(package_steps(plan.changes, plan.identity.platform.package_manager), needed=needs_proof(plan.changes),
                         downloads=downloads(spec, plan.identity, plan.changes)),
        "reboot_needed": [change.key for change in plan.changes if change.needs_reboot],
    }
