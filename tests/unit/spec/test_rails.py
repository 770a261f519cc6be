# SPDX-License-Identifier: GPL-3.0-or-later
"""Identifiers and addresses of rails, in every form that people write."""

from collections.abc import Callable

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.rails import IdentifierError, normalise

Judge = Callable[..., tuple[Spec | None, list[Finding]]]


@pytest.mark.parametrize(
    ("kind", "written", "meant"),
    [
        ("pci", "0000:1A:00.0", "0000:1a:00.0"),
        ("pci", "1a:00.1", "0000:1a:00.1"),
        ("pci", " 0001:1a:1f.7 ", "0001:1a:1f.7"),
        ("mac", "52:54:00:AA:BB:CC", "52:54:00:aa:bb:cc"),
        ("mac", "52-54-00-aa-bb-cc", "52:54:00:aa:bb:cc"),
        ("mac", "5254.00aa.bbcc", "52:54:00:aa:bb:cc"),
        ("mac", "525400AABBCC", "52:54:00:aa:bb:cc"),
        ("guid", "b8ce:f603:00ab:cdef", "b8ce:f603:00ab:cdef"),
        ("guid", "0xB8CEF60300ABCDEF", "b8ce:f603:00ab:cdef"),
        ("guid", "b8cef60300abcdef", "b8ce:f603:00ab:cdef"),
        ("guid", "b8:ce:f6:03:00:ab:cd:ef", "b8ce:f603:00ab:cdef"),
    ],
)
def test_forms(kind: str, written: str, meant: str) -> None:
    assert normalise(kind, written) == meant


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("pci", "1a:00"),
        ("pci", "1a:20.0"),
        ("pci", "1a:00.8"),
        ("pci", "mlx5_0"),
        ("pci", ""),
        ("pci", "0000:1a:00.0\nx"),
        ("mac", "52:54:00:aa:bb"),
        ("mac", "52:54:00:aa:bb:cg"),
        ("mac", "52:54-00:aa:bb:cc"),
        ("mac", "00:00:00:00:00:00"),
        ("mac", "ff:ff:ff:ff:ff:ff"),
        ("mac", "33:33:00:00:00:01"),
        ("mac", ":".join(["80"] * 20)),
        ("guid", "b8ce:f603:00ab"),
        ("guid", "0000:0000:0000:0000"),
        ("guid", "b8ce-f603-00ab-cdef"),
        ("guid", "0x0xb8cef60300abcdef"),
    ],
)
def test_not_an_identifier(kind: str, written: str) -> None:
    with pytest.raises(IdentifierError):
        normalise(kind, written)


@pytest.mark.parametrize(
    ("kind", "unquoted"),
    [
        ("pci", "0000:10:00.0"),
        ("pci", "10:00.0"),
        ("mac", "10:20:30:40:50:59"),
        ("guid", "1122334455667788"),
        ("guid", "0x1122334455667788"),
    ],
)
def test_what_yaml_made_a_number_of_must_be_quoted(kind: str, unquoted: str) -> None:
    value = yaml.safe_load(unquoted)
    assert isinstance(value, int | float), "the trap is YAML's"
    with pytest.raises(IdentifierError, match="quotes"):
        normalise(kind, value)
    assert normalise(kind, unquoted)


@pytest.mark.parametrize(
    "address",
    [
        "198.51.100.11",
        "198.51.100.11/33",
        "198.51.100.11/",
        "198.51.100.11/255.255.255.0",
        "198.51.100.256/24",
        "198.51.100.0/24",
        "198.51.100.255/24",
        "224.0.0.1/24",
        "127.0.0.1/8",
        "0.0.0.0/0",
        "10.0.0.1/0",
        "2001:db8::1",
        "2001:db8::1/129",
        "2001:db8::1/0",
        "2001:db8::/64",
        "2001:db8::1%eth1/64",
        "fe80::1/64",
        "ff02::1/64",
        "::1/128",
        "::/64",
        "::ffff:192.0.2.11/120",
        "eth0",
        "",
        198,
        ["198.51.100.11/24"],
        "198.51.100.11/24 ; reboot",
        "198.51.100.11/24\n",
    ],
)
def test_not_an_address_of_a_rail(judge: Judge, address: object) -> None:
    spec, findings = judge(rdma_rails=[{"name": "rail0", "match": {"pci": "1a:00.0"}, "address": address}])
    if address == "198.51.100.11/24\n":
        assert spec is not None, "surrounding blanks are not worth an error"
        assert spec.rails[0].address == "198.51.100.11/24"
        return
    assert spec is None
    assert [finding.key for finding in findings] == ["rdma_rails[0].address"]


@pytest.mark.parametrize(
    ("address", "gateway", "good"),
    [
        ("198.51.100.11/24", "198.51.100.1", True),
        ("198.51.100.0/31", "198.51.100.1", True),
        ("198.51.100.11/24", "198.51.101.1", False),
        ("198.51.100.11/24", "198.51.100.11", False),
        ("198.51.100.11/24", "198.51.100.255", False),
        ("198.51.100.11/24", "198.51.100.1/24", False),
        ("198.51.100.11/24", "2001:db8::1", False),
        ("2001:db8::11/64", "2001:db8::1", True),
        ("2001:db8::/127", "2001:db8::1", True),
        ("2001:db8::11/64", "198.51.100.1", False),
        ("2001:db8::11/64", "2001:db8:1::1", False),
        ("2001:db8::11/64", "2001:db8::", False),
        ("2001:db8::11/64", "2001:DB8::0:11", False),
        ("198.51.100.11/24", "router", False),
        ("198.51.100.11/24", 7, False),
        (None, "198.51.100.1", False),
    ],
)
def test_gateway(judge: Judge, address: str | None, gateway: object, good: bool) -> None:
    rail = {"name": "rail0", "match": {"pci": "1a:00.0"}, "address": address, "gateway": gateway}
    spec, findings = judge(rdma_rails=[rail], network_manage_addresses=False)
    assert (spec is not None) == good
    assert [finding.key for finding in findings] == ([] if good else ["rdma_rails[0].gateway"])


def test_order_and_own_mtu(judge: Judge) -> None:
    rails = [
        {"name": "rail1", "match": {"pci": "1b:00.0"}, "address": "10.1.0.2/16", "mtu": 4200},
        {"name": "rail0", "match": {"pci": "1a:00.0"}, "address": "10.2.0.2/16"},
    ]
    spec, findings = judge(rdma_rails=rails)
    assert findings == []
    assert spec is not None
    assert [(rail.name, rail.index, rail.mtu) for rail in spec.rails] == [("rail1", 0, 4200), ("rail0", 1, 9000)]


def test_the_same_device_in_two_forms(judge: Judge) -> None:
    rails = [
        {"name": "rail0", "match": {"pci": "1a:00.0"}, "address": "10.1.0.2/16"},
        {"name": "rail1", "match": {"pci": "0000:1A:00.0"}, "address": "10.2.0.2/16"},
    ]
    assert [finding.key for finding in judge(rdma_rails=rails)[1]] == ["rdma_rails[1].match.pci"]


@pytest.mark.parametrize("written", ["2001:DB8::0:B/64", "2001:db8:0:0::b/64", " 2001:db8::b/64"])
def test_ipv6_address_in_one_spelling(judge: Judge, written: str) -> None:
    spec, findings = judge(rdma_rails=[{"name": "rail0", "match": {"pci": "1a:00.0"}, "address": written}])
    assert findings == []
    assert spec is not None
    assert spec.rails[0].address == "2001:db8::b/64"
