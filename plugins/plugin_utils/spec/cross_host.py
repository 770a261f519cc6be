# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts of one site must agree on, and what no two of them may share. Pure."""

import contextlib
import ipaddress
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_address
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.rules.path_mtu import ROCE_OVERHEAD, path_mtu_for
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Rail, Spec

from .check_erdma import check_modes
from .findings import Findings, join_hosts
from .rails import network_of
from .schema import BY_NAME, KEYS

Places = list[tuple[str, Rail]]  # (host, rail) in the order of the hosts


def validate_site(specs: Mapping[str, Spec], reach: Mapping[str, str] | None = None) -> list[Finding]:
    """Findings over all hosts; each names the host whose line most probably is the wrong one. ``reach``: the address of each host."""
    findings = Findings(None)
    hosts = sorted(specs)
    kinds = {id(spec.like): spec for spec in specs.values()}  # what is no device and no address of a rail is asked of one host of a kind
    _agree(specs, hosts, kinds.values(), findings)
    for host in hosts:
        if not specs[host]["rails"]:
            findings.of(host).warning("rdma_rails", None, "the host has no rails; nothing is set up or measured on it",
                                      "a list of rails")
    _unique(specs, hosts, reach or {}, findings)
    _networks(specs, reach or {}, findings)
    forms: dict[str, set[Any]] = {}
    for spec in kinds.values():
        for rail in spec.rails:
            forms.setdefault(rail.name, set()).add((rail.mtu, rail.address and network_of(rail.address)))
    for name in sorted(name for name, found in forms.items() if len(found) > 1):
        places = [(host, rail) for host in hosts for rail in specs[host].rails if rail.name == name]
        _same_rail(name, places, specs[hosts[0]].fabric, findings)
    if len({_names(spec) for spec in kinds.values()} - {()}) > 1:
        _counts(specs, [host for host in hosts if specs[host].rails], findings)
    _cables(specs, hosts, findings)
    check_modes(specs, findings)
    _scheduler_names(specs, hosts, findings)
    return findings.items


def site_value(specs: Iterable[Spec], field: str) -> Any:
    """Return the value of a site-wide key. Lint refuses hosts that differ; should any get here, the smallest number counts, and never the
    first host's. Raises ValueError for other types that differ.
    """
    values = [spec[field] for spec in specs]
    if all(value == values[0] for value in values):
        return values[0]
    if all(isinstance(value, int | float) for value in values):
        return min(values)
    raise ValueError(f"{field} must be the same on all hosts")


def _cables(specs: Mapping[str, Spec], hosts: list[str], findings: Findings) -> None:
    """A port of a switch takes one cable."""
    taken: dict[tuple[str, str], tuple[str, str]] = {}
    for host in hosts:
        for rail, end in specs[host]["cabling"].items():
            place = end["switch"].lower(), end["port"].lower()
            name, other = taken.setdefault(place, (rail, host))
            if (name, other) != (rail, host):  # two functions of one NIC share a port
                findings.of(host).add("warning" if other == host else "error", f"rdma_cabling.{rail}", f"{end['switch']} {end['port']}",
                                      f"is where {name} of {other} is plugged too", "a port of its own for each rail")


def _names(spec: Spec) -> tuple[str, ...]:
    return tuple(sorted(rail.name for rail in spec.rails))


def _groups(pairs: list[tuple[str, Any]]) -> list[tuple[Any, list[str]]]:
    """Values with the hosts that have them, the most common first."""
    groups = grouped((value, host) for host, value in pairs)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), str(item[0])))


AGREE = (  # key, severity, why, and the key whose difference explains that of this one
    ("rdma_fabric", "error", "nodes of different fabrics cannot talk RDMA to each other", ""),
    ("rdma_mtu", "error", "frames larger than the smaller MTU are lost between them", "rdma_fabric"),
    ("rdma_stack", "warning", "nodes with different stacks fail in different ways", "rdma_fabric"),
    ("rdma_qos_profile", "error", "the switches' lossless priority fits one of them only", "rdma_fabric"),
    ("rdma_qos_custom", "error", "the switches' lossless priority fits one of them only", "rdma_qos_profile"),
    *((key.name, "error", "it holds for the whole site", "") for key in KEYS if key.site_wide),
)


def _agree(specs: Mapping[str, Spec], hosts: list[str], kinds: Collection[Spec], findings: Findings) -> None:
    explained: set[str] = set()
    for key, severity, why, cause in AGREE:
        if cause in explained:
            explained.add(key)
            continue
        field = BY_NAME[key].field
        if len({_one_word(spec[field]) for spec in kinds}) < 2:
            continue
        groups = _groups([(host, _one_word(specs[host][field])) for host in hosts])
        explained.add(key)
        for value, minority in groups[1:]:
            findings.of(minority[0]).add(severity, key, value, "is the value on %s, but %s is on %s; %s" % (
                join_hosts(minority), groups[0][0], join_hosts(groups[0][1]), why), "one value for all hosts")


def _one_word(value: Any) -> Any:
    """A mapping or a list as text: equal when it is equal, and short enough to be shown."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def _unique(specs: Mapping[str, Spec], hosts: list[str], reach: Mapping[str, str], findings: Findings) -> None:
    """Addresses, MACs and GUIDs exist once; PCI addresses repeat in every node of a kind."""
    rails = [rail for host in hosts for rail in specs[host]["rails"]]
    marks = [rail["address"].partition("/")[0] for rail in rails if rail["address"] is not None]
    marks += [rail["value"] for rail in rails if rail["match"] != "pci"]
    known = set(marks)
    if len(known) == len(marks) and known.isdisjoint(rail["gateway"] for rail in rails) and known.isdisjoint(reach.values()):
        return
    seen: dict[str, tuple[str, Rail]] = {}
    gateways: dict[str, tuple[str, Rail]] = {}
    for host in hosts:
        for rail in specs[host].rails:
            place = (host, rail)
            address = rail.address.partition("/")[0] if rail.address is not None else None
            for mark in (address, rail.value if rail.match != "pci" else None):
                other, other_rail = seen.setdefault(mark, place) if mark is not None else place
                if other != host:
                    key, value, words = ("address", rail.address, "address") if mark is address else (
                        f"match.{rail.match}", rail.value, rail.match.upper())
                    message = f"is the {words} of {other_rail.name} on {other} too"
                    findings.of(host).error(f"rdma_rails[{rail.index}].{key}", value, message, "one that no other host has")
            if rail.gateway is not None:
                gateways.setdefault(rail.gateway, (host, rail))
    _other_uses(seen, gateways, reach, findings)


def _other_uses(seen: Mapping[str, tuple[str, Rail]], gateways: Mapping[str, tuple[str, Rail]], reach: Mapping[str, str],
                findings: Findings) -> None:
    """An address of a rail is no gateway, and no way to a node."""
    for gateway, (host, rail) in gateways.items():
        if gateway in seen:
            other, other_rail = seen[gateway]
            findings.of(host).error(f"rdma_rails[{rail.index}].gateway", gateway, f"is the address of {other_rail.name} on {other}, which "
                                    "is a node and forwards nothing", "the router's address, or no gateway")
    for host, address in reach.items():
        if address not in seen:
            continue
        other, rail = seen[address]
        findings.of(other).add("warning" if other == host else "error", f"rdma_rails[{rail.index}].address", rail.address, (
            "is what the node itself is reached by (ansible_host): a change of this rail can cut it off" if other == host
            else f"is what {host} is reached by (ansible_host): two nodes would have it"), "an address that no node is reached by")


def _networks(specs: Mapping[str, Spec], reach: Mapping[str, str], findings: Findings) -> None:
    """What nodes are reached by is in no rail's network, as far as fabrics are separate, and a firewall's peers are the cluster's."""
    shared: dict[tuple[str, str], Places] = {}
    kinds: dict[int, dict[str, list[Rail]]] = {}  # the rails of a kind of host, by the length of their prefixes
    for host, spec in specs.items():
        address = reach.get(host, "")
        if id(spec.like) not in kinds:
            kinds[id(spec.like)] = {}
            for rail in spec.rails if spec.fabric != "erdma" else ():  # an ECS instance's one interface may be both
                kinds[id(spec.like)].setdefault((rail.address or "").partition("/")[2], []).append(rail)
        for length, likes in kinds[id(spec.like)].items():
            network = _network_at(address, length) if length and (address[:1].isdigit() or ":" in address) else ""
            for like in [like for like in likes if network and network == network_of(str(like.address))]:
                rail = spec.rail(like.name)
                if str(rail.address).partition("/")[0] != address:
                    shared.setdefault((rail.name, network), []).append((host, rail))
        if spec["firewall_manage"] and spec["firewall_peers"]:
            _peers(spec, [address, *((rail.address or "").partition("/")[0] for rail in spec.rails)], findings.of(host))
    for (name, network), places in shared.items():
        host, rail = places[0]
        who = join_hosts([each for each, _rail in places])
        findings.of(host).warning(f"rdma_rails[{rail.index}].address", rail.address, f"{name} is in {network}, and so is "
                                  f"ansible_host of {who}: of two interfaces in one network either may answer for the other",
                                  "a network of the rail's own")


def _peers(spec: Spec, known: list[str], findings: Findings) -> None:
    peers = [ipaddress.ip_network(peer, strict=False) for peer in spec["firewall_peers"]]
    addresses = [ipaddress.ip_address(text) for text in (*known, *spec["ssh_mesh_addresses"]) if is_address(text)]
    if addresses and not any(address in peer for address in addresses for peer in peers):
        findings.warning("firewall_peers", spec["firewall_peers"], "has no address of this node: the other nodes would keep it out",
                         "networks that hold the nodes' addresses")


def _network_at(address: str, length: str) -> str:
    """Empty where the one is of the other family."""
    with contextlib.suppress(ValueError):
        return network_of(f"{address}/{length}")
    return ""


def _same_rail(name: str, places: Places, fabric: str, findings: Findings) -> None:
    """One rail is one network: the same subnet (or a gateway out of it) and one MTU."""
    addressed = [(host, rail) for host, rail in places if rail.address is not None]
    if not _families(name, addressed, findings):
        _subnets(name, addressed, findings)
    own = _groups([(host, rail.mtu) for host, rail in places])
    for mtu, minority in own[1:]:
        rail = dict(places)[minority[0]]
        if any(item.key in ("rdma_mtu", "rdma_fabric") for item in findings.items):
            break  # said already, for all rails at once
        findings.of(minority[0]).error(f"rdma_rails[{rail.index}].mtu", mtu, "%s has this MTU on %s, but %d on %s%s" % (
            name, join_hosts(minority), own[0][0], join_hosts(own[0][1]), _path_mtus(mtu, own[0][0], fabric)), "one MTU for a rail")


def _families(name: str, addressed: Places, findings: Findings) -> bool:
    """Whether the rail is IPv4 here and IPv6 there, which no gateway fixes."""
    groups = _groups([(host, "IPv6" if ":" in (rail.address or "") else "IPv4") for host, rail in addressed])
    for family, minority in groups[1:]:
        rail = dict(addressed)[minority[0]]
        message = f"{name} has an {family} address on {join_hosts(minority)}, but {groups[0][0]} on {join_hosts(groups[0][1])}"
        findings.of(minority[0]).error(f"rdma_rails[{rail.index}].address", rail.address, message, "one address family for a rail")
    return len(groups) > 1


def _subnets(name: str, addressed: Places, findings: Findings) -> None:
    """A rail in several subnets needs a gateway on every node of it: the way back is a way too."""
    groups = _groups([(host, network_of(rail.address or "")) for host, rail in addressed])
    rails = dict(addressed) if len(groups) > 1 else {}
    for number, (subnet, hosts) in enumerate(groups if rails else []):
        without = [host for host in hosts if rails[host].gateway is None]
        if not without or (number == 0 and any(rails[host].gateway is None for _subnet, others in groups[1:] for host in others)):
            continue  # the most common subnet is the right one, as long as the others have not even a gateway
        other, others = groups[0] if number else groups[1]
        rail = rails[without[0]]
        message = f"{name} is in {subnet} on {join_hosts(without)}, but in {other} on {join_hosts(others)}, and has no gateway"
        findings.of(without[0]).error(f"rdma_rails[{rail.index}].address", rail.address, message,
                                      f"an address in {other}, or a gateway")


def _path_mtus(mtu: int, other: int, fabric: str) -> str:
    """What RDMA makes of two MTUs. On InfiniBand nothing: there the partition decides, and the MTU is IPoIB's."""
    here, there = path_mtu_for(mtu), path_mtu_for(other)
    if here == there or fabric == "infiniband":
        return f"; frames larger than {min(mtu, other)} bytes are lost"
    words = [f"{size} - {ROCE_OVERHEAD} = {size - ROCE_OVERHEAD} holds RDMA packets of {path}" for size, path in (
        (mtu, here), (other, there))]
    return f": {', '.join(words)}"


def _counts(specs: Mapping[str, Spec], hosts: list[str], findings: Findings) -> None:
    groups = _groups([(host, _names(specs[host])) for host in hosts])
    for names, minority in groups[1:]:
        findings.of(minority[0]).warning("rdma_rails", ", ".join(names), "are the rails of %s, but %s: %s" % (
            join_hosts(minority), join_hosts(groups[0][1]), ", ".join(groups[0][0])), "the same rails on every host")


def _scheduler_names(specs: Mapping[str, Spec], hosts: list[str], findings: Findings) -> None:
    """No two nodes are one node to the scheduler."""
    names: dict[str, str] = {}
    for host in hosts:
        name = specs[host]["upgrade_node_name"] or host
        if name in names and specs[host]["upgrade_scheduler"] != "none":
            findings.of(host).error("upgrade_node_name", name, f"is the name of {names[name]} at the scheduler too: draining one would "
                                    "upgrade the other under its jobs", "a name of its own for each host")
        names.setdefault(name, host)
