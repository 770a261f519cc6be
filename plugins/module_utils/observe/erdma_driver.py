# SPDX-License-Identifier: GPL-3.0-or-later
"""eRDMA's kernel driver on a node: whose it is, in which mode it runs, whether it fits the RDMA core, and who uses it.

Alibaba's driver has a parameter compat_mode (0444: read at loading, shown below /sys/module/erdma/parameters); the kernel's own
has no parameters at all, and only its devices tell: ``node_type`` 1: CA or 4: RNIC. That difference is what tells the two
apart, wherever the module lies: distributions of Alibaba's have it in the kernel package.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import is_digits
from ..host.host import Host
from .devices import CLASS_INFINIBAND, attribute, driver_of, entries
from .dkms import ERDMA, Build, dkms_builds
from .modules import module_path, running_modules
from .peermem_build import checksum, symbol_files

MODULE = "erdma"
PARAMETER = "compat_mode"
LOADED_PARAMETER = "/sys/module/%s/parameters/%s" % (MODULE, PARAMETER)
FITS, OTHER_CORE = "fits", "other_core"
SYMBOL = "ib_register_device"  # every provider imports it from ib_core
VERBS = "/sys/class/infiniband_verbs"
EADM = "eadm"
_SECONDS = 10.0
_CRC = re.compile(r"^0x([0-9a-fA-F]{1,16})\s+%s(?:\s|$)" % SYMBOL, re.MULTILINE)


class Driver(NamedTuple):
    """``letter``: of the loaded module's compat_mode, None where it has none. ``path``: below /lib/modules, of what modprobe loads."""

    loaded: bool
    letter: Optional[str]
    path: Optional[str]
    parameter: Optional[bool]  # the module on disk has compat_mode; None where modinfo gives no answer, or there is no module
    version: Optional[str]
    types: Tuple[Tuple[str, str], ...]  # (device, node_type without its number), of devices of this driver
    builds: Tuple[Build, ...]  # what DKMS has of it
    fits: Optional[str]  # the module on disk and the RDMA core; None where nothing tells

    @property
    def alibabas(self) -> bool:
        """The driver that is there, loaded or for the next load, is the one with modes."""
        return self.letter is not None if self.loaded else self.parameter is True

    @property
    def there(self) -> bool:
        return self.loaded or self.path is not None


def observe_driver(host: Host, kernel: str, *, live: bool = True) -> Driver:
    """``live`` False: in a container, where what is loaded is the machine's below, and nothing of it lies on this disk."""
    loaded = host.exists("/sys/module/" + MODULE) or MODULE in (running_modules(host) or {})
    if not live:
        return Driver(loaded, letter_of(host) if loaded else None, None, None, None, tuple(node_types(host)), (), None)
    path = module_path(host, kernel, MODULE)
    found = tuple(build for build in dkms_builds(host) if ERDMA.match(build.module))
    return Driver(
        loaded, letter_of(host) if loaded else None, path, _has_parameter(host, kernel) if path is not None else None,
        sysfs_values.token(host.line("/sys/module/%s/version" % MODULE)), tuple(node_types(host)), found, _fits(host, kernel, path))


def letter_of(host: Host) -> Optional[str]:
    """How the kernel prints a bool: Y or N."""
    found = host.line(LOADED_PARAMETER)
    return found if found in ("Y", "N") else None


def references(host: Host) -> int:
    """How many hold the module: other modules, and every open context of a program."""
    row = (running_modules(host) or {}).get(MODULE)
    return (row.references or 0) if row is not None else 0


def _has_parameter(host: Host, kernel: str) -> Optional[bool]:
    answer = host.run(("modinfo", "-k", kernel, "-F", "parm", MODULE), _SECONDS)
    if not answer.ok:
        return None
    return any(line.startswith(PARAMETER + ":") for line in answer.out.splitlines())


def node_types(host: Host) -> List[Tuple[str, str]]:
    found: List[Tuple[str, str]] = []
    for name in entries(host, CLASS_INFINIBAND):
        path = "%s/%s" % (CLASS_INFINIBAND, name)
        kind = sysfs_values.enum_text(attribute(host, path + "/node_type"))
        if kind is not None and driver_of(host, path) == MODULE:
            found.append((name, kind))
    return found


def _fits(host: Host, kernel: str, path: Optional[str]) -> Optional[str]:
    """The checksum of what the module imports from ib_core, and the one that OFED's or the kernel's ib_core exports."""
    if path is None or ".." in path.split("/"):
        return None
    dumped = host.run(("modprobe", "--dump-modversions", "/lib/modules/%s/%s" % (kernel, path)), _SECONDS)
    imported = checksum(dumped.out, _CRC) if dumped.ok else None
    for file in symbol_files(host, kernel) + ["/lib/modules/%s/build/Module.symvers" % kernel]:
        exported = checksum(host.read(file), _CRC)
        if exported is not None:
            return None if imported is None else FITS if imported == exported else OTHER_CORE
    return None


def users(host: Host) -> List[str]:
    """Who keeps the driver from being unloaded: modules, and processes with a verbs device of it open. ``python3 (4711)``."""
    row = (running_modules(host) or {}).get(MODULE)
    found = ["module " + name for name in (row.users if row is not None else ())]
    files = {"/dev/infiniband/" + name for name in _verbs_devices(host)}
    for pid in host.listdir("/proc") if files else []:
        if is_digits(pid):
            opened = "/proc/%s/fd" % pid
            if any(host.readlink("%s/%s" % (opened, fd)) in files for fd in host.listdir(opened)):
                found.append("%s (%s)" % (sysfs_values.token(host.line("/proc/%s/comm" % pid)) or "?", pid))
    return found


def _verbs_devices(host: Host) -> List[str]:
    """uverbs0 …, of devices of this driver."""
    ours = {name for name, _kind in node_types(host)}
    return [name for name in host.listdir(VERBS) if sysfs_values.is_name(name) and host.line("%s/%s/ibdev" % (VERBS, name)) in ours]


def eadm_version(host: Host) -> Optional[str]:
    """The first line that Alibaba's tool says of itself; closed source, and of its commands only this one is known."""
    if host.which(EADM) is None:
        return None
    answer = host.run((EADM, "ver"), _SECONDS)
    lines = [line for line in answer.out.splitlines() if line.strip()]
    return sysfs_values.token(lines[0]) if answer.ok and lines else None


def driver_facts(host: Host, kernel: str) -> Dict[str, Any]:
    """``driver`` and ``compat_mode`` of the facts object's ``erdma``."""
    driver = observe_driver(host, kernel)
    managed = driver.path is not None and not driver.path.startswith("kernel/")
    source = "mainline" if driver.there and not driver.alibabas else "dkms" if driver.alibabas and managed else "unknown"
    return {
        "driver": {"loaded": driver.loaded, "version": driver.version, "source": source if driver.there else None},
        "compat_mode": driver.letter,
    }
