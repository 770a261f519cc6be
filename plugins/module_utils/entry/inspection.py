# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of a module that sets nothing, where no AnsibleModule is: the controller asked over its own ssh (entry/boot.py)."""

import importlib
from typing import Any, Dict, NoReturn

from .options import BENCH, CHECK, FACTS, MEASURE, STATE, Options
from .response import fit, respond

# module -> its options, and the file here that holds its body: imported when it is asked for, so that facts load nothing of a plan.
MODULES: Dict[str, Any] = {
    "rdma_check": (CHECK, "check"), "rdma_facts": (FACTS, "facts"), "rdma_state": (STATE, "state"), "rdma_measure": (MEASURE, "measure"),
    "rdma_bench": (BENCH, "bench"),
}
# Modes of rdma_check that need no inventory, and the file of their body.
ALONE = {"check": "alone", "bundle": "alone", "agent": ".agent.main", "hold": ".agent.hold", "trial": ".agent.trial"}
# What sets something on a node goes by Ansible alone, but for the hold file, which must be on thousands of nodes within a minute. A
# measurement starts programs that end by themselves, and sets nothing.
MODES = (
    "plan", "explain", "container", "verdicts", "drift", "cabling", "check", "bundle", "agent", "hold", "trial", "job", "nodes", "ranks",
    None, "start", "sample", "stop", "prepare", "pairs", "collect",
)


class Call:
    """As much of an AnsibleModule as ``respond`` uses."""

    check_mode = False

    def __init__(self, name: str, options: Options, given: Dict[str, Any]) -> None:
        self._name = name
        self.params: Dict[str, Any] = dict({key: row.get("default") for key, row in options.items()}, filled=given)
        self.answer: Dict[str, Any] = {}

    def exit_json(self, **result: Any) -> NoReturn:
        self.answer = fit(result)
        raise SystemExit(0)

    def fail_json(self, msg: str, **result: Any) -> NoReturn:
        self.answer = fit(dict(result, msg=msg, failed=True))
        raise SystemExit(1)


def answer(spec: Dict[str, Any], call: Dict[str, Any]) -> Dict[str, Any]:
    """What the module would have returned. ``call``: ``module``, its parameters ``given`` less the Spec, and what the controller
    ``derived`` for the Spec out of more than the node's own part of the inventory."""
    options, file = MODULES[call["module"]]
    given = call["given"]
    if given.get("mode") not in MODES:
        raise ValueError("%s is no mode of a scan" % given.get("mode"))
    body = importlib.import_module("." + ALONE.get(given.get("mode"), file), __package__).answer
    asked = Call(call["module"], options, dict(given, spec=dict(spec, **call["derived"])))
    try:
        respond(asked, body)
    except SystemExit:
        pass
    return asked.answer
