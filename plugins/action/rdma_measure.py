# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_measure: what this node pings and measures, from the schedule and from what the hosts registered.

Whoever has nothing to do in a step costs no connection.
"""

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import MEASURE
from ansible_collections.railwright.rdma.plugins.module_utils.measure import gdr
from ansible_collections.railwright.rdma.plugins.module_utils.measure.gdr_pairs import Pair
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import TESTS, TOGETHER, plan_tests
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import probes
from ansible_collections.railwright.rdma.plugins.module_utils.rules.check_modes import switched_off
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict, as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.perftest_round import (
    AT_ONCE,
    Planned,
    client_limits,
    crossed_rails,
    lossless_of,
    no_server,
    not_run,
    pair_of,
    placed,
    ports_of,
    profile_of,
    sizes_of,
    with_others,
)
from ansible_collections.railwright.rdma.plugins.plugin_utils.pings import holders, merged
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import result_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.table import own_verdict

NEEDED = {"ping": ("check", "schedule"), "gpudirect": ("check",), "health": (),
          **dict.fromkeys(("start", "run", "stop"), ("check", "schedule", "started"))}
Result = dict[str, Any]


class ActionModule(StepAction):
    """One method a kind of measurement."""

    argument_spec = MEASURE

    def answer(self, result: Result, variables: Result, options: Result) -> Result:
        mode, node = options["mode"], str(variables["inventory_hostname"])
        missing = [name for name in NEEDED[mode] if options[name] is None]
        if missing:
            raise AnsibleActionFail(f"rdma_measure: mode {mode} needs {' and '.join(missing)}")
        result.update(changed=False, verdicts=[])
        if mode == "health":
            return self._health(result, variables, options)
        if mode == "sample":
            raise AnsibleActionFail("rdma_measure: mode sample is for railwright isolate; allowed in a playbook: mode run")
        if mode == "ping":
            return self._ping(node, result, variables, options)
        if mode == "gpudirect":
            return self._gpudirect(node, result, variables, options)
        return self._perftest(node, result, variables, options)

    def _health(self, result: Result, variables: Result, options: Result) -> Result:
        """No verdict: whoever has seen the rounds before judges. A diagnosis takes long, and is asked after."""
        del result["verdicts"]
        if options["diag"] and self._task.check_mode:
            return {**result, "skipped": True, "skip_reason": "nothing is measured in check mode"}
        arguments = {"mode": "health", "diag": options["diag"]}
        if options["diag"]:
            return {**result, **self.run_in_background("railwright.rdma.rdma_measure", arguments, variables)}
        return {**result, **self._ask("health", arguments, variables)}

    def _ask(self, mode: str, request: Result, variables: Result) -> Result:
        arguments = {"mode": mode, **request}
        answer: Result = self._execute_module(module_name="railwright.rdma.rdma_measure", module_args=arguments, task_vars=variables)
        return answer

    @staticmethod
    def _view(variables: Result, node: str, check: str) -> Result:
        """What rdma_check registered for a node."""
        view = result_of(variables, node, check)
        if view is None:
            raise AnsibleActionFail(f"{check} holds no result of railwright.rdma.rdma_check for {node}")
        return view

    def _ping(self, node: str, result: Result, variables: Result, options: Result) -> Result:
        """The rails of this node and those of its peers, paired by name."""
        rails = self._view(variables, node, options["check"])["rails"]
        peers = [str(peer) for peer in options["schedule"]["peers"].get(node, [])]
        theirs = {peer: view["rails"] for peer in peers if (view := result_of(variables, peer, options["check"])) is not None}
        wanted = probes(rails, theirs)
        own = [{key: rail[key] for key in ("name", "netdev", "address")} for rail in rails if rail["netdev"] and rail["address"]]
        why = "no other node answered" if not theirs else "no rail has an address on both sides"
        result.update(pings=[], rails=[])
        if not wanted:
            result["verdicts"] = as_dicts([verdict("ping.mtu", VerdictSubject(node, None, None, "rails"), "skipped", None, None, why)])
        if not own:
            return result
        answer = self._ask("ping", {"probes": wanted, "rails": own, "count": options["count"], "wait": options["wait"]}, variables)
        if answer.get("failed") or answer.get("unreachable"):
            return {**result, **answer}
        pings = merged(wanted, answer.get("pings"))
        if pings is None:
            raise AnsibleActionFail("the node's answer to the pings is not one to what it was asked")
        result.update(pings=pings, rails=holders(own, answer.get("rails")))
        return result

    def _perftest(self, node: str, result: Result, variables: Result, options: Result) -> Result:
        """A node is server, client or idle in a round."""
        mode, pair = options["mode"], pair_of(options["schedule"], options["round"], node)
        if self._task.check_mode or pair is None or (mode == "run" and pair[1] != node):
            return {**result, "skipped": True, "skip_reason": "nothing to do for this node in this step"}
        spec, together = host_spec(self._templar, variables), bool(options["together"])
        planned = self._planned(spec, pair, variables, options)
        if together and len(planned.asking) < 2:
            return {**result, "skipped": True, "skip_reason": "one rail by itself is all rails at once"}
        is_server = pair[0] == node
        own, peer = planned.serving if is_server else planned.asking, pair[1] if is_server else pair[0]
        request = {
            "node": node, "peer": f"{peer}, {AT_ONCE}" if together and mode == "stop" else peer, "serve": is_server,
            "tests": as_dicts(own), "ports": ports_of(planned.views[not is_server], own), "options": sizes_of(spec), **lossless_of(spec),
        }
        extra: list[Verdict] = []
        if mode == "run":
            started = result_of(variables, pair[0], options["started"])
            extra = [] if together else [not_run(node, pair[0], rail, why) for rail, why in planned.left_out]
            if started is None:
                extra += [no_server(node, pair[0], test) for test in planned.asking]
                request["tests"] = []
            else:
                limits = client_limits(spec, planned, started.get("rate_gbps"))
                if together:
                    limits = with_others(limits, planned, result_of(variables, node, options["measured"]))
                # Ports and sizes are the server's: both ends must have the same, whatever the client's own variables say.
                request.update(tests=started["client_tests"], options=started["options"], open_ports=started["open_ports"],
                               limits=as_dicts(limits))
        if request["tests"]:
            result.update(self._ask(mode, request, variables))
        result["changed"] = False
        measured = as_dicts(extra) + list(result.get("verdicts", []))
        result["verdicts"] = as_dicts(switched_off([Verdict(**own_verdict(node, item)) for item in measured], spec["checks"]))
        if mode == "start" and is_server:
            result.setdefault("open_ports", [])
            result.update(client_tests=as_dicts(planned.asking), options=request["options"], rate_gbps=spec.expect.get("rate_gbps"))
        return result

    def _planned(self, spec: Spec, pair: tuple[str, str], variables: Result, options: Result) -> Planned:
        """The tests of a pair as both of its nodes come to them."""
        views = tuple(self._view(variables, name, options["check"]) for name in pair)
        *both, left_out = plan_tests(views[1]["rails"], views[0]["rails"], int(spec["validate_port"]),
                                     crossed_rails(variables, options["ping"], pair), (TOGETHER,) if options["together"] else TESTS)
        profile, _why_not = profile_of(spec)
        ends = []
        for name, view, tests in zip(pair, views, both, strict=True):
            own = [placed(view, test, result_of(variables, name, options["gpudirect"])) for test in tests]
            # Without its class the traffic would ride the queue of everybody, which may drop.
            ends.append([test._replace(tclass=profile.tc) for test in own] if profile is not None else own)
        return Planned(pair, views, ends[0], ends[1], left_out)

    def _gpudirect(self, node: str, result: Result, variables: Result, options: Result) -> Result:
        """The near pairs of GPU and HCA that rdma_check found, or the verdict that says why nothing is measured."""
        found = self._view(variables, node, options["check"]).get("gpudirect")
        if not isinstance(found, dict) or not {"gpus", "why_not", "path", "pairs"} <= set(found):
            raise AnsibleActionFail(f"{options['check']} holds no result of railwright.rdma.rdma_check for {node}")
        if not found["gpus"] or self._task.check_mode:
            why = "nothing is measured in check mode" if found["gpus"] else "this node has no NVIDIA GPU"
            return {**result, "skipped": True, "skip_reason": why}
        if found["why_not"] is not None:
            where = VerdictSubject(node, None, None, "GPU memory")
            reason = f"not measured: {found['why_not']}"
            return {**result, "verdicts": as_dicts([verdict(gdr.CHECK, where, "skipped", None, None, reason)])}
        spec = host_spec(self._templar, variables)
        view, port = self._view(variables, node, options["check"]), int(spec["validate_port"])
        tests = [gdr.loopback_test(Pair(**pair), found["path"], port) for pair in found["pairs"]]
        limits = client_limits(spec, Planned((node, node), (view, view), tests, tests, []), None)
        request = {"node": node, "path": found["path"], "pairs": found["pairs"], "options": sizes_of(spec), "port": port,
                   "limits": as_dicts(limits)}
        return {**result, **self._ask("gpudirect", request, variables)}
