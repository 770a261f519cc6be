# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at one node: its facts, its plan, and the verdicts on both."""

from typing import Any, Dict, List, Optional

from ..areas.gpu.gpudirect_verdicts import chosen, expects_traffic
from ..catalogue.stacks import stack_of, vendor_stack
from ..checks.node import judge_node, judge_plan, rail_views
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..measure.gdr_pairs import near_pairs
from ..observe.facts import observe_facts
from ..observe.nccl_libraries import places_of
from ..plan.areas import AREAS
from ..plan.plan import make_plan
from ..rules.comparisons import inspection_of
from ..spec.model import Spec
from ..types import Identity, Verdict, as_dicts

NO_DEVICE = "no rail of this node has an RDMA device to measure over"


def check_node(live: Host, node: str, spec: Spec, management: Optional[str] = None, now: Optional[float] = None) -> Dict[str, Any]:
    """Facts, verdicts and the rails as the controller needs them. Reads only."""
    host = InspectedHost(live)
    plan = make_plan(host, spec, None, management, now)
    facts = observe_facts(host, plan.identity, places_of(spec))
    seen = inspection_of(node, spec, plan.identity, facts)
    verdicts = [item for _area, item in judge_node(seen)]
    areas = [area.name for area in AREAS]
    verdicts.extend(judge_plan(node, areas, plan.changes, plan.problems, seen.targets))
    rails = rail_views(spec, plan.identity, facts)
    traffic = traffic_plan(host, spec, plan.identity, facts, rails, verdicts)
    stack = vendor_stack(spec, plan.identity)
    wanted = "%s %s" % (stack.name, stack.release) if stack is not None else stack_of(spec, plan.identity)
    return {"facts": facts, "rails": rails, "stack": wanted, "gpudirect": traffic, "verdicts": as_dicts(verdicts)}


def traffic_plan(
    host: Host, spec: Spec, identity: Identity, facts: Dict[str, Any], rails: List[Dict[str, Any]], verdicts: List[Verdict]
) -> Dict[str, Any]:
    """What rdma_measure has to measure on this node, or why nothing."""
    evidence, choice = chosen(spec, identity, facts)
    why = expects_traffic(spec, choice, verdicts)
    pairs = near_pairs(host, identity, facts, rails) if why is None else []
    if why is None and not pairs:
        cm = any(rail["rdma_cm"] for rail in rails)
        why = "eRDMA's driver is in mode default, and its devices connect by RDMA-CM alone" if cm else NO_DEVICE
    return {"path": choice.path, "gpus": evidence.gpus, "why_not": why, "pairs": as_dicts(pairs)}
