# SPDX-License-Identifier: GPL-3.0-or-later
"""Which interface and port a rail is where several could be meant, and which interface NCCL's bootstrap takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl import environment
from ansible_collections.railwright.rdma.plugins.module_utils.areas.network import network
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.spec.match import management_interface, match_rails
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity
from field_specs import build_spec
from node_trees import NODES

MakeTree = Callable[[Mapping[str, str]], TreeHost]
MTU = {"roce": 9000, "erdma": 8500, "infiniband": 2044}


def captured(name: str) -> Identity:
    return observe_identity(TreeHost(str(NODES / name)))


def spec_of(fabric: str, *matches: tuple[str, str], **values: Any) -> Spec:
    rails = [{"name": f"rail{i}", "match": {kind: value}, "address": f"10.10.{i}.1/24"} for i, (kind, value) in enumerate(matches)]
    spec, findings = build_spec({"fabric": fabric, "mtu": MTU[fabric], "rails": rails, **values}, "node1")
    assert spec is not None, findings
    return spec


def found(fabric: str, name: str, *matches: tuple[str, str]) -> list[tuple[str | None, str | None, int | None]]:
    targets, _problems = match_rails(spec_of(fabric, *matches), captured(name))
    return [(target.netdev, target.hca.name if target.hca else None, target.port) for target in targets]


@pytest.mark.parametrize("match", [
    ("mac", "00:16:3e:11:22:02"), ("guid", "0216:3eff:fe11:2202"), ("pci", "0000:00:07.0"), ("pci", "0000:00:09.0")])  # fmt: skip
def test_erdma_is_found_by_either_of_its_two_pci_functions(match: tuple[str, str]) -> None:
    """The interface (virtio, 07.0) and the RDMA device (09.0) are two functions; the MAC in the GUID ties them."""
    assert found("erdma", "erdma2", match) == [("eth2", "erdma_1", 1)]


def test_erdma_by_pci_is_a_whole_rail_for_every_area() -> None:
    spec, identity = spec_of("erdma", ("pci", "0000:00:08.0"), ("pci", "0000:00:09.0")), captured("erdma2")
    desired = network.desired(spec, identity)
    assert [(rail.netdev, rail.mtu) for rail in desired.rails] == [("eth1", 8500), ("eth2", 8500)]
    assert network.problems(spec, identity, desired) == []
    variables = dict(environment.desired(spec, identity).variables)
    assert variables["NCCL_IB_HCA"] == "=erdma_0:1,erdma_1:1"
    assert variables["NCCL_IB_GID_INDEX"] == "-1"


@pytest.mark.parametrize(("fabric", "expected"), [("infiniband", ("ib0", "mlx4_0", 1)), ("roce", ("enp145s0d1", "mlx4_0", 2))])
def test_one_pci_function_with_a_port_of_each_kind(fabric: str, expected: tuple[str, str, int]) -> None:
    assert found(fabric, "multiport", ("pci", "0000:91:00.0")) == [expected]


def test_a_node_guid_is_the_first_port_with_that_ports_interface() -> None:
    assert found("infiniband", "multiport", ("guid", "f452:1403:0000:6000")) == [("ib0", "mlx4_0", 1)]


@pytest.mark.parametrize("match", [
    ("pci", "0000:41:00.0"), ("pci", "0000:41:00.1"), ("mac", "b8:ce:f6:00:20:00"), ("mac", "b8:ce:f6:00:20:01"),
    ("guid", "b8ce:f603:0000:2000")])  # fmt: skip
def test_a_member_of_a_bond_stands_for_the_bond(match: tuple[str, str]) -> None:
    """An address on a member is dead, and with LAG the HCA has one port for both members."""
    assert found("roce", "roce8-bond", match) == [("bond0", "mlx5_bond_0", 1)]


def test_two_members_of_one_bond_are_one_rail_too_many() -> None:
    spec = spec_of("roce", ("pci", "0000:41:00.0"), ("pci", "0000:41:00.1"))
    _targets, problems = match_rails(spec, captured("roce8-bond"))
    assert [(problem.subject, problem.message) for problem in problems] == [("rail1", "is on bond0, and so is rail0")]


def test_what_is_not_there_is_named_with_what_is() -> None:
    _targets, (problem,) = match_rails(spec_of("erdma", ("pci", "0000:00:1f.0")), captured("erdma2"))
    assert problem.message == (
        "no device with pci 0000:00:1f.0 on this node; it has 0000:00:05.0, 0000:00:06.0, 0000:00:07.0, 0000:00:08.0, 0000:00:09.0")


def netdev(name: str, mac: str, *, pci: str | None = None, lower: str | None = None) -> dict[str, str]:
    base = f"sys/class/net/{name}/"
    files = {base + "address": mac + "\n", base + "type": "1\n"}
    if pci is not None:
        files[base + "device/uevent"] = f"PCI_SLOT_NAME={pci}\n"
    if lower is not None:
        files[base + f"lower_{lower}/x"] = ""
    return files


def routes(*rows: tuple[str, int]) -> dict[str, str]:
    """Default routes as (interface, metric)."""
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    row = "{}\t00000000\t0100000A\t0003\t0\t0\t{}\t00000000\t0\t0\t0\n"
    return {"proc/net/route": head + "".join(row.format(name, metric) for name, metric in rows)}


MAC_A, MAC_B = "52:54:00:00:00:0a", "52:54:00:00:00:0b"


def bootstrap(host: TreeHost, *rails: tuple[str, str], address: str | None = None) -> str | None:
    return management_interface(spec_of("roce", *rails), observe_identity(host, address))


@pytest.mark.parametrize("upper", ["vmbr0", "eno1.100", "mgmt"])
def test_bootstrap_is_what_carries_the_route_not_what_lies_below(make_tree: MakeTree, upper: str) -> None:
    """``eno1`` sorts before them all, is management too, and has no address that NCCL could listen on."""
    host = make_tree({**netdev("eno1", MAC_A, pci="0000:01:00.0"), **netdev(upper, MAC_A, lower="eno1"), **routes((upper, 0))})
    assert bootstrap(host) == upper
    assert [nic.name for nic in observe_identity(host).nics if nic.management] == sorted(("eno1", upper))


def test_of_two_default_routes_the_kernels_choice(make_tree: MakeTree) -> None:
    both = {**netdev("eth0", MAC_A, pci="0000:01:00.0"), **netdev("eth1", MAC_B, pci="0000:02:00.0")}
    host = make_tree({**both, **routes(("eth0", 200), ("eth1", 100))})
    assert bootstrap(host) == "eth1"
    assert bootstrap(host, ("mac", MAC_B)) == "eth0", "a rail is the last choice"
    make_tree(routes(("eth0", 100), ("eth1", 200)))
    assert bootstrap(host) == "eth0"


def test_a_mac_that_a_bridge_repeats_is_the_hardware(make_tree: MakeTree) -> None:
    host = make_tree({**netdev("br0", MAC_A, lower="eth1"), **netdev("eth1", MAC_A, pci="0000:01:00.0")})
    (target,), problems = match_rails(spec_of("roce", ("mac", MAC_A)), observe_identity(host))
    assert (target.netdev, problems) == ("eth1", [])
