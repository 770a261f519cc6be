# SPDX-License-Identifier: GPL-3.0-or-later
"""Alibaba's elastic RDMA on a node: driver, mode, user space and devices. The ``erdma`` part of the facts, None on a node without any.

Alibaba's driver has a parameter compat_mode (0444: read at loading, shown below /sys/module/erdma/parameters); the kernel's own
has no parameters at all, and only its devices tell: ``node_type`` 1: CA or 4: RNIC. That difference is what tells the two
apart, wherever the module lies: distributions of Alibaba's have it in the kernel package.
libibverbs opens an eRDMA device with its provider alone: a library liberdma-rdmav*.so, found by /etc/libibverbs.d/erdma.driver.
Both come with rdma-core from 43 on, with Alibaba's packages and with MLNX_OFED; the files say more than a version does.
"""

import ipaddress
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from ..rules.erdma_mode import COMPAT, DEFAULT, OFED, letter_of_type
from ..types import Identity
from .devices import CLASS_INFINIBAND, attribute, driver_of, entries, pci_attribute, pci_functions
from .dkms import ERDMA, Build, dkms_builds
from .gpudirect import checksum, symbol_files
from .modules import module_path, running_modules
from .processes import holders
from .stack import DOCA, MLNX_OFED

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

    @property
    def source(self) -> Optional[str]:
        if not self.there or not self.alibabas:
            return "mainline" if self.there else None
        return "dkms" if self.path is not None and not self.path.startswith("kernel/") else "unknown"


def observe_driver(host: Host, kernel: str, *, live: bool = True) -> Driver:
    """``live`` False: in a container, where what is loaded is the machine's below, and nothing of it lies on this disk."""
    loaded = host.exists("/sys/module/" + MODULE) or MODULE in (running_modules(host) or {})
    path = module_path(host, kernel, MODULE) if live else None
    builds = tuple(build for build in dkms_builds(host) if ERDMA.match(build.module)) if live else ()
    version = sysfs_values.token(host.line("/sys/module/%s/version" % MODULE)) if live else None
    answer = host.run(("modinfo", "-k", kernel, "-F", "parm", MODULE), _SECONDS) if path is not None else None
    parameter = None
    if answer is not None and answer.ok:
        parameter = any(line.startswith(PARAMETER + ":") for line in lines_in(answer.out))
    return Driver(loaded, letter_of(host) if loaded else None, path, parameter, version, tuple(node_types(host)), builds,
                  _fits(host, kernel, path))


def letter_of(host: Host) -> Optional[str]:
    """How the kernel prints a bool: Y or N."""
    found = host.line(LOADED_PARAMETER)
    return found if found in ("Y", "N") else None


def references(host: Host) -> int:
    """How many hold the module: other modules, and every open context of a program."""
    row = (running_modules(host) or {}).get(MODULE)
    return (row.references or 0) if row is not None else 0


def node_types(host: Host) -> List[Tuple[str, str]]:
    own = [name for name in entries(host, CLASS_INFINIBAND) if driver_of(host, "%s/%s" % (CLASS_INFINIBAND, name)) == MODULE]
    kinds = [(name, sysfs_values.enum_text(attribute(host, "%s/%s/node_type" % (CLASS_INFINIBAND, name)))) for name in own]
    return [(name, kind) for name, kind in kinds if kind is not None]


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
    ours = {name for name, _kind in node_types(host)}
    files = {"/dev/infiniband/" + name for name in host.listdir(VERBS)
             if sysfs_values.is_name(name) and host.line("%s/%s/ibdev" % (VERBS, name)) in ours}
    return found + (holders(host, files.__contains__) if files else [])


def eadm_version(host: Host) -> Optional[str]:
    """The first line that Alibaba's tool says of itself; closed source, and of its commands only this one is known."""
    if host.which(EADM) is None:
        return None
    answer = host.run((EADM, "ver"), _SECONDS)
    lines = [line for line in lines_in(answer.out) if line.strip()]
    return sysfs_values.token(lines[0]) if answer.ok and lines else None


VENDOR, DEVICE = "0x1ded", "0x107f"  # drivers/infiniband/hw/erdma/erdma_hw.h; the one id that mainline and Alibaba's driver know
PACKAGES = ("erdma", "erdma-dkms")  # Alibaba's driver as a package
PROVIDER_PACKAGES = ("ibverbs-providers", "libibverbs", "rdma-core")  # apt has providers in a package of their own, dnf in libibverbs
DRIVER_FILE = "/etc/libibverbs.d/erdma.driver"
LIBRARIES = ("/usr/lib/x86_64-linux-gnu/libibverbs", "/usr/lib/aarch64-linux-gnu/libibverbs", "/usr/lib64/libibverbs")
_LIBRARY = re.compile(r"liberdma-rdmav[0-9]+\.so\Z")


def observe_erdma(host: Host, identity: Identity, facts: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """``facts``: what of the facts object is known already (hcas, modules, packages, dkms, stack); nothing is read twice."""
    devices = [hca for hca in facts["hcas"] or [] if hca["driver"] == MODULE]
    packages = facts["packages"] or {}
    functions = _functions(host)
    built = any(build["module"] == MODULE for build in facts["dkms"] or [])
    if not (devices or functions or built or MODULE in (facts["modules"] or {}) or any(name in packages for name in PACKAGES)):
        return None
    driver = observe_driver(host, identity.kernel)
    return {
        "driver": {"loaded": driver.loaded, "version": driver.version, "source": driver.source},
        "compat_mode": driver.letter,
        "mode": mode_of_node(driver.letter, devices, (facts["stack"] or {}).get("modules") or {}),
        "provider": _provider(host, packages),
        "eadm": host.which(EADM) is not None,
        "eadm_version": eadm_version(host),
        "functions": functions,
        "devices": [str(hca["name"]) for hca in devices],
    }


def mode_of_node(letter: Optional[str], devices: Sequence[Mapping[str, Any]], modules: Mapping[str, Any]) -> Optional[str]:
    """default, compat or ofed; None where neither the parameter nor a device tells, or the devices tell different things."""
    letters = {letter_of_type(hca["node_type"]) for hca in devices}
    seen = letter or (letters.pop() if len(letters) == 1 else None)
    if seen is None:
        return None
    if seen == "N":
        return DEFAULT
    return OFED if modules.get("origin") in (MLNX_OFED, DOCA) else COMPAT


def _functions(host: Host) -> Optional[List[str]]:
    """The devices on the PCI bus, with a driver or without; None where there is no bus to inspect."""
    names = pci_functions(host)
    if not names:
        return None
    return sorted(name for name in names if [
        (pci_attribute(host, name, key) or "").strip() for key in ("vendor", "device")] == [VENDOR, DEVICE])


def _provider(host: Host, packages: Mapping[str, str]) -> Dict[str, Any]:
    """``known``: libibverbs can open the devices."""
    package, version = next(((name, packages[name]) for name in PROVIDER_PACKAGES if name in packages), (None, None))
    libraries = ["%s/%s" % (directory, name) for directory in LIBRARIES for name in host.listdir(directory) if _LIBRARY.match(name)]
    library, named = libraries[0] if libraries else None, host.exists(DRIVER_FILE)
    return {"package": package, "version": version, "driver_file": named, "library": library, "known": named and bool(libraries)}


def gid_index(hca: Mapping[str, Any]) -> Optional[int]:
    """The index that NCCL_IB_GID_INDEX would have to name for this device: of its first RoCE v2 GID with an IPv4 address."""
    return next((int(entry["index"]) for port in hca.get("ports") or [] for entry in port.get("gids") or []
                 if entry.get("type") == "RoCE v2" and _ipv4(entry.get("gid"))), None)


def _ipv4(gid: Any) -> bool:
    try:
        return ipaddress.IPv6Address(str(gid)).ipv4_mapped is not None
    except ValueError:
        return False


def summary(facts: Mapping[str, Any]) -> str:
    """One line: mode, driver, and of each device its state, the MTU of its interface, and its GID index."""
    found = facts["erdma"]
    driver = found["driver"]
    told = [str(driver[key]) for key in ("version", "source") if driver[key] not in (None, "unknown")]
    words = ["mode %s" % (found["mode"] or "unknown"), " ".join(["driver"] + (told if driver["loaded"] else ["not loaded"]))]
    words += [_device(hca) for hca in facts.get("hcas") or [] if hca["name"] in found["devices"]]
    words += [] if found["devices"] else ["no device"]
    return "; ".join(words + ([] if found["provider"]["known"] else ["libibverbs has NO provider for it"]))


def _device(hca: Mapping[str, Any]) -> str:
    port = (hca["ports"] or [{}])[0]
    index = gid_index(hca)
    return "%s %s, %s MTU %s, %s" % (
        hca["name"], port.get("state") or "without a port", port.get("netdev") or "no interface,", port.get("netdev_mtu") or "unknown",
        "no RoCE v2 GID" if index is None else "GID %d" % index)
