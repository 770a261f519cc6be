# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside a container: plans or applies with the real core, JSON in and out.

Input: {"spec": {...}, "mode": "plan" or "apply", "areas": [...], "hardware": [names]}.
``switch`` (optional): [seconds, token] of an apply that waits for a confirmation.
``hardware`` names interfaces that are to count as hardware: a container has only
virtual ones, which are matched by name, while rails of a real node are matched by MAC.
"""

import json
import sys

sys.path.insert(0, "/opt/railwright")

from module_utils.apply.apply import apply_plan, exclusive
from module_utils.apply.confirm import Switch
from module_utils.errors import RailwrightError
from module_utils.host.host import Host
from module_utils.plan import plan as core
from module_utils.spec.model import Spec
from module_utils.types import as_dicts

request = json.load(sys.stdin)
observe_identity = core.observe_identity


def as_hardware(*arguments):
    identity = observe_identity(*arguments)
    nics = tuple(nic._replace(kind="ethernet") if nic.name in request["hardware"] else nic for nic in identity.nics)
    return identity._replace(nics=nics)


core.observe_identity = as_hardware
host, spec = Host(), Spec(request["spec"])
plan = core.make_plan(host, spec, request["areas"])
answer = {"plan": plan.as_dicts(), "problems": as_dicts(plan.problems), "error": None, "restore_point": None}
if request["mode"] == "apply":
    try:
        with exclusive(host):
            switch = Switch(*request["switch"]) if request.get("switch") else None
            answer["restore_point"] = apply_plan(host, spec, plan, "test", request["areas"], switch=switch).restore_point
    except RailwrightError as error:
        answer["error"] = str(error)
json.dump(answer, sys.stdout)
