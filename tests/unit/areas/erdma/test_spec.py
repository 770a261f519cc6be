# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of eRDMA's driver and mode: what contradicts the fabric, the stack, each other, or another host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.drivers import (
    MAD,
    artifact_of,
    build_script,
    dkms_conf,
    source_of,
)
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS
from ansible_collections.railwright.rdma.plugins.module_utils.rules.erdma_mode import mode_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec, errors_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Gpu, Identity, Platform
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec, validate_site
from railwright.artifact_rows import rows_for

MakeSpec = Callable[..., Spec]


def findings(**values: Any) -> list[str]:
    _spec, found = build_spec({"rdma_fabric": "erdma", "rdma_mtu": 1400, **values}, "n1")
    return [f"{item.severity}: {item.key}: {item.message}; allowed: {item.allowed}" for item in found]


def identity(*gpus: Gpu) -> Identity:
    platform = Platform("ubuntu", "22.04", "jammy", ("debian",), "Ubuntu 22.04", "debian", "apt")
    return Identity("n1", platform, "5.15.0", "x86_64", "3.10", None, (), (), (), gpus)


@pytest.mark.parametrize("values", [{}, {"erdma_mode": "compat"}, {"erdma_mode": "ofed", "rdma_stack": "auto"},
                                    {"erdma_driver_version": "0.2.37"},
                                    {"erdma_mode": "ofed", "rdma_stack": "mlnx_ofed", "rdma_stack_activation": "reboot"}])
def test_what_goes_together(values: dict[str, str]) -> None:
    assert findings(**values) == []


@pytest.mark.parametrize("values", [{"erdma_mode": "default"}, {"erdma_driver": "mainline", "erdma_mode": "default"}])
def test_in_mode_default_nccl_has_no_gid(values: dict[str, str]) -> None:
    """Programs that connect by RDMA CM go with it, so it is a warning and no error."""
    (line,) = findings(**values)
    assert line.startswith("warning: erdma_mode: does not go with rdma_nccl_profile erdma-native")


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"erdma_mode": "compat", "rdma_stack": "mlnx_ofed"},
         "error: rdma_stack: goes with erdma_mode: ofed; it is compat here; allowed: auto, inbox"),
        ({"erdma_mode": "default", "rdma_stack": "mlnx_ofed"},
         "error: rdma_stack: goes with erdma_mode: ofed; it is default here; allowed: auto, inbox"),
        ({"erdma_mode": "ofed", "rdma_stack": "inbox"},
         "error: rdma_stack: has no MLNX_OFED, which erdma_mode: ofed runs on top of; allowed: auto, mlnx_ofed"),
        ({"erdma_driver": "mainline", "erdma_mode": "ofed"},
         "error: erdma_driver: does not load on top of MLNX_OFED, and erdma_mode is ofed; allowed: auto, dkms, or erdma_mode: compat"),
        ({"erdma_driver": "mainline", "erdma_driver_version": "0.2.37"},
         ("error: erdma_driver_version: is a release of Alibaba's driver; erdma_driver is mainline; "
          "allowed: unset, or erdma_driver: auto or dkms")),
        ({"erdma_driver": "leave", "erdma_mode": "default"},
         "warning: erdma_mode: is judged and never set: erdma_driver is leave; allowed: another erdma_driver, or auto"),
    ],
)
def test_what_does_not(values: dict[str, str], line: str) -> None:
    found = findings(**values)
    assert line in found
    assert len([item for item in found if item.startswith("error")]) == (0 if line.startswith("warning") else 1)


def test_doca_has_no_place_on_erdma() -> None:
    (found,) = findings(rdma_stack="doca")
    assert found.startswith("error: rdma_stack: has no driver for eRDMA")


@pytest.mark.parametrize(("name", "value"), [("erdma_mode", "compat"), ("erdma_driver", "dkms"), ("erdma_driver_version", "0.2.37")])
def test_another_fabric_has_none_of_these_keys(name: str, value: str) -> None:
    assert findings(rdma_fabric="roce", rdma_mtu=9000, **{name: value}) == [
        f"error: {name}: is for eRDMA; rdma_fabric is roce; allowed: unset, or rdma_fabric: erdma"]


def test_a_release_that_is_not_pinned_needs_a_pin() -> None:
    (found,) = findings(erdma_driver_version="1.5.9")
    assert found.startswith("error: erdma_driver_version: is an archive that is not pinned here; allowed: 0.2.37, 1.5.7, 1.5.6, 1.4.")
    assert findings(erdma_driver_version="1.5.9", rdma_artifact_pins={"erdma-installer": "a" * 64}) == []
    (found,) = findings(erdma_driver_version="0.2.36", rdma_artifact_pins={"erdma-driver": "a" * 64})
    assert "is no release that the catalogue has a source of" in found


def test_the_catalogues_checksum_is_of_its_own_release_only(make_spec: MakeSpec) -> None:
    rows = {row.name: row for row in ARTIFACTS}
    for version in ("1.5.7", "1.5.6", "1.4.5", "1.4.3"):
        source = source_of(make_spec(erdma_driver_version=version))
        assert source is not None
        assert (source.version, source.sha256) == (version, rows[source.artifact].value)
        assert source.url.endswith(f"/erdma/erdma_installer-{version}.tar.gz")
    newer = source_of(make_spec(erdma_driver_version="1.5.9", artifact_pins={"erdma-installer": "b" * 64}))
    assert newer is not None
    assert (newer.sha256, newer.url.endswith("erdma_installer-1.5.9.tar.gz")) == ("b" * 64, True)
    assert artifact_of("0.2.36") is None


def test_the_mirror_stands_in_for_the_vendors_hosts(make_spec: MakeSpec) -> None:
    source = source_of(make_spec(artifact_mirror="http://mirror.example.com/m"))
    assert source is not None
    assert source.url.startswith("http://mirror.example.com/m/github.com/alibaba/elastic-rdma-drivers/archive/")


def test_auto_is_ofed_with_a_gpu_and_compat_without(make_spec: MakeSpec) -> None:
    gpu = Gpu("0000:1b:00.0", "0x2330", 0)
    assert (mode_of(make_spec(), identity()), mode_of(make_spec(), identity(gpu))) == ("compat", "ofed")
    assert mode_of(make_spec(erdma_mode="default"), identity(gpu)) == "default"
    assert mode_of(make_spec(fabric="roce", mtu=9000), identity(gpu)) is None


def test_all_hosts_of_a_site_are_in_one_wire_mode(make_spec: MakeSpec) -> None:
    specs = {"gpu1": make_spec(), "gpu2": make_spec(erdma_mode="ofed"), "cpu1": make_spec(erdma_mode="compat")}
    assert not errors_of(validate_site(specs)), "compat and ofed are one on the wire, and auto is either"
    specs["cpu2"] = make_spec(erdma_mode="default")
    (found,) = errors_of(validate_site(specs))
    assert (found.host, found.key, found.value) == ("cpu2", "erdma_mode", "default")
    assert found.message == (
        "is the mode of cpu2, but compat is on cpu1, gpu1, gpu2; nodes in default cannot talk RDMA to nodes in compat or ofed")
    assert not errors_of(validate_site({name: make_spec(erdma_mode="default") for name in ("a", "b")}))
    specs["cpu2"] = make_spec(erdma_driver="leave")
    assert not errors_of(validate_site(specs)), "what is left alone shows on the node only"


def test_dkms_calls_our_script_for_every_build_with_the_same_settings() -> None:
    conf = dkms_conf("0.2.37")
    assert 'PACKAGE_NAME="erdma"\nPACKAGE_VERSION="0.2.37"\nMAKE[0]="sh ./railwright-build.sh $kernelver"\n' in conf
    assert 'AUTOINSTALL="yes"' in conf
    assert "ERDMA_CM_NO_BOUND_IF=1" in build_script("0.2.37", mad=False)
    assert """echo 'MODULE_VERSION("0.2.37");' >>""" in build_script("0.2.37", mad=False)
    assert [MAD in build_script("0.2.37", mad=mad) for mad in (True, False)] == [True, False]


@pytest.mark.parametrize(
    ("wish", "names"),
    [
        ({}, ["erdma-driver"]),
        ({"erdma_driver": "dkms", "erdma_driver_version": "1.5.6"}, ["erdma-installer-1.5.6"]),
        ({"erdma_driver_version": "1.5.9", "artifact_pins": {"erdma-installer": "a" * 64}}, ["erdma-installer"]),
        ({"erdma_driver": "mainline"}, []),
        ({"erdma_driver": "leave"}, []),
        ({"fabric": "roce", "mtu": 9000}, []),
    ],
)
def test_a_mirror_is_told_of_the_one_archive_that_nodes_may_need(make_spec: MakeSpec, wish: dict[str, Any], names: list[str]) -> None:
    spec = make_spec(**wish)
    rows = [row for row in rows_for([spec]) if row.name.startswith(("erdma-driver", "erdma-installer"))]
    assert [row.name for row in rows] == names
    source = source_of(spec)
    assert source is not None
    assert [(row.version, row.value, row.url) for row in rows] == [(source.version, source.sha256, source.url)] * len(names)
