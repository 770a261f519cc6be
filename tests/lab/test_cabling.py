# SPDX-License-Identifier: GPL-3.0-or-later
"""Three machines with two rails, what each leaf says out of its ports by LLDP: cables that are moved are named until they are put right.

A leaf is a bridge of the lab's namespace and an lldpd that speaks out of its ports. To move a cable is to give its far end another
port's name and bridge. Nodes have no lldpd: they listen. The tests are one story and run in this order.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import harness
from lab_images import FABRIC
from lab_machine import Machine, Outcome
from railwright import lab
from railwright.lab.net import namespace
from railwright.lab.state import LabPaths

ROOT = Path(__file__).resolve().parents[2]
NODES, RAILS = 3, 2
INTERVAL, LISTEN = 5, 15  # seconds
SITE: dict[str, Any] = {"rdma_fabric": "roce", "rdma_stack": "soft_roce", "rdma_mtu": 9000}
PLAN = {f"rail{rail}": {"switch": f"leaf{rail}", "port": f"n{{{{ inventory_hostname[4:] }}}}r{rail}"} for rail in range(RAILS)}
LEAF = """set -eu
mkdir -p /run/leaf{rail}
systemd-run --quiet --unit=leaf{rail} lldpd -d -O /dev/null -S 'stand-in' -I 'n*r{rail}' -u /run/leaf{rail}/socket
for second in $(seq 50); do lldpcli -u /run/leaf{rail}/socket show configuration >/dev/null 2>&1 && break; sleep 0.1; done
lldpcli -u /run/leaf{rail}/socket configure system hostname leaf{rail}
lldpcli -u /run/leaf{rail}/socket configure lldp portidsubtype ifname
lldpcli -u /run/leaf{rail}/socket configure lldp tx-interval {interval}
"""


class Site:
    """The machines, and the patch panel."""

    def __init__(self, state_dir: Path) -> None:
        self.machine = Machine(state_dir)
        self.nodes = [Machine(state_dir, f"node{number + 1}") for number in range(NODES)]
        self.namespace = namespace(LabPaths.of(state_dir))

    def swap(self, one: str, other: str) -> None:
        """Two cables change their ports, on one leaf or between two."""
        for old, new in ((one, "between"), (other, one), ("between", other)):
            self.ip("link", "set", old, "down")
            self.ip("link", "set", old, "name", new)
        for port in (one, other):
            self.ip("link", "set", port, "master", f"rail{port[-1]}", "up")

    def cabling(self, *options: str) -> Outcome:
        return self.machine.railwright("cabling", "--listen", str(LISTEN), *options)

    def wrong(self) -> dict[tuple[str, str], str]:
        run = self.cabling()
        bad = {(item["node"], item["subject"]): f"{item['status']}: {item['message']}"
               for item in run.document["verdicts"] if item["status"] != "pass"}  # fmt: skip
        assert run.code == (1 if bad else 0), (run.document, run.err)
        assert len(run.document["verdicts"]) == NODES * RAILS
        return bad

    def ip(self, *argv: str) -> None:
        subprocess.run(("ip", "-n", self.namespace, *argv), check=True, capture_output=True)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    state_dir = ROOT / "build" / "lab" / "test_cabling"
    lab.down(state_dir=state_dir)
    lab.up(NODES, state_dir=state_dir, progress=lambda line: print(line, flush=True), recipe=FABRIC, rails=RAILS)
    switches = None
    try:
        made = Site(state_dir)
        own = harness.build(("lldpd",))
        switches = harness.start(own, "railwright-lab-leaves", options=("--network", f"ns:/run/netns/{made.namespace}"))
        switches.run("systemctl", "disable", "--now", "lldpd.service")
        for rail in range(RAILS):
            switches.run("sh", "-c", LEAF.format(rail=rail, interval=INTERVAL))
        for node in made.nodes:
            node.sh("modprobe rdma_rxe; for rail in 0 1; do ip link set eth$((rail + 1)) up; "
                    "rdma link add rxe$rail type rxe netdev eth$((rail + 1)); done")
        made.machine.site(SITE)
        yield made
    finally:
        if switches is not None:
            switches.remove()
        lab.down(state_dir=state_dir)


def test_what_is_there_is_proposed_as_the_plan(site: Site, tmp_path: Path) -> None:
    run = site.cabling("-o", str(tmp_path / "plan.yml"))
    assert run.code == 0, run.err
    hosts = yaml.safe_load((tmp_path / "plan.yml").read_text())["all"]["hosts"]
    assert {node: row["rdma_cabling"] for node, row in hosts.items()} == {
        f"node{node}": {f"rail{rail}": {"switch": f"leaf{rail}", "port": f"n{node}r{rail}"} for rail in range(RAILS)}
        for node in range(1, NODES + 1)}  # fmt: skip


def test_each_rail_is_in_the_port_of_the_rule(site: Site) -> None:
    site.machine.site({**SITE, "rdma_cabling": PLAN})
    assert site.wrong() == {}


def test_two_cables_of_a_leaf_are_swapped_and_put_right(site: Site) -> None:
    site.swap("n1r1", "n3r1")
    assert site.wrong() == {
        (f"node{here}", "rail1"):
            f"fail: is in leaf1 n{there}r1, the plan says leaf1 n{here}r1; node{there} rail1 is there: the two are swapped"
        for here, there in ((1, 3), (3, 1))}  # fmt: skip
    site.swap("n1r1", "n3r1")
    assert site.wrong() == {}


def test_the_two_rails_of_a_node_are_crossed_and_put_right(site: Site) -> None:
    site.swap("n2r0", "n2r1")
    bad = site.wrong()
    assert set(bad) == {("node2", "rail0"), ("node2", "rail1")}
    assert bad["node2", "rail0"].startswith("fail: is in leaf1 n2r1, the plan says leaf0 n2r0"), bad
    site.swap("n2r0", "n2r1")
    assert site.wrong() == {}


def test_a_cable_that_is_pulled_is_not_passed(site: Site) -> None:
    site.ip("link", "set", "n3r0", "down")
    (bad,) = site.wrong().values()
    assert bad.startswith(("fail", "unknown")), bad
    site.ip("link", "set", "n3r0", "up")
    assert site.wrong() == {}
