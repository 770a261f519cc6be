# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel that ``rdma_kernel_version`` pins: installed with its headers, the one that the next boot starts, and the one that runs.

Kernels are installed side by side, so a pin to an older one is no downgrade, and none is ever removed: the one from before is the
way back. Everything that is built for a kernel waits until the pinned one runs; the play reboots into it first (tasks/kernel.yml of
rdma_stack). Without a pin the kernel is left as it is.
"""

import re
from typing import List, NamedTuple, Optional, Tuple

from ...catalogue.inbox import package_of_module
from ...host.host import Host
from ...observe.boot import BOOT, Boot, has_headers, observe_boot
from ...observe.modules import module_path
from ...observe.packages import query_packages
from ...spec.model import Spec
from ...types import PRESENT, Change, Identity, Platform, Problem
from ..common.package_changes import package_change
from . import kernel_boot, kernel_modules
from .kernel_guard import headers_package

NAME = "kernel"
SOURCE = "Debian and Ubuntu (linux-image-RELEASE), EL (kernel-RELEASE): packages named after `uname -r`"
WHY = "rdma_kernel_version: stack and drivers are built for one kernel"
WHY_HEADERS = "DKMS builds the stack's and the driver's modules for it"
WHY_EXTRA = "the kernel that runs has its rarely used modules too, and they must not be missing"
EXTRA_MODULE = "rdma_rxe"  # what tells that the distribution's package of rarely used modules is there
# What one kernel has in /boot, each a file that ends in its release (EL: initramfs-RELEASE.img).
BOOT_FILES = ("vmlinuz-%s", "initrd.img-%s", "initramfs-%s.img", "System.map-%s", "config-%s", "symvers-%s.gz")
SLACK = 16 * 1024 * 1024  # an initramfs is as large as what it holds; file systems do not fill to the last byte
_ARCHITECTURES = {"debian": {"x86_64": "amd64", "aarch64": "arm64"}}


class Desired(NamedTuple):
    """``release`` None: no kernel is pinned. ``packages``: image, headers, rarely used modules; None where no package is named so."""

    identity: Identity
    release: Optional[str]
    image: Optional[str]
    headers: Optional[str]
    extra: Optional[str]
    live: bool
    modules: Tuple[str, ...] = ()  # what the stack has to load, and no package beside the kernel's brings


class Observed(NamedTuple):
    """``here``: the pinned kernel can be booted. ``room``: (free, needed) bytes in /boot, where a kernel is still to come."""

    boot: Optional[Boot]
    here: bool
    headers: bool
    extra: bool
    state: Optional[kernel_boot.State]
    room: Optional[Tuple[int, int]]
    lacking: Tuple[str, ...] = ()  # of those modules, the ones that the pinned kernel has not: known once it is here
    left: bool = False  # our choice of an earlier pin still stands in GRUB's configuration


def desired(spec: Spec, identity: Identity) -> Desired:
    release = spec["kernel_version"]
    if release is None:
        return Desired(identity, None, None, None, None, not identity.has("container"))
    platform = identity.platform
    return Desired(
        identity, release, image_package(platform, release), headers_package(platform, release),
        package_of_module(platform, release, EXTRA_MODULE), not identity.has("container"),
        tuple(module.name for module in kernel_modules.desired(spec, identity).modules if module.package is None))


def image_package(platform: Platform, release: str) -> Optional[str]:
    """The package of a kernel, as apt and dnf take it; it depends on the modules."""
    if platform.family == "debian":
        return "linux-image-" + release
    headers = headers_package(platform, release)
    return headers.replace("-devel-", "-", 1) if headers is not None else None


def observe(host: Host, desired: Desired) -> Observed:
    release = desired.release
    if release is None or not desired.live:
        return Observed(None, False, False, False, None, None, (), desired.live and host.exists(kernel_boot.DROP_IN))
    boot = observe_boot(host, desired.identity.kernel)
    kernel = boot.kernel(release)
    here = kernel is not None and kernel.image and kernel.modules
    return Observed(boot, here, has_headers(host, release), not _lacks_extra(host, desired), kernel_boot.observe(host, release),
                    None if here else _room(host, boot), _lacking(host, release, desired.modules) if here else ())


def _lacking(host: Host, release: str, modules: Tuple[str, ...]) -> Tuple[str, ...]:
    return tuple(name for name in modules if module_path(host, release, name) is None and not kernel_modules.built_in(host, release, name))


def _lacks_extra(host: Host, desired: Desired) -> bool:
    """The running kernel has the package of rarely used modules, and the pinned one has not. What the stack itself needs it asks for."""
    running, release = desired.identity.kernel, desired.release
    if desired.extra is None or release is None or module_path(host, release, EXTRA_MODULE) is not None:
        return False
    # By name on Ubuntu; on EL all versions have one name.
    name = desired.extra.replace(release, running) if desired.identity.platform.family == "debian" else desired.extra[:-len(release) - 1]
    return name in (query_packages(host, desired.identity, [name]) or {}) and module_path(host, running, EXTRA_MODULE) is not None


def _room(host: Host, boot: Boot) -> Optional[Tuple[int, int]]:
    """The largest kernel of this node is the measure; where none has a file in /boot, nothing is known and the proof asks for /usr."""
    sizes = [sum(host.size("%s/%s" % (BOOT, name % kernel.release)) or 0 for name in BOOT_FILES) for kernel in boot.kernels]
    free = host.free_bytes(BOOT)
    if free is None or not any(sizes):
        return None
    return free, max(sizes) + SLACK


def plan(desired: Desired, observed: Observed) -> List[Change]:
    release, boot, state = desired.release, observed.boot, observed.state
    if release is None or boot is None or state is None or not desired.image:
        return []
    rows = ((desired.image, observed.here, WHY), (desired.headers, observed.headers, WHY_HEADERS),
            (desired.extra, observed.extra, WHY_EXTRA))
    changes = [package_change(NAME, name, None, PRESENT, why, SOURCE) for name, there, why in rows if name is not None and not there]
    changes += kernel_boot.plan(NAME, release, boot, state, observed.here, WHY)
    if boot.running != release:
        changes.append(Change(NAME, "kernel %s runs" % release, boot.running, release, "reboot", WHY, SOURCE, ()))
    return changes


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    release, platform = desired.release, identity.platform
    if release is None or not desired.live:
        return []
    if desired.image is None:
        return [Problem(NAME, "rdma_kernel_version", "%s: the packages of a kernel are not named after its release on %s; Debian, Ubuntu "
                        "and the EL family are supported. Leave rdma_kernel_version out for this node" % (release, platform.pretty))]
    arch = _ARCHITECTURES.get(platform.family, {}).get(identity.arch, identity.arch)
    fits = _fits_redhat(release, arch) if platform.family == "redhat" else _fits_debian(release, arch, platform.id)
    if fits:
        return []
    return [Problem(NAME, "rdma_kernel_version", "%s is no kernel release of %s on %s: there `uname -r` prints one like %s" % (
        release, platform.pretty, identity.arch, identity.kernel))]


def _fits_redhat(release: str, arch: str) -> bool:
    return re.search(r"\.%s(\+(64k|rt))?\Z" % re.escape(arch), release) is not None and "uek" not in release


def _fits_debian(release: str, arch: str, system: str) -> bool:
    """Debian's ends in the architecture; Ubuntu's in a flavour, so there only what is somebody else's is told."""
    return release.endswith("-" + arch) if system == "debian" else re.search(r"\.(x86_64|aarch64)\b|-(amd64|arm64)\Z", release) is None


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    release, boot, state = desired.release, observed.boot, observed.state
    if release is None or boot is None or state is None or desired.image is None:
        return []
    found = kernel_boot.conflicts(NAME, release, boot, state, observed.here)
    if observed.room is not None and observed.room[0] < observed.room[1]:
        free, needed = (size // 1048576 for size in observed.room)
        found.append(Problem(NAME, "/boot", "has %d MiB free and one more kernel needs %d MiB there; remove one that neither runs nor is "
                             "pinned (installed: %s)" % (free, needed, ", ".join(kernel.release for kernel in boot.kernels))))
    if observed.lacking and boot.running != release:  # of the one that runs its own area says it
        found.append(Problem(NAME, "kernel " + release, "has no module %s, which the stack needs: the node would come back without RDMA" % (
            " and no ".join(observed.lacking))))
    return found


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.release is not None and not desired.live:
        return ["kernel: this is a container, its kernel belongs to the machine below; rdma_kernel_version is left to that one"]
    if observed.left and desired.release is None:
        return ["kernel: %s still has GRUB start the kernel of an earlier rdma_kernel_version, which the inventory does not name any more; "
                "name it again, or remove that file and run update-grub" % kernel_boot.DROP_IN]
    return []
