# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails of one host as a network: one flat subnet, subnets that overlap, families, and who is source-routed."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec

Judge = Callable[..., tuple[Spec | None, list[Finding]]]
FLAT = ("198.51.100.11/25", "198.51.100.12/25")
FLAT_6 = ("2001:db8::11/64", "2001:db8::12/64")


def rails(*addresses: str | None, **keys: Any) -> list[dict[str, Any]]:
    return [{"name": f"rail{place}", "match": {"pci": f"1{place}:00.0"}, "address": address, **keys}
            for place, address in enumerate(addresses)]


def short(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.key, finding.severity) for finding in findings]


@pytest.mark.parametrize(
    ("keys", "routed"),
    [
        ({"rdma_rails": rails("198.51.100.11/25")}, [False]),
        ({"rdma_rails": rails("198.51.100.11/25"), "network_source_routing": True}, [True]),
        ({"rdma_rails": rails("198.51.100.11/25"), "network_source_routing": "true"}, [True]),
        ({"rdma_rails": rails("198.51.100.11/25", gateway="198.51.100.1"), "network_source_routing": False}, [True]),
        ({"rdma_rails": rails("198.51.100.11/25", "198.51.100.139/25")}, [True, True]),
        ({"rdma_rails": rails(*FLAT)}, [True, True]),
        ({"rdma_rails": rails(*FLAT_6)}, [True, True]),
        ({"rdma_rails": rails(*FLAT), "network_source_routing": False}, [False, False]),
        ({"rdma_rails": rails("198.51.100.11/25", None)}, [False, False]),
    ],
)
def test_which_rails_are_source_routed(judge: Judge, keys: dict[str, Any], routed: list[bool]) -> None:
    spec, _findings = judge(**keys)
    assert spec is not None
    assert [spec.source_routed(rail) for rail in spec.rails] == routed


@pytest.mark.parametrize("value", ["auto ", "maybe", 1, ["true"]])
def test_no_other_word_for_source_routing(judge: Judge, value: object) -> None:
    spec, findings = judge(network_source_routing=value)
    assert spec is None
    assert short(findings) == [("network_source_routing", "error")]


@pytest.mark.parametrize("addresses", [FLAT, FLAT_6])
@pytest.mark.parametrize(("keys", "apart"), [
    ({}, True), ({"network_source_routing": True}, True), ({"network_source_routing": False}, False),
    ({"network_manage_addresses": False}, False),
])  # fmt: skip
def test_a_flat_subnet_needs_source_routing(judge: Judge, addresses: tuple[str, str], keys: dict[str, Any], *, apart: bool) -> None:
    spec, findings = judge(rdma_rails=rails(*addresses), **keys)
    assert spec is not None
    assert short(findings) == ([] if apart else [("rdma_rails", "warning")])
    if not apart:
        assert "rail0 and rail1 are in one subnet" in findings[0].message


@pytest.mark.parametrize(
    ("first", "second"), [("10.0.0.1/16", "10.0.1.1/24"), ("10.0.1.1/24", "10.0.0.1/16"), ("2001:db8::1/32", "2001:db8:1::1/64")])
def test_subnets_are_the_same_or_apart(judge: Judge, first: str, second: str) -> None:
    spec, findings = judge(rdma_rails=rails(first, second))
    assert spec is None
    assert short(findings) == [("rdma_rails[1].address", "error")]
    assert "overlaps" in findings[0].message


@pytest.mark.parametrize("address", ["198.51.100.11/32", "2001:db8::11/128"])
def test_a_rail_alone_in_its_subnet_is_a_warning(judge: Judge, address: str) -> None:
    assert short(judge(rdma_rails=rails(address))[1]) == [("rdma_rails[0].address", "warning")]


def test_families_of_one_host(judge: Judge) -> None:
    mixed = rails("198.51.100.11/25", "2001:db8::11/64")
    assert short(judge(rdma_rails=mixed)[1]) == [("rdma_rails[1].address", "error")]
    assert judge(rdma_rails=mixed, rdma_fabric="infiniband", rdma_mtu=4092)[1] == [], "GIDs of InfiniBand hold no addresses"
    spec, findings = judge(rdma_rails=rails("2001:db8::11/64"), rdma_fabric="erdma", rdma_mtu=8500)
    assert spec is None
    assert "eRDMA connects over IPv4 only" in findings[0].message


@pytest.mark.parametrize(("address", "overrides", "good"), [
    ("2001:db8::11/64", {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, True),
    ("2001:db8::11/64", {"NCCL_IB_ADDR_FAMILY": "AF_INET"}, False),
    ("2001:db8::11/64", {"NCCL_IB_ADDR_FAMILY": None}, False),
    ("2001:db8::11/64", {"NCCL_IB_ADDR_FAMILY": "AF_INET", "NCCL_IB_GID_INDEX": "5"}, True),
    ("198.51.100.11/25", {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, False),
    ("198.51.100.11/25", {"NCCL_IB_ADDR_FAMILY": None}, True),
])  # fmt: skip
def test_nccl_must_look_for_gids_of_the_rails_family(judge: Judge, address: str, overrides: dict[str, Any], *, good: bool) -> None:
    spec, findings = judge(rdma_rails=rails(address), nccl_overrides=overrides)
    assert (spec is not None) == good
    assert [finding.key for finding in findings if finding.severity == "error"] == (
        [] if good else ["nccl_overrides.NCCL_IB_ADDR_FAMILY"])
