# SPDX-License-Identifier: GPL-3.0-or-later
"""validate_site: what hosts must agree on and must not share."""

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.cross_host import site_value
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec, validate_site


def host(number: int, count: int = 1, **keys: Any) -> Spec:
    """A good RoCE host; hosts with different numbers go together."""
    listed = [
        {"name": f"rail{rail}", "match": {"mac": f"02:00:00:00:{number:02x}:{rail:02x}"}, "address": f"10.{rail}.0.{number}/16"}
        for rail in range(count)
    ]
    spec, _findings = build_spec({"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": listed, **keys}, f"n{number}")
    assert spec is not None
    return spec


def rail(**keys: Any) -> list[dict[str, Any]]:
    return [{"name": "rail0", "match": {"pci": "1a:00.0"}, "address": "10.0.0.9/16", **keys}]


def short(findings: list[Finding]) -> list[tuple[str | None, str, str]]:
    return [(finding.host, finding.key, finding.severity) for finding in findings]


def test_hosts_that_go_together() -> None:
    assert validate_site({f"n{number}": host(number, count=8) for number in range(1, 5)}) == []
    assert validate_site({}) == []


def test_of_a_site_wide_number_the_strictest_counts() -> None:
    specs = [host(1, rdma_drain_most=100000, rdma_drain_share=1), host(2), host(3)]
    assert (site_value(specs, "drain_most"), site_value(specs, "drain_share"), site_value(specs, "leaves")) == (4, 0.05, [])
    with pytest.raises(ValueError, match="upgrade_gate must be the same on all hosts"):
        site_value([host(1, upgrade_gate="none"), host(2)], "upgrade_gate")


def test_pci_addresses_repeat_in_every_node() -> None:
    specs = {
        "n1": host(1, rdma_rails=rail(address="10.0.0.1/16")),
        "n2": host(2, rdma_rails=rail(address="10.0.0.2/16")),
    }
    assert validate_site(specs) == []


def test_duplicate_address_whatever_its_prefix() -> None:
    specs = {"n1": host(1), "n2": host(2, rdma_rails=rail(address="10.0.0.1/16"))}
    findings = validate_site(specs)
    assert short(findings) == [("n2", "rdma_rails[0].address", "error")]
    assert "rail0 on n1" in findings[0].message


def test_duplicate_mac_and_guid() -> None:
    same = {"mac": "02:00:00:00:01:00"}
    assert short(validate_site({"n1": host(1), "n2": host(2, rdma_rails=rail(match=same))})) == [("n2", "rdma_rails[0].match.mac", "error")]
    guid = {"guid": "b8ce:f603:00ab:cdef"}
    specs = {name: host(0, rdma_rails=rail(match=guid, address=f"10.0.0.{last}/16")) for name, last in (("n1", 1), ("n2", 2))}
    assert short(validate_site(specs)) == [("n2", "rdma_rails[0].match.guid", "error")]


def test_the_odd_one_out_is_named() -> None:
    specs = {f"n{number}": host(number, rdma_mtu=4200 if number == 2 else 9000) for number in range(1, 7)}
    findings = validate_site(specs)
    assert short(findings) == [("n2", "rdma_mtu", "error")]
    assert "is the value on n2, but 9000 is on n1, n3, n4 and 2 more" in findings[0].message


def test_fabric_stack_and_qos_agree() -> None:
    specs = {"n1": host(1), "n2": host(2), "n3": host(3, rdma_stack="soft_roce", rdma_qos_profile="oci-dscp10")}
    assert short(validate_site(specs)) == [("n3", "rdma_stack", "warning"), ("n3", "rdma_qos_profile", "error")]
    mixed = {"n1": host(1), "n2": host(2), "n3": host(3, rdma_fabric="erdma", rdma_mtu=8500)}
    assert ("n3", "rdma_fabric", "error") in short(validate_site(mixed))


def test_the_mtu_of_one_rail() -> None:
    findings = validate_site({"n1": host(1), "n2": host(2), "n3": host(3, rdma_rails=rail(mtu=1500))})
    assert short(findings) == [("n3", "rdma_rails[0].mtu", "error")]
    assert "1500 - 96 = 1404 holds RDMA packets of 1024" in findings[0].message
    assert "9000 - 96 = 8904 holds RDMA packets of 4096" in findings[0].message


def test_the_mtu_of_one_infiniband_rail_says_nothing_of_rdma_packets() -> None:
    keys: dict[str, Any] = {"rdma_fabric": "infiniband", "rdma_mtu": 4092}
    narrow = [{"name": "rail0", "match": {"pci": "1a:00.0"}, "mtu": 2044}]
    wide = [{"name": "rail0", "match": {"pci": "1a:00.0"}}]
    given = {"n1": wide, "n2": wide, "n3": narrow}
    findings = validate_site({name: host(int(name[1]), **keys, rdma_rails=rails) for name, rails in given.items()})
    assert short(findings) == [("n3", "rdma_rails[0].mtu", "error")]
    assert "RDMA packets" not in findings[0].message


def test_hosts_with_different_profiles_of_the_sites_own() -> None:
    own: dict[str, Any] = {"rdma_qos_profile": "custom", "rdma_qos_custom": {"tc": 106}}
    other: dict[str, Any] = {"rdma_qos_profile": "custom", "rdma_qos_custom": {"tc": 138}}
    findings = validate_site({"n1": host(1, **own), "n2": host(2, **own), "n3": host(3, **other)})
    assert short(findings) == [("n3", "rdma_qos_custom", "error")]
    same: dict[str, Any] = {"rdma_qos_profile": "custom", "rdma_qos_custom": {"dscp": "26", "lossless": [3]}}
    assert validate_site({"n1": host(1, **own), "n2": host(2, **same)}) == [], "the same numbers, said in another way"
    assert short(validate_site({"n1": host(1), "n2": host(2), "n3": host(3, **other)})) == [("n3", "rdma_qos_profile", "error")]


def test_subnets_of_a_rail_need_a_gateway() -> None:
    other = rail(address="10.9.0.3/16")
    found = validate_site({"n1": host(1), "n2": host(2), "n3": host(3, rdma_rails=other)})
    assert short(found) == [("n3", "rdma_rails[0].address", "error")]
    routed = rail(address="10.9.0.3/16", gateway="10.9.0.1")
    found = validate_site({"n1": host(1), "n2": host(2), "n3": host(3, rdma_rails=routed)})
    assert short(found) == [("n1", "rdma_rails[0].address", "error")], "and the way back needs one too"
    assert "rail0 is in 10.0.0.0/16 on n1, n2, but in 10.9.0.0/16 on n3, and has no gateway" in found[0].message
    both = {f"n{number}": host(number, rdma_rails=rail(address=f"10.0.0.{number}/16", gateway="10.0.0.254")) for number in (1, 2)}
    assert validate_site({**both, "n3": host(3, rdma_rails=routed)}) == []


def test_a_rail_has_one_address_family() -> None:
    found = validate_site({"n1": host(1), "n2": host(2), "n3": host(3, rdma_rails=rail(address="2001:db8::3/64"))})
    assert short(found) == [("n3", "rdma_rails[0].address", "error")]
    six = {f"n{number}": host(number, rdma_rails=rail(address=f"2001:db8::{number}/64")) for number in (1, 2)}
    assert validate_site(six) == []


def test_rails_that_others_have_and_hosts_without_any() -> None:
    findings = validate_site({"n1": host(1, count=2), "n2": host(2, count=2), "n3": host(3), "n4": host(4, count=0)})
    assert short(findings) == [("n4", "rdma_rails", "warning"), ("n3", "rdma_rails", "warning")]
