# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image needs so that its programs find the RDMA devices: a fragment of a Containerfile, by the image's distribution.

The kernel's side is the host's. An image needs the libraries that open the devices, and those must know the device.
"""

from __future__ import annotations

from railwright.container_flags.model import IMAGE, Container

APT = ("ubuntu", "debian")
DNF = ("rhel", "rocky", "almalinux", "centos", "alinux", "anolis", "fedora")
PACKAGES = {
    "apt": ("rdma-core", "libibverbs1", "ibverbs-providers", "librdmacm1", "ibverbs-utils"),
    "dnf": ("rdma-core", "libibverbs", "librdmacm", "libibverbs-utils"),
}


def text(container: Container) -> str:
    base = "" if container.image == IMAGE else f"={container.image}"
    return "\n".join([f"ARG BASE{base}", "FROM ${BASE}", *_steps(container), ""])


def _steps(container: Container) -> list[str]:
    manager = _manager(container)
    if manager == "dnf":
        return [f"RUN dnf install -y {' '.join(PACKAGES['dnf'])} && dnf clean all"]
    return [
        "RUN apt-get update \\",
        f" && apt-get install -y --no-install-recommends {' '.join(PACKAGES['apt'])} \\",
        " && rm -rf /var/lib/apt/lists/*",
    ]


def notes(container: Container) -> list[str]:
    if container.base is not None:
        return []
    return ["the image's distribution is not known: this is for Debian and Ubuntu; --image-os says it, such as ubuntu22.04 or rocky9"]


def _manager(container: Container) -> str:
    return "dnf" if container.base is not None and container.base[0] in DNF else "apt"
