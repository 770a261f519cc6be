# SPDX-License-Identifier: GPL-3.0-or-later
"""What inventories may say about the stack: what is accepted. What is refused stands in tests/unit/lint/bad_inventories_drivers.yml."""

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.stacks import PROFILES
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec

FINGERPRINT = "AAAA0000AAAA0000AAAA0000AAAA0000AAAA0000"
RAILS = [{"name": "rail0", "match": {"pci": "0000:1a:00.0"}, "address": "192.0.2.1/24"}]


def errors(**values: Any) -> list[str]:
    _spec, findings = build_spec({"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": RAILS, **values}, "n1")
    return [f"{item.key}: {item.message}" for item in findings if item.severity == "error"]


@pytest.mark.parametrize(
    "values",
    [
        {"rdma_stack_version": "3.2.1"},
        {"rdma_stack_version": "3.1.0-091513"},
        {"rdma_stack": "doca", "rdma_stack_version": "3.2.3", "rdma_stack_profile": "doca-networking"},
        {"rdma_stack": "mlnx_ofed", "rdma_stack_version": "24.10-3.2.5.0", "rdma_stack_profile": "mlnx-ofed-basic"},
        {"rdma_stack_repository_url": "http://r.example.com/doca/"},
        {"rdma_stack_repository_key_url": "http://r.example.com/k.asc", "rdma_stack_repository_fingerprint": FINGERPRINT},
        {"cuda_repository_key_url": "file:///srv/k.asc", "cuda_repository_fingerprint": FINGERPRINT},
        {"rdma_stack_offline_package": {"url": "file:///srv/doca-host.deb", "sha256": "0a" * 32}},
        {"rdma_stack_offline_package": {}},
        {"rdma_artifact_pins": {"doca-key-rhel9-x86_64": FINGERPRINT, "nv_peer_mem": "0a" * 32, "nv_peer_mem-git": "0a" * 20}},
        {"rdma_stack": "inbox", "cuda_repository_url": "http://r.example.com/cuda/"},
        {"rdma_fabric": "erdma", "rdma_mtu": 8500, "rdma_stack": "inbox"},
        {"rdma_fabric": "erdma", "rdma_mtu": 8500},
    ],
)
def test_accepted(values: dict[str, Any]) -> None:
    assert errors(**values) == []


@pytest.mark.parametrize("vendor", sorted(PROFILES))
def test_every_profile_of_a_vendor_is_accepted(vendor: str) -> None:
    for profile in PROFILES[vendor]:
        assert errors(rdma_stack=vendor, rdma_stack_profile=profile) == []


@pytest.mark.parametrize(
    "key", ["rdma_stack_version", "rdma_stack_profile", "rdma_stack_repository_url", "rdma_stack_repository_fingerprint"]
)
@pytest.mark.parametrize("stack", ["inbox", "soft_roce"])
def test_keys_of_a_vendors_stack_need_one(key: str, stack: str) -> None:
    value = {
        "rdma_stack_version": "3.2.3",
        "rdma_stack_profile": "doca-ofed",
        "rdma_stack_repository_url": "http://r.example.com/",
        "rdma_stack_repository_fingerprint": FINGERPRINT,
    }[key]
    assert errors(rdma_stack=stack, **{key: value}) == [f"{key}: is for a vendor's stack; rdma_stack is {stack}"]


@pytest.mark.parametrize("value", ["0A" * 32, "0a" * 31, "0a" * 32 + "\n", 12, None, ["0a" * 32]])
def test_a_checksum_that_is_none(value: object) -> None:
    assert len(errors(rdma_stack_offline_package={"url": "file:///srv/d.deb", "sha256": value})) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nv_peer_mem", FINGERPRINT),
        ("doca-key-rhel9-x86_64", "0a" * 32),
        ("nv_peer_mem-git", "0A" * 20),
        ("nv_peer_mem", 1),
        ("nv_peer_mem", None),
    ],
)
def test_a_pin_of_another_form_is_refused(name: str, value: object) -> None:
    (error,) = errors(rdma_artifact_pins={name: value})
    assert error.startswith(f"rdma_artifact_pins.{name}: is no ")


def test_a_broken_pin_is_not_reported_twice() -> None:
    assert len(errors(rdma_artifact_pins={"nv_peer_memm": "0a" * 32})) == 1
