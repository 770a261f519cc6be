# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel that ``rdma_kernel_version`` pins: installed with its headers, the one that the next boot starts, and the one that runs.

Kernels are installed side by side, so a pin to an older one is no downgrade, and none is ever removed: the one from before is the
way back. Everything that is built for a kernel waits until the pinned one runs; the play reboots into it first (tasks/kernel.yml of
rdma_stack). Without a pin the kernel is left as it is.

Which one the next boot starts. Debian and Ubuntu: GRUB_DEFAULT in a file of ours in /etc/default/grub.d, and update-grub. EL: grubby, which
writes saved_entry into GRUB's environment. An entry for one boot only (next_entry) would win over both and is taken out. Every effect has
its exact undo.
"""

import re
from typing import List, NamedTuple, Optional, Tuple

from ...catalogue.inbox import package_of_module
from ...formats import sysfs_values
from ...host.host import Host
from ...observe.boot import BOOT, GRUB_DEFAULTS, GRUB_ENV, Boot, entry_of, has_headers, observe_boot, observe_menu
from ...observe.modules import module_path
from ...observe.packages import query_packages
from ...rules.comparisons import UNREADABLE, Inspection, VerdictSubject, decided
from ...spec.model import Spec
from ...types import AT_BOOT, PRESENT, Change, Identity, Op, Problem, Verdict, run, write_file
from ..common.files import HEADER
from ..common.package_changes import package_change
from . import kernel_modules
from .kernel_args import MKCONFIG_SECONDS
from .kernel_guard import headers_package

NAME = "kernel"
SOURCE = "Debian and Ubuntu (linux-image-RELEASE), EL (kernel-RELEASE): packages named after `uname -r`"
WHY = "rdma_kernel_version: stack and drivers are built for one kernel"
CHECK = "kernel.pinned"
EXTRA_MODULE = "rdma_rxe"  # what tells that the distribution's package of rarely used modules is there
# What one kernel has in /boot, each a file that ends in its release (EL: initramfs-RELEASE.img).
BOOT_FILES = ("vmlinuz-%s", "initrd.img-%s", "initramfs-%s.img", "System.map-%s", "config-%s", "symvers-%s.gz")
SLACK = 16 * 1024 * 1024  # an initramfs is as large as what it holds; file systems do not fill to the last byte
# The last of its directory: the file that is read last wins.
DROP_IN = GRUB_DEFAULTS + ".d/zz-railwright-kernel.cfg"
NEXT = "kernel that the next boot starts"
LOADER_SOURCE = "grub-mkconfig reads /etc/default/grub.d/*.cfg; grubby(8)"
GRUB, GRUBBY = "grub", "grubby"
EDITORS = {GRUB: (GRUB_ENV[1], ("grub-editenv", GRUB_ENV[1])), GRUBBY: (GRUB_ENV[0], ("grub2-editenv", "-"))}  # of GRUB's environment


class Loader(NamedTuple):
    """``kind`` is grub, grubby or None; ``entry`` names the pinned kernel in GRUB's menu; ``later``: a file that overrules ours."""

    kind: Optional[str]
    entry: Optional[str]
    later: Optional[str]
    once: str
    saved: Optional[str]


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
    state: Optional[Loader]
    room: Optional[Tuple[int, int]]
    lacking: Tuple[str, ...] = ()  # of those modules, the ones that the pinned kernel has not: known once it is here
    left: bool = False  # our choice of an earlier pin still stands in GRUB's configuration


def desired(spec: Spec, identity: Identity) -> Desired:
    release = spec["kernel_version"]
    if release is None:
        return Desired(identity, None, None, None, None, not identity.has("container"))
    platform = identity.platform
    headers = headers_package(platform, release)  # the image, as apt and dnf take it, depends on the modules
    image = headers.replace("-devel-", "-", 1) if headers is not None else None
    if platform.family == "debian":
        image = "linux-image-" + release
    return Desired(
        identity, release, image, headers,
        package_of_module(platform, release, EXTRA_MODULE), not identity.has("container"),
        tuple(module.name for module in kernel_modules.desired(spec, identity).modules if module.package is None))


def observe(host: Host, desired: Desired) -> Observed:
    release = desired.release
    if release is None or not desired.live:
        return Observed(None, False, False, False, None, None, (), desired.live and host.exists(DROP_IN))
    boot = observe_boot(host, desired.identity.kernel)
    kernel = boot.kernel(release)
    here = kernel is not None and kernel.image and kernel.modules
    lacking = [name for name in desired.modules if here and module_path(host, release, name) is None
               and not kernel_modules.built_in(host, release, name)]
    return Observed(boot, here, has_headers(host, release), not _lacks_extra(host, desired), _observe_loader(host, release),
                    None if here else _room(host, boot), tuple(lacking))


def _lacks_extra(host: Host, desired: Desired) -> bool:
    """The running kernel has the package of rarely used modules, and the pinned one has not. What the stack itself needs it asks for."""
    running, release = desired.identity.kernel, desired.release
    if desired.extra is None or release is None or module_path(host, release, EXTRA_MODULE) is not None:
        return False
    # By name on Ubuntu; on EL all versions have one name.
    name = desired.extra.replace(release, running) if desired.identity.platform.family == "debian" else desired.extra[:-len(release) - 1]
    return name in (query_packages(host, desired.identity, [name]) or {}) and module_path(host, running, EXTRA_MODULE) is not None


def _room(host: Host, boot: Boot) -> Optional[Tuple[int, int]]:
    """The largest kernel of this node is the measure; where none has a file in /boot, nothing is known and the dry run asks for /usr."""
    sizes = [sum(host.size("%s/%s" % (BOOT, name % kernel.release)) or 0 for name in BOOT_FILES) for kernel in boot.kernels]
    free = host.free_bytes(BOOT)
    if free is None or not any(sizes):
        return None
    return free, max(sizes) + SLACK


def plan(desired: Desired, observed: Observed) -> List[Change]:
    release, boot, state = desired.release, observed.boot, observed.state
    if release is None or boot is None or state is None or not desired.image:
        return []
    rows = ((desired.image, observed.here, WHY),
            (desired.headers, observed.headers, "DKMS builds the stack's and the driver's modules for it"),
            (desired.extra, observed.extra, "the kernel that runs has its rarely used modules too, and they must not be missing"))
    changes = [package_change(NAME, name, None, PRESENT, why, SOURCE) for name, there, why in rows if name is not None and not there]
    if boot.next != release:  # the scripts of packages to come may choose it; what they leave is ours to do
        ops = _ops(release, state) if observed.here else ()
        changes.append(Change(NAME, NEXT, boot.next, release, "none", WHY, LOADER_SOURCE, tuple(ops), when=AT_BOOT))
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
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(identity.arch, identity.arch)
    if platform.family == "redhat":
        fits = re.search(r"\.%s(\+(64k|rt))?\Z" % re.escape(identity.arch), release) is not None and "uek" not in release
    elif platform.id == "debian":
        fits = release.endswith("-" + arch)
    else:  # Ubuntu's ends in a flavour, so there only what is somebody else's is told
        fits = re.search(r"\.(x86_64|aarch64)\b|-(amd64|arm64)\Z", release) is None
    if fits:
        return []
    return [Problem(NAME, "rdma_kernel_version", "%s is no kernel release of %s on %s: there `uname -r` prints one like %s" % (
        release, platform.pretty, identity.arch, identity.kernel))]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    release, boot, state = desired.release, observed.boot, observed.state
    if release is None or boot is None or state is None or desired.image is None:
        return []
    found = _loader_conflicts(release, boot, state, observed.here)
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
                "name it again, or remove that file and run update-grub" % DROP_IN]
    return []


def _observe_loader(host: Host, release: str) -> Loader:
    menu = observe_menu(host)
    grubby = host.which("grubby") is not None and host.exists(GRUB_ENV[0])
    if not grubby and (menu is None or host.which("update-grub") is None):
        return Loader(None, None, None, "", None)
    variables = sysfs_values.key_values(host.read(EDITORS[GRUBBY if grubby else GRUB][0]))
    once, saved = variables.get("next_entry", ""), variables.get("saved_entry")
    if grubby or menu is None:
        return Loader(GRUBBY, None, None, once, saved)
    directory, _slash, own = DROP_IN.rpartition("/")
    paths = ["%s/%s" % (directory, name) for name in host.listdir(directory) if name.endswith(".cfg") and name > own]
    later = next((path for path in paths if "GRUB_DEFAULT" in sysfs_values.key_values(host.read(path))), None)
    return Loader(GRUB, entry_of(menu, release), later, once, saved)


def _ops(release: str, loader: Loader) -> List[Op]:
    if loader.kind is None:
        return []
    editor = EDITORS[loader.kind][1]
    ops = [run(editor + ("unset", "next_entry"), (editor + ("set", "next_entry=" + loader.once),))] if loader.once else []
    if loader.kind == GRUBBY:
        back = ("set", "saved_entry=" + loader.saved) if loader.saved is not None else ("unset", "saved_entry")
        return ops + [run(("grubby", "--set-default", "/boot/vmlinuz-" + release), (editor + back,))]
    text = HEADER + 'GRUB_DEFAULT="%s"\n' % (loader.entry or "")
    return ops + [write_file(DROP_IN, text), run(("update-grub",), seconds=MKCONFIG_SECONDS)]


def _loader_conflicts(release: str, boot: Boot, loader: Loader, here: bool) -> List[Problem]:
    """A boot loader that cannot be told; asked only where it has to be."""
    if boot.next == release:
        return []
    if loader.kind is None:
        return [Problem(NAME, NEXT, "is %s and cannot be set: railwright knows GRUB through update-grub (Debian, Ubuntu) and through "
                        "grubby (EL), and this node has neither; choose %s by hand, or leave rdma_kernel_version out" % (
                            boot.next or "unknown", release))]
    if loader.later is not None:
        return [Problem(NAME, NEXT, "%s sets GRUB_DEFAULT and is read after %s; take it out there" % (loader.later, DROP_IN))]
    if here and loader.kind == GRUB and loader.entry is None:
        return [Problem(NAME, NEXT, "%s is installed and has no entry in GRUB's menu: run update-grub, and look why it leaves this "
                        "kernel out" % release)]
    return []


def judge_kernel(seen: Inspection) -> List[Verdict]:
    """Nothing is said where no kernel is pinned, nor in a container, whose kernel belongs to the machine below."""
    pinned, running = seen.spec["kernel_version"], seen.facts.get("kernel")
    if seen.identity.has("container") or pinned is None:
        return []
    boot = seen.facts.get("boot") or {}
    following = boot.get("next")
    if pinned not in [kernel["release"] for kernel in boot.get("kernels") or []]:
        way = "it is not installed"
    else:
        way = "the next boot starts it" if following == pinned else "it is installed, and the next boot starts %s" % following
    return [decided(
        CHECK, VerdictSubject(seen.node, None, None, "kernel"),
        (running is None, "unknown", pinned, None, UNREADABLE % "the running kernel's release"),
        (running != pinned, "fail", pinned, running, "runs %s, not %s; %s" % (running, pinned, way)),
        (following not in (None, pinned), "fail", pinned, following, "%s runs, and the next boot starts %s (%s)" % (
            pinned, following, boot.get("next_source"))),
        (True, "pass", pinned, running, "%s runs%s" % (pinned, ", and is what the next boot starts" if following else "")))]
