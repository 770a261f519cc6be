# SPDX-License-Identifier: GPL-3.0-or-later
"""Sysctls that a multi-rail RDMA host needs. A new one is one more row.

A name is kept with slashes (``net/ipv4/conf/eth1.100/rp_filter``), which sysctl.d
accepts and which an interface name with a dot needs; ``/proc/sys/`` plus the name is
the kernel's file.
"""

from typing import Dict, List, NamedTuple, Sequence, Tuple

from ..spec.model import Spec


class Sysctl(NamedTuple):
    name: str  # with slashes; {nic} stands for a rail's interface, {nic6} for one with an IPv6 address
    value: str
    fabrics: Tuple[str, ...]
    why: str
    source: str

    @property
    def path(self) -> str:
        return "/proc/sys/" + self.name


_ALL = ("roce", "infiniband", "erdma")
_OCI = "oci-hpc /etc/sysctl.d/80-network.conf, per RDMA NIC"
_AZURE = "azhpc-images"

SYSCTLS: Tuple[Sysctl, ...] = (
    Sysctl("net/ipv4/conf/{nic}/rp_filter", "2", _ALL,
           "Loose reverse path filter: with rails in one subnet an answer may come in on another rail, and the strict filter drops it.",
           _OCI + "; common multi-rail practice is 0 or 2"),
    Sysctl("net/ipv4/conf/{nic}/arp_ignore", "2", _ALL,
           "A rail answers ARP for its own address only, and only to senders of its subnet; else one rail draws the traffic of all.",
           _OCI + "; common multi-rail practice is 1, which answers senders of other subnets too"),
    Sysctl("net/ipv4/conf/{nic}/arp_announce", "2", _ALL,
           "A rail asks with an address of its own as source. With 1, rails in one subnet may ask with each other's, and peers learn the "
           "wrong MAC (seen without source routing).",
           "kernel ip-sysctl (arp_announce 2); common multi-rail practice; oci-hpc sets 1"),
    Sysctl("net/ipv6/conf/{nic6}/accept_ra", "0", _ALL,
           "Router advertisements on a fabric would bring a default route and addresses that nobody planned.",
           "kernel ip-sysctl (accept_ra)"),
    Sysctl("net/ipv6/conf/{nic6}/accept_dad", "1", _ALL,
           "A rail's address is used only when the kernel found nobody else with it.", "kernel ip-sysctl (accept_dad; 1 is its default)"),
    Sysctl("net/ipv4/neigh/default/gc_thresh1", "4096", _ALL,
           "Room for the neighbours of a large cluster: nodes times rails entries.", _AZURE),
    Sysctl("net/ipv4/neigh/default/gc_thresh2", "8192", _ALL, "Soft limit of the neighbour table, above gc_thresh1.", _AZURE),
    Sysctl("net/ipv4/neigh/default/gc_thresh3", "16384", _ALL, "Hard limit of the neighbour table, above gc_thresh2.", _AZURE),
    Sysctl("vm/zone_reclaim_mode", "1", _ALL, "Pages come from the NUMA node of the HCA before another node's memory is taken.",
           _AZURE + ", linux-system-roles/hpc"),
)
# Of these the kernel takes the larger of conf/all and conf/INTERFACE (ip-sysctl; IN_DEV_MAXCONF in include/linux/inetdevice.h).
MAXIMUM = ("rp_filter", "arp_ignore", "arp_announce")
OVERRIDE_WHY = "the inventory's host_tuning_sysctls"


def canonical(name: str) -> str:
    """``net.ipv4.conf.eth1/100.rp_filter`` and its slash form as the slash form (sysctl(8) rule: the first separator decides)."""
    dot, slash = name.find("."), name.find("/")
    if dot != -1 and (slash == -1 or dot < slash):
        return name.translate({ord("."): "/", ord("/"): "."})
    return name


def wanted_sysctls(spec: Spec, netdevs: Sequence[str], netdevs6: Sequence[str] = ()) -> List[Sysctl]:
    """Catalogue rows for the fabric, one a rail interface where needed, with the inventory's overrides."""
    rows: Dict[str, Sysctl] = {}
    for row in SYSCTLS:
        if spec.fabric in row.fabrics:
            rows.update((name, row._replace(name=name)) for name in _expanded(row.name, netdevs, netdevs6))
    for key, value in spec["host_tuning_sysctls"].items():
        for expanded in _expanded(canonical(key), netdevs, netdevs6):
            if value is None:
                rows.pop(expanded, None)
            else:
                rows[expanded] = Sysctl(expanded, value, (spec.fabric,), OVERRIDE_WHY, "inventory")
    return list(rows.values())


def _expanded(name: str, netdevs: Sequence[str], netdevs6: Sequence[str]) -> List[str]:
    word, names = ("{nic}", netdevs) if "{nic}" in name else ("{nic6}", netdevs6)
    return [name.replace(word, netdev) for netdev in names] if word in name else [name]
