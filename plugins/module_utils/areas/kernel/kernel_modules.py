# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel modules of the stack: loaded now, and at every boot (modules-load.d).

Drivers (mlx5_ib, erdma …) come by udev with their device; listed here is what no
device asks for. In a container modules belong to the machine below: the boot file is
written, what is loaded is not judged (see ``notes``).
"""

from typing import List, NamedTuple, Optional, Tuple

from ...catalogue.inbox import package_of_module
from ...formats.outside import lines_in
from ...host.host import Host
from ...observe.modules import available_modules, module_index, running_modules
from ...spec.model import Spec
from ...types import Change, Identity, Problem
from ..common.files import HEADER, FileState, later_files, observe_file, plan_file
from ..common.modules import loaded_module

NAME = "kernel_modules"
BOOT_FILE = "/etc/modules-load.d/railwright.conf"
MODPROBE = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")  # /lib is often a link to /usr/lib
USER_SPACE = (
    ("ib_uverbs", "user space verbs: /dev/infiniband/uverbs*"),
    ("rdma_ucm", "connection manager for user space: rping, perftest -R, UCX"),
)
HARDWARE = (("ib_core", "the RDMA core"), *USER_SPACE, ("ib_umad", "management datagrams: ibstat, ibdiagnet, opensm"))
SOFT_ROCE = (("rdma_rxe", "software RoCE device"), *USER_SPACE)
SOURCE = "rdma-core kernel-boot/modules (rdma.conf, infiniband.conf); modules-load.d(5)"


class Module(NamedTuple):
    """``package`` carries the module where the default kernel package leaves it out; the packages area asks for it."""

    name: str
    why: str
    package: Optional[str]


class Desired(NamedTuple):
    """``live`` is False where the running kernel is not ours to change."""

    modules: Tuple[Module, ...]
    kernel: str
    live: bool


class Observed(NamedTuple):
    """``known`` is None when the kernel's module list cannot be read. ``barred``: (module, file) pairs."""

    file: FileState
    loaded: Tuple[str, ...]
    known: Optional[Tuple[str, ...]]
    barred: Tuple[Tuple[str, str], ...]
    other_kernels: Tuple[str, ...]


def desired(spec: Spec, identity: Identity) -> Desired:
    rows = list(SOFT_ROCE if spec.rdma_stack == "soft_roce" else HARDWARE)
    if spec.fabric == "infiniband" and any(rail.address is not None for rail in spec.rails):
        rows.append(("ib_ipoib", "IP over InfiniBand: the rails have addresses"))
    names = [name for name, _why in rows]
    rows += [(name, "rdma_stack_extra_modules") for name in spec["rdma_stack_extra_modules"] if canonical(name) not in names]
    return Desired(
        tuple(Module(canonical(name), why, package_of_module(identity.platform, identity.kernel, canonical(name))) for name, why in rows),
        identity.kernel, not identity.has("container"),
    )


def observe(host: Host, desired: Desired) -> Observed:
    wanted = [module.name for module in desired.modules]
    running = running_modules(host) or {}
    others = [name for name in host.listdir("/lib/modules") if name != desired.kernel and host.exists("/lib/modules/%s/modules.dep" % name)]
    return Observed(
        observe_file(host, BOOT_FILE),
        # A built-in module without parameters has no directory below /sys/module.
        tuple(name for name in wanted if name in running or host.exists("/sys/module/" + name) or built_in(host, desired.kernel, name)),
        kernel_has(host, desired.kernel, wanted),
        tuple(barred_modules(host, wanted)),
        tuple(others),
    )


def plan(desired: Desired, observed: Observed) -> List[Change]:
    content = HEADER + "".join(module.name + "\n" for module in desired.modules)
    changes = plan_file(NAME, observed.file, content, "modules that are loaded by hand are gone after a reboot", SOURCE)
    if not desired.live:
        return changes
    return changes + [loaded_module(NAME, row.name, row.why, SOURCE) for row in desired.modules if row.name not in observed.loaded]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """Modules that this kernel does not have, or that the node forbids to load."""
    found: List[Problem] = []
    if not desired.live:
        return found
    missing = [module for module in desired.modules if module.name not in observed.loaded]
    if missing and observed.known is None and observed.other_kernels:
        return [Problem(NAME, "kernel " + desired.kernel, "the modules of the running kernel are not on disk any more (there: %s); "
                        "reboot the node" % ", ".join(observed.other_kernels))]
    if observed.known is not None:
        found += [
            Problem(NAME, "module " + module.name, "the running kernel %s has no module %s" % (desired.kernel, module.name))
            for module in missing if module.name not in observed.known and module.package is None
        ]
    return found + [
        Problem(NAME, "module " + name, "%s forbids to load %s, so it would be missing after a reboot; remove that line" % (path, name))
        for name, path in observed.barred
    ]


def notes(desired: Desired, observed: Observed) -> List[str]:
    if desired.live:
        return []
    return ["kernel_modules: this is a container, modules cannot be loaded here; only %s is managed" % BOOT_FILE]


def canonical(name: str) -> str:
    """modprobe takes ``-`` and ``_`` for the same; the kernel lists ``_``."""
    return name.replace("-", "_")


def kernel_has(host: Host, kernel: str, wanted: List[str]) -> Optional[Tuple[str, ...]]:
    """Which of the modules the running kernel has, in whatever form; None when its list cannot be read."""
    if not module_index(host, kernel):
        return None
    available = available_modules(host, kernel, wanted)
    return tuple(name for name in wanted if name in available)


def built_in(host: Host, kernel: str, name: str) -> bool:
    return name in module_index(host, kernel, "modules.builtin")


def barred_modules(host: Host, wanted: List[str]) -> List[Tuple[str, str]]:
    """``blacklist NAME`` (systemd-modules-load obeys it) and ``install NAME /bin/false`` lines for wanted modules."""
    found: List[Tuple[str, str]] = []
    for path in later_files(host, MODPROBE, ""):
        for line in lines_in(host.read(path) or ""):
            words = line.split()
            never = words[:1] == ["install"] and words[-1] in ("/bin/false", "/bin/true", "/usr/bin/false", "/usr/bin/true")
            if len(words) > 1 and canonical(words[1]) in wanted and (words[0] == "blacklist" or never):
                found.append((canonical(words[1]), path))
    return found
