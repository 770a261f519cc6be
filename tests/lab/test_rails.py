# SPDX-License-Identifier: GPL-3.0-or-later
"""Two machines with two rails each: traffic stays on its rail by source routing, and rails that are swapped on one node are called so.

Each rail is a wire of its own between the machines, so that what leaves by the wrong one never arrives. What went over which
is counted by the interfaces, not by railwright. The tests are one story and run in this order.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab_images import FABRIC
from lab_machine import Machine
from railwright import lab

RECIPE = FABRIC
HARDWARE = lab.Hardware()
RAILS = 2
SITE = {
    "rdma_fabric": "roce",
    "rdma_stack": "soft_roce",
    "rdma_mtu": 9000,
    "rdma_consent": ["link", "restart"],
    "rdma_confirm_timeout_s": 600,  # two emulated machines on two cores are slow to answer, and nothing here is to be reverted
    "rdma_expect": {"link_layer": "Ethernet", "active_mtu": 4096},
}
# What ARP, neighbour discovery and the managers' own packets come to in a few seconds.
NOISE_BYTES = 4000
PING_BYTES, PINGS = 8000, 10
MESSAGE, MESSAGES = 32768, 20  # rping takes less than 64 KiB
ADDRESSES = {
    "two subnets of IPv6": (("fd00:77::11/64", "fd00:77:1::11/64"), ("fd00:77::12/64", "fd00:77:1::12/64")),
    "one subnet": (("10.78.0.11/24", "10.78.0.21/24"), ("10.78.0.12/24", "10.78.0.22/24")),
    "two subnets": (("10.77.0.11/24", "10.77.1.11/24"), ("10.77.0.12/24", "10.77.1.12/24")),
}
IPV6, FLAT, SUBNETS = ADDRESSES
Pair = tuple[Machine, Machine]


def address(name: str, node: int, rail: int) -> str:
    return ADDRESSES[name][node][rail].partition("/")[0]


def sent(machine: Machine) -> list[int]:
    """Bytes that each rail's interface has sent."""
    return [int(machine.run("cat", f"/sys/class/net/eth{rail + 1}/statistics/tx_bytes")) for rail in range(RAILS)]


@contextmanager
def counted(machines: Pair) -> Iterator[list[list[int]]]:
    """[node][rail]: bytes sent meanwhile, once it is over."""
    before = [sent(machine) for machine in machines]
    found: list[list[int]] = []
    yield found
    for machine, old in zip(machines, before, strict=True):
        found.append([now - then for now, then in zip(sent(machine), old, strict=True)])


def lay(machines: Pair, name: str, crossed: bool = False) -> None:
    """The rails of both nodes in the inventory; crossed: the second node's are on each other's interface."""
    for index, machine in enumerate(machines):
        macs = [f"52:54:00:4d:{rail + 1:02x}:{index + 1:02x}" for rail in range(RAILS)]
        if crossed and index == 1:
            macs.reverse()
        places = zip(macs, ADDRESSES[name][index], strict=True)
        machine.rails(*({"name": f"rail{rail}", "match": {"mac": mac}, "address": at} for rail, (mac, at) in enumerate(places)))


def applied(machine: Machine) -> None:
    run = machine.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    again = machine.railwright("plan")
    assert (again.code, again.document["summary"]["changes"]) == (0, 0), again.document


@pytest.fixture(scope="module")
def pair(machines: tuple[Machine, ...]) -> Pair:
    one, two = machines
    one.site(SITE)
    return one, two


@pytest.fixture(scope="module", params=[IPV6, FLAT, SUBNETS])
def laid(request: pytest.FixtureRequest, pair: Pair) -> tuple[Pair, str]:
    """Both nodes with these addresses."""
    name = str(request.param)
    lay(pair, name)
    applied(pair[0])
    return pair, name


@pytest.mark.parametrize("rail", range(RAILS))
def test_each_rail_pings_over_itself(laid: tuple[Pair, str], rail: int) -> None:
    pair, name = laid
    argv = ("ping", "-q", "-M", "do", "-s", str(PING_BYTES), "-c", str(PINGS), "-i", "0.2", "-W", "5")
    with counted(pair) as found:
        pair[0].run(*argv, "-I", address(name, 0, rail), address(name, 1, rail))
    for bytes_of in found:
        assert bytes_of[rail] > PING_BYTES * PINGS, found
        assert bytes_of[1 - rail] < NOISE_BYTES, found


@pytest.mark.parametrize("rail", range(RAILS))
def test_each_rail_carries_its_own_rdma(laid: tuple[Pair, str], rail: int) -> None:
    """By RDMA-CM, which finds the device by the routes of the addresses: perftest where every route leads to its rail, else rping,
    which can be told its own address (Debian 12's perftest cannot, and takes the first route of a subnet that both rails have)."""
    pair, name = laid
    here, there = (address(name, node, rail) for node in range(2))
    if name == SUBNETS:
        serve, ask = ["ib_write_bw", "-R", "-F"], ["ib_write_bw", "-R", "-F", there]
        size = ["-s", str(MESSAGE), "-n", str(MESSAGES)]
    else:
        serve, ask = ["rping", "-s", "-a", there], ["rping", "-c", "-a", there, "-I", here]
        size = ["-S", str(MESSAGE), "-C", str(MESSAGES)]
    argv = lab.ssh_argv("node2", [*serve, *size], state_dir=pair[0].state_dir)
    with counted(pair) as found, subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            pair[1].sh("for second in $(seq 30); do ! rdma resource show cm_id | grep -q LISTEN || exit 0; sleep 1; done; exit 1")
            pair[0].run(*ask, *size, timeout=120)
            assert server.wait(timeout=60) == 0, server.stdout and server.stdout.read()
        finally:
            server.kill()
    assert found[0][rail] > MESSAGE * MESSAGES, found
    assert found[0][1 - rail] < NOISE_BYTES, found
    assert found[1][1 - rail] < NOISE_BYTES, found


def faults(machine: Machine) -> dict[str, list[str]]:
    """Messages of what fails between the nodes, by check; nothing is measured."""
    machine.site({**SITE, "validate_perftest": False})
    found: dict[str, list[str]] = {}
    for item in machine.railwright("validate").document["verdicts"]:
        if item["status"] == "fail":
            found.setdefault(item["check"], []).append(item["message"])
    return found


def test_swapped_rails_are_called_swapped(pair: Pair) -> None:
    """Everything on each node is as its inventory says, and nothing arrives: the second node's rails are on each other's wire."""
    lay(pair, SUBNETS, crossed=True)
    run = pair[0].railwright("apply")
    assert run.code == 0, (run.document, run.err)
    found = faults(pair[0])
    assert set(found) == {"rail.swapped"}, found
    for message in found["rail.swapped"]:
        assert "rail0" in message, found
        assert "rail1" in message, found
