# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts over all nodes: do they agree? Pure; runs on the controller.

``nodes`` maps a node's name to what rdma_check returned for it: ``facts`` and
``rails`` (see node.rail_views). The odd one out is judged against the strict majority;
two camps of equal size blame nobody, and the verdict names both.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.verdicts import judge_modes
from ansible_collections.railwright.rdma.plugins.module_utils.checks.peers import CONSTANT_RATE
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.rules.path_mtu import (
    address_of_gid,
    hca_facts,
    netdev_facts,
    port_facts,
    roce_gid_index,
)
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

Nodes = Mapping[str, Mapping[str, Any]]
CLUSTER = "cluster"


def judge_cluster(nodes: Nodes, missing: Sequence[str]) -> list[Verdict]:
    """Agreement among the judged nodes; ``missing`` names the nodes of the inventory that gave no facts."""
    verdicts = [
        verdict("cluster.node", VerdictSubject(name, None, None, name), "unknown", "an answer", None,
                "no facts from this node: nothing about it was judged")
        for name in sorted(missing)]
    if len(nodes) < 2:
        why = f"{len(nodes)} node answered: nothing to compare"
        return [*verdicts, verdict("cluster.agreement", VerdictSubject("", None, None, CLUSTER), "skipped", None, len(nodes), why)]
    for subject, alike in sorted(_alike(nodes).items()):
        verdicts.extend(agree("cluster.stack", subject, _each(alike, _stack), "RDMA stack"))
        verdicts.extend(agree("cluster.kernel", subject, _each(alike, _kernel), "kernel", same_kernel_line))
        with_gpus = {node: view for node, view in alike.items() if view["facts"].get("gpus")}
        if with_gpus:
            verdicts.extend(agree("cluster.gpu_driver", subject, _each(with_gpus, _gpu_driver), "GPU driver"))
    verdicts.extend(_rails(nodes))
    verdicts.extend(judge_modes(nodes))
    verdicts.extend(duplicates("cluster.node_guid", "node GUID", {name: _node_guids(view) for name, view in nodes.items()}))
    verdicts.extend(duplicates("cluster.address", "address", {name: _addresses(view) for name, view in nodes.items()}))
    return verdicts


def _alike(nodes: Nodes) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Nodes by the stack that the inventory wants on them: only those that it calls equal must be equal."""
    groups: dict[str, dict[str, Mapping[str, Any]]] = {}
    for node, view in nodes.items():
        groups.setdefault(str(view.get("stack") or ""), {})[node] = view
    if len(groups) == 1:
        return {CLUSTER: dict(nodes)}
    return {"nodes with %s" % (stack or "an unknown stack"): alike for stack, alike in groups.items()}


def _rails(nodes: Nodes) -> list[Verdict]:
    """Per rail: every node that has it must have it alike. What differs on several rails of a node in one way is said once."""
    verdicts: list[Verdict] = []
    for name in dict.fromkeys(rail["name"] for view in nodes.values() for rail in view.get("rails") or []):
        having = {node: _rail_of(view, name) for node, view in nodes.items()}
        present = {node: rail for node, rail in having.items() if rail is not None}
        for check, what, read in RAIL_FACTS:
            values = {node: read(nodes[node]["facts"], rail) for node, rail in present.items()}
            verdicts.extend(agree(check, name, values, what))
    return _once(verdicts)


def _once(verdicts: list[Verdict]) -> list[Verdict]:
    """Of HCAs: eight rails with the same other firmware are one finding."""
    subjects = grouped((_finding(item), item.subject) for item in verdicts)
    kept: list[Verdict] = []
    for item in verdicts:
        rails = subjects.pop(_finding(item), None)
        if rails is not None:
            kept.append(item._replace(subject=", ".join(rails)))
    return kept


def _finding(item: Verdict) -> tuple[Any, ...]:
    """Equal for verdicts that say the same; every other one is its own."""
    if item.check in OF_HCAS and item.status in ("fail", "warn"):
        return item.check, item.node, item.status, item.expected, item.found
    return item.check, item.node, item.status, item.subject


def agree(
    check: str, subject: str, values: Mapping[str, Any], what: str, near: Callable[[Any, Any], bool] | None = None
) -> list[Verdict]:
    """One pass when all are equal, one verdict per odd node against a majority, one for all without a majority."""
    where = VerdictSubject("", None, None, subject)
    known = {node: value for node, value in values.items() if value is not None}
    if not known:  # Soft-RoCE has no firmware: nothing to compare is not the same as one node that keeps silent
        return [verdict(check, where, "skipped", None, None, f"no node tells: {what}")]
    verdicts = [
        verdict(check, VerdictSubject(node, None, None, subject), "unknown", None, None, f"{what} cannot be read on this node")
        for node in sorted(values) if values[node] is None]
    if len(known) < 2:
        if not verdicts:
            verdicts.append(verdict(check, where, "skipped", None, None, "one node has it: nothing to compare"))
        return verdicts
    counts = Counter(str(value) for value in known.values()).most_common()
    if len(counts) == 1:
        return [*verdicts, verdict(check, where, "pass", counts[0][0], counts[0][0], f"{what} is the same on {len(known)} nodes")]
    camps = "; ".join(f"{text} on {', '.join(sorted(node for node in known if str(known[node]) == text))}" for text, _count in counts)
    if counts[0][1] * 2 <= len(known):
        harmless = near is not None and all(near(counts[0][0], text) for text, _count in counts)
        status = "warn" if harmless else "fail"
        return [*verdicts, verdict(check, where, status, f"one {what}", camps, f"{what} differs: {camps}")]
    major = counts[0][0]
    for node in sorted(known):
        text = str(known[node])
        if text != major:
            status = "warn" if near is not None and near(major, text) else "fail"
            verdicts.append(verdict(check, VerdictSubject(node, None, None, subject), status, major, text,
                                    f"{what} is {text} here and {major} on {counts[0][1]} of {len(known)} nodes"))
    return verdicts


def same_kernel_line(one: Any, other: Any) -> bool:
    """5.15.0-91-generic and 5.15.0-94-generic differ in the patch only; 5.15 and 6.1 do not."""
    return kernel_line(str(one)) is not None and kernel_line(str(one)) == kernel_line(str(other))


def kernel_line(release: str) -> tuple[str, str] | None:
    match = re.match(r"(\d{1,18})\.(\d{1,18})", release)
    return (match.group(1), match.group(2)) if match else None


def duplicates(check: str, what: str, values: Mapping[str, Sequence[str]]) -> list[Verdict]:
    """What must exist once in a fabric."""
    owners = grouped((value, node) for node in sorted(values) for value in sorted(set(values[node])))
    verdicts = [
        verdict(check, VerdictSubject("", None, None, value), "fail", "one node", ", ".join(nodes),
                f"{what} {value} is on {' and '.join(nodes)}")
        for value, nodes in sorted(owners.items()) if len(nodes) > 1]
    if verdicts or not owners:
        return verdicts
    where = VerdictSubject("", None, None, CLUSTER)
    return [verdict(check, where, "pass", "no duplicate", "no duplicate", f"{len(owners)} values, each on one node")]


def _each(nodes: Nodes, read: Callable[[Mapping[str, Any]], Any]) -> dict[str, Any]:
    return {node: read(view["facts"]) for node, view in nodes.items()}


def _stack(facts: Mapping[str, Any]) -> str | None:
    stack = facts.get("stack")
    if not stack or not stack.get("name"):
        return None
    return " ".join(str(stack[key]) for key in ("name", "version") if stack.get(key))


def _kernel(facts: Mapping[str, Any]) -> str | None:
    kernel = facts.get("kernel")
    return str(kernel) if kernel else None


def _gpu_driver(facts: Mapping[str, Any]) -> str | None:
    driver = facts.get("gpu_driver") or {}
    return " ".join(str(driver[key]) for key in ("version", "flavour") if driver.get(key)) or "none"


def _rail_of(view: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return next((rail for rail in view.get("rails") or [] if rail["name"] == name and rail["hca"] is not None), None)


def _of_port(key: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Any]:
    return lambda facts, rail: (port_facts(facts, rail["hca"], rail["port"]) or {}).get(key)


def _netdev_mtu(facts: Mapping[str, Any], rail: Mapping[str, Any]) -> Any:
    if not rail["gid_needed"] and rail["address"] is None:
        return None  # InfiniBand without IP: the interface is nobody's business
    return netdev_facts(facts, rail["netdev"]).get("mtu")


def _gid_type(facts: Mapping[str, Any], rail: Mapping[str, Any]) -> str | None:
    """Whether this node offers the rail's address as a RoCE v2 GID; on InfiniBand there is one kind only."""
    port = port_facts(facts, rail["hca"], rail["port"])
    if port is None or port.get("gids") is None:
        return None
    if not rail["gid_needed"]:
        return "port GID" if port["gids"] else "none"
    if rail["address"] is None:
        return None
    return "RoCE v2" if roce_gid_index(port, rail["address"]) is not None else "none"


def _hca_type(facts: Mapping[str, Any], rail: Mapping[str, Any]) -> str | None:
    """The HCA's generation: its type where the driver tells one (mlx5), else the PCI vendor and device."""
    hca = hca_facts(facts, rail["hca"]) or {}
    if hca.get("hca_type"):
        return str(hca["hca_type"])
    if hca.get("vendor_id") and hca.get("device_id"):
        return f"{hca['vendor_id']}:{hca['device_id']}"
    return str(hca["driver"]) if hca.get("driver") else None


def _rate(facts: Mapping[str, Any], rail: Mapping[str, Any]) -> Any:
    """None for a driver that reports a constant: it is no evidence of a link."""
    if (hca_facts(facts, rail["hca"]) or {}).get("driver") in CONSTANT_RATE:
        return None
    return _of_port("rate_gbps")(facts, rail)


OF_HCAS = ("cluster.hca_type", "cluster.fw_ver")
RAIL_FACTS = (
    ("cluster.mtu", "netdev MTU", _netdev_mtu),
    ("cluster.active_mtu", "active_mtu", _of_port("active_mtu")),
    ("cluster.rate", "rate in Gb/s", _rate),
    ("cluster.link_layer", "link layer", _of_port("link_layer")),
    ("cluster.hca_type", "HCA type", _hca_type),
    ("cluster.fw_ver", "firmware", lambda facts, rail: (hca_facts(facts, rail["hca"]) or {}).get("fw_ver")),
    ("cluster.gid", "GID type", _gid_type),
)


def _node_guids(view: Mapping[str, Any]) -> list[str]:
    guids = [hca.get("node_guid") for hca in view["facts"].get("hcas") or []]
    return [guid for guid in guids if guid and guid.strip("0:")]  # all zero: a VF without a GUID yet, no identity


def _addresses(view: Mapping[str, Any]) -> list[str]:
    """Addresses in the GID tables of the rails, and the ones that the inventory gives the rails."""
    found = [rail["address"] for rail in view.get("rails") or [] if rail["address"]]
    for rail in view.get("rails") or []:
        port = port_facts(view["facts"], rail["hca"], rail["port"]) or {}
        if rail["gid_needed"]:
            found.extend(address_of_gid(entry.get("gid")) for entry in port.get("gids") or [])
    return [address for address in found if address]
