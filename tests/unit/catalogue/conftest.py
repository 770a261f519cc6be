# SPDX-License-Identifier: GPL-3.0-or-later
"""Specs and identities for the catalogue's tests: one line says which system and which devices."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.platforms import family_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Gpu, Hca, Identity, Nic, Platform
from field_specs import build_spec

RAILS = [{"name": "rail0", "match": {"pci": "0000:1a:00.0"}, "address": "192.0.2.1/24"}]


@pytest.fixture
def make_spec() -> Callable[..., Spec]:
    def build(**values: Any) -> Spec:
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": RAILS, **values}, "n1")
        assert spec is not None, findings
        return spec

    return build


@pytest.fixture
def make_identity() -> Callable[..., Identity]:
    def build(
        system: str = "ubuntu 24.04",
        arch: str = "x86_64",
        driver: str | None = "mlx5_core",
        device_id: str | None = "0x1021",
        gpus: int = 0,
        nvswitches: int = 0,
        nic_driver: str | None = None,
    ) -> Identity:
        name, _space, version = system.partition(" ")
        family, manager = family_of(name, (), version)
        platform = Platform(name, version, "", (), system, family, manager)
        hcas = (
            () if driver is None else (Hca("mlx5_0", None, "0000:1a:00.0", driver, ("eth1",), (1,), (), "Ethernet", ("eth1",), device_id),)
        )
        nics = () if nic_driver is None else (Nic("eth1", "52:54:00:aa:bb:01", "0000:1a:00.0", nic_driver, "ethernet", False),)
        return Identity(
            "n1",
            platform,
            "6.8.0-85-generic",
            arch,
            "3.12",
            None,
            nics,
            hcas,
            (),
            tuple(Gpu(f"0000:{3 + i:02x}:00.0", "0x2330", None) for i in range(gpus)),
            tuple(f"0000:c{i}:00.0" for i in range(nvswitches)),
        )

    return build
