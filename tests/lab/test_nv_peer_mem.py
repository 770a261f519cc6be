# SPDX-License-Identifier: GPL-3.0-or-later
"""The obsolete path, where the table says so: a driver older than R470 under a vendor's stack gets nv_peer_mem.

Its source comes from the site's mirror, held to the operator's checksum, is built by DKMS and survives a reboot. Driver, HCA and the
archive's content are stand-ins (modules/README.md); download, checksum, DKMS, the kernel and its registration are real.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu.gpudirect import ARTIFACTS
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact, mirror_path
from lab_images import DRIVERS
from lab_machine import Machine, values_of
from lab_vendor import OLD_DRIVER_VERSION, nv_peer_mem_source
from railwright import lab

RECIPE = DRIVERS
HARDWARE = lab.Hardware()
RELEASE = "1.3-0"  # the one for DOCA's ib_core
VERSION = "1.3"
SITE = {
    "rdma_fabric": "roce",
    "rdma_stack": "doca",
    "rdma_stack_version": "3.2.3",
    "rdma_mtu": 9000,
    "rdma_qos_profile": "none",  # the stand-in stack has no rdma_cm; test_qos.py has
    "rdma_consent": ["link", "restart", "reload"],
    "validate_perftest": False,
}


def archive() -> bytes:
    """As a forge packs a commit: one directory with the tree in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in nv_peer_mem_source(VERSION).items():
            entry = tarfile.TarInfo(f"nv_peer_memory-commit/{name}")
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


@pytest.fixture(scope="module")
def node(machine: Machine, vendor: dict[str, Any]) -> Machine:
    machine.stand_in_hardware("nvidia")
    machine.rails({"name": "rail0", "match": {"pci": "0001:02:00.0"}, "address": "10.77.0.11/24"})
    machine.site({**SITE, **values_of(vendor)})
    run = machine.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    machine.bring_hca()
    machine.run("apt-get", "-q", "-y", "install", "nvidia-kernel-dkms", timeout=900)
    machine.run("modprobe", "nvidia")
    return machine


def test_without_a_checksum_it_is_refused(node: Machine) -> None:
    run = node.railwright("apply")
    assert run.code == 1, run.document
    assert "artifact_pins" in str(run.document["nodes"]["node1"]), run.document


def test_apply_builds_and_registers_it(node: Machine, vendor: dict[str, Any]) -> None:
    name = ARTIFACTS[RELEASE]
    artifact = find_artifact(name)
    assert artifact is not None
    packed = archive()
    file = vendor["directory"] / str(mirror_path(artifact.url))
    file.parent.mkdir(parents=True)
    file.write_bytes(packed)
    pins = {name: hashlib.sha256(packed).hexdigest()}
    node.site({**SITE, **values_of(vendor), "rdma_artifact_mirror": vendor["mirror"], "rdma_artifact_pins": pins})
    run = node.railwright("apply")
    assert run.code == 0, (run.document, run.err)
    assert f"nv_peer_mem/{VERSION}, {node.run('uname', '-r').strip()}, x86_64: installed" in node.run("dkms", "status")
    seen = node.sh("grep -E '^(ib_core|nv|mlx5)' /proc/modules; dmesg | tail -n 20")
    assert "nv_peer_mem" in node.sh("grep '^ib_core ' /proc/modules"), (run.document, seen)


def test_it_survives_a_reboot(node: Machine) -> None:
    node.reboot()
    assert "nv_peer_mem" in node.sh("grep '^ib_core ' /proc/modules"), "loaded and registered, with nobody's help"
    assert node.run("cat", "/proc/driver/nvidia/version").split("  ")[1].startswith(OLD_DRIVER_VERSION)
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
    judged = {item["check"]: item["status"] for item in node.railwright("validate").verdicts("gpudirect.peermem", "gpudirect.built")}
    assert judged == {"gpudirect.peermem": "pass", "gpudirect.built": "pass"}
