# SPDX-License-Identifier: GPL-3.0-or-later
"""Sysctls that a multi-rail RDMA host needs. A new one is one more row.

A name is kept with slashes (``net/ipv4/conf/eth1.100/rp_filter``), which sysctl.d
accepts and which an interface name with a dot needs; ``/proc/sys/`` plus the name is
the kernel's file.
"""

from typing import Dict, List, NamedTuple, Sequence, Tuple

from ..spec.model import Spec


class Sysctl(NamedTuple):
    name: str  # with slashes; {nic} stands for a rail's interface
    value: str
    fabrics: Tuple[str, ...]
    why: str
    source: str

    @property
    def path(self):
        # type: () -> str
        return "/proc/sys/" + self.name


_ALL = ("roce", "infiniband", "erdma")
_OCI = "oci-hpc /etc/sysctl.d/80-network.conf, per RDMA NIC [V]"
_AZURE = "azhpc-images [V]"

SYSCTLS = (
    Sysctl("net/ipv4/conf/{nic}/rp_filter", "2", _ALL,
           "Loose reverse path filter: with rails in one subnet an answer may come in on another rail, and the strict filter drops it.",
           _OCI + "; common multi-rail practice is 0 or 2 [K]"),
    Sysctl("net/ipv4/conf/{nic}/arp_ignore", "2", _ALL,
           "A rail answers ARP for its own address only, and only to senders of its subnet; else one rail draws the traffic of all.",
           _OCI + "; common multi-rail practice is 1 [K], which answers senders of other subnets too"),
    Sysctl("net/ipv4/conf/{nic}/arp_announce", "1", _ALL,
           "A rail asks with an address of the target's subnet as source, so peers do not learn another rail's address for it.",
           _OCI + "; common multi-rail practice is 2 [K], which always takes the best local address"),
    Sysctl("net/ipv4/neigh/default/gc_thresh1", "4096", _ALL,
           "Room for the neighbours of a large cluster: nodes times rails entries.", _AZURE),
    Sysctl("net/ipv4/neigh/default/gc_thresh2", "8192", _ALL, "Soft limit of the neighbour table, above gc_thresh1.", _AZURE),
    Sysctl("net/ipv4/neigh/default/gc_thresh3", "16384", _ALL, "Hard limit of the neighbour table, above gc_thresh2.", _AZURE),
    Sysctl("vm/zone_reclaim_mode", "1", _ALL, "Pages come from the NUMA node of the HCA before another node's memory is taken.",
           _AZURE + ", linux-system-roles/hpc [V]"),
)  # type: Tuple[Sysctl, ...]
OVERRIDE_WHY = "the inventory's host_tuning_sysctls"


def canonical(name):
    # type: (str) -> str
    """``net.ipv4.conf.eth1/100.rp_filter`` and its slash form as the slash form (sysctl(8) rule: the first separator decides)."""
    dot, slash = name.find("."), name.find("/")
    if dot != -1 and (slash == -1 or dot < slash):
        return name.translate({ord("."): "/", ord("/"): "."})
    return name


def wanted_sysctls(spec, netdevs):
    # type: (Spec, Sequence[str]) -> List[Sysctl]
    """Catalogue rows for the fabric, one a rail interface where needed, with the inventory's overrides."""
    rows = {}  # type: Dict[str, Sysctl]
    for row in SYSCTLS:
        if spec.fabric not in row.fabrics:
            continue
        for name in ([row.name.replace("{nic}", netdev) for netdev in netdevs] if "{nic}" in row.name else [row.name]):
            rows[name] = row._replace(name=name)
    for key, value in spec["host_tuning_sysctls"].items():
        name = canonical(key)
        for expanded in ([name.replace("{nic}", netdev) for netdev in netdevs] if "{nic}" in name else [name]):
            if value is None:
                rows.pop(expanded, None)
            else:
                rows[expanded] = Sysctl(expanded, value, (spec.fabric,), OVERRIDE_WHY, "inventory")
    return list(rows.values())
