# SPDX-License-Identifier: GPL-3.0-or-later
"""One round of perftest, as the controller plans it: who is server and client, what is counted, which thresholds hold. Pure.

Every step is decided from the schedule and from what the hosts registered, never from who happens to be left: a host lost in the
middle must not shift the pairs of the others.
"""

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.verdicts import FABRIC_WITHOUT
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.erdma_instances import device_floor
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile, site_profile
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import rows
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import Measurement
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import on_another_network
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

from .results import result_of

SIZES = {
    "seconds": "validate_perftest_seconds",
    "iterations": "validate_perftest_iterations",
    "message_bytes": "validate_perftest_message_bytes",
    "queue_pairs": "validate_perftest_qps",
    "timeout": "validate_timeout_s",
}
THRESHOLDS = ("validate_min_bandwidth_gbps", "validate_max_latency_us")


def sizes_of(spec: Spec) -> dict[str, Any]:
    return {name: spec[key] for name, key in SIZES.items()}


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


def lossless_of(spec: Spec) -> dict[str, Any]:
    """What the traffic is held against: the priorities of the site's QoS profile, or why there are none."""
    profile, why_not = profile_of(spec)
    return {"lossless": list(profile.lossless) if profile is not None else [], "why_not": why_not}


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
    drivers = {str(hca.get("name")): hca.get("driver") for hca in rows(facts.get("hcas"))}
    nics = rows(qos.get("nics")) if isinstance(qos, dict) else []
    rails = {(rail["hca"], rail["port"]): rail["netdev"] for rail in (view or {}).get("rails") or []}
    found = {}
    for test in tests:
        place = (test.hca, test.port)
        # Below a bond its members count, and the bond itself does not.
        netdevs = [nic.get("netdev") for nic in nics if (nic.get("hca"), nic.get("port")) == place] or [rails.get(place)]
        found[place] = {"rail": test.rail, "hca": test.hca, "port": test.port, "driver": drivers.get(test.hca),
                        "netdevs": [str(netdev) for netdev in netdevs if netdev]}
    return list(found.values())


def not_run(node: str, peer: str, rail: str, why: str) -> Verdict:
    where = VerdictSubject(node, None, None, f"{rail} to {peer}")
    return verdict("perftest.rail", where, "unknown", "a measurement", None, f"not measured: {why}")


def no_server(node: str, peer: str, test: Measurement) -> Verdict:
    where = VerdictSubject(node, test.hca, test.port, f"{test.rail} to {peer}")
    return verdict(f"perftest.{test.name}", where, "unknown", "a result", None, f"not run: {peer} did not start its servers")
