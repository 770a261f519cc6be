# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_perftest: which part this node plays in a round, and with which tests.

A node is server, client or idle in a round. Every step is decided from the schedule
and from what the hosts registered, never from who happens to be left: a host lost in
the middle must not shift the pairs of the others.
"""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.erdma_instances import device_floor
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile, site_profile
from ansible_collections.railwright.rdma.plugins.module_utils.checks.comparisons import Where, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.checks.qos_chain import FABRIC_WITHOUT
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import Measurement, plan_tests
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import on_another_network
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict, as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import result_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.step_action import StepAction

OPTIONS = {
    "mode": {"type": "str", "required": True, "choices": ["start", "run", "stop"]},
    "schedule": {"type": "dict", "required": True},
    "round": {"type": "int", "required": True},
    "check": {"type": "str", "required": True},
    "started": {"type": "str", "required": True},
    "ping": {"type": "str"},
}
SIZES = {
    "seconds": "validate_perftest_seconds",
    "iterations": "validate_perftest_iterations",
    "message_bytes": "validate_perftest_message_bytes",
    "queue_pairs": "validate_perftest_qps",
    "timeout": "validate_timeout_s",
}
THRESHOLDS = ("validate_min_bandwidth_gbps", "validate_max_latency_us")


class ActionModule(StepAction):
    """Start, run or stop; an idle node costs no connection."""

    argument_spec = OPTIONS

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        node = str(variables["inventory_hostname"])
        pair = pair_of(options["schedule"], options["round"], node)
        if self._task.check_mode or pair is None or (options["mode"] == "run" and pair[1] != node):
            result.update(changed=False, skipped=True, skip_reason="nothing to do for this node in this step")
            return result
        spec = host_spec(self._templar, variables)
        server_rails, client_rails = self._rails(variables, options["check"], pair)
        serving, asking, left_out = plan_tests(client_rails, server_rails, int(spec["validate_port"]),
                                               crossed_rails(variables, options["ping"], pair))
        profile, why_not = profile_of(spec)
        if profile is not None:  # without its class the traffic would ride the queue of everybody, which may drop
            serving, asking = ([test._replace(tclass=profile.tc) for test in tests] for tests in (serving, asking))
        is_server = pair[0] == node
        own = serving if is_server else asking
        arguments = {
            "mode": options["mode"], "node": node, "peer": pair[1] if is_server else pair[0], "serve": is_server,
            "tests": as_dicts(own), "ports": ports_of(result_of(variables, node, options["check"]), own),
            "lossless": list(profile.lossless) if profile is not None else [], "why_not": why_not,
            "options": {name: spec[key] for name, key in SIZES.items()},
        }
        extra: list[Verdict] = []
        if options["mode"] == "run":
            started = result_of(variables, pair[0], options["started"])
            extra = [not_run(node, pair[0], rail, why) for rail, why in left_out]
            if started is None:
                extra += [no_server(node, pair[0], test) for test in asking]
                arguments["tests"] = []
            else:
                # Ports and sizes are the server's: both ends must have the same, whatever the client's own variables say.
                arguments.update(tests=started["client_tests"], options=started["options"], open_ports=started["open_ports"],
                                 **limits_of(spec))
        if arguments["tests"]:
            result.update(self._execute_module(module_name="railwright.rdma.rdma_perftest", module_args=arguments, task_vars=variables))
        result["changed"] = False
        result["verdicts"] = as_dicts(extra) + list(result.get("verdicts", []))
        if options["mode"] == "start" and is_server:
            result.setdefault("open_ports", [])
            result.update(client_tests=as_dicts(asking), options=arguments["options"])
        return result

    @staticmethod
    def _rails(variables: dict[str, Any], check: str, pair: tuple[str, str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The rails of the server and of the client, as rdma_check saw them."""
        found = [result_of(variables, name, check) for name in pair]
        if found[0] is None or found[1] is None:
            raise AnsibleActionFail(f"{check} holds no result of railwright.rdma.rdma_check for {' or '.join(pair)}")
        return found[0]["rails"], found[1]["rails"]


def pair_of(schedule: dict[str, Any], number: int, node: str) -> tuple[str, str] | None:
    """(server, client) of the pair that the node is in, or None when it sits out."""
    rounds = schedule.get("rounds", [])
    for server, client in rounds[number] if number < len(rounds) else []:
        if node in (server, client):
            return str(server), str(client)
    return None


def crossed_rails(variables: dict[str, Any], name: str | None, pair: tuple[str, str]) -> list[str]:
    """Rails that cannot be measured between the two, as the pings of either found: servers and clients would only wait out their time."""
    found: set[str] = set()
    if name is None:
        return []
    for node, peer in (pair, pair[::-1]):
        pings = (result_of(variables, node, name) or {}).get("pings") or []
        found.update(str(ping["name"]) for ping in pings if ping["peer"] == peer and on_another_network(ping))
    return sorted(found)


def profile_of(spec: Spec) -> tuple[QosProfile | None, str | None]:
    """The QoS profile that the traffic rides, or why there is none."""
    why = FABRIC_WITHOUT.get(spec.fabric)
    profile = site_profile(spec["qos_profile"], spec["qos_custom"]) if why is None else None
    return profile, None if profile is not None else why or "the inventory expects nothing (rdma_qos_profile)"


def limits_of(spec: Spec) -> dict[str, dict[str, Any]]:
    """The inventory's thresholds; of eRDMA's bandwidth else that of the instance type, as sysfs has the same rate for all of them."""
    thresholds, sources = {key: spec[key] for key in THRESHOLDS}, {}
    bandwidth = THRESHOLDS[0]
    if spec.fabric == "erdma" and thresholds[bandwidth] is None:
        thresholds[bandwidth], sources[bandwidth] = device_floor(spec["erdma_instance_type"])
    return {"thresholds": thresholds, "sources": sources}


def ports_of(view: dict[str, Any] | None, tests: list[Measurement]) -> list[dict[str, Any]]:
    """Every HCA port of the tests once, with its driver and its interfaces, as the node itself has told them."""
    facts = (view or {}).get("facts") or {}
    qos = facts.get("qos")
    drivers = {str(hca.get("name")): hca.get("driver") for hca in objects(facts.get("hcas"))}
    nics = objects(qos.get("nics")) if isinstance(qos, dict) else []
    rails = {(rail["hca"], rail["port"]): rail["netdev"] for rail in (view or {}).get("rails") or []}
    found = {}
    for test in tests:
        place = (test.hca, test.port)
        # Below a bond its members count, and the bond itself does not.
        netdevs = [nic.get("netdev") for nic in nics if (nic.get("hca"), nic.get("port")) == place] or [rails.get(place)]
        found[place] = {"rail": test.rail, "hca": test.hca, "port": test.port, "driver": drivers.get(test.hca),
                        "netdevs": [str(netdev) for netdev in netdevs if netdev]}
    return list(found.values())


def objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def not_run(node: str, peer: str, rail: str, why: str) -> Verdict:
    return verdict("perftest.rail", Where(node, None, None, f"{rail} to {peer}"), "unknown", "a measurement", None, f"not measured: {why}")


def no_server(node: str, peer: str, test: Measurement) -> Verdict:
    where = Where(node, test.hca, test.port, f"{test.rail} to {peer}")
    return verdict(f"perftest.{test.name}", where, "unknown", "a result", None, f"not run: {peer} did not start its servers")
