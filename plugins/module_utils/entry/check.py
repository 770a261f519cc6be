# SPDX-License-Identifier: GPL-3.0-or-later
"""One inspection of one node: its facts, its plan and the verdicts on both; or what of them differs from its inventory, and nothing else.

Both answers come of the same plan, which ``apply`` would carry out, and of the same verdicts, so they cannot disagree. Drift's is small on
purpose: hundreds of nodes are asked every hour, and a clean one has nothing to say.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..areas.gpu.gpudirect_evidence import chosen, expects_traffic
from ..areas.nccl import environment
from ..catalogue.health import BY_CHECK
from ..catalogue.stacks import stack_of, vendor_stack
from ..checks.area_verdicts import SETTLED
from ..checks.node import judge_node, judge_plan, rail_views
from ..errors import RailwrightError
from ..formats.text import grouped
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..measure.gdr_pairs import near_pairs
from ..observe.facts import observe_facts, stack_summary
from ..observe.hca import observe_hcas
from ..observe.identity import observe_identity
from ..observe.nccl import CARRIERS, Carrier, effective, observe_carriers, setters, unknown
from ..observe.nccl_libraries import places_of
from ..observe.neighbours import observe_neighbours
from ..observe.nics import ancestors_connection_address, observe_netdevs
from ..observe.provenance import UNKNOWN, Origin, origins
from ..plan.areas import AREAS, severity_of_change, severity_of_verdict
from ..plan.plan import Plan, make_plan
from ..rules.check_modes import is_off, switched_off
from ..rules.comparisons import Inspection, inspection_of
from ..spec.match import RailTarget
from ..spec.model import Spec
from ..types import CRITICAL, MAJOR, NO_DEVICE, Change, Identity, Problem, Verdict, as_dicts

LISTEN_MOST = 300  # seconds
NO_HCA = "no rail of this node has an RDMA device to measure over"
# setting: apply fixes it. state: nothing of ours can (a cable, a dead HCA). problem: apply refuses the node. effective: somebody
# else's line wins over ours.
KINDS = ("setting", "state", "problem", "effective")


class Finding(NamedTuple):
    """One difference. ``key`` is the same in every run. ``since``: seconds since the epoch by the node's own records, or None."""

    key: str
    kind: str
    area: str
    what: str
    expected: Any
    found: Any
    severity: str
    disruption: str  # class of the change that fixes it; '' where none does
    why: str
    since: Optional[float]
    by: str


class Judged(NamedTuple):
    """What both answers are made of."""

    host: InspectedHost
    plan: Plan
    facts: Dict[str, Any]
    seen: Inspection
    verdicts: List[Tuple[str, Verdict]]  # each with its area


def answer(host: Host, params: Dict[str, Any], _dry: bool) -> Dict[str, Any]:
    if params["mode"] == "cabling":
        return find_cables(host, params["node"], Spec(params["spec"]), params["seconds"])
    ask = observe_drift if params["mode"] == "drift" else check_node
    return ask(host, params["node"], Spec(params["spec"]), ancestors_connection_address(host), params["now"])


def judged_node(live: Host, node: str, spec: Spec, management: Optional[str], now: Optional[float]) -> Judged:
    host = InspectedHost(live)
    plan = make_plan(host, spec, None, management, now)
    facts = observe_facts(host, plan.identity, places_of(spec))
    seen = inspection_of(node, spec, plan.identity, facts)
    judged = judge_node(seen)
    left = switched_off([item for _area, item in judged], spec["checks"])
    return Judged(host, plan, facts, seen, [(area, item) for (area, _before), item in zip(judged, left)])


def check_node(live: Host, node: str, spec: Spec, management: Optional[str] = None, now: Optional[float] = None) -> Dict[str, Any]:
    """Facts, verdicts and the rails as the controller needs them. Reads only."""
    host, plan, facts, seen, found = judged_node(live, node, spec, management, now)
    verdicts = [item for _area, item in found]
    of_plan_alone = judge_plan(node, [area.name for area in AREAS], plan.changes, plan.problems, seen.targets)
    verdicts.extend(switched_off(of_plan_alone, spec["checks"]))
    rails = rail_views(seen)
    traffic = traffic_plan(host, spec, plan.identity, facts, rails, verdicts)
    stack = vendor_stack(spec, plan.identity)
    wanted = "%s %s" % (stack.name, stack.release) if stack is not None else stack_of(spec, plan.identity)
    neighbours = observe_neighbours(host, facts["hcas"]) if spec["cabling"] else []  # nobody asks where there is no plan
    return {"facts": facts, "rails": rails, "stack": wanted, "gpudirect": traffic, "verdicts": as_dicts(verdicts), "neighbours": neighbours}


def find_cables(live: Host, node: str, spec: Spec, seconds: int) -> Dict[str, Any]:
    """The rails, and what is at the other end of each port: heard of lldpd, or of the switch itself within ``seconds``."""
    if not 0 <= seconds <= LISTEN_MOST:
        raise RailwrightError("seconds: %d; allowed: 0 to %d" % (seconds, LISTEN_MOST))
    host = InspectedHost(live)
    identity = observe_identity(host, None)
    facts = {"hcas": observe_hcas(host, {}), "netdevs": observe_netdevs(host, identity.nics)}
    rails = rail_views(inspection_of(node, spec, identity, facts))
    return {"cabling": {"rails": rails, "neighbours": observe_neighbours(host, facts["hcas"], seconds)}}


def traffic_plan(
    host: Host, spec: Spec, identity: Identity, facts: Dict[str, Any], rails: List[Dict[str, Any]], verdicts: List[Verdict]
) -> Dict[str, Any]:
    """What rdma_measure has to measure on this node, or why nothing."""
    evidence, choice = chosen(spec, identity, facts)
    why = expects_traffic(spec, choice, verdicts)
    pairs = near_pairs(host, identity, facts, rails) if why is None else []
    if why is None and not pairs:
        cm = any(rail["rdma_cm"] for rail in rails)
        why = "eRDMA's driver is in mode default, and its devices connect by RDMA-CM alone" if cm else NO_HCA
    return {"path": choice.path, "gpus": evidence.gpus, "why_not": why, "pairs": as_dicts(pairs)}


def observe_drift(live: Host, node: str, spec: Spec, management: Optional[str] = None, now: Optional[float] = None) -> Dict[str, Any]:
    """``findings``, what was ``judged`` without one, what could not be, and the node in a few words. Reads only."""
    host, plan, facts, seen, verdicts = judged_node(live, node, spec, management, now)
    carriers = observe_carriers(host)
    findings = of_plan(host, plan) + of_verdicts(verdicts, plan.changes, seen.targets)
    findings += of_carriers(host, spec, plan, carriers)
    findings = [item for item in findings if not is_off("config." + item.area, item.what, spec["checks"])]
    return {
        "findings": [finding._asdict() for finding in findings],
        "judged": sorted({area.name for area in AREAS} | {area for area, item in verdicts if item.status != "skipped"}),
        "unknown": ["%s %s: %s" % (item.check, item.subject, item.message) for _area, item in verdicts if item.status == "unknown"]
        + unknown(carriers),
        "unasked": [CARRIERS[carrier.name] for carrier in carriers if carrier.why],
        "drivers": stack_summary(facts),
        "notes": list(plan.notes),
    }


def of_plan(host: Host, plan: Plan) -> List[Finding]:
    known = origins(host, plan.changes)
    found = []
    for change in plan.changes:
        origin = known.get(change.key, UNKNOWN)
        found.append(Finding(change.key, "setting", change.area, change.what, change.after, change.before, severity_of_change(change),
                             change.disruption, change.why, origin.when, origin.by))
    return found + of_problems(plan.problems)


def of_problems(problems: Sequence[Problem]) -> List[Finding]:
    """One a subject, with everything that is said of it. A rail without a device is a verdict of its own: rail.device."""
    said = grouped(((item.area, item.subject), item.message) for item in problems if item.code != NO_DEVICE)
    return [Finding("problem: %s: %s" % (area, subject), "problem", area, subject, None, None, CRITICAL, "", "; ".join(messages), None, "")
            for (area, subject), messages in said.items()]


def of_verdicts(verdicts: Sequence[Tuple[str, Verdict]], changes: Sequence[Change], targets: Sequence[RailTarget]) -> List[Finding]:
    found = []
    for area, item in verdicts:
        if item.status not in ("fail", "warn") or said_by_plan(area, item, changes, targets):
            continue
        if item.status == "warn" and item.check in BY_CHECK:
            continue  # no difference from a wish, and many stay until the next boot: validate shows them
        place = " ".join(part for part in (item.hca or "", "port %d" % item.port if item.port is not None else "", item.subject) if part)
        found.append(Finding("%s: %s" % (item.check, place), "state", area, "%s of %s" % (item.check, place),
                             item.expected, item.found, severity_of_verdict(area, item.status), "", item.message, None, ""))
    return found


def said_by_plan(area: str, verdict: Verdict, changes: Sequence[Change], targets: Sequence[RailTarget]) -> bool:
    """Whether a change of the plan puts it right: one of its area, and about the same rail where the verdict is about a device."""
    if (area, verdict.check) not in SETTLED:
        return False
    own = [change for change in changes if change.area == area]
    rails = [target.rail.name for target in targets if target.label == verdict.subject]
    return bool(own) if verdict.hca is None and not rails else any(change.rail in rails for change in own)


def of_carriers(host: Host, spec: Spec, plan: Plan, carriers: Sequence[Carrier]) -> List[Finding]:
    """NCCL's variables that a job gets other than the inventory says, although our files are, or would be, right."""
    desired = environment.desired(spec, plan.identity)
    wanted = dict(environment.variables_of(desired, environment.observe(host, desired)))
    drifted = [change.subject.name for change in plan.changes if change.area == environment.NAME]
    found: List[Finding] = []
    for carrier in carriers:
        if carrier.variables is not None:
            found += of_carrier(host, carrier, wanted, drifted, (desired.profile_path, desired.conf_path))
    return found


def of_carrier(host: Host, carrier: Carrier, wanted: Dict[str, str], drifted: Sequence[str], ours: Sequence[str]) -> List[Finding]:
    has = effective(host, carrier, wanted)
    found = []
    for name in sorted(set(has) | set(wanted)):
        if has.get(name) == wanted.get(name):
            continue
        lines = setters(host, name)
        if any(line.rpartition(":")[0] in drifted for line in lines):
            continue  # our own file, which the plan puts right
        others = [line for line in lines if line.rpartition(":")[0] not in ours]
        origin = _origin(host, others)
        title = "%s for %s" % (name, CARRIERS[carrier.name])
        found.append(Finding("effective: " + title, "effective", environment.NAME, title, wanted.get(name), has.get(name), MAJOR, "",
                             "the environment of a process wins over /etc/nccl.conf", origin.when, origin.by))
    return found


def _origin(host: Host, lines: Sequence[str]) -> Origin:
    if not lines:
        return UNKNOWN
    return Origin(host.mtime(lines[-1].rpartition(":")[0]), "set in " + ", ".join(lines))
