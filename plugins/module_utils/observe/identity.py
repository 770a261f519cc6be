# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is: OS, kernel, interfaces, HCAs, and what its kernel and tools can do.

Capabilities are the names in ``_capabilities``; a manager's ``…_running`` says that it keeps state in /run. ``container``: /proc/sys and
/sys of the machine cannot be written. ``module:NAME``: the running kernel has that module loaded, built in or loadable (modules.WANTED).
"""

import re
import sys
from typing import List, Optional

from ..catalogue.platforms import family_of
from ..formats import sysfs_values
from ..host.host import Host
from ..types import Identity, Platform
from .devices import observe_gpus, observe_nvswitches, observe_switch_functions
from .hca import observe_identities
from .modules import available_modules
from .nics import observe_nics

_GOVERNORS = ("cpufreq/policy0/scaling_governor", "cpu0/cpufreq/scaling_governor")
_CPU_HEAD = 8192  # the flags of the first CPU; the file of 256 CPUs costs 20 ms
# DMI vendor or product -> hypervisor; a bare-metal instance of a cloud has the same vendor, so the CPU flag decides first.
_DMI = (("QEMU", "kvm"), ("KVM", "kvm"), ("Alibaba Cloud", "kvm"), ("Amazon EC2", "kvm"), ("Google", "kvm"), ("OpenStack", "kvm"),
        ("VMware", "vmware"), ("innotek", "virtualbox"), ("VirtualBox", "virtualbox"), ("Microsoft", "hyperv"), ("Xen", "xen"))
_DMI_FILES = ("/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name")


def observe_identity(host: Host, management_address: Optional[str] = None) -> Identity:
    """``management_address``: the node's own address in the controller's connection, where known."""
    version = re.match(r"Linux version (\S+) ", host.read("/proc/version", 4096) or "")
    kernel = sysfs_values.name(host.line("/proc/sys/kernel/osrelease")) or sysfs_values.name(version.group(1) if version else None)
    gpus = observe_gpus(host)
    switch_functions, unread_functions = observe_switch_functions(host, gpus)
    return Identity(
        hostname=sysfs_values.name(host.line("/proc/sys/kernel/hostname")) or sysfs_values.name(host.line("/etc/hostname")) or "",
        platform=observe_platform(host),
        kernel=kernel or "",
        arch=observe_arch(host) or "",
        python="%d.%d.%d" % sys.version_info[:3] if host.live else "",
        virtual=observe_virtual(host),
        nics=observe_nics(host, management_address),
        hcas=observe_identities(host),
        capabilities=tuple(_capabilities(host, kernel)),
        gpus=gpus,
        nvswitches=observe_nvswitches(host),
        switch_functions=switch_functions,
        unread_functions=unread_functions,
    )


def observe_arch(host: Host) -> Optional[str]:
    """/proc has it from Linux 6.1 on."""
    return sysfs_values.name(host.line("/proc/sys/kernel/arch")) or sysfs_values.name(host.run(["uname", "-m"], 5.0).out)


def observe_platform(host: Host) -> Platform:
    text = host.read("/etc/os-release")
    platform = platform_of(text if text is not None else host.read("/usr/lib/os-release"))
    if platform.package_manager == "yum" and host.exists("/usr/bin/dnf"):  # CentOS 7 and Alibaba Cloud Linux 2 have it as an extra
        return platform._replace(package_manager="dnf")
    return platform


def platform_of(text: Optional[str]) -> Platform:
    values = sysfs_values.key_values(text)
    os_id = values.get("ID", "")
    if os_id == "centos" and "stream" in values.get("NAME", "").lower():
        os_id = "centos-stream"  # the same ID as CentOS Linux, another end of life
    version = values.get("VERSION_ID", "")
    like = tuple(values.get("ID_LIKE", "").split())
    family, package_manager = family_of(os_id, like, version)
    codename = values.get("VERSION_CODENAME") or values.get("UBUNTU_CODENAME") or ""
    return Platform(os_id, version, codename, like, values.get("PRETTY_NAME", ""), family, package_manager)


def observe_virtual(host: Host) -> Optional[str]:
    """container, kvm, xen, vmware, hyperv, virtualbox, other; None on bare metal or where nothing tells."""
    if in_container(host):
        return "container"
    if host.line("/sys/hypervisor/type") == "xen":
        return "xen"
    processor = host.read("/proc/cpuinfo", _CPU_HEAD) or ""
    flags = re.search(r"^flags\s*:.*$", processor, re.MULTILINE)
    if flags is not None and " hypervisor" not in flags.group(0):
        return None
    names = " ".join(host.line(path) or "" for path in _DMI_FILES)
    known = (hypervisor for word, hypervisor in _DMI
             if word in names and (flags is not None or word in ("QEMU", "KVM", "VMware", "VirtualBox")))
    return next(known, "other" if flags is not None else None)


def in_container(host: Host) -> bool:
    if host.exists("/run/.containerenv") or host.exists("/.dockerenv") or host.line("/run/systemd/container") is not None:
        return True
    return "container=" in (host.read("/proc/1/environ", 65536) or "")


def _capabilities(host: Host, kernel: Optional[str]) -> List[str]:
    found = [
        ("systemd", host.line("/proc/1/comm") == "systemd"),
        ("networkd", host.exists("/usr/lib/systemd/systemd-networkd") or host.exists("/lib/systemd/systemd-networkd")),
        ("networkd_running", host.exists("/run/systemd/netif/state")),
        ("nmcli", host.which("nmcli") is not None),
        ("networkmanager_running", host.exists("/run/NetworkManager/devices")),
        ("netplan", host.which("netplan") is not None and host.exists("/etc/netplan")),
        ("ifupdown", host.which("ifup") is not None and host.exists("/etc/network/interfaces")),
        ("cpufreq", any(host.exists("/sys/devices/system/cpu/" + path) for path in _GOVERNORS)),
        ("numa_balancing", host.exists("/proc/sys/kernel/numa_balancing")),
        ("container", in_container(host)),
    ]
    names = [name for name, present in found if present]
    return names + ["module:" + name for name in sorted(available_modules(host, kernel))]
