# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a class device of sysfs sits: its PCI function, its driver, the interfaces beside it.

Shared by the identity of a node and by its facts, so that the two cannot name a device differently.
"""

import re
from typing import Dict, List, Mapping, Optional

from ..formats import sysfs_values
from ..host.host import Host

CLASS_INFINIBAND = "/sys/class/infiniband"
CLASS_NET = "/sys/class/net"
PCI_DEVICES = "/sys/bus/pci/devices"
ATTRIBUTE_LIMIT = 4096  # sysfs hands out at most one page
# eth0_3 or pf0vf2: ports of an embedded switch beside the uplink (switchdev), never a rail themselves.
_REPRESENTOR = re.compile(r"(?:c[0-9]+)?pf[0-9]+(?:vf|sf)[0-9]+\Z")


def attribute(host: Host, path: str) -> Optional[str]:
    """The text of one sysfs attribute, or None."""
    return host.read(path, ATTRIBUTE_LIMIT)


def pci_attribute(host: Host, address: str, name: str) -> Optional[str]:
    """The text of an attribute of a PCI function, or None."""
    return attribute(host, "%s/%s/%s" % (PCI_DEVICES, address, name))


def linked_name(host: Host, path: str) -> Optional[str]:
    """The last part of what a link names: a driver, a bond."""
    return sysfs_values.name((host.readlink(path) or "").rstrip("/").rpartition("/")[2])


def entries(host: Host, directory: str) -> List[str]:
    """Device names in a class directory in natural order; plain files in it (bonding_masters) are none."""
    names = [name for name in host.listdir(directory) if sysfs_values.is_name(name)]
    return sorted((name for name in names if not _plain_file(host, directory + "/" + name)), key=sysfs_values.natural_key)


def _plain_file(host: Host, path: str) -> bool:
    return host.readlink(path) is None and attribute(host, path) is not None


def pci_of(host: Host, device: str) -> Optional[str]:
    """PCI function of a class device: from its links, else from the uevent beside it."""
    for link in (host.readlink(device + "/device"), host.readlink(device)):
        found = sysfs_values.last_pci_address(link)
        if found is not None:
            return found
    uevent = sysfs_values.key_values(attribute(host, device + "/device/uevent"))
    return sysfs_values.pci_address(uevent.get("PCI_SLOT_NAME"))


def driver_of(host: Host, device: str) -> Optional[str]:
    if host.readlink(device + "/device/driver") is not None:
        return linked_name(host, device + "/device/driver")
    return sysfs_values.name(sysfs_values.key_values(attribute(host, device + "/device/uevent")).get("DRIVER"))


def soft_parent(host: Host, hca: str) -> Optional[str]:
    """The interface that Soft-RoCE runs on. Only rxe has this attribute (rxe_verbs.c parent_show)."""
    return sysfs_values.name(attribute(host, hca + "/parent"))


def sibling_netdevs(host: Host, hca: str) -> List[str]:
    """Interfaces of the HCA's own PCI function, without those of its embedded switch."""
    names = []
    for name in host.listdir(hca + "/device/net"):
        if not sysfs_values.is_name(name):
            continue
        port_name = attribute(host, "%s/%s/phys_port_name" % (CLASS_NET, name))
        if not _REPRESENTOR.match((port_name or "").strip()):
            names.append(name)
    return sorted(names, key=sysfs_values.natural_key)


def netdev_with_dev_port(host: Host, names: List[str], port: int) -> Optional[str]:
    """The interface of one port of an HCA: the kernel numbers them from 0 in dev_port."""
    for name in names:
        if sysfs_values.integer(attribute(host, "%s/%s/dev_port" % (CLASS_NET, name))) == port - 1:
            return name
    return names[0] if len(names) == 1 and port == 1 else None


def netdev_with_mac(macs: Mapping[str, str], node_guid: Optional[str]) -> Optional[str]:
    """eRDMA's interface is another PCI function; its MAC is in the node GUID."""
    mac = sysfs_values.mac_of_guid(node_guid)
    return macs.get(mac) if mac is not None else None


def hardware_macs(host: Host) -> Dict[str, str]:
    """MAC -> interface, for interfaces of devices only: a bond or VLAN repeats the MAC of what is below it."""
    found: Dict[str, str] = {}
    for name in entries(host, CLASS_NET):
        mac = sysfs_values.mac_address(attribute(host, "%s/%s/address" % (CLASS_NET, name)))
        if mac is not None and host.exists("%s/%s/device" % (CLASS_NET, name)):
            found.setdefault(mac, name)
    return found
