# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's side of lossless RoCE as each NIC has it now: trust, DSCP map, PFC, ETS, ECN, CNP, RDMA-CM's default, DCBX.

Facts only; whether the links of the chain agree is for ``areas/qos/verdicts.py``. What nothing tells is None, with the
reason under ``missing``; which tool told the rest is under ``sources``. Nothing is written to find out: RDMA-CM's
default has no file until somebody makes its directory in configfs, and then the answer is "not readable".

Sources: NVIDIA's tree of /sys/class/net/IF/ecn (OFED and DOCA), drivers/infiniband/hw/mlx5/cong.c (cc_params in
debugfs, inbox), drivers/infiniband/core/cma_configfs.c, mlx5's tc/N/traffic_class (OFED and DOCA).
"""

import re
from typing import Any, Dict, List, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host
from ..types import Hca, Identity
from .devices import CLASS_INFINIBAND, CLASS_NET, attribute
from .qos_dcb import DSCPS, OBJECTS, PRIORITIES, read_dcb, read_mlnx_qos

CONFIGFS = "/sys/kernel/config/rdma_cm"
DEBUGFS = "/sys/kernel/debug/mlx5"
UNIX_SOCKETS = "/proc/net/unix"
LLDPAD_SOCKET = "@/com/intel/lldpad"  # its clients' end is .../PID
MLX5 = "mlx5_core"
# Drivers whose devices have no DCB of their own: what they send rides the interface below, which may have it, or a fabric of the provider.
SOFTWARE = ("rdma_rxe", "siw")
WITHOUT_DCB = {
    "rdma_rxe": "Soft-RoCE has no DCB: the kernel sends its packets like any others",
    "siw": "Soft-iWARP has no DCB: the kernel sends its packets like any others",
    "erdma": "eRDMA has no DCB: the provider's fabric decides",
}
PARTS = tuple(part for part, _object in OBJECTS)
_GLOBAL = re.compile(r"(?:Global tclass=)?([0-9]{1,3})\Z")
_RULE = re.compile(r"(?:(?:src|dst)_ip6?=[0-9a-f.:/]{1,50},){1,2}tclass=([0-9]{1,3})\Z")
_MODES = ("IB/RoCE v1", "RoCE v2")


def observe_qos(host: Host, identity: Identity) -> Dict[str, Any]:
    nics = [observe_nic(host, identity, *place) for place in roce_places(host, identity)]
    return {"lldpad": observe_lldpad(host) if nics else None, "nics": nics}


def roce_places(host: Host, identity: Identity) -> List[Tuple[Hca, int, str]]:
    """(HCA, port, interface) of every Ethernet port. DCB belongs to the interfaces below a bond, not to the bond."""
    found = []
    for hca in identity.hcas:
        for at, port in enumerate(hca.ports):  # one of InfiniBand may be beside it
            if sysfs_values.token(attribute(host, "%s/%s/ports/%d/link_layer" % (CLASS_INFINIBAND, hca.name, port))) != "Ethernet":
                continue
            name = hca.port_netdevs[at] if at < len(hca.port_netdevs) else ""
            members = [nic.name for nic in identity.nics if name and nic.bond == name]
            found += [(hca, port, member) for member in members or [name] if member]
    return found


def observe_nic(host: Host, identity: Identity, hca: Hca, port: int, netdev: str) -> Dict[str, Any]:
    """One entry of ``nics``. The interface below a software device is asked too: it is what the device's packets leave by."""
    nic: Dict[str, Any] = {"hca": hca.name, "port": port, "netdev": netdev, "driver": hca.driver}
    told: Dict[str, Any] = {}
    missing: Dict[str, str] = {}
    sources: Dict[str, str] = {}
    answers: List[Tuple[str, Tuple[Any, str]]] = []
    none = WITHOUT_DCB.get(str(hca.driver))
    below = next((other for other in identity.nics if other.name == netdev), None)
    if none is None or hca.driver in SOFTWARE:
        told, missing, sources = _dcb(host, (below.driver if below is not None else None) or hca.driver, netdev)
    if none is not None:  # nothing in software marks or answers by priority
        missing.update((part, none) for part in ("ecn", "cnp") + (() if told else PARTS))
    else:
        answers = [("ecn", _ecn(host, netdev)), ("cnp", _cnp(host, netdev, (below.pci if below is not None else None) or hca.pci))]
    answers += [("rdma_cm", _rdma_cm(host, hca.name, port)), ("forced_tc", _forced(host, hca.name, port))]
    for part, (value, source) in answers:  # where a value is from, or, without one, why there is none
        if value is None:
            missing[part] = source
        else:
            told[part], sources[part] = value, source
    nic.update((part, told.get(part)) for part in PARTS + ("ecn", "cnp", "rdma_cm", "forced_tc"))
    return dict(nic, sources=sources, missing=missing)


def _dcb(host: Host, driver: Optional[str], netdev: str) -> Tuple[Dict[str, Any], Dict[str, str], Dict[str, str]]:
    """dcb first, mlnx_qos for what is left."""
    told, missing = read_dcb(host, netdev)
    sources = dict.fromkeys(told, "dcb")
    if "trust" not in told and driver == MLX5 and "dscp_priority" in told:
        # mlx5 keeps one state: with any entry in the table it trusts DSCP, with none PCP (mlx5e_dcbnl_ieee_setapp and _delapp).
        told["trust"], sources["trust"] = "dscp" if told["dscp_priority"] else "pcp", "dcb app"
        del missing["trust"]
    if missing:
        more, why = read_mlnx_qos(host, netdev)
        for part in sorted(missing):
            if part in more:
                told[part], sources[part] = more[part], "mlnx_qos"
                del missing[part]
            else:
                missing[part] = "%s; %s" % (missing[part], why)
    return told, missing, sources


def _ecn(host: Host, netdev: str) -> Tuple[Optional[Dict[str, List[int]]], str]:
    """The priorities on which marks are answered (notification point) and CNPs are heeded (reaction point)."""
    root = "%s/%s/ecn" % (CLASS_NET, netdev)
    if not host.exists(root):
        return None, "no %s: only the driver of OFED and DOCA has it" % root
    found: Dict[str, List[int]] = {}
    for point in ("np", "rp"):
        flags = [sysfs_values.integer(attribute(host, "%s/roce_%s/enable/%d" % (root, point, priority))) for priority in range(PRIORITIES)]
        if any(flag not in (0, 1) for flag in flags):
            return None, "%s/roce_%s/enable is not eight times 0 or 1" % (root, point)
        found[point] = [priority for priority, flag in enumerate(flags) if flag]
    return found, "sysfs"


def _cnp(host: Host, netdev: str, pci: Optional[str]) -> Tuple[Optional[Dict[str, int]], str]:
    """How this NIC marks the CNPs that it sends: OFED's sysfs, or debugfs (root only) of the kernel's own mlx5."""
    root = "%s/%s/ecn/roce_np" % (CLASS_NET, netdev)
    debug = "%s/%s/cc_params" % (DEBUGFS, pci)
    for source, dscp, priority in (("sysfs", root + "/cnp_dscp", root + "/cnp_802p_prio"),
                                   ("debugfs", debug + "/np_cnp_dscp", debug + "/np_cnp_prio")):
        values = sysfs_values.integer(attribute(host, dscp)), sysfs_values.integer(attribute(host, priority))
        if values[0] in range(DSCPS) and values[1] in range(PRIORITIES):
            return {"dscp": values[0] or 0, "priority": values[1] or 0}, source
    return None, "neither %s nor %s can be read" % (root, debug)


def _rdma_cm(host: Host, hca: str, port: int) -> Tuple[Optional[Dict[str, Any]], str]:
    """What connections by RDMA-CM get that ask for nothing."""
    root = "%s/%s/ports/%d" % (CONFIGFS, hca, port)
    mode = sysfs_values.token(attribute(host, root + "/default_roce_mode"))
    tos = sysfs_values.integer(attribute(host, root + "/default_roce_tos"))
    if mode in _MODES and tos in range(256):
        return {"mode": mode, "tos": tos}, "configfs"
    if not host.exists(CONFIGFS):
        return None, "no %s: rdma_cm is not loaded, or configfs not mounted" % CONFIGFS
    return None, "%s cannot be read; mkdir %s/%s makes it" % (root, CONFIGFS, hca)


def _forced(host: Host, hca: str, port: int) -> Tuple[Optional[List[int]], str]:
    """Traffic classes that the driver puts on queue pairs whatever NCCL asked for; [] where it has no such override or none is set.

    The global one comes first in the file and leaves no queue pair to the rules by address.
    """
    path = "%s/%s/tc/%d/traffic_class" % (CLASS_INFINIBAND, hca, port)
    text = attribute(host, path)
    if text is None:
        return (None, "%s cannot be read" % path) if host.exists(path) else ([], "the driver has no override")
    classes: List[int] = []
    for line in text.split("\n")[:-1] if text.endswith("\n") else text.split("\n"):
        found = _RULE.match(line) if classes else _GLOBAL.match(line) or _RULE.match(line)
        if line and (found is None or int(found.group(1)) > 255):
            return None, "%s has not the form that the driver prints" % path
        if found is not None:
            if found.re is _GLOBAL:
                return [int(found.group(1))], "sysfs"
            classes.append(int(found.group(1)))
    return classes, "sysfs"


def observe_lldpad(host: Host) -> Optional[bool]:
    """Whether lldpad listens: it takes what the switch says and writes it over what was set."""
    text = host.read(UNIX_SOCKETS)
    return None if text is None else any(line.split()[-1:] == [LLDPAD_SOCKET] for line in lines_in(text))
