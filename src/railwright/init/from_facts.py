# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory out of what nodes have: what they say is taken as identifiers, addresses and numbers, and what was chosen is a guess.

A node says neither its own name nor a word of YAML: hosts are named as the operator typed them, identifiers and addresses have passed the
rules of ``rdma_rails``, and of the rest only numbers, and in comments names of devices, are written.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.stacks import VENDORS
from ansible_collections.railwright.rdma.plugins.module_utils.checks.peers import CONSTANT_RATE
from ansible_collections.railwright.rdma.plugins.module_utils.checks.rails import RAIL, linked_ports, roles_of
from ansible_collections.railwright.rdma.plugins.module_utils.checks.wishless import SOFTWARE
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import mapping, rows
from ansible_collections.railwright.rdma.plugins.module_utils.observe.accounts import ROOT
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import errors_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import Findings
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.rails import IdentifierError, check_rails, normalise
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec
from railwright.check import Host
from railwright.exitcodes import CommandError, InputError
from railwright.init import MTU, as_yaml, site_text
from railwright.inventory_index import is_host_name

MOST = 64  # rails of a node, and of an interface addresses that are tried
HEAD = """# Written by `railwright init --from-facts`: what the nodes had. Check each guess, then: railwright lint -i DIR
all:
  children:
    rdma:
      hosts:
"""
GUESS = "# guess: "
ROOTS = "  # jobs never run as root: bench needs rdma_job_user (group_vars/all/site.yml)"
Facts = Mapping[str, Any]


def expect_names(hosts: Sequence[Host]) -> None:
    """Before a node is asked. Raises InputError."""
    for host in hosts:
        if not is_host_name(host.address) or re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*", host.user or "_") is None:
            raise InputError(f"{host.name}: is no name for an inventory; allowed: [USER@]NAME of letters, digits, and . _ -, or an address")
    if twice := [name for name, count in Counter(host.address for host in hosts).items() if count > 1]:
        raise InputError(f"{twice[0]}: is named twice; allowed: each host once")


def files_from_facts(nodes: Mapping[Host, Facts], fabric: str | None) -> dict[str, str]:
    """Relative path: text. ``fabric``: None for the nodes' own. Raises CommandError for what is no node."""
    fabric = fabric or _fabric(nodes.values())
    rails = {host: _rails(host.name, facts, fabric) for host, facts in nodes.items()}
    mtu = _common(rail["mtu"] for found in rails.values() for rail in found)
    if any(finding.key == "rdma_mtu" for finding in errors_of(build_spec({"rdma_fabric": fabric, "rdma_mtu": mtu}, "")[1])):
        mtu = None
    seen = {"rdma_fabric": fabric, "rdma_mtu": mtu, "rdma_stack": _common(map(_stack, nodes.values())),
            "rdma_expect": _expected(nodes.values(), fabric)}
    rate = device_rate(nodes.values())
    text = HEAD + "".join(_host(host, nodes[host], rails[host], mtu or MTU[fabric]) for host in nodes)
    return {"hosts.yml": text, "group_vars/all/site.yml": site_text(fabric, {key: value for key, value in seen.items() if value}, rate)}


def _host(host: Host, facts: Facts, rails: list[dict[str, Any]], mtu: int) -> str:
    login = f"          ansible_user: {as_yaml(host.user)}" + (ROOTS if host.user == ROOT else "")
    lines = [f"        {as_yaml(host.address)}:"] + [login] * (host.user is not None)
    if not rails:
        lines.append(f"          rdma_rails: []  {GUESS}none, as no port has a link that could be one")
    else:
        lines.append(f"          rdma_rails:  {GUESS}each port with a link near a GPU (without one: each with a link)")
    for index, rail in enumerate(rails):
        lines += [f"            - name: rail{index}  # {rail['about']}", f"              match: {as_yaml(rail['match'])}"]
        if rail["address"] is not None:
            lines.append(f"              address: {as_yaml(rail['address'])}  {GUESS}the interface's first that a rail can have")
        if rail["mtu"] not in (mtu, None):
            lines.append(f"              mtu: {rail['mtu']}  {GUESS}as it is, where most have {mtu}")
    used = {rail["about"].partition(" ")[0] for rail in rails}
    if others := [name for hca in facts["hcas"][:MOST] if (name := _plain(hca["name"])) not in used]:
        lines.append(f"          # not rails (no link, another fabric, far from GPUs, or the node's management): {', '.join(others)}")
    return "\n".join(lines) + "\n"


def _rails(node: str, facts: Facts, fabric: str) -> list[dict[str, Any]]:
    netdevs = {item["name"]: item for item in facts["netdevs"]}
    layer = "InfiniBand" if fabric == "infiniband" else "Ethernet"
    found, roles = [], roles_of(facts)
    for hca, port in linked_ports(facts):
        netdev = netdevs.get(port["netdev"], {})
        away = netdev.get("management") and fabric != "erdma"  # there the one interface of an instance may be both
        away = away or roles[(hca["name"], port["number"])] != RAIL
        match = None if away or port["link_layer"] != layer else _match(hca, port, netdev)
        if match is not None:
            name, speed, mtu = _plain(port["netdev"]), port["rate_gbps"], port["netdev_mtu"]
            about = f"{_plain(hca['name'])} port {port['number']}, {name}, {speed if isinstance(speed, (int, float)) else '?'} Gb/s"
            found.append({"match": match, "address": _address(match, netdev.get("addresses") or []), "about": about,
                          "mtu": mtu if isinstance(mtu, int) and 1280 <= mtu <= 65520 else None})
    if len(found) > MOST:
        raise CommandError(f"{node}: has {len(found)} RDMA ports with a link; allowed: at most {MOST}")
    return sorted(found, key=lambda rail: (sorted(rail["match"]) != ["pci"], *rail["match"].values(), rail["about"]))


def _match(hca: Facts, port: Facts, netdev: Facts) -> dict[str, str] | None:
    """By the PCI address, where the device has no other port."""
    other = ("guid", port["port_guid"]) if port["link_layer"] == "InfiniBand" else ("mac", netdev.get("mac"))
    for kind, value in [("pci", hca["pci_address"])] * (len(hca["ports"]) == 1) + [other]:
        try:
            return {kind: normalise(kind, value)}
        except IdentifierError:
            continue
    return None


def _address(match: dict[str, str], addresses: Sequence[str]) -> str | None:
    """IPv4 before IPv6, as rdma_rails takes it."""
    for address in sorted(addresses[:MOST], key=lambda text: ":" in text):
        findings = Findings(None)
        rails = check_rails([{"name": "rail0", "match": match, "address": address}], None, findings)
        if not findings.items and rails[0]["address"] is not None:
            return str(rails[0]["address"])
    return None


def _fabric(nodes: Any) -> str:
    ports = [item for facts in nodes for item in linked_ports(facts)]
    if any(hca["driver"] == "erdma" for hca, _port in ports):
        return "erdma"
    return "infiniband" if any(port["link_layer"] == "InfiniBand" for _hca, port in ports) else "roce"


def _stack(facts: Facts) -> str:
    if {hca["driver"] for hca in facts["hcas"]} in ({driver} for driver in SOFTWARE):
        return "soft_roce"
    return next((name for name in VENDORS if name == facts["stack"]["name"]), "inbox")


def _expected(nodes: Any, fabric: str) -> dict[str, Any]:
    """What all nodes have alike. It is written as a comment: what a node has is not what it should have. See ``device_rate``."""
    layer = "InfiniBand" if fabric == "infiniband" else "Ethernet"
    rates = {port["rate_gbps"] for facts in nodes for _hca, port in linked_ports(facts) if port["link_layer"] == layer}
    counts = {key: {len(facts[key]) for facts in nodes} for key in ("hcas", "gpus")}
    alike = {key: found.pop() for key, found in {**counts, "rate_gbps": rates}.items() if len(found) == 1}
    return {key: value for key, value in alike.items() if value}


def device_rate(nodes: Iterable[Facts]) -> float | None:
    """The rate that every rail's NIC reports as its own maximum (Supported link modes), if they agree.

    No link, cable or switch can lower this expectation. None on InfiniBand, where no such report is readable without root, and for drivers
    whose sysfs rate is a constant.
    """
    ports = [(facts, hca, port) for facts in nodes for hca, port in linked_ports(facts)
             if roles_of(facts)[(hca["name"], port["number"])] == RAIL]
    if not ports or any(hca["driver"] in CONSTANT_RATE for _facts, hca, _port in ports):
        return None
    found = {_maximum(facts, hca["name"], port["number"]) for facts, hca, port in ports}
    return found.pop() if len(found) == 1 else None


def _maximum(facts: Facts, hca: str, number: int) -> float | None:
    ports = mapping(facts.get("health")).get("ports")
    own = (port.get("max_gbps") for port in rows(ports) if (port.get("hca"), port.get("port")) == (hca, number))
    return next((float(rate) for rate in own if isinstance(rate, (int, float)) and 0 < rate <= 10000), None)


def _common(values: Iterable[Any]) -> Any:
    counted = Counter(value for value in values if value is not None).most_common(1)
    return counted[0][0] if counted else None


def _plain(name: Any) -> str:
    """A device's name for a comment."""
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) else "?"
