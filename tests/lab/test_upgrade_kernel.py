# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel_version on a machine that boots by GRUB: two real kernels from a signed repository, their own hooks, real DKMS.

Forward and back by `apply`, forward again by `upgrade`. The GPU driver is a DKMS module that does nothing (modules/README.md). The
tests are one story and run in this order.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab_debs import Deb, Keyring, build, sign
from lab_images import KERNEL_DEB, KERNELS
from lab_machine import Machine, Outcome
from lab_vendor import DRIVER_VERSION, driver
from railwright import lab

RECIPE = KERNELS
HARDWARE = lab.Hardware()
SITE: dict[str, Any] = {
    "fabric": "roce",
    "rdma_stack": "inbox",  # the second kernel has no rdma_rxe
    "mtu": 9000,
    "consent": ["link", "restart"],
    "confirm_timeout_s": 600,  # an emulated machine is slow to answer, and nothing here is to be taken back
    "reboot_timeout_s": 1800,
    "validate_timeout_s": 300,
}
CONSENT = ("--consent", "link,restart,reboot")
DROP_IN = "/etc/default/grub.d/zz-railwright-kernel.cfg"
REPOSITORY = Path(KERNEL_DEB).parent
SOURCES = f"Types: deb\nURIs: file:{REPOSITORY}\nSuites: ./\nSigned-By: /etc/apt/keyrings/lab.asc\n"
INDEX = f"""cd {REPOSITORY}
for file in *.deb; do
    dpkg-deb -f $file
    printf 'Filename: ./%s\\nSize: %s\\nSHA256: %s\\n\\n' $file $(stat -c %s $file) $(sha256sum < $file | cut -d' ' -f1)
done
"""
SECONDS = 1200
# Inbox packages that the image does without: one brings perl, the other 20 MB.
STAND_INS = (Deb("infiniband-diags", "44.0-2"), Deb("mstflint", "4.21.0-1"))


def send(machine: Machine, path: str, body: bytes) -> None:
    argv = lab.ssh_argv(machine.node, ["sh", "-euc", f"cat > {path}"], state_dir=machine.state_dir)
    subprocess.run(argv, input=body, check=True, timeout=SECONDS)


def offer_second_kernel(machine: Machine, keyring: Keyring, work: Path) -> None:
    """Its two packages lie in the image: they become a signed repository of the machine's own."""
    for deb in STAND_INS:
        send(machine, f"{REPOSITORY}/{deb.name}.deb", build(deb, work, work / "build").read_bytes())
    sign(machine.sh(INDEX, SECONDS), work, keyring, "lab")
    for name in ("Packages", "InRelease"):
        send(machine, f"{REPOSITORY}/{name}", (work / name).read_bytes())
    machine.run("mkdir", "-p", "/etc/apt/keyrings")
    send(machine, "/etc/apt/keyrings/lab.asc", (work / "key.asc").read_bytes())
    machine.write("/etc/apt/sources.list.d/lab.sources", SOURCES)


@pytest.fixture(scope="module")
def node(machine: Machine, keyring: Keyring, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Provisioned, with a DKMS module for the kernel that the machine came with."""
    work = tmp_path_factory.mktemp("kernel")
    offer_second_kernel(machine, keyring, work)
    send(machine, "/root/driver.deb", build(driver(), work, work / "build").read_bytes())
    machine.run("dpkg", "-i", "/root/driver.deb", timeout=SECONDS)
    machine.site(SITE)
    done = machine.railwright("apply")
    assert done.code in (0, 2), (done.document, done.err)
    return machine


@pytest.fixture(scope="module")
def kernels(node: Machine) -> tuple[str, str]:
    """(the one that the machine came with, the other one)."""
    named = node.run("dpkg-deb", "-f", KERNEL_DEB, "Package").strip()
    return node.run("uname", "-r").strip(), named.removeprefix("linux-image-")


def pin(machine: Machine, release: str) -> None:
    machine.site({**SITE, "kernel_version": release})


def runs(machine: Machine, release: str) -> None:
    """The kernel, the module that DKMS has built for it, and the RDMA core under it."""
    assert machine.run("uname", "-r").strip() == release
    assert f"nvidia/{DRIVER_VERSION}, {release}, x86_64: installed" in machine.run("dkms", "status")
    assert "ib_uverbs" in machine.run("cat", "/proc/modules")


def changes(outcome: Outcome) -> list[str]:
    return [change["key"] for change in outcome.document["nodes"]["node1"]["changes"] if change.get("applied", True)]


def test_a_reboot_needs_consent_and_nothing_has_changed_without_it(node: Machine, kernels: tuple[str, str]) -> None:
    _old, new = kernels
    pin(node, new)
    run = node.railwright("apply")
    assert run.code == 1, run.document
    assert "reboot" in str(run.document["nodes"]["node1"])
    assert new not in node.run("ls", "/boot")


def test_apply_brings_the_pinned_kernel_and_what_is_built_for_it(node: Machine, kernels: tuple[str, str]) -> None:
    _old, new = kernels
    pin(node, new)
    run = node.railwright("apply", *CONSENT)
    assert run.code == 0, (run.document, run.err)
    made = changes(run)
    assert {f"kernel: package linux-image-{new}", f"kernel: package linux-headers-{new}", f"kernel: kernel {new} runs"} <= set(made)
    runs(node, new)
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document


def test_a_pin_to_the_older_kernel_goes_back_to_it_and_stays_there(node: Machine, kernels: tuple[str, str]) -> None:
    old, new = kernels
    pin(node, old)
    run = node.railwright("apply", *CONSENT)
    assert run.code == 0, (run.document, run.err)
    assert "kernel: kernel that the next boot starts" in changes(run)
    runs(node, old)
    assert f"gnulinux-{old}-advanced" in node.run("cat", DROP_IN)
    assert f"vmlinuz-{new}" in node.run("ls", "/boot"), "kernels are never removed"
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document


def test_a_release_moves_the_machine_to_the_other_kernel(node: Machine, kernels: tuple[str, str], tmp_path: Path) -> None:
    """The inventory still names the old one: the release wins while it is rolled out, and what must be written there is said."""
    _old, new = kernels
    release = tmp_path / "release.yml"
    release.write_text(yaml.safe_dump({"name": "second", "pins": {"kernel_version": new}}), encoding="utf-8")
    boot = node.boot_id()
    run = node.railwright("upgrade", "--to", str(release), *CONSENT)
    assert run.code == 0, (run.document, run.err)
    assert node.boot_id() != boot
    runs(node, new)
    assert "kernel_version" in str(run.document)
    pin(node, new)
    plan = node.railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
