# SPDX-License-Identifier: GPL-3.0-or-later
"""One round of perftest, as the controller plans it: who is server and client, what is counted, which thresholds hold. Pure.

Every step is decided from the schedule and from what the hosts registered, never from who happens to be left: a host lost in the
middle must not shift the pairs of the others.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.verdicts import FABRIC_WITHOUT
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile, site_profile
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, rows
from ansible_collections.railwright.rdma.plugins.module_utils.measure import gdr
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import BANDWIDTHS, CHECK, KEY, TOGETHER, Limit, Measurement
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import on_another_network
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.rules.gpudirect import DMABUF
from ansible_collections.railwright.rdma.plugins.module_utils.rules.path_mtu import PATH_MTUS
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

from .results import result_of
from .spec.erdma_instances import device_floor
from .speed.ceilings import perftest_gbps
from .speed.machine import machine_of
from .speed.perftest_limits import WRITE_LATENCY_US, bandwidth_limit

SIZES = {
    "seconds": "validate_perftest_seconds",
    "iterations": "validate_perftest_iterations",
    "message_bytes": "validate_perftest_message_bytes",
    "queue_pairs": "validate_perftest_qps",
    "timeout": "validate_timeout_s",
}
AT_ONCE = "all rails at once"
NOTHING_SHARED = ("the facts show no PCIe switch that it shares with another of the rails: look at what else they have in common, "
                  "processors, memory, switches between the nodes")
View = dict[str, Any]


class Planned(NamedTuple):
    """Tests of a pair, one for each of the other end. ``pair``, ``views`` (what rdma_check found): of the server, of the client."""

    pair: tuple[str, str]
    views: tuple[View, ...]
    serving: list[Measurement]
    asking: list[Measurement]
    left_out: list[tuple[str, str]]


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


def limit_of(spec: Spec, test: Measurement, mtu: int | None, rate: float | None, *, ipv6: bool = False) -> Limit:
    """The inventory's own; else of eRDMA's bandwidth that of the instance type, as sysfs has the same rate for all of them; else what
    the rate that the inventory expects is known to carry. ``mtu``: the active one of the path, ``rate``: of the slower end.
    """
    key = gdr.KEY if test.gpu is not None else KEY[test.name]
    none = f"no threshold in the inventory ({key})"
    if spec[key] is not None:
        return Limit(spec[key], key)
    if spec.fabric == "erdma":
        value, source = device_floor(spec["erdma_instance_type"]) if test.name in BANDWIDTHS and test.gpu is None else (None, "")
        return Limit(value, source if value is not None else f"{none}, and {source}" if source else none)
    if rate is None or test.name == "read_lat":
        return Limit(None, none)
    if spec.rdma_stack == "soft_roce":
        return Limit(None, f"{none}, and rdma_expect.rate_gbps says nothing of Soft-RoCE, whose rate is made up", unknown=True)
    if test.name == "write_lat":
        return Limit(WRITE_LATENCY_US, "OCI's limit for ib_write_lat")
    value, source = bandwidth_limit(rate, mtu, spec["validate_perftest_message_bytes"], gpu=test.gpu is not None, ipv6=ipv6)
    return Limit(value, source if value is not None else f"{none}: {source}", unknown=value is None)


def client_limits(spec: Spec, planned: Planned, rate: Any) -> list[Limit]:
    """For each test of the client. ``rate``: what the server's inventory expects; a rail is as fast as its slower end."""
    rates = [float(value) for value in (spec.expect.get("rate_gbps"), rate) if isinstance(value, int | float)]
    own = min(rates) if spec.expect.get("rate_gbps") is not None else None
    found = []
    for theirs, test in zip(planned.serving, planned.asking, strict=True):
        mtus = [mtu for view, end in zip(planned.views, (theirs, test), strict=True) if (mtu := active_mtu(view, end)) is not None]
        gpu = test.gpu if test.gpu is not None else theirs.gpu  # memory of a GPU at one end is enough to be slower
        rails = [rail for rail in rows(planned.views[1].get("rails")) if (rail.get("hca"), rail.get("port")) == (test.hca, test.port)]
        ipv6 = spec.fabric == "roce" and any(":" in str(rail.get("address")) for rail in rails)
        limit = limit_of(spec, test._replace(gpu=gpu), min(mtus) if len(mtus) == 2 else None, own, ipv6=ipv6)
        if gpu is not None and limit.value is not None and own is not None and spec[gdr.KEY] is None:
            whys = [gpu_apart(view, end, own, limit.value) for view, end in zip(planned.views, (theirs, test), strict=True)]
            if why := next(filter(None, whys), ""):
                limit = Limit(None, f"no threshold in the inventory ({gdr.KEY}), and no published figure is for this: {why}", unknown=True)
        found.append(limit)
    return found


def gpu_apart(view: View, test: Measurement, rate: float, floor: float) -> str:
    """Why the published floors, of a GPU and an HCA below one switch, are none for these two; "" where they are."""
    facts, pairs = mapping(view.get("facts")), rows(mapping(view.get("gpudirect")).get("pairs"))
    pci = next((pair.get("gpu") for pair in pairs if pair.get("number") == test.gpu), None)
    gpu, hca = next((row for row in rows(facts.get("gpus")) if row.get("pci") == pci), None), hca_of(view, test.hca)
    if test.gpu is None or gpu is None:
        return ""
    if len({numa for row in (gpu, hca) if isinstance(numa := row.get("numa_node"), int) and numa >= 0}) == 2:
        return f"GPU {pci} and {test.hca} are on different NUMA nodes"
    most, limit = perftest_gbps(machine_of({"gpus": [gpu], "hcas": [hca]}, rails={test.hca: test.hca}, gbps=rate), test.hca, gpu=True)
    return f"{limit} carries {most:g} Gb/s" if most is not None and most < floor else ""


def hca_of(view: View, name: str) -> dict[str, Any]:
    return next((hca for hca in rows((view.get("facts") or {}).get("hcas")) if hca.get("name") == name), {})


def active_mtu(view: View, test: Measurement) -> int | None:
    """As the node itself has told it; perftest takes it, of both ends the smaller one."""
    found = [port.get("active_mtu") for port in rows(hca_of(view, test.hca).get("ports")) if port.get("number") == test.port]
    return found[0] if found and found[0] in PATH_MTUS else None


def placed(view: View, test: Measurement, proofs: dict[str, Any] | None) -> Measurement:
    """Where the tool is to run; with all rails at once, from the memory of the GPU that is nearest, where traffic from it was shown."""
    numa, found = hca_of(view, test.hca).get("numa_node"), view.get("gpudirect") or {}
    test = test._replace(numa_node=numa if isinstance(numa, int) else None)
    shown = [item.get("hca") for item in rows((proofs or {}).get("verdicts")) if item.get("check") == gdr.CHECK and item.get("found")]
    pair = next((pair for pair in rows(found.get("pairs")) if pair.get("hca") == test.hca), None)
    if test.name != TOGETHER or pair is None or test.hca not in shown:
        return test
    return test._replace(gpu=pair["number"], dmabuf=found.get("path") == DMABUF)


def with_others(limits: Sequence[Limit], planned: Planned, alone: dict[str, Any] | None) -> list[Limit]:
    """With what each rail had by itself (``alone``: the node's result of mode run) and what it shares with the others on either node."""
    found, (server, client) = [], planned.pair
    hcas = [[test.hca for test in tests] for tests in (planned.serving, planned.asking)]
    for limit, theirs, test in zip(limits, planned.serving, planned.asking, strict=True):
        figures = [item.get("found") for item in rows((alone or {}).get("verdicts")) if item.get("check") == CHECK["write_bw"]
                   and (item.get("hca"), item.get("port")) == (test.hca, test.port)]
        number = next((value for value in figures if isinstance(value, int | float) and not isinstance(value, bool)), None)
        shared = [shared_by(client, planned.views[1], test.hca, hcas[1]), shared_by(server, planned.views[0], theirs.hca, hcas[0])]
        found.append(limit._replace(alone=number, shared="; ".join(filter(None, shared)) or NOTHING_SHARED))
    return found


def shared_by(node: str, view: View, hca: str, all_of_them: Sequence[str]) -> str:
    """The lowest bridge that an HCA has in common with others of the node's rails; "" where the facts show none."""
    paths = {name: [str(bridge) for bridge in mapping(hca_of(view, name).get("link")).get("path") or []] for name in all_of_them}
    for at, bridge in enumerate(paths.get(hca, [])):
        others = sorted(name for name, path in paths.items() if name != hca and bridge in path)
        if others:
            what = "the PCIe switch" if at else "the slot at PCIe port"
            return f"on {node} it shares {what} {bridge} with {', '.join(others)}"
    return ""


def ports_of(view: dict[str, Any] | None, tests: list[Measurement]) -> list[dict[str, Any]]:
    """Every HCA port of the tests once, with its driver and its interfaces, as the node itself has told them."""
    facts = (view or {}).get("facts") or {}
    drivers = {str(hca.get("name")): hca.get("driver") for hca in rows(facts.get("hcas"))}
    nics = rows(mapping(facts.get("qos")).get("nics"))
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
