# SPDX-License-Identifier: GPL-3.0-or-later
"""One look at one node: its facts, its plan, and the verdicts on both."""

from typing import Any, Dict, Optional

from .area_list import AREAS
from .checks.node import judge_node, judge_plan, rail_views, targets_of
from .host import Host
from .observe.facts import observe_facts
from .plan import make_plan
from .spec.model import Spec
from .types import as_dicts


def check_node(host, node, spec, management=None, now=None):
    # type: (Host, str, Spec, Optional[str], Optional[float]) -> Dict[str, Any]
    """Facts, verdicts and the rails as the controller needs them. Reads only."""
    plan = make_plan(host, spec, None, management, now)
    facts = observe_facts(host, plan.identity)
    verdicts = judge_node(node, spec, plan.identity, facts)
    areas = [area.name for area in AREAS]
    verdicts.extend(judge_plan(node, areas, plan.changes, plan.problems, targets_of(spec, plan.identity)))
    return {"facts": facts, "rails": rail_views(spec, plan.identity, facts), "verdicts": as_dicts(verdicts)}
