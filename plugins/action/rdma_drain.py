# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_drain: the first host of a scheduler asks for all of them, every host then hears its own part."""

import time
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import DRAIN
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import WATCHED
from ansible_collections.railwright.rdma.plugins.plugin_utils import draining
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import variable_of

MODULE = "railwright.rdma.rdma_drain"
# What the module does in a step; begun: this run has drained the nodes before.
STEPS = {"inspect": ("inspect", False), "drain": ("drain", False), "wait": ("drain", True), "revert": ("undrain", True),
         "verify": ("inspect", True), "undrain": ("undrain", True), "isolate": ("isolate", False), "open": ("undrain", True)}
# A scheduler that restarts must not end a wait of hours. A step that begins something says at once that it cannot.
PATIENCE_S = {"wait": 120.0, "undrain": 120.0, "revert": 120.0, "isolate": 120.0, "open": 120.0}


class ActionModule(StepAction):
    """One step of the role's tasks."""

    argument_spec = DRAIN

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        host = str(variables["inventory_hostname"])
        result.update(changed=False, waiting=False, now=time.time())
        try:
            if options["mode"] == "tell":
                return {**result, **self._tell(host, variables, options)}
            return {**result, **self._step(host, variables, options)}
        except draining.Unfit as error:
            raise AnsibleActionFail(str(error)) from error

    def _step(self, host: str, variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        mode = options["mode"]
        asked = variables.get(draining.ASKED, {})
        if host in asked and mode in ("inspect", "verify"):
            return {"leader": host, "drains": {host: asked[host]}}
        alone = options["alone"]
        hosts = [host] if alone else draining.asked_for(variables, mode)
        nobodys = mode == "isolate" or (mode == "inspect" and options["run"] is None)
        reason = None if nobodys else WATCHED if mode == "open" else draining.reason_of(options["run"])
        if mode == "isolate":
            hosts = [name for name in hosts if name in (options["reasons"] or {})]
        leader = draining.leader_of(variables, [host] if alone else draining.present(variables), host)
        place = draining.drain_place(variables, host)
        if place.scheduler == "none":
            return {"leader": host, "drains": {host: draining.without_scheduler(host, mode)}}
        if leader != host:
            return {"leader": leader}
        named = draining.members(variables, hosts, host)
        if mode == "revert":
            overdue = draining.late(self._drains(host, variables, str(options["seen"])))
            named = {name: node for name, node in named.items() if name in overdue}
        if not named:
            return {"leader": host, "drains": {}}
        return {"leader": host, **self._ask(place, named, variables, options, reason)}

    def _ask(
        self, place: draining.Place, named: dict[str, str], variables: dict[str, Any], options: dict[str, Any], reason: str | None
    ) -> dict[str, Any]:
        """The module on the scheduler host, and what its answer means."""
        mode = options["mode"]
        what, begun = STEPS[mode]
        spec = host_spec(self._templar, variables)
        arguments = {
            "mode": what, "begun": begun, "scheduler": place.scheduler, "nodes": list(named.values()), "reason": reason,
            "patience_s": PATIENCE_S.get(mode, 0.0),
            "node_reasons": [str(options["reasons"][name]) for name in named] if mode == "isolate" else [],
            "commands": {step: spec[f"upgrade_{step}_command"] for step in ("drain", "drained", "undrain")},
        }
        answer: dict[str, Any] = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables)
        if answer.get("failed") or answer.get("unreachable"):
            return answer
        drains = draining.by_host(named, answer.get("drains"), place.scheduler)
        if drains is None:
            raise AnsibleActionFail(f"the answer of {place.host} is not one about the nodes that it was asked for")
        back = draining.returning(drains, str(reason))
        left = {"wait": draining.draining(drains), "undrain": back, "open": back}.get(mode, [])
        return {"changed": bool(answer.get("changed")), "drains": drains, "waiting": bool(left) and not self._over(options)}

    def _over(self, options: dict[str, Any]) -> bool:
        if self._task.check_mode:
            return True  # nothing was begun, so that nothing will come
        return time.time() >= float(options["began"] or 0.0) + int(options["timeout_s"])

    def _tell(self, host: str, variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        drain = self._drains(host, variables, str(options["seen"])).get(host)
        if drain is None:
            raise AnsibleActionFail(f"{options['seen']} says nothing about {host}")
        taken = self._drains(host, variables, str(options["taken"])) if options["taken"] else None
        expect = "any" if self._task.check_mode else options["expect"]
        why = draining.drain_refusal(host, drain, expect, taken, options["timeout_s"])
        return {"drain": drain} if why is None else {"drain": drain, "failed": True, "msg": why}

    def _drains(self, host: str, variables: dict[str, Any], name: str) -> dict[str, draining.Drain]:
        """What the leader registered, whose failure is that of all it asks for."""
        mine = variable_of(variables, host, name)
        leader = mine.get("leader") if isinstance(mine, dict) else None
        theirs = variable_of(variables, str(leader), name) if leader is not None and leader != host else mine
        if isinstance(theirs, dict) and isinstance(theirs.get("drains"), dict):
            return dict(theirs["drains"])
        said = theirs.get("msg") if isinstance(theirs, dict) else None
        raise AnsibleActionFail(f"the scheduler did not answer for {host}: {said or f'{name} holds no result of {MODULE}'}")
