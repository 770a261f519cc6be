# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``erdma`` part of the facts: driver, mode, user space and devices of Alibaba's elastic RDMA. None on a node without any of it.

libibverbs opens an eRDMA device with its provider alone: a library liberdma-rdmav*.so, found by /etc/libibverbs.d/erdma.driver.
Both come with rdma-core from 43 on, with Alibaba's packages and with MLNX_OFED; the files say more than a version does.
"""

import ipaddress
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..formats import sysfs_values
from ..host.host import Host
from ..rules.erdma_mode import COMPAT, DEFAULT, OFED, letter_of_type
from ..types import Identity
from .devices import PCI_DEVICES, pci_attribute
from .erdma_driver import EADM, MODULE, driver_facts, eadm_version
from .stack_modules import DOCA, MLNX_OFED

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
    found = driver_facts(host, identity.kernel)
    return dict(
        found,
        mode=mode_of_node(found["compat_mode"], devices, (facts["stack"] or {}).get("modules") or {}),
        provider=_provider(host, packages),
        eadm=host.which(EADM) is not None,
        eadm_version=eadm_version(host),
        functions=functions,
        devices=[str(hca["name"]) for hca in devices],
    )


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
    """The devices on the PCI bus, with a driver or without; None where there is no bus to look at."""
    names = [name for name in host.listdir(PCI_DEVICES) if sysfs_values.pci_address(name) is not None]
    if not names:
        return None
    return sorted(name for name in names if [
        (pci_attribute(host, name, key) or "").strip() for key in ("vendor", "device")] == [VENDOR, DEVICE])


def _provider(host: Host, packages: Mapping[str, str]) -> Dict[str, Any]:
    """``known``: libibverbs can open the devices."""
    package = next((name for name in PROVIDER_PACKAGES if name in packages), None)
    libraries = ["%s/%s" % (directory, name) for directory in LIBRARIES for name in host.listdir(directory) if _LIBRARY.match(name)]
    named = host.exists(DRIVER_FILE)
    return {
        "package": package,
        "version": packages[package] if package is not None else None,
        "driver_file": named,
        "library": libraries[0] if libraries else None,
        "known": named and bool(libraries),
    }


def gid_index(hca: Mapping[str, Any]) -> Optional[int]:
    """The index that NCCL_IB_GID_INDEX would have to name for this device: of its first RoCE v2 GID with an IPv4 address."""
    for port in hca.get("ports") or []:
        for entry in port.get("gids") or []:
            if entry.get("type") == "RoCE v2" and _ipv4(entry.get("gid")):
                return int(entry["index"])
    return None


def _ipv4(gid: Any) -> bool:
    try:
        return ipaddress.IPv6Address(str(gid)).ipv4_mapped is not None
    except ValueError:
        return False


def summary(facts: Mapping[str, Any]) -> str:
    """One line: mode, driver, and of each device its state, the MTU of its interface, and its GID index."""
    found = facts["erdma"]
    driver = found["driver"]
    words = ["mode %s" % (found["mode"] or "unknown")]
    if driver["loaded"]:
        words.append(" ".join(["driver"] + [str(driver[key]) for key in ("version", "source") if driver[key] not in (None, "unknown")]))
    else:
        words.append("driver not loaded")
    words += [_device(hca) for hca in facts.get("hcas") or [] if hca["name"] in found["devices"]]
    if not found["devices"]:
        words.append("no device")
    if not found["provider"]["known"]:
        words.append("libibverbs has NO provider for it")
    return "; ".join(words)


def _device(hca: Mapping[str, Any]) -> str:
    port = (hca["ports"] or [{}])[0]
    index = gid_index(hca)
    return "%s %s, %s MTU %s, %s" % (
        hca["name"], port.get("state") or "without a port", port.get("netdev") or "no interface,", port.get("netdev_mtu") or "unknown",
        "no RoCE v2 GID" if index is None else "GID %d" % index)
