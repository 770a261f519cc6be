# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails between real network stacks: what pings, routes, ARP and neighbour discovery say, and what is made of it.

The nodes are namespaces of this machine, see tests/lib/namespaces.py.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.ping_verdicts import probes
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.reach import judge_reach
from ansible_collections.railwright.rdma.plugins.plugin_utils.pings import holders, merged
from namespaces import DEV, MTU, Fabric

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes network namespaces"),
    pytest.mark.skipif(shutil.which("ping") is None or shutil.which("ip") is None, reason="needs iproute2 and iputils-ping"),
    pytest.mark.xdist_group("rails"),  # pings have a second, and namespaces are named by the process
]

MODULES = "ansible_collections.railwright.rdma.plugins.module_utils"
LOOK = f"""
from {MODULES}.host.host import Host
from {MODULES}.measure.ping import ping_probes
print(json.dumps(ping_probes(Host(), given["probes"], given["rails"], 1, 1)))
"""
NETDEVS = f"""
from {MODULES}.host.host import Host
from {MODULES}.observe.nics import observe_netdevs, observe_nics
print(json.dumps(observe_netdevs(Host(), observe_nics(Host()))))
"""
APART = ["10.10.0.{}/24", "10.10.1.{}/24"]
IPV6 = ["fd00:10::{}/64", "fd00:11::{}/64"]
FLAT = ["10.10.0.1{}/24", "10.10.0.2{}/24"]


@pytest.fixture
def ipv4() -> Iterator[Fabric]:
    with Fabric(3, APART) as fabric:
        yield fabric


@pytest.fixture(params=[("ipv4", APART), ("ipv6", IPV6)], ids=lambda param: param[0])
def three(request: pytest.FixtureRequest) -> Iterator[Fabric]:
    with Fabric(3, request.param[1]) as fabric:
        yield fabric


def view(fabric: Fabric, node: str) -> dict[str, Any]:
    """A node as rdma_check shows it: the rails of the inventory, and what the node's interfaces really are."""
    rails = [{"name": f"rail{at}", "label": f"rail{at} (eth{at + 1})", "address": fabric.cidr(node, at).split("/")[0], "mtu": MTU,
              "netdev": f"eth{at + 1}", "hca": None, "port": None, "gid_needed": True} for at in range(len(fabric.subnets))]
    return {"facts": {"netdevs": fabric.python(node, NETDEVS)}, "rails": rails}


def judged(fabric: Fabric) -> list[Verdict]:
    """All nodes inspect once, as they do under Ansible."""
    with ThreadPoolExecutor() as pool:
        views = dict(zip(fabric.nodes, pool.map(lambda node: view(fabric, node), fabric.nodes), strict=True))
        results = dict(zip(fabric.nodes, pool.map(lambda node: looked(fabric, node, views), fabric.nodes), strict=True))
    return judge_reach(views, results)


def looked(fabric: Fabric, node: str, views: dict[str, dict[str, Any]]) -> dict[str, Any]:
    rails = views[node]["rails"]
    wanted = probes(rails, {peer: views[peer]["rails"] for peer in fabric.nodes if peer != node})
    answer = fabric.python(node, LOOK, {"probes": wanted, "rails": rails})
    pings = merged(wanted, answer["pings"])
    assert pings is not None
    return {"pings": pings, "rails": holders(rails, answer["rails"])}


def failed(verdicts: Sequence[Verdict]) -> list[tuple[str, str, str]]:
    return [(item.check, item.node, item.subject) for item in verdicts if item.status == "fail"]


def statuses(verdicts: Sequence[Verdict], check: str) -> set[str]:
    return {item.status for item in verdicts if item.check == check}


def test_rails_that_are_right_pass(three: Fabric) -> None:
    verdicts = judged(three)
    assert {item.status for item in verdicts} == {"pass"}
    assert [item.check for item in verdicts].count("ping.mtu") == 12
    assert {"rail.duplicate", "rail.route", "rail.swapped"} <= {item.check for item in verdicts}


def test_two_rails_swapped_on_one_node_are_exactly_one_finding(three: Fabric) -> None:
    """With the kernel's own ``arp_ignore``, 0; it is IPv4's alone."""
    swap_is_one_finding(three)


def test_a_swap_is_found_among_nodes_that_answer_sparingly(ipv4: Fabric) -> None:
    for node in ipv4.nodes:
        ipv4.sysctl(node, arp_ignore=2, arp_announce=2)
    swap_is_one_finding(ipv4)


def swap_is_one_finding(three: Fabric) -> None:
    three.swap("n2")
    verdicts = judged(three)
    assert failed(verdicts) == [("rail.swapped", "n2", "rail0 and rail1")]
    message = next(item.message for item in verdicts if item.check == "rail.swapped")
    assert message.startswith("rail0 (eth1) and rail1 (eth2) of n2 are swapped")
    pings = [item for item in verdicts if item.check == "ping.mtu" and item.status != "pass"]
    assert len(pings) == 8 and {item.status for item in pings} == {"unknown"}
    assert {item.message for item in pings} == {"not judged: rail0 and rail1 are swapped on n2 (rail.swapped)"}


def test_between_two_nodes_a_swap_blames_neither() -> None:
    with Fabric(2, APART) as fabric:
        fabric.swap("n2")
        verdicts = judged(fabric)
        assert failed(verdicts) == [("rail.swapped", "", "rail0 and rail1")]
        assert next(item.found for item in verdicts if item.check == "rail.swapped") == "crossed between n1 and n2"


def test_one_rail_on_anothers_network_is_named(three: Fabric) -> None:
    three.plug("n3", 0, 1)
    verdicts = judged(three)
    assert failed(verdicts) == [("rail.segment", "n3", "rail0 (eth1)")]
    assert "is cabled to rail1's network" in next(item.message for item in verdicts if item.check == "rail.segment")


def test_a_cable_that_is_out_is_no_swap(ipv4: Fabric) -> None:
    ipv4.ip("switches", "link", "set", "n3p1", "nomaster")
    verdicts = judged(ipv4)
    assert {check for check, _node, _subject in failed(verdicts)} == {"ping.mtu"}
    assert {item.subject for item in verdicts if item.status == "fail"} == {f"rail0 (eth1) to {node}" for node in ipv4.nodes}


def test_an_address_that_is_held_twice_names_the_other_holder(three: Fabric) -> None:
    """n2 has it besides its own: n3 tells."""
    three.ip("n2", "addr", "add", three.cidr("n3", 0), "dev", "eth1", *(("nodad",) if ":" in three.subnets[0] else ()))
    verdicts = [item for item in judged(three) if item.check == "rail.duplicate"]
    assert failed(verdicts) == [("rail.duplicate", "n3", "rail0 (eth1)")]
    assert next(item.found for item in verdicts if item.status == "fail") == f"{three.mac('n2', 0)} (rail0 of n2)"
    assert next(item.message for item in verdicts if item.status == "fail").startswith(
        f"address {three.cidr('n3', 0).split('/')[0]} of rail0 is also held by another device on eth1")


def test_the_kernels_own_detection_is_believed() -> None:
    with Fabric(2, IPV6) as fabric:
        fabric.ip("n2", "addr", "del", fabric.cidr("n2", 0), "dev", "eth1")
        fabric.ip("n1", "addr", "add", fabric.cidr("n2", 0), "dev", "eth1", "nodad")
        fabric.ip("n2", "addr", "add", fabric.cidr("n2", 0), "dev", "eth1")
        wait = "for i in $(seq 50); do ip -6 addr show dev eth1 dadfailed | grep -q inet6 && exit; sleep 0.1; done; exit 1"
        fabric.run("n2", "sh", "-c", wait)
        verdicts = [item for item in judged(fabric) if item.check == "rail.duplicate"]
        assert [(item.node, item.found) for item in verdicts if item.status == "fail"] == [("n2", "dadfailed")]


def test_a_flat_subnet_needs_source_routing_to_use_the_right_rail() -> None:
    with Fabric(2, FLAT) as fabric:
        fabric.plug("n1", 1, 0)
        fabric.plug("n2", 1, 0)
        verdicts = judged(fabric)
        assert failed(verdicts) == [("rail.route", node, "rail1 (eth2)") for node in ("n1", "n2")]
        assert next(item.found for item in verdicts if item.status == "fail") == "by eth1"
        for node in fabric.nodes:
            fabric.sysctl(node, arp_ignore=2, arp_announce=2, rp_filter=2)
            for at in (0, 1):
                address = fabric.cidr(node, at).split("/")[0]
                fabric.ip(node, "route", "add", "10.10.0.0/24", "dev", f"eth{at + 1}", "table", str(47910 + at))
                fabric.ip(node, "rule", "add", "from", address, "lookup", str(47910 + at), "priority", "4791")
        for node in fabric.nodes:
            fabric.ip(node, "neigh", "flush", "all")  # learned while either interface answered for both addresses
        verdicts = judged(fabric)
        assert failed(verdicts) == []
        assert statuses(verdicts, "ping.mtu") == {"pass"}
        assert statuses(verdicts, "rail.swapped") == {"skipped"}


def test_a_smaller_mtu_on_the_way_is_named_on_its_rail(ipv4: Fabric) -> None:
    ipv4.ip("switches", "link", "set", "n2p2", "mtu", "1500")
    verdicts = judged(ipv4)
    assert {subject.split()[0] for _check, _node, subject in failed(verdicts)} == {"rail1"}
    assert {item.found for item in verdicts if item.status == "fail"} == {"1472 bytes"}


CONFLICTS = f"""
from {MODULES}.areas.network import network
from {MODULES}.host.host import Host
from {MODULES}.observe.identity import observe_identity
from {MODULES}.spec.model import Spec
desired = network.desired(Spec(given), observe_identity(Host()))
observed = network.observe(Host(), desired)
changes = [change.what for change in network.plan(desired, observed)]
print(json.dumps([[problem.message for problem in network.conflicts(desired, observed) if "held" in problem.message], changes]))
"""


def test_only_an_address_that_another_node_has_is_a_conflict(three: Fabric) -> None:
    address = three.cidr("n3", 0)
    rail = {"name": "rail0", "index": 0, "match": "mac", "value": three.mac("n3", 0), "address": address, "gateway": None, "mtu": MTU}
    values = {"fabric": "roce", "mtu": MTU, "rdma_stack": "inbox", "network_backend": "auto", "network_manage_addresses": True,
              "network_source_routing": "auto", "network_ipoib_mode": "datagram", "consent": [], "expect": {}, "rails": [rail]}
    three.ip("n3", "addr", "del", address, "dev", "eth1")
    problems, changes = three.python("n3", CONFLICTS, values)
    assert problems == [] and "address of rail0 (eth1)" in changes
    for ignore in (0, 2):
        three.sysctl("n2", arp_ignore=ignore)
        three.ip("n2", "addr", "replace", address, "dev", "eth1", *(("nodad",) if ":" in address else ()))
        problems, _changes = three.python("n3", CONFLICTS, values)
        assert [problem.partition("; ")[0] for problem in problems] == [
            f"address {address.split('/')[0]} of rail0 is already held by another device on eth1: MAC {three.mac('n2', 0)} answers for it"]
    three.ip("n3", "addr", "add", address, "dev", "eth1", *(("nodad",) if ":" in address else ()))
    assert three.python("n3", CONFLICTS, values)[0] == [], "it is there already: rail.duplicate of validate judges that"


PLAY = """
- hosts: rdma
  gather_facts: false
  tasks:
    - name: Validate and keep what was judged
      block:
        - ansible.builtin.include_role: {name: railwright.rdma.validate}
      always:
        - ansible.builtin.copy: {content: "{{ __validate_cluster | to_json }}", dest: "{{ result_file }}", mode: "0600"}
          run_once: true
"""


def test_the_role_validate_finds_a_swap_from_plain_ansible(ipv4: Fabric, tmp_path: Path) -> None:
    """Every module runs inside its node, by an interpreter that enters the namespace first. RDMA devices there are none."""
    ipv4.swap("n3")
    hosts = {}
    for node in ipv4.nodes:
        wrapper = tmp_path / node
        wrapper.write_text(f'#!/bin/sh\nexec ip netns exec {ipv4.name(node)} {sys.executable} "$@"\n')
        wrapper.chmod(0o755)
        rails = [{"name": f"rail{at}", "match": {"mac": ipv4.mac(node, at)}, "address": ipv4.cidr(node, at)} for at in (0, 1)]
        hosts[node] = {"ansible_connection": "local", "ansible_python_interpreter": str(wrapper), "rdma_rails": rails}
    keys = {"rdma_fabric": "roce", "rdma_mtu": MTU, "rdma_stack": "inbox", "validate_perftest": False,
            "result_file": str(tmp_path / "result.json")}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"vars": keys, "children": {"rdma": {"hosts": hosts}}}}))
    (tmp_path / "play.yml").write_text(PLAY)
    scratch = str(tmp_path / "tmp")
    environment = dict(os.environ, ANSIBLE_COLLECTIONS_PATH=DEV, ANSIBLE_LOCAL_TEMP=scratch, ANSIBLE_REMOTE_TEMP=scratch)
    playbook = str(Path(sys.executable).with_name("ansible-playbook"))
    done = subprocess.run((playbook, "-i", str(tmp_path / "hosts.json"), str(tmp_path / "play.yml")), check=False, capture_output=True,
                          text=True, cwd=tmp_path, env=environment)
    result = json.loads((tmp_path / "result.json").read_text())
    found = [(item["check"], item["node"]) for item in result["verdicts"] if item["status"] == "fail"]
    assert found == [("rail.swapped", "n3")], done.stdout[-3000:]
    assert "rail0: 2 of 6 pings between nodes came back at full MTU" in done.stdout
    assert result["reachability"]["rails"][1]["none"] == 4
