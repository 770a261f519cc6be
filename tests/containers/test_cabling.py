# SPDX-License-Identifier: GPL-3.0-or-later
"""Cables that are moved between real switches' words: lldpd on each leaf, and an InfiniBand fat tree of ibsim's with 64 hosts.

Ethernet: nodes and leaves are network namespaces, a cable is a veth pair whose far end goes from port to port, as a hand moves it. Half of
the nodes have lldpd, the others listen. InfiniBand: ibsim's switches answer, smpquery asks. A container has no RDMA device, so the
list of HCAs is the test's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

import harness
from ansible_collections.railwright.rdma.plugins.module_utils.areas.network.lldp import FILE, text_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import Cable, End, cables_of, judge_cabling, oddities
from harness import Container
from node_trees import ROOT

PACKAGES = ("lldpd", "infiniband-diags", "ibsim-utils", "libumad2sim0")
LEAVES, NODES = 2, 4
LISTEN = 6
INTERVAL = 2  # seconds between two words of a switch
SIMULATED = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
# Of a node: its HCAs, and what of them is asked. LD_PRELOAD would load the simulation into Python too.
ASK = """
import json, os, sys
sys.path.insert(0, "/opt/source/.dev")
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.neighbours import observe_neighbours
found = {}
for node, hcas, environment in json.loads(sys.argv[1]):
    os.environ.update(environment)
    found[node] = observe_neighbours(Host(), hcas, float(sys.argv[2]))
print(json.dumps(found))
"""
SPEAK = """set -eu
ip netns add {name}
mkdir -p /run/{name}
systemd-run --quiet --unit=lldpd-{name} ip netns exec {name} lldpd -d {options} -u /run/{name}/socket
for second in $(seq 50); do lldpcli -u /run/{name}/socket show configuration >/dev/null 2>&1 && break; sleep 0.1; done
"""
SWITCH = """
lldpcli -u /run/{name}/socket configure system hostname {name}
lldpcli -u /run/{name}/socket configure lldp portidsubtype ifname
lldpcli -u /run/{name}/socket configure lldp tx-interval {interval}
"""


def hca(name: str, netdev: str | None) -> dict[str, Any]:
    layer = "InfiniBand" if netdev is None else "Ethernet"
    return {"name": name, "ports": [{"number": 1, "state": "ACTIVE", "link_layer": layer, "netdev": netdev}]}


def rail(number: int, name: str) -> dict[str, Any]:
    return {"name": f"rail{number}", "hca": name, "port": 1}


@pytest.fixture(scope="module")
def site() -> Iterator[Container]:
    container = harness.start(harness.build(PACKAGES), "railwright-cabling", options=("-v", f"{ROOT}:/opt/source:ro"))
    try:
        yield container
    finally:
        container.remove()


class Leaves:
    """Rail N of node M is in port swpM of leaf N."""

    def __init__(self, site: Container) -> None:
        self.site = site
        site.run("systemctl", "disable", "--now", "lldpd.service")
        site.write(FILE, text_of(tuple(f"r{number}" for number in range(LEAVES))))
        for leaf in range(LEAVES):
            own = {"name": f"leaf{leaf}", "options": "-O /dev/null -S stand-in -I 'swp*'", "interval": INTERVAL}
            site.run("sh", "-c", (SPEAK + SWITCH).format(**own))
        for node in range(NODES):
            site.run("sh", "-c", SPEAK.format(name=f"node{node}", options="") if node % 2 else f"ip netns add node{node}")
            for number in range(LEAVES):
                site.run("sh", "-c", f"ip link add r{number} netns node{node} type veth peer name swp{node} netns leaf{number} && "
                         f"ip netns exec node{node} ip link set r{number} up && ip netns exec leaf{number} ip link set swp{node} up")

    def cables(self) -> dict[str, dict[str, Cable]]:
        return {f"node{node}": self._of(node) for node in range(NODES)}

    def _of(self, node: int) -> dict[str, Cable]:
        """lldpctl asks the one socket that a machine has: here the node's own, or none."""
        hcas = [hca(f"mlx5_{number}", f"r{number}") for number in range(LEAVES)]
        own = f"mount --bind /run/node{node}/socket /run/lldpd.socket && " if node % 2 else ""
        question = json.dumps([[f"node{node}", hcas, {}]])
        script = f'touch /run/lldpd.socket; {own}exec /usr/bin/python3 -c "$1" "$2" {LISTEN}'
        out = self.site.out("ip", "netns", "exec", f"node{node}", "unshare", "--mount", "sh", "-c", script, "sh", ASK, question)
        return cables_of([rail(number, f"mlx5_{number}") for number in range(LEAVES)], json.loads(out)[f"node{node}"])

    def swap(self, one: int, other: int, leaf: int) -> None:
        """Two cables of one leaf change their ports."""
        names = {f"swp{one}": f"swp{other}", f"swp{other}": f"swp{one}"}
        down = [f"ip link set {name} down && ip link set {name} name x{name}" for name in names]
        up = [f"ip link set x{name} name {new} && ip link set {new} up" for name, new in names.items()]
        self.site.run("ip", "netns", "exec", f"leaf{leaf}", "sh", "-c", " && ".join(down + up))
        time.sleep(5 * INTERVAL)  # until what it said out of its old ports is over: four intervals


@pytest.fixture(scope="module")
def leaves(site: Container) -> Leaves:
    return Leaves(site)


ETHERNET = {f"node{node}": {f"rail{leaf}": End(f"leaf{leaf}", f"swp{node}") for leaf in range(LEAVES)} for node in range(NODES)}


def wrong(plan: dict[str, dict[str, End]], cables: dict[str, dict[str, Cable]]) -> dict[tuple[str, str], str]:
    return {(item.node, item.subject): f"{item.status}: {item.message}" for item in judge_cabling(plan, cables) if item.status != "pass"}


def test_lldpd_and_our_own_ears_agree_with_the_plan(leaves: Leaves) -> None:
    assert wrong(ETHERNET, leaves.cables()) == {}


@pytest.mark.parametrize("pair", [(0, 2), (1, 3), (0, 1)])
def test_swapped_cables_are_named_and_quiet_when_put_right(leaves: Leaves, pair: tuple[int, int]) -> None:
    """Between two that listen, two with lldpd, one of each."""
    one, other = pair
    leaves.swap(one, other, 1)
    assert wrong(ETHERNET, leaves.cables()) == {
        (f"node{here}", "rail1"):
            f"fail: is in leaf1 swp{there}, the plan says leaf1 swp{here}; node{there} rail1 is there: the two are swapped"
        for here, there in (pair, pair[::-1])}  # fmt: skip
    leaves.swap(one, other, 1)
    assert wrong(ETHERNET, leaves.cables()) == {}


def test_our_lldpd_hears_the_rails_alone_and_says_nothing(leaves: Leaves) -> None:
    """By the file of area lldp; an interface more would be there."""
    leaves.site.run("sh", "-c", "ip -n node1 link add other type veth peer name there && ip -n node1 link set other up && sleep 3")
    told = leaves.site.json("lldpcli", "-u", "/run/node1/socket", "-f", "json0", "show", "interfaces")
    assert {row["name"] for top in told["lldp"] for row in top["interface"]} == {"r0", "r1"}
    for leaf in range(LEAVES):
        assert "node1" not in leaves.site.out("lldpctl", "-u", f"/run/leaf{leaf}/socket")
        assert "rx" in leaves.site.out("lldpcli", "-u", "/run/node1/socket", "show", "interfaces").lower()


def test_a_switch_that_is_silent_is_unknown(leaves: Leaves) -> None:
    leaves.site.run("lldpcli", "-u", "/run/leaf0/socket", "configure", "ports", "swp0", "lldp", "status", "disabled")
    assert wrong(ETHERNET, leaves.cables()) == {("node0", "rail0"): f"unknown: the plan has it in leaf0 swp0: no LLDP in {LISTEN} s on r0"}


HOSTS, PER_LEAF, SPINES = 64, 8, 4


class Tree:
    """64 hosts on eight leaves, four spines above; twelve switches. ibsim reads its net once, so a changed cable begins it anew."""

    def __init__(self, site: Container) -> None:
        self.site = site
        self.places = {f"node{at}": (f"leaf{at // PER_LEAF}", at % PER_LEAF + 1) for at in range(HOSTS)}
        site.run("mv", "/usr/sbin/smpquery", "/usr/sbin/real-smpquery")
        site.write("/usr/sbin/smpquery", f'#!/bin/sh\nLD_PRELOAD={SIMULATED} exec /usr/sbin/real-smpquery "$@"\n', "0755")

    def begin(self, missing: str = "") -> None:
        ports: dict[str, list[str]] = {}
        hosts = []
        for node, (leaf, port) in self.places.items():
            if node != missing:
                ports.setdefault(leaf, []).append(f'[{port}] "{node}"[1]')
                hosts.append(f'Hca 1 "{node}"\n[1] "{leaf}"[{port}]\n')
            else:
                hosts.append(f'Hca 1 "{node}"\n')
        for leaf in range(HOSTS // PER_LEAF):
            for spine in range(SPINES):
                ports.setdefault(f"leaf{leaf}", []).append(f'[{PER_LEAF + 1 + spine}] "spine{spine}"[{leaf + 1}]')
                ports.setdefault(f"spine{spine}", []).append(f'[{leaf + 1}] "leaf{leaf}"[{PER_LEAF + 1 + spine}]')
        switches = [f'Switch 16 "{name}"\n' + "\n".join(lines) + "\n" for name, lines in ports.items()]
        self.site.write("/etc/fabric.net", "\n".join([*switches, *hosts]))
        self.site.run("sh", "-c", "systemctl stop fabric.service 2>/dev/null; systemd-run --unit=fabric ibsim -s -n /etc/fabric.net;"
                      f"for n in $(seq 50); do SIM_HOST=node0 LD_PRELOAD={SIMULATED} ibstat -l 2>/dev/null | grep -q ibsim && exit 0;"
                      "sleep 0.2; done; exit 1")

    def cables(self) -> dict[str, dict[str, Cable]]:
        questions = [[node, [hca("ibsim0", None)], {"SIM_HOST": node}] for node in self.places]
        told = json.loads(self.site.out("python3", "-c", ASK, json.dumps(questions), "0"))
        return {node: cables_of([rail(0, "ibsim0")], rows) for node, rows in told.items()}


def test_an_infiniband_tree_says_where_each_of_64_hosts_is(site: Container) -> None:
    tree = Tree(site)
    plan = {node: {"rail0": End(leaf, str(port))} for node, (leaf, port) in tree.places.items()}
    tree.begin()
    assert wrong(plan, tree.cables()) == {}
    tree.places["node7"], tree.places["node20"] = tree.places["node20"], tree.places["node7"]
    tree.begin(missing="node33")
    found = wrong(plan, tree.cables())
    assert found["node7", "rail0"] == "fail: is in leaf2 5, the plan says leaf0 8; node20 rail0 is there: the two are swapped"
    assert found["node33", "rail0"].startswith("unknown: the plan has it in leaf4 2: smpquery")
    assert set(found) == {("node7", "rail0"), ("node20", "rail0"), ("node33", "rail0")}
    assert oddities(tree.cables()) == [], "every host has one rail: nothing is like another"
    tree.places["node7"], tree.places["node20"] = tree.places["node20"], tree.places["node7"]
    tree.begin()
    assert wrong(plan, tree.cables()) == {}
