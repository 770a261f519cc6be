# SPDX-License-Identifier: GPL-3.0-or-later
"""eRDMA's kernel driver and its mode: which driver, built by DKMS from Alibaba's source where it is ours, in which mode, now and at boot.

What is there and has modes is kept (``erdma_choice``): only its mode is ours. The role brings the source before this area
builds it. A driver that runs in the other mode, or is another one, is reloaded with consent; one that is in use is refused,
with the names of its users.
"""

from typing import List, NamedTuple, Optional, Tuple

from ...catalogue.drivers import Wanted
from ...catalogue.stacks import VendorStack, vendor_stack
from ...host.host import Host
from ...observe.boot import Boot, has_headers, observe_boot
from ...observe.erdma_driver import FITS, MODULE, Driver, observe_driver, references, users
from ...observe.modules import module_path
from ...observe.packages import query_packages
from ...observe.stack_modules import FOREIGN_PATH, observe_modules
from ...observe.storage import rdma_storage
from ...rules.erdma_mode import DEFAULT, LEAVE, LETTERS, MAINLINE, OFED, mode_of
from ...spec.model import Spec
from ...types import Change, Identity, Problem
from ..common import initramfs
from ..common.files import FileState, forget_file, observe_file, plan_file
from ..common.package_changes import plan_packages
from ..kernel.kernel_guard import guard_problems, headers_package
from ..kernel.kernel_modules import barred_modules
from ..stack.dkms import stack_installed
from . import dkms
from . import modules as erdma_load
from .dkms import COMING, Files, plan_core, plan_dkms, plan_off
from .driver_choice import DKMS, KEPT, Choice, choose, in_the_way, our_versions
from .modules import BOOT_FILE, BOOT_TEXT, OPTIONS_FILE, Overruling, options_text, overruling, plan_loaded
from .source import BUILD_SCRIPT, Source, directory, source_of

NAME = "erdma"
OFED_HEADERS = "/usr/src/ofa_kernel"
TOOLS = (("dkms", "builds the driver, and again for every new kernel"), ("cmake", "the driver's own build asks for it"))
WHY_FORGET = "nothing on this node needs it any more"


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
    overruled: Tuple[Overruling, ...] = ()
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
    ours = tuple(our_versions(host, driver.builds))
    choice = with_release(choose(desired.driver, desired.named, desired.mode, driver, ours), desired)
    if not desired.live or choice.kind == LEAVE:
        return Observed(options, boot, driver, choice)
    place = directory(choice.version) if choice.version is not None else ""
    files = Files(host.read(place + "/dkms.conf"), host.read("%s/%s" % (place, BUILD_SCRIPT)), host.exists(place + "/CMakeLists.txt"))
    letter = LETTERS[desired.mode] if choice.kind in (DKMS, KEPT) else None
    changes_at_boot = letter is not None and options.text != options_text(letter)
    return Observed(
        options, boot, driver, choice, ours, files if place else Files(None, None, False), observe_boot(host, identity.kernel),
        tuple(name for name, _why in TOOLS if host.which(name) is not None), has_headers(host, identity.kernel),
        tuple(found for found in overruling(host) if letter is not None and found.letter != letter),
        tuple(barred_modules(host, [MODULE])), tuple(users(host)), references(host),
        tuple("%s %s" % (item.kind, item.where) for item in rdma_storage(host)), *_ofed_state(host, desired),
        image=initramfs.outdated(host, identity, MODULE, driver.path, changes_at_boot))


def _ofed_state(host: Host, desired: Desired) -> Tuple[bool, bool, bool]:
    """(MLNX_OFED is there, it is still to come, the RDMA core that runs is another one than the driver will be built for)."""
    identity, stack = desired.identity, desired.stack
    there = ofed_there(host, identity.kernel)
    coming = stack is not None and not stack_installed(stack, query_packages(host, identity, [stack.meta]), identity)
    modules = observe_modules(host, identity.kernel) if there else ()
    return there, coming, coming or any(module.name == "ib_core" and module.stale for module in modules)


def with_release(choice: Choice, desired: Desired) -> Choice:
    """The release that the catalogue pins, where the inventory names none."""
    if choice.kind != DKMS or choice.version is not None or desired.source is None:
        return choice
    return choice._replace(version=desired.source.version)


def ofed_there(host: Host, kernel: str) -> bool:
    """Its headers are where the driver's build looks for them, or its RDMA core is the one that would be loaded."""
    path = module_path(host, kernel, "ib_core")
    return host.exists(OFED_HEADERS) or (path is not None and FOREIGN_PATH.search(path) is not None)


def plan(desired: Desired, observed: Observed) -> List[Change]:
    choice, driver = observed.choice, observed.driver
    if choice is None or driver is None or desired.mode is None:
        return _forget(observed.options) + _forget(observed.boot)
    if choice.kind == LEAVE:
        return []
    letter = LETTERS[desired.mode] if choice.kind in (DKMS, KEPT) else None
    builds = _plan_driver(desired, observed, choice, driver) if desired.live else []
    files = plan_file(NAME, observed.options, options_text(letter), erdma_load.WHY_OPTIONS, erdma_load.SOURCE) if letter is not None \
        else _forget(observed.options)
    files += plan_file(NAME, observed.boot, BOOT_TEXT, erdma_load.WHY_BOOT, erdma_load.SOURCE)
    if not desired.live:
        return files
    exchanged = driver.loaded and (_new_driver(builds) or driver.alibabas != (letter is not None))
    loaded = plan_loaded(driver.loaded, driver.letter, letter, exchanged) if not observed.old_core else []
    if exchanged and loaded and builds:
        first = builds[0]
        builds = [first._replace(ops=(erdma_load.comes_back(driver.letter),) + first.ops)] + builds[1:]
    packages = _packages(desired, observed) if builds and choice.kind == DKMS else []
    images = initramfs.plan_image(NAME, observed.image, desired.identity, MODULE)
    return packages + builds + files + images + erdma_load.heavier(loaded, observed.storage)


def _plan_driver(desired: Desired, observed: Observed, choice: Choice, driver: Driver) -> List[Change]:
    kernel = desired.identity.kernel
    fits = COMING if observed.coming else driver.fits
    if choice.kind == DKMS and choice.version is not None:
        off = plan_off(observed.ours, driver.builds, choice.version)
        return off + plan_dkms(choice.version, kernel, desired.mode != DEFAULT, driver.builds, observed.files, fits)
    if choice.kind == MAINLINE:
        return plan_off(observed.ours, driver.builds, None)
    installed = next((build for build in driver.builds if build.kernel == kernel and build.state == "installed"), None)
    return plan_core("%s/%s" % installed[:2], kernel, fits) if installed is not None else []


def _new_driver(builds: List[Change]) -> bool:
    """Not one that only fits another RDMA core: that core may come into use with the next boot only, and the driver with it."""
    return any(change.after != FITS for change in builds)


def _packages(desired: Desired, observed: Observed) -> List[Change]:
    """What the build needs and is not there; removed packages are nobody's business here."""
    platform = desired.identity.platform
    rows = [Wanted(name, None, why, dkms.SOURCE) for name, why in TOOLS if name not in observed.tools]
    headers = headers_package(platform, desired.identity.kernel)
    if not observed.headers and headers is not None and desired.pinned is None:  # the pinned kernel's come with it (area kernel)
        rows.append(Wanted(headers, None, "DKMS builds the driver against the running kernel's headers", dkms.SOURCE))
    return plan_packages(NAME, rows, {}, platform.family)


def _forget(state: FileState) -> List[Change]:
    return forget_file(NAME, state, WHY_FORGET, erdma_load.SOURCE)


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    choice, driver = observed.choice, observed.driver
    if choice is None or driver is None or choice.kind == LEAVE:
        return []
    if choice.problem is not None:
        return [Problem(NAME, "erdma_driver", choice.problem)]
    if not desired.live:
        return []
    way = in_the_way(choice, driver, observed.ours)
    if way is not None:
        return [Problem(NAME, "erdma_driver", way)]
    return _ofed(desired, observed) + _build(desired, observed) + _boot(observed) + _in_use(desired, observed)


def _ofed(desired: Desired, observed: Observed) -> List[Problem]:
    if desired.mode != OFED or desired.stack is not None or observed.ofed:
        return []
    return [Problem(NAME, "erdma_mode", "is ofed here%s, and MLNX_OFED is neither on this node nor asked for: set rdma_stack: mlnx_ofed, "
                    "or erdma_mode: compat, which talks to nodes in either" % (
                        " (auto, on a node with an NVIDIA GPU)" if desired.identity.gpus else ""))]


def _build(desired: Desired, observed: Observed) -> List[Problem]:
    """The source that nobody vouches for, and the kernel guard."""
    choice, boot, driver = observed.choice, observed.kernels, observed.driver
    if choice is None or boot is None or driver is None or choice.kind == LEAVE or not _plan_driver(desired, observed, choice, driver):
        return []
    found: List[Problem] = []
    source = desired.source
    if choice.kind == DKMS and not observed.files.source:
        if source is None or source.version != choice.version:
            found.append(Problem(NAME, "erdma_driver_version", "the catalogue has no source of release %s" % choice.version))
        elif source.sha256 is None:
            found.append(Problem(NAME, "erdma_driver_version", "nobody here vouches for %s: download it, look at it, and set "
                                 "rdma_artifact_pins: {%s: its sha256}" % (source.url, source.artifact)))
    return found + (guard_problems(NAME, boot, desired.identity.platform, False, desired.pinned) if choice.kind != MAINLINE else [])


def _boot(observed: Observed) -> List[Problem]:
    forbids = "%s forbids to load %s, so it would be missing after a reboot; remove that line"
    return [Problem(NAME, "module " + name, forbids % (path, name)) for name, path in observed.barred] + [
        Problem(NAME, "erdma_mode", "%s sets compat_mode=%s at boot, and is read after %s: remove that" % (place, letter, OPTIONS_FILE))
        for place, letter in observed.overruled]


def _in_use(desired: Desired, observed: Observed) -> List[Problem]:
    reloads = [change for change in plan(desired, observed) if change.disruption in ("reload", "storage")]
    if not reloads or not (observed.users or observed.references):
        return []
    who = ", ".join(observed.users) or "somebody (%d references)" % observed.references
    return [Problem(NAME, "module " + MODULE, "is in use by %s, and %s needs it unloaded: stop what uses RDMA on this node first" % (
        who, reloads[0].what))]


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
