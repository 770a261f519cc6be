# SPDX-License-Identifier: GPL-3.0-or-later
"""eRDMA's kernel driver and its mode: which driver, built by DKMS from Alibaba's source where it is ours, in which mode, now and at boot.

What is there and has modes is kept (``drivers.py``): only its mode is ours. The role brings the source before this area
builds it. A driver that runs in the other mode, or is another one, is reloaded with consent; one that is in use is refused,
with the names of its users.

The parameter is read at loading only, so another mode is a reload, which cuts every RDMA user: rmmod, then modprobe, which
obeys the options file. Undone, the driver comes back in the mode that it ran in, whatever the files said.
"""

import re
from typing import List, NamedTuple, Optional, Tuple

from ...catalogue.artifacts import Source
from ...catalogue.drivers import Wanted
from ...catalogue.stacks import VendorStack, vendor_stack
from ...host.host import Host
from ...observe.boot import Boot, has_headers, observe_boot
from ...observe.erdma import FITS, MODULE, PARAMETER, Driver, observe_driver, references, users
from ...observe.modules import module_path
from ...observe.packages import query_packages
from ...observe.stack import FOREIGN_PATH, observe_modules
from ...observe.storage import rdma_storage
from ...rules.erdma_mode import DEFAULT, DKMS, LEAVE, LETTERS, MAINLINE, OFED, WORDS, mode_of
from ...spec.model import Spec
from ...types import Change, Identity, Problem, run
from ..common import initramfs
from ..common.files import HEADER, FileState, forget_file, later_files, observe_file, plan_file
from ..common.modules import loaded_module, source_problems
from ..common.package_changes import plan_packages
from ..kernel.kernel_guard import guard_problems, headers_package
from ..kernel.kernel_modules import MODPROBE, barred_modules
from ..stack.dkms import stack_installed
from . import drivers
from .drivers import BUILD_SCRIPT, COMING, KEPT, Choice, Files, choose_driver, directory, source_of

NAME = "erdma"
TOOLS = (("dkms", "builds the driver, and again for every new kernel"), ("cmake", "the driver's own build asks for it"))
OPTIONS_FILE = "/etc/modprobe.d/railwright-erdma.conf"
BOOT_FILE = "/etc/modules-load.d/railwright-erdma.conf"
BOOT_TEXT = HEADER + "ib_core\nib_uverbs\nerdma\n"
LOAD_SECONDS = 120.0
SOURCE = "ERD (conf/erdma.conf, conf/erdma-modprobe.conf, erdma_compat.c), ERC (internal/drivers/compat.go)"
_OPTION = re.compile(r"^[ \t]*options[ \t]+erdma[ \t](.*)$", re.MULTILINE)
_VALUE = re.compile(r"(?:^|\s)%s(?:=(\S+))?(?=\s|$)" % PARAMETER)
_TRUE = ("Y", "y", "1", "on", "true", None)
# What stands before the exchange of a driver, does nothing, and is undone behind it: only then the old one is on disk again, to be loaded.
COMES_BACK = ("true",)


class Desired(NamedTuple):
    """``mode`` None: the fabric is not eRDMA."""

    identity: Identity
    mode: Optional[str]
    driver: str  # erdma_driver
    source: Optional[Source]
    named: Optional[str]  # the release that the inventory names
    stack: Optional[VendorStack]  # MLNX_OFED, where the inventory wants it here
    live: bool  # modules are this node's own: it is no container
    pinned: Optional[str] = None  # rdma_kernel_version


class Observed(NamedTuple):
    """``driver`` and what follows: of a node that is to have one."""

    options: FileState
    boot: FileState
    driver: Optional[Driver] = None
    choice: Optional[Choice] = None
    ours: Tuple[str, ...] = ()  # versions in DKMS that we wrote
    files: Files = Files(None, None, False)
    kernels: Optional[Boot] = None
    tools: Tuple[str, ...] = ()  # of TOOLS, what is there; with the headers
    headers: bool = True
    overruled: Tuple[Tuple[str, str], ...] = ()  # (place, letter)
    barred: Tuple[Tuple[str, str], ...] = ()
    users: Tuple[str, ...] = ()
    references: int = 0
    storage: Tuple[str, ...] = ()
    ofed: bool = False  # MLNX_OFED is on the node
    coming: bool = False  # it is wanted, and not installed yet
    old_core: bool = False  # the RDMA core that runs is not the one that the driver is built for
    image: Optional[str] = None


def desired(spec: Spec, identity: Identity) -> Desired:
    mode = mode_of(spec, identity)
    return Desired(
        identity, mode, spec["erdma_driver"], source_of(spec) if mode is not None else None, spec["erdma_driver_version"],
        vendor_stack(spec, identity) if mode is not None else None, not identity.has("container"), spec["kernel_version"])


def observe(host: Host, desired: Desired) -> Observed:
    options, boot = observe_file(host, OPTIONS_FILE), observe_file(host, BOOT_FILE)
    if desired.mode is None:
        return Observed(options, boot)
    identity = desired.identity
    driver = observe_driver(host, identity.kernel, live=desired.live)
    ours = tuple(drivers.our_versions(host, driver.builds))
    choice = choose_driver(desired.driver, desired.named, desired.mode, driver, ours)
    if choice.kind == DKMS and choice.version is None and desired.source is not None:
        choice = choice._replace(version=desired.source.version)  # the catalogue pins it, where the inventory names none
    if not desired.live or choice.kind == LEAVE:
        return Observed(options, boot, driver, choice)
    place = directory(choice.version) if choice.version is not None else ""
    files = Files(host.read(place + "/dkms.conf"), host.read("%s/%s" % (place, BUILD_SCRIPT)), host.exists(place + "/CMakeLists.txt"))
    letter = LETTERS[desired.mode] if choice.kind in (DKMS, KEPT) else None
    changes_at_boot = letter is not None and options.text != options_text(letter)
    return Observed(
        options, boot, driver, choice, ours, files if place else Files(None, None, False), observe_boot(host, identity.kernel),
        tuple(name for name, _why in TOOLS if host.which(name) is not None), has_headers(host, identity.kernel),
        tuple(found for found in overruling(host) if letter is not None and found[1] != letter),
        tuple(barred_modules(host, [MODULE])), tuple(users(host)), references(host),
        tuple("%s %s" % (item.kind, item.where) for item in rdma_storage(host)), *_ofed_state(host, desired),
        image=initramfs.outdated(host, identity, MODULE, driver.path, changes_at_boot))


def _ofed_state(host: Host, desired: Desired) -> Tuple[bool, bool, bool]:
    """(MLNX_OFED is there, it is still to come, the RDMA core that runs is another one than the driver will be built for)."""
    identity, stack = desired.identity, desired.stack
    # Its headers are where the driver's build looks for them, or its RDMA core is the one that would be loaded.
    path = module_path(host, identity.kernel, "ib_core")
    there = host.exists("/usr/src/ofa_kernel") or (path is not None and FOREIGN_PATH.search(path) is not None)
    coming = stack is not None and not stack_installed(stack, query_packages(host, identity, [stack.meta]), identity)
    modules = observe_modules(host, identity.kernel) if there else ()
    return there, coming, coming or any(module.name == "ib_core" and module.stale for module in modules)


def plan(desired: Desired, observed: Observed) -> List[Change]:
    choice, driver = observed.choice, observed.driver
    if choice is None or driver is None or desired.mode is None:
        return _forget(observed.options) + _forget(observed.boot)
    if choice.kind == LEAVE:
        return []
    letter = LETTERS[desired.mode] if choice.kind in (DKMS, KEPT) else None
    builds = _plan_driver(desired, observed, choice, driver) if desired.live else []
    files = _forget(observed.options)
    if letter is not None:
        files = plan_file(NAME, observed.options, options_text(letter), "without it the next load takes the driver's own mode, which "
                          "depends on how it was built", SOURCE)
    files += plan_file(NAME, observed.boot, BOOT_TEXT, "a module that is loaded by hand is gone after a reboot", SOURCE)
    if not desired.live:
        return files
    # Not by one that only fits another RDMA core: that core may come into use with the next boot only, and the driver with it.
    exchanged = driver.loaded and (any(change.after != FITS for change in builds) or driver.alibabas != (letter is not None))
    loaded = plan_loaded(driver.loaded, driver.letter, letter, exchanged) if not observed.old_core else []
    if exchanged and loaded and builds:
        first = builds[0]
        builds = [first._replace(ops=(run(COMES_BACK, (load_command(driver.letter),), LOAD_SECONDS),) + first.ops)] + builds[1:]
    packages = _packages(desired, observed) if builds and choice.kind == DKMS else []
    images = initramfs.plan_image(NAME, observed.image, desired.identity, MODULE)
    if observed.storage:  # a reload under what is mounted over RDMA is another class, and says what it is
        why = "; in use over RDMA: " + ", ".join(observed.storage)
        loaded = [row._replace(disruption="storage", why=row.why + why) if row.disruption == "reload" else row for row in loaded]
    return packages + builds + files + images + loaded


def _plan_driver(desired: Desired, observed: Observed, choice: Choice, driver: Driver) -> List[Change]:
    kernel = desired.identity.kernel
    fits = COMING if observed.coming else driver.fits
    if choice.kind == DKMS and choice.version is not None:
        off = drivers.plan_off(observed.ours, driver.builds, choice.version)
        return off + drivers.plan_dkms(choice.version, kernel, desired.mode != DEFAULT, driver.builds, observed.files, fits)
    if choice.kind == MAINLINE:
        return drivers.plan_off(observed.ours, driver.builds, None)
    installed = next((build for build in driver.builds if build.kernel == kernel and build.state == "installed"), None)
    return drivers.plan_core("%s/%s" % installed[:2], kernel, fits) if installed is not None else []


def _packages(desired: Desired, observed: Observed) -> List[Change]:
    """What the build needs and is not there; removed packages are nobody's business here."""
    platform = desired.identity.platform
    rows = [Wanted(name, None, why, drivers.SOURCE) for name, why in TOOLS if name not in observed.tools]
    headers = headers_package(platform, desired.identity.kernel)
    if not observed.headers and headers is not None and desired.pinned is None:  # the pinned kernel's come with it (area kernel)
        rows.append(Wanted(headers, None, "DKMS builds the driver against the running kernel's headers", drivers.SOURCE))
    return plan_packages(NAME, rows, {}, platform.family)


def _forget(state: FileState) -> List[Change]:
    return forget_file(NAME, state, "nothing on this node needs it any more", SOURCE)


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    choice, driver = observed.choice, observed.driver
    if choice is None or driver is None or choice.kind == LEAVE:
        return []
    if choice.problem is not None:
        return [Problem(NAME, "erdma_driver", choice.problem)]
    if not desired.live:
        return []
    way = drivers.in_the_way(choice, driver, observed.ours)
    if way is not None:
        return [Problem(NAME, "erdma_driver", way)]
    found: List[Problem] = []
    if desired.mode == OFED and desired.stack is None and not observed.ofed:
        found.append(Problem(NAME, "erdma_mode", "is ofed here%s, and MLNX_OFED is neither on this node nor asked for: set rdma_stack: "
                             "mlnx_ofed, or erdma_mode: compat, which talks to nodes in either" % (
                                 " (auto, on a node with an NVIDIA GPU)" if desired.identity.gpus else "")))
    found += _build(desired, observed, choice, driver)
    found += [Problem(NAME, "module " + name, "%s forbids to load %s, so it would be missing after a reboot; remove that line" % (
        path, name)) for name, path in observed.barred]
    found += [Problem(NAME, "erdma_mode", "%s sets compat_mode=%s at boot, and is read after %s: remove that" % (
        place, letter, OPTIONS_FILE)) for place, letter in observed.overruled]
    reloads = [change for change in plan(desired, observed) if change.disruption in ("reload", "storage")]
    if reloads and (observed.users or observed.references):
        who = ", ".join(observed.users) or "somebody (%d references)" % observed.references
        found.append(Problem(NAME, "module " + MODULE, "is in use by %s, and %s needs it unloaded: stop what uses RDMA on this node "
                             "first" % (who, reloads[0].what)))
    return found


def _build(desired: Desired, observed: Observed, choice: Choice, driver: Driver) -> List[Problem]:
    """The source that is not pinned, and the kernel guard."""
    boot = observed.kernels
    if boot is None or not _plan_driver(desired, observed, choice, driver):
        return []
    found: List[Problem] = []
    if choice.kind == DKMS and not observed.files.source:
        source = desired.source if desired.source is not None and desired.source.version == choice.version else None
        found = source_problems(NAME, "erdma_driver_version", source, choice.version)
    return found + (guard_problems(NAME, boot, desired.identity.platform, False, desired.pinned) if choice.kind != MAINLINE else [])


def notes(desired: Desired, observed: Observed) -> List[str]:
    choice = observed.choice
    if choice is None:
        return []
    if choice.kind == LEAVE:
        return ["erdma: driver and mode are left as they are (erdma_driver: leave)"]
    if not desired.live:
        return ["erdma: this is a container, modules cannot be loaded here; only %s and %s are managed" % (OPTIONS_FILE, BOOT_FILE)]
    found = ["erdma: the kernel's own driver is left in place: %s" % choice.reason] if choice.kind == MAINLINE else []
    if observed.old_core:
        found.append("erdma: the driver is loaded in its mode with the next boot: the RDMA core that runs is not the one that it is built "
                     "for")
    return found


def options_text(letter: str) -> str:
    return HEADER + "softdep erdma pre: ib_uverbs\noptions %s %s=%s\n" % (MODULE, PARAMETER, letter)


def overruling(host: Host) -> List[Tuple[str, str]]:
    """(place, letter) of files that modprobe reads after ours (by name), and of the kernel's command line, which comes last."""
    later = later_files(host, MODPROBE, OPTIONS_FILE.rpartition("/")[2])
    found = [(path, letter) for path in later for letter in letters_in(host.read(path) or "")]
    for word in (host.line("/proc/cmdline") or "").split():
        if word.startswith(MODULE + "."):
            found += [("the kernel's command line", letter) for letter in _letters(word[len(MODULE) + 1:])]
    return found


def letters_in(text: str) -> List[str]:
    """The last word of each ``options erdma`` line about the mode."""
    return [letters[-1] for letters in (_letters(options) for options in _OPTION.findall(text)) if letters]


def _letters(options: str) -> List[str]:
    return ["Y" if (found.group(1) in _TRUE) else "N" for found in _VALUE.finditer(options)]


def plan_loaded(loaded: bool, before: Optional[str], after: Optional[str], exchanged: bool) -> List[Change]:
    """``before``/``after``: letters, None for a driver without modes. ``exchanged``: the loaded driver is not the one on disk."""
    if not loaded:
        return [loaded_module(NAME, MODULE, "without its driver the node has no eRDMA device", SOURCE, LOAD_SECONDS)]
    if before == after and not exchanged:
        return []
    back = (COMES_BACK,) if exchanged else (load_command(before),)
    ops = (run(("rmmod", MODULE), back, LOAD_SECONDS), run(("modprobe", MODULE), (("rmmod", MODULE),), LOAD_SECONDS))
    what, why = "mode of the eRDMA driver", (
        "nodes in another mode cannot talk RDMA to this one; the driver reads the mode at loading only, so every RDMA user is cut")
    if exchanged:
        what, why = "driver of eRDMA in use", "the loaded driver is not the one that the inventory wants; every RDMA user is cut"
    return [Change(NAME, what, letter_text(before), letter_text(after), "reload", why, SOURCE, ops)]


def load_command(letter: Optional[str]) -> Tuple[str, ...]:
    """Words on modprobe's command line come after those of its files, and so win."""
    return ("modprobe", MODULE) + (("%s=%s" % (PARAMETER, letter),) if letter is not None else ())


def letter_text(letter: Optional[str]) -> str:
    return "no modes" if letter is None else "%s=%s, %s" % (PARAMETER, letter, WORDS[letter])
