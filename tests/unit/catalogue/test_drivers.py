# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of the GPU driver, CUDA and cuDNN by system and branch, and which of them fit together."""

import re
from collections.abc import Callable

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.drivers import (
    BRANCHES,
    cuda_packages,
    driver_fits,
    driver_glob,
    find_branch,
    gpu_packages,
    minimum_driver,
    version_pins,
)
from ansible_collections.railwright.rdma.plugins.module_utils.formats.versions import matches
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity

MakeSpec = Callable[..., Spec]
MakeIdentity = Callable[..., Identity]
NVIDIA = {"gpu_driver_branch": "580"}
PROPRIETARY = {"gpu_driver_branch": "580", "gpu_driver_flavour": "proprietary"}
OWN = {"gpu_driver_branch": "580", "gpu_driver_source": "distribution"}


@pytest.mark.parametrize(
    ("values", "system", "nvswitches", "names"),
    [
        (NVIDIA, "ubuntu 24.04", 0, ["nvidia-open"]),
        (NVIDIA, "ubuntu 24.04", 4, ["nvidia-open", "nvidia-fabricmanager"]),
        (PROPRIETARY, "debian 12", 0, ["cuda-drivers"]),
        (
            NVIDIA,
            "rocky 9.5",
            4,
            ["nvidia-open", "kmod-nvidia-open-dkms", "nvidia-driver-cuda", "nvidia-persistenced", "nvidia-fabricmanager"],
        ),
        (PROPRIETARY, "rhel 8.10", 0, ["cuda-drivers", "kmod-nvidia-latest-dkms", "nvidia-driver-cuda", "nvidia-persistenced"]),
        ({**NVIDIA, "gpu_driver_persistence": False}, "rhel 9.4", 0, ["nvidia-open", "kmod-nvidia-open-dkms", "nvidia-driver-cuda"]),
        ({**NVIDIA, "gpu_driver_fabricmanager": True}, "ubuntu 22.04", 0, ["nvidia-open", "nvidia-fabricmanager"]),
        ({**NVIDIA, "gpu_driver_fabricmanager": False}, "ubuntu 22.04", 4, ["nvidia-open"]),
        ({"gpu_driver_branch": "570", "gpu_driver_version": "570.172.08"}, "ubuntu 22.04", 4, ["nvidia-open", "nvidia-fabricmanager-570"]),
        (
            {"gpu_driver_branch": "570", "gpu_driver_version": "570.172.08", "gpu_driver_persistence": False},
            "rhel 9.4",
            4,
            ["nvidia-open", "kmod-nvidia-open-dkms", "nvidia-driver-cuda", "nvidia-fabric-manager"],
        ),
        (OWN, "ubuntu 24.04", 4, ["nvidia-driver-580-server-open", "nvidia-fabricmanager-580"]),
        ({**OWN, "gpu_driver_flavour": "proprietary"}, "ubuntu 22.04", 0, ["nvidia-driver-580-server"]),
        ({**OWN, "gpu_driver_branch": "550"}, "debian 13", 0, ["nvidia-driver", "nvidia-open-kernel-dkms"]),
        (OWN, "debian 13", 4, []),
        (OWN, "rocky 9.5", 0, []),
        (NVIDIA, "alinux 3", 0, []),
        (NVIDIA, "sles 15.7", 0, []),
        ({}, "ubuntu 24.04", 4, []),
    ],
)
def test_the_drivers_packages(
    values: dict[str, object], system: str, nvswitches: int, names: list[str], make_spec: MakeSpec, make_identity: MakeIdentity
) -> None:
    found = gpu_packages(make_spec(**values), make_identity(system, gpus=8, nvswitches=nvswitches))
    assert [row.name for row in found] == names
    assert all(row.why and row.source for row in found)
    assert len({row.version for row in found}) <= 1, "the fabric manager has exactly the driver's version"


@pytest.mark.parametrize(("branch", "cuda"), [("580", "13"), ("570", "12"), ("470", "11")])
def test_dcgm_follows_the_cuda_of_the_driver(branch: str, cuda: str, make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    spec = make_spec(gpu_driver_branch=branch, gpu_driver_version=branch + ".1", gpu_driver_flavour="proprietary", gpu_driver_dcgm=True)
    found = {row.name: row.version for row in gpu_packages(spec, make_identity("ubuntu 22.04", gpus=8))}
    assert found == {"cuda-drivers": branch + ".1-*", "datacenter-gpu-manager-4-cuda" + cuda: None}


def test_no_gpu_no_driver(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    spec = make_spec(**NVIDIA, cuda_version="13.0", cuda_cudnn_version="9.13")
    assert gpu_packages(spec, make_identity(gpus=0)) == ()
    assert cuda_packages(spec, make_identity(gpus=0)) == ()
    assert version_pins(spec, make_identity(gpus=0)) == ()


def test_a_repository_of_ones_own_for_a_system_that_nvidia_has_not(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    spec = make_spec(**NVIDIA, cuda_version="13.0", cuda_repository_url="http://r.example.com/cuda/")
    assert gpu_packages(spec, make_identity("alinux 3", gpus=1))[0].name == "nvidia-open"
    assert cuda_packages(spec, make_identity("alinux 3", gpus=1))[0].name == "cuda-toolkit-13-0"


@pytest.mark.parametrize(
    ("values", "glob", "version", "family"),
    [
        (NVIDIA, "580.173.02-*", "580.173.02-1ubuntu1", "debian"),
        (NVIDIA, "580.173.02-*", "3:580.173.02-1.el9", "redhat"),
        ({**NVIDIA, "gpu_driver_version": "580.95.05"}, "580.95.05-*", "580.95.05-0ubuntu1", "debian"),
        ({**NVIDIA, "gpu_driver_version": "580.95.05-0ubuntu1"}, "580.95.05-0ubuntu1", "580.95.05-0ubuntu1", "debian"),
        (OWN, "580.*", "580.173.02-0ubuntu0.24.04.1", "debian"),
        ({**OWN, "gpu_driver_version": "580.173.02"}, "580.173.02-*", "580.173.02-0ubuntu0.24.04.1", "debian"),
    ],
)
def test_the_version_as_the_package_manager_prints_it(
    values: dict[str, str], glob: str, version: str, family: str, make_spec: MakeSpec
) -> None:
    assert driver_glob(make_spec(**values)) == glob
    assert matches(version, glob, family)
    assert not matches("580.126.2-1ubuntu1", "580.126.20-*", "debian")


def test_pins_cover_every_package_of_the_driver(make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    (pin,) = version_pins(make_spec(**NVIDIA), make_identity(gpus=1))
    assert pin.version == "580.173.02-*"
    assert {"*nvidia*", "libcuda1", "cuda-drivers*"} <= set(pin.packages)
    assert version_pins(make_spec(**OWN), make_identity(gpus=1)) == (), "the distribution has one release at a time"


@pytest.mark.parametrize(("system", "devel"), [("ubuntu 24.04", "libcudnn9-dev-cuda-13"), ("rocky 9.5", "libcudnn9-devel-cuda-13")])
def test_cudas_packages(system: str, devel: str, make_spec: MakeSpec, make_identity: MakeIdentity) -> None:
    spec = make_spec(cuda_version="13.0", cuda_cudnn_version="9.13", cuda_packages=["cuda-toolkit", "libcublas"])
    found = {row.name: row.version for row in cuda_packages(spec, make_identity(system, gpus=1))}
    assert found == {
        "cuda-toolkit-13-0": "13.0.*",
        "libcublas-13-0": None,
        "libcudnn9-cuda-13": "9.13.*",
        "libcudnn9-headers-cuda-13": "9.13.*",
        devel: "9.13.*",
    }


@pytest.mark.parametrize(
    ("asked", "found", "good"),
    [
        ("9.13", "9.13.1.26-1", True),
        ("9.13", "9.130.0.1-1", False),
        ("9.13.1.26", "9.13.1.26-1", True),
        ("9.13.1.26", "9.13.1.260-1", False),
        ("9.13.1", "9.13.1.26-1", True),
        ("9.13.1.26-1", "9.13.1.26-1", True),
    ],
)
def test_cudnn_by_as_many_numbers_as_are_asked_for(
    asked: str, found: str, good: bool, make_spec: MakeSpec, make_identity: MakeIdentity
) -> None:
    spec = make_spec(cuda_version="13.0", cuda_cudnn_version=asked)
    wanted = next(row.version for row in cuda_packages(spec, make_identity(gpus=1)) if row.name == "libcudnn9-cuda-13")
    assert wanted is not None
    assert matches(found, wanted, "debian") is good


@pytest.mark.parametrize(
    ("cuda", "driver", "fits"),
    [
        ("13.0", "580.65.06", True),
        ("13.2", "580.126.20", True),
        ("13.0", "575.57.08", False),
        ("12.9", "535.288.01", True),
        ("12.0", "525.60.13", True),
        ("12.0", "515.105.01", False),
        ("11.8", "450.80.02", True),
        ("12.8", "595.58.03", True),
        ("13.1", "580", True),
    ],
)
def test_a_toolkit_runs_on_drivers_from_its_majors_first_branch_on(cuda: str, driver: str, fits: bool) -> None:
    assert driver_fits(cuda, driver) is fits


def test_an_unknown_major_has_no_minimum() -> None:
    assert minimum_driver("14.0") == ""
    assert minimum_driver("13.9") == "580"


def test_branches_are_pinned_to_releases_of_their_own() -> None:
    for row in BRANCHES:
        assert row.version.startswith(row.name + ".")
        assert row.source
        assert find_branch(row.name) is row
        assert re.search(r"858 \(2026-07-07\)|redistrib_" + re.escape(row.version), row.source), "where this release was seen, and when"
    assert [(row.name, row.kind, row.eol) for row in BRANCHES] == [  # NVIDIA's table of November 2026
        ("580", "long-term support", "2028-06-30"), ("595", "production", "2027-03-31"), ("620", "long-term support", "2029-09-30")]
    assert find_branch("999") is None
