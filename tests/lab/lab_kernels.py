# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines with a second kernel on offer: a signed repository of their own, a DKMS module, and the site that they are provisioned by."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from lab_debs import Deb, Keyring, build, sign
from lab_images import KERNEL_DEB
from lab_machine import Machine
from lab_vendor import DRIVER_VERSION, driver
from railwright import lab

SITE: dict[str, Any] = {
    "rdma_fabric": "roce",
    "rdma_stack": "inbox",  # the second kernel has no rdma_rxe
    "rdma_mtu": 9000,
    "rdma_consent": ["link", "restart"],
    "rdma_confirm_timeout_s": 600,  # an emulated machine is slow to answer, and nothing here is to be reverted
    "rdma_reboot_timeout_s": 1800,
    "validate_timeout_s": 300,
}
CONSENT = ("--consent", "link,restart,reboot")
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


def fitted(machine: Machine, keyring: Keyring, work: Path) -> None:
    """The second kernel on offer, and a DKMS module for the kernel that the machine came with."""
    offer_second_kernel(machine, keyring, work)
    send(machine, "/root/driver.deb", build(driver(), work, work / "build").read_bytes())
    machine.run("dpkg", "-i", "/root/driver.deb", timeout=SECONDS)


def kernels_of(machine: Machine) -> tuple[str, str]:
    """(the one that the machine came with, the other one)."""
    named = machine.run("dpkg-deb", "-f", KERNEL_DEB, "Package").strip()
    return machine.run("uname", "-r").strip(), named.removeprefix("linux-image-")


def runs(machine: Machine, release: str) -> None:
    """The kernel, the module that DKMS has built for it, and the RDMA core under it."""
    assert machine.run("uname", "-r").strip() == release
    assert f"nvidia/{DRIVER_VERSION}, {release}, x86_64: installed" in machine.run("dkms", "status")
    assert "ib_uverbs" in machine.run("cat", "/proc/modules")
