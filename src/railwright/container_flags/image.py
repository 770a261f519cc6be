# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image has to bring: the user-space packages of its distribution, for eRDMA the repository that has them, and AIACC's plugin.

The image is treated as a system of its own: the catalogue is asked what it would ask for on a node with that distribution. The
kernel's side is the host's, so a vendor's stack on the host is no matter here.
"""

from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack.repositories import fingerprint_key
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import erdma
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.aiacc import PACKAGE, AiaccPackage, package_of
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.repositories import Repository, erdma_problem, repositories_of
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import platform_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity, Platform

DEBIAN = Platform("debian", "", "", (), "", "debian", "apt")  # where nobody says what the image is; Ubuntu's packages have the same names
PACKAGES = {
    "apt": ("rdma-core", "libibverbs1", "ibverbs-providers", "librdmacm1", "ibverbs-utils"),
    "dnf": ("rdma-core", "libibverbs", "librdmacm", "libibverbs-utils"),
}


class ImageSystem(NamedTuple):
    """``known`` False: the distribution is a guess. ``problem``: why no image can be made that opens the devices."""

    manager: str
    packages: tuple[str, ...]
    repository: Repository | None = None
    plugin: AiaccPackage | None = None
    known: bool = True
    problem: str | None = None


def image_system(base: tuple[str, str] | None, arch: str, spec: Spec | None) -> ImageSystem:
    """``base``: distribution and release of the image."""
    on_erdma = spec is not None and spec.fabric == "erdma"
    if base is None:
        why = "which provider an image needs for eRDMA depends on its distribution; say it with --image-os" if on_erdma else None
        return ImageSystem("apt", PACKAGES["apt"], known=False, problem=why)
    platform = platform_of(f'ID={base[0]}\nVERSION_ID="{base[1]}"\nPRETTY_NAME="{base[0]} {base[1]}"\n')
    manager = {"apt": "apt", "dnf": "dnf", "yum": "dnf"}.get(platform.package_manager)
    if manager is None:
        return ImageSystem("apt", (), problem=f"--image-os {base[0]}{base[1]}: allowed: a distribution with apt or dnf")
    if spec is None or not on_erdma:
        return ImageSystem(manager, PACKAGES[manager])
    return _with_erdma(manager, Identity("image", platform, "", arch, "", "container", (), (), ()), spec)


def _with_erdma(manager: str, image: Identity, spec: Spec) -> ImageSystem:
    wishes = Spec({**spec.as_dict(), "rdma_stack": "inbox"})
    packages = erdma.supplied_by_alibaba(image.platform)
    problem = erdma_problem(wishes, image)
    if problem is not None:
        return ImageSystem(manager, packages, problem=problem)
    row = next((row for row in repositories_of(wishes, image) if row.name == "erdma"), None)
    if row is not None and row.fingerprint is None:
        said = f"the signing key of {row.url} ({row.key_url}) is not pinned: set {fingerprint_key(row.name)}"
        return ImageSystem(manager, packages, problem=said)
    plugin = package_of(spec, manager) if spec["aiacc_install"] else None
    return ImageSystem(manager, packages, row, plugin, problem=_unfit(plugin) if plugin is not None else None)


def _unfit(plugin: AiaccPackage) -> str | None:
    """The package is not signed: without a checksum of the operator's nobody knows what would be in the image."""
    if plugin.sha256 is None:
        return f"{PACKAGE} {plugin.version} is not signed and not pinned: set rdma_artifact_pins: {{{plugin.artifact}: SHA256}}"
    if plugin.url is None and plugin.archive is None:
        return f"nothing says where {PACKAGE} {plugin.version} is: set aiacc_url or aiacc_archive"
    return None
