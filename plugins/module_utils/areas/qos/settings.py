# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a NIC carry lossless RoCE from scratch, as effects in order: the plan's ops and the file for boot are both made of them.

Pure. Each setting may be repeated: on a NIC that has it already it changes nothing and does not fail. Which tool sets a
part is decided by ``tools_of``: the one that can read the part back, since what cannot be read back cannot be kept.

Sources: iproute2's dcb_*.c, mlnx-tools' mlnx_qos, mlx5's en_dcbnl.c and cong.c, cma_configfs.c.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...catalogue.qos import QosProfile
from ...observe.qos import CONFIGFS, DEBUGFS, MLX5
from ...observe.qos_dcb import PRIORITIES

RUN, VALUE, MKDIR = "run", "value", "mkdir"
DCB, MLNX_QOS, TABLE, SYSFS, DEBUG, CONFIG = "dcb", "mlnx_qos", "dcb app", "sysfs", "debugfs", "configfs"
AUTO = "auto"
ROCE_MODE = "RoCE v2"
CLASS_NET = "/sys/class/net"
CLASS_INFINIBAND = "/sys/class/infiniband"
# In the order in which they are set: who may write at all comes first.
PARTS = ("dcbx", "trust", "pfc", "dscp_priority", "ets", "buffers", "ecn", "cnp", "rdma_cm", "forced_tc")
# rdma_cm brings configfs, and nothing waits for its mount: a directory made before it lies below the mount, on sysfs's root.
CONFIGFS_READY = (("modprobe", "rdma_cm"), ("systemctl", "start", "sys-kernel-config.mount"))


class Setting(NamedTuple):
    """One effect. run: ``argv``. value: ``content`` into the kernel file ``path``. mkdir: the directory ``path``, if it is not there."""

    kind: str
    argv: Tuple[str, ...]
    path: str
    content: str


class NicWish(NamedTuple):
    """One RoCE port of a rail as the profile wants it. Built from Spec and Identity alone. A bond has one for each member."""

    netdev: str
    mac: str
    hca: str
    port: int
    label: str  # rail0 (eth1)
    driver: Optional[str]  # of the interface
    pci: Optional[str]
    first: bool  # of the NICs that share the HCA's port: what belongs to the port is planned with this one
    profile: QosProfile
    dcbx_host: bool
    buffers: Tuple[Tuple[int, ...], Tuple[int, ...]]  # (bytes of each buffer, buffer of each priority); empty ones: left alone
    force_tc: bool


def value(path: str, content: str) -> Setting:
    return Setting(VALUE, (), path, content)


def settings(nic: NicWish, tools: Mapping[str, str]) -> Tuple[Setting, ...]:
    """Everything, in order. ``tools``: part -> who sets it; a part without a tool is left out."""
    return tuple(setting for part in PARTS for setting in settings_of(part, nic, tools))


def settings_of(part: str, nic: NicWish, tools: Mapping[str, str]) -> Tuple[Setting, ...]:
    """One part's; empty when the inventory leaves it alone, or nothing on the node can set it."""
    tool = tools.get(part)
    if tool is None or part not in wanted_parts(nic) or (part == "trust" and tool == TABLE):
        return ()
    return effects(part, nic, tool)


def wanted_parts(nic: NicWish) -> List[str]:
    """What the inventory asks for. A driver without an override forces nothing, so that part is missed only where it is asked for."""
    asked = {"dcbx": nic.dcbx_host, "ets": bool(nic.profile.ets), "buffers": bool(nic.buffers[0]), "forced_tc": nic.force_tc}
    return [part for part in PARTS if asked.get(part, True)]


def tools_of(nic: NicWish, told: Mapping[str, Any], backend: str, present: Sequence[str]) -> Dict[str, str]:
    """Part -> tool. ``told``: this NIC's entry of ``facts["qos"]["nics"]``; ``present``: which of dcb and mlnx_qos the node has."""
    sources = told.get("sources") or {}
    found = {part: _dcb_tool(part, nic, str(sources.get(part, "")), backend, present) for part in PARTS[:6]}
    if found["trust"] == MLNX_QOS and told.get("trust") == "pcp" and found["dscp_priority"] is None and backend != DCB:
        found["dscp_priority"] = MLNX_QOS  # it does not print the map that it does not use
    if told.get("ecn") is not None:
        found["ecn"] = SYSFS
    if told.get("cnp") is not None:
        found["cnp"] = DEBUG if sources.get("cnp") == DEBUG else SYSFS
    if sources.get("forced_tc") == SYSFS:
        found["forced_tc"] = SYSFS
    found["rdma_cm"] = CONFIG  # the kernel's own, whatever the device
    return {part: tool for part, tool in found.items() if tool is not None}


def _dcb_tool(part: str, nic: NicWish, source: str, backend: str, present: Sequence[str]) -> Optional[str]:
    if not source:
        return None
    if MLNX_QOS in (backend, source):
        return MLNX_QOS if MLNX_QOS in present and backend != DCB else None
    spare = MLNX_QOS in present and backend == AUTO and nic.driver == MLX5
    if part == "dcbx" and spare:
        return MLNX_QOS  # mlx5 takes no DCBX mode from dcb that gives it back to the firmware, so dcb's could not be undone
    if source == TABLE:
        return MLNX_QOS if spare else TABLE  # mlnx_qos fills the whole table; else the two entries of the profile make mlx5 trust DSCP
    return DCB


def effects(part: str, nic: NicWish, tool: str) -> Tuple[Setting, ...]:
    """What sets a part, whether the inventory asks for it or not."""
    if part in _COMMANDS:
        return (Setting(RUN, _COMMANDS[part](nic, tool), "", ""),)
    profile, sysfs = nic.profile, "%s/%s/ecn" % (CLASS_NET, nic.netdev)
    if part == "ecn":  # marks are answered and CNPs heeded on this priority; other priorities stay as they are
        return tuple(value("%s/roce_%s/enable/%d" % (sysfs, point, profile.priority), "1") for point in ("np", "rp"))
    if part == "cnp":
        debug = "%s/%s/cc_params" % (DEBUGFS, nic.pci)
        dscp, priority = (debug + "/np_cnp_dscp", debug + "/np_cnp_prio") if tool == DEBUG else (
            sysfs + "/roce_np/cnp_dscp", sysfs + "/roce_np/cnp_802p_prio")
        return value(dscp, "%d" % profile.cnp_dscp), value(priority, "%d" % profile.cnp_priority)
    if part == "forced_tc":
        return (value(forced_path(nic), "%d" % profile.tc),)
    port = "%s/ports/%d" % (cm_device(nic), nic.port)
    return tuple(Setting(RUN, argv, "", "") for argv in CONFIGFS_READY) + (
        Setting(MKDIR, (), cm_device(nic), ""), value(port + "/default_roce_mode", ROCE_MODE),
        value(port + "/default_roce_tos", "%d" % profile.rdma_cm_tos))


def dcbx_argv(netdev: str, tool: str, flags: Sequence[str]) -> Tuple[str, ...]:
    if tool == MLNX_QOS:
        return (MLNX_QOS, "-i", netdev, "-d", "os" if "host" in flags else "fw")
    return (DCB, "dcbx", "set", "dev", netdev, *flags)


def trust_argv(netdev: str, tool: str, order: Sequence[str]) -> Tuple[str, ...]:
    """``order``: the selectors, the first that applies decides."""
    if tool == MLNX_QOS:
        return (MLNX_QOS, "-i", netdev, "--trust", "dscp" if "dscp" in order[:1] else "pcp")
    return (DCB, "apptrust", "set", "dev", netdev, "order", *order)


def pfc_argv(netdev: str, tool: str, lossless: Sequence[int]) -> Tuple[str, ...]:
    if tool == MLNX_QOS:
        return (MLNX_QOS, "-i", netdev, "--pfc", csv([int(priority in lossless) for priority in range(PRIORITIES)]))
    return (DCB, "pfc", "set", "dev", netdev, "prio-pfc", "all:off") + tuple("%d:on" % priority for priority in lossless)


def entries(profile: QosProfile) -> Tuple[Tuple[int, int], ...]:
    """(DSCP, priority) of the RoCE traffic and of its CNPs: the two that are ours; the other 62 DSCPs are not."""
    return ((profile.dscp, profile.priority), (profile.cnp_dscp, profile.cnp_priority))


def map_argv(netdev: str, tool: str, pairs: Sequence[Tuple[int, int]]) -> Tuple[str, ...]:
    """``replace`` adds the entry and takes away others of that DSCP. It exits 0 whatever happens: only reading back tells."""
    if tool == MLNX_QOS:
        return (MLNX_QOS, "-i", netdev) + tuple(word for pair in pairs for word in ("--dscp2prio", "set,%d,%d" % pair))
    return (DCB, "app", "replace", "dev", netdev, "dscp-prio") + tuple("%d:%d" % pair for pair in pairs)


def ets_argv(netdev: str, tool: str, classes: Sequence[int], kinds: Sequence[str], percents: Sequence[int]) -> Tuple[str, ...]:
    """Both tools refuse percents that do not sum to 100, and mlnx_qos those of a class that does not share."""
    bound = [percent if kind == "ets" else 0 for kind, percent in zip(kinds, percents)]
    if tool == DCB and sum(percents) == 100:
        bound = list(percents)  # as it was: a class that is strict for now may keep the percents that it had
    if tool == MLNX_QOS:
        return (MLNX_QOS, "-i", netdev, "-p", csv(classes), "-s", ",".join(kinds), "-t", csv(bound))
    return (DCB, "ets", "set", "dev", netdev, "prio-tc", *numbered(classes), "tc-tsa", *numbered(kinds), "tc-bw", *numbered(bound))


def buffers_argv(netdev: str, tool: str, sizes: Sequence[int], places: Sequence[int]) -> Tuple[str, ...]:
    if tool == MLNX_QOS:
        return (MLNX_QOS, "-i", netdev, "--prio2buffer", csv(places), "--buffer_size", csv(sizes))
    return (DCB, "buffer", "set", "dev", netdev, "prio-buffer", *numbered(places), "buffer-size", *numbered(sizes))


def cm_device(nic: NicWish) -> str:
    """RDMA-CM has no defaults for a device until somebody makes this directory."""
    return "%s/%s" % (CONFIGFS, nic.hca)


def forced_path(nic: NicWish) -> str:
    return "%s/%s/tc/%d/traffic_class" % (CLASS_INFINIBAND, nic.hca, nic.port)


def csv(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


def numbered(values: Sequence[Any]) -> Tuple[str, ...]:
    """dcb's mappings: ``0:1 1:0 …``."""
    return tuple("%d:%s" % pair for pair in enumerate(values))


_COMMANDS: Dict[str, Callable[[NicWish, str], Tuple[str, ...]]] = {
    "dcbx": lambda nic, tool: dcbx_argv(nic.netdev, tool, ("host", "ieee")),
    "trust": lambda nic, tool: trust_argv(nic.netdev, tool, ("dscp",)),
    "pfc": lambda nic, tool: pfc_argv(nic.netdev, tool, nic.profile.lossless),
    "dscp_priority": lambda nic, tool: map_argv(nic.netdev, tool, entries(nic.profile)),
    # A traffic class for each priority; one with a share shares by ETS, the others are strict, as CNPs must be.
    "ets": lambda nic, tool: ets_argv(
        nic.netdev, tool, range(PRIORITIES), ["ets" if share else "strict" for share in nic.profile.ets], nic.profile.ets),
    "buffers": lambda nic, tool: buffers_argv(nic.netdev, tool, *nic.buffers),
}
