# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold of a node's kernel before modules are built for it. Pure; area ``dkms`` asks when it has something to build.

Modules are built for the kernel that runs, or that ``rdma_kernel_version`` will have run. Where the next boot starts another one they
would be missing after it, and where the running kernel's own files are gone nothing can be built at all: both times the answer is a
reboot first. With a pin the area ``kernel`` sees to both.
"""

from typing import List, Optional

from ...observe.boot import Boot
from ...types import UNENROLLED, Platform, Problem


def headers_package(platform: Platform, kernel: str) -> Optional[str]:
    """The package with the headers of exactly this kernel, as apt and dnf take it; None where the name does not say the kernel."""
    if platform.family == "debian":
        return "linux-headers-" + kernel
    if platform.family == "redhat":
        for flavour in ("64k", "rt"):  # kernel-64k's release ends in +64k
            if kernel.endswith("+" + flavour):
                return "kernel-%s-devel-%s" % (flavour, kernel[:-len(flavour) - 1])
        return "kernel-devel-" + kernel
    return None


def guard_problems(area: str, boot: Boot, platform: Platform, signed: bool, pinned: Optional[str] = None) -> List[Problem]:
    """Why nothing may be built now. ``signed``: by the distribution, so that no key of ours is needed; ``pinned``: rdma_kernel_version."""
    running = boot.kernel(boot.running)
    found: List[Problem] = []
    if pinned is not None and pinned != boot.running:  # nothing is built before that one runs
        return found if signed else _secure_boot(area, boot)
    if boot.kernels and (running is None or not running.modules) and pinned is None:
        return [Problem(area, "kernel " + boot.running, "its modules are not on disk any more (installed: %s); reboot the node first" % (
            ", ".join(kernel.release for kernel in boot.kernels)))]
    if boot.running_is_newest is False and pinned is None:
        found.append(Problem(area, "kernel " + boot.running, "is not the one that the next boot starts, %s (%s): modules built now "
                             "would be missing then; reboot the node first" % (boot.next, boot.next_source)))
    if running is not None and not running.headers and headers_package(platform, boot.running) is None:
        found.append(Problem(area, "kernel " + boot.running, "its headers are not installed (/lib/modules/%s/build leads nowhere), and no "
                             "package of this system is named after them; install them first" % boot.running))
    return found + ([] if signed else _secure_boot(area, boot))


def _secure_boot(area: str, boot: Boot) -> List[Problem]:
    if not boot.secure_boot or boot.mok_enrolled:
        return []
    if boot.mok_key is None:
        state = "there is no key yet that DKMS could sign with"
    elif boot.mok_pending:
        state = "%s waits for its confirmation at the console" % boot.mok_key
    elif boot.mok_enrolled is None:
        state = "whether %s is enrolled cannot be told (mokutil is missing or failed)" % boot.mok_key
    else:
        state = "%s is not enrolled" % boot.mok_key
    return [Problem(area, "Secure Boot", "is on, and %s: the kernel would refuse every module that is built here. Enrol the key "
                    "(with rdma_mok_password_hash apply puts it forward; by hand: mokutil --import; then confirm at the console on the "
                    "next boot) or turn Secure Boot off" % state, UNENROLLED)]
