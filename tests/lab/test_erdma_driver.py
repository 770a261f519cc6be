# SPDX-License-Identifier: GPL-3.0-or-later
"""eRDMA's driver on a machine without eRDMA: brought from the site's mirror by its checksum, built by DKMS with our settings, its mode
changed with consent, refused while a program holds it, and the same after a reboot.

The driver is a stand-in with the vendor's parameter and the shape of its build (modules/README.md); download, checksum, CMake, DKMS,
modprobe, modprobe.d, modules-load.d and the kernel's reference count are real. There is no RDMA device, so nothing is measured.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.drivers import OPEN
from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.erdma import BOOT_FILE, OPTIONS_FILE
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact, mirror_path
from lab_debs import served
from lab_images import FABRIC, MODULES
from lab_machine import ROOT, RUN_SECONDS, Machine
from railwright import lab

RECIPE = replace(
    FABRIC,
    title="image of the eRDMA driver test (GRUB, RDMA packages, DKMS, CMake, kernel headers)",
    packages=(*FABRIC.packages, "dkms", "gcc", "make", "cmake", "linux-headers-amd64"),
)
HARDWARE = lab.Hardware()
VERSION = "0.2.37"
PARAMETER = "/sys/module/erdma/parameters/compat_mode"
MAD = "/sys/module/erdma/parameters/built_with_mad"


def archive() -> bytes:
    """As a forge packs a commit: one directory, and the driver below kernel/."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path in sorted((MODULES / "erdma").rglob("*")):
            if path.is_file():
                tar.add(path, f"elastic-rdma-drivers-commit/kernel/{path.relative_to(MODULES / 'erdma')}")
    return packed.getvalue()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The inventory's values; the mirror holds the stand-in where it would hold the vendor's archive."""
    directory = tmp_path_factory.mktemp("mirror")
    artifact = find_artifact(OPEN)
    assert artifact is not None
    packed = archive()
    file = directory / str(mirror_path(artifact.url))
    file.parent.mkdir(parents=True)
    file.write_bytes(packed)
    with served(directory) as url:
        yield {
            "rdma_fabric": "erdma",
            "rdma_mtu": 1400,
            "rdma_stack": "auto",
            "erdma_repository": "false",
            "rdma_artifact_mirror": url,
            "rdma_artifact_pins": {OPEN: hashlib.sha256(packed).hexdigest()},
        }


class Role:
    """Role erdma by ansible-playbook, as somebody runs it who has the collection and no railwright."""

    def __init__(self, machine: Machine, directory: Path, site: dict[str, Any]) -> None:
        self.machine, self.book, self.site = machine, directory / "erdma.yml", site
        play = [{"name": "One role", "hosts": "rdma", "gather_facts": False, "roles": ["railwright.rdma.erdma"]}]
        self.book.write_text(yaml.safe_dump(play), encoding="utf-8")

    def run(self, **values: Any) -> tuple[int, str]:
        self.machine.site({**self.site, **values})
        argv = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(self.machine.inventory), str(self.book)]
        env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev"), "ANSIBLE_NOCOLOR": "1"}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_SECONDS, check=False, env=env)
        return done.returncode, done.stdout + done.stderr

    def applies(self, **values: Any) -> None:
        code, output = self.run(**values)
        assert code == 0, output[-3000:]
        code, output = self.run(**values)
        assert code == 0, output[-3000:]
        assert " changed=0 " in output, output[-3000:]

    def refuses(self, words: str, **values: Any) -> None:
        code, output = self.run(**values)
        assert code != 0, output[-3000:]
        assert words in output, output[-3000:]


@pytest.fixture(scope="module")
def role(machine: Machine, tmp_path_factory: pytest.TempPathFactory, site: dict[str, Any]) -> Role:
    return Role(machine, tmp_path_factory.mktemp("play"), site)


def running(machine: Machine) -> str:
    return machine.run("cat", PARAMETER).strip()


def test_another_archive_than_the_pinned_one_is_not_used(role: Role) -> None:
    role.refuses("checksum", erdma_mode="default", rdma_artifact_pins={OPEN: "0" * 64})
    assert "erdma" not in role.machine.run("dkms", "status")
    role.machine.run("test", "!", "-e", f"/usr/src/erdma-{VERSION}")


def test_the_driver_is_built_and_loaded_in_its_mode(role: Role) -> None:
    role.applies(erdma_mode="default")
    machine = role.machine
    kernel = machine.run("uname", "-r").strip()
    assert f"erdma/{VERSION}, {kernel}, x86_64: installed" in machine.run("dkms", "status")
    assert (running(machine), machine.run("cat", MAD).strip()) == ("N", "N")
    assert "options erdma compat_mode=N" in machine.run("cat", OPTIONS_FILE)
    assert machine.run("cat", BOOT_FILE).splitlines()[1:] == ["ib_core", "ib_uverbs", "erdma"]


def test_another_mode_needs_consent(role: Role) -> None:
    role.refuses("refused without consent", erdma_mode="compat")
    assert running(role.machine) == "N"


def test_a_program_that_holds_the_driver_is_not_cut(role: Role) -> None:
    machine = role.machine
    machine.sh("systemd-run --unit=lab-holder --collect sh -c 'exec sleep 3600 < /dev/lab_erdma'; sleep 2")
    role.refuses("is in use by somebody (1 references)", erdma_mode="compat", rdma_consent=["reload"])
    assert running(machine) == "N"
    machine.sh("systemctl stop lab-holder")


def test_a_driver_that_does_not_build_leaves_the_old_one_built_and_running(role: Role) -> None:
    machine, source = role.machine, f"/usr/src/erdma-{VERSION}/src/erdma_main.c"
    machine.sh(f"cp {source} /root/erdma_main.c; printf '#if HAVE_ERDMA_MAD\\n#error only for compat\\n#endif\\n' >> {source}")
    role.refuses("only for compat", erdma_mode="compat", rdma_consent=["reload"])
    machine.sh(f"mv /root/erdma_main.c {source}")
    assert running(machine) == "N"
    assert ": installed" in machine.run("dkms", "status", f"erdma/{VERSION}")
    role.applies(erdma_mode="default")


def test_with_consent_the_driver_is_built_for_compat_and_reloaded(role: Role) -> None:
    role.applies(erdma_mode="compat", rdma_consent=["reload"])
    assert (running(role.machine), role.machine.run("cat", MAD).strip()) == ("Y", "Y")


def test_a_driver_loaded_by_hand_in_another_mode_is_found_and_remediated(role: Role) -> None:
    machine = role.machine
    machine.sh("rmmod erdma; modprobe erdma compat_mode=N")
    role.refuses("mode of the eRDMA driver", erdma_mode="compat")
    role.applies(erdma_mode="compat", rdma_consent=["reload"])
    assert running(machine) == "Y"


def test_it_survives_a_reboot(role: Role) -> None:
    machine = role.machine
    machine.reboot()
    assert running(machine) == "Y", "loaded by modules-load.d in the mode of modprobe.d, with nobody's help"
    role.applies(erdma_mode="compat")
