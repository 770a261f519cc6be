# SPDX-License-Identifier: GPL-3.0-or-later
"""One part of a NIC's QoS at a time: whether it fits the profile, what it was, what it becomes, and what takes the change back. Pure.

The verdict and the plan ask the same functions whether it fits, so they cannot disagree. What was read before is the undo, in the
words of the tool that makes the change.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...catalogue.qos import QosProfile, dscp_of
from ...observe.qos import WITHOUT_DCB
from ...observe.qos_dcb import OBJECTS
from ...types import Op, run, set_value
from . import settings
from .settings import DCB, MLNX_QOS, NicWish, entries

CONGESTED = 3  # both ECN bits set: what a switch writes when it marks a packet
CELL = 512  # NICs round buffers down to whole cells, which are smaller than this (mlx5: port_buff_cell_sz)
DCB_PARTS = tuple(part for part, _object in OBJECTS)


def marks(profile: QosProfile, tc: Optional[int]) -> bool:
    """Whether a traffic class has the profile's DSCP. The ECN bits are free: NICs set them on what may be marked."""
    return tc is not None and 0 <= tc <= 255 and dscp_of(tc) == profile.dscp and tc & 3 != CONGESTED


def trusts_dscp(trust: Optional[str]) -> bool:
    """The first selector that applies decides."""
    return trust is not None and trust.split()[:1] == ["dscp"]


def priorities_of(nic: Mapping[str, Any], dscp: int) -> Optional[List[int]]:
    pairs = nic.get("dscp_priority")
    return None if pairs is None else [pair[1] for pair in pairs if pair[0] == dscp]


def shares(profile: QosProfile, ets: Mapping[str, Any]) -> bool:
    """Each priority with a share has it of its own, which it does only in a traffic class of its own that shares by ETS."""
    return all(ets["percent"][tc] == share and ets["tsa"][tc] == "ets" and ets["tc"].count(tc) == 1
               for tc, share in zip(ets["tc"], profile.ets) if share)


def without_dcb(nic: Mapping[str, Any]) -> Optional[str]:
    """Why there is nothing to judge on a software device: the interface below it has no DCB either. None where there is."""
    if any(nic.get(part) is not None for part in DCB_PARTS):
        return None
    return WITHOUT_DCB.get(str(nic.get("driver")))


Argv = Tuple[str, ...]
NOTHING = (("true",),)  # a module that is loaded and a file system that is mounted disturb nobody; others may have begun to use them


class Words(NamedTuple):
    """How a part is named in a plan, and why it is set."""

    what: str
    why: str
    source: str
    cuts: bool  # the NIC may stop for a moment


WORDS: Dict[str, Words] = {
    "dcbx": Words("DCBX owner", "another owner takes what the switch sends and writes it over what is set here", "IEEE 802.1Qaz (DCBX)",
                  True),
    "trust": Words("DSCP trust", "a NIC that trusts PCP puts untagged traffic on priority 0, whatever its DSCP",
                   "NVIDIA doroce-linux (trust dscp)", True),
    "pfc": Words("PFC", "a priority that PFC does not pause is dropped under load; one that it pauses besides takes its buffers",
                 "inventory: rdma_qos_profile (lossless)", True),
    "dscp_priority": Words("DSCP map", "RoCE traffic and its CNPs reach their queues by their DSCPs",
                           "inventory: rdma_qos_profile (DSCP, CNP)", True),
    "ets": Words("ETS", "a priority has its share only in a traffic class of its own", "inventory: rdma_qos_custom.ets", True),
    "buffers": Words("receive buffers", "what is on its way when PFC pauses must fit", "inventory: roce_qos_buffers", True),
    "ecn": Words("ECN", "without it marks are neither answered nor heeded, and only PFC is left",
                 "inventory: rdma_qos_profile (priority)", False),
    "cnp": Words("CNP marking", "a CNP that waits in the queue that it is about comes too late",
                 "inventory: rdma_qos_profile (CNP)", False),
    "rdma_cm": Words("RDMA-CM default", "connections by RDMA-CM that ask for nothing must ride NCCL's queue; a reboot forgets it",
                     "inventory: rdma_qos_profile (ToS); cma_configfs", False),
    "forced_tc": Words("forced traffic class", "the driver puts it on every queue pair, whatever NCCL asked for",
                       "inventory: roce_qos_force_tc, rdma_qos_profile", False),
}


class QosObservation(NamedTuple):
    """One NIC as it is. ``told``: its entry of ``facts["qos"]["nics"]``; the rest is what only undoing needs."""

    told: Mapping[str, Any]
    dcbx_flags: Tuple[str, ...]
    cm_mounted: bool  # RDMA-CM's directory in configfs is there
    cm_device: bool  # and that of this HCA in it
    forced_global: bool  # the class that is forced is for all queue pairs, not by address
    disruption: str  # of touching this NIC now


def part_fits(part: str, nic: NicWish, told: Mapping[str, Any]) -> bool:
    return _FITS[part](nic, told)


def before(part: str, nic: NicWish, told: Mapping[str, Any]) -> Any:
    if part != "dscp_priority" or told.get(part) is None:
        return told.get(part)
    return {str(dscp): priorities_of(told, dscp) or [] for dscp, _priority in entries(nic.profile)}


def after(part: str, nic: NicWish, told: Mapping[str, Any]) -> Any:
    profile = nic.profile
    if part == "dscp_priority":
        return {str(dscp): [priority] for dscp, priority in entries(profile)}
    if part == "ecn":
        return {point: sorted(set(told["ecn"][point]) | {profile.priority}) for point in ("np", "rp")}
    return {
        "dcbx": "host", "trust": "dscp", "pfc": sorted(profile.lossless), "ets": list(profile.ets),
        "buffers": {"of_priority": list(nic.buffers[1]), "bytes": list(nic.buffers[0])},
        "cnp": {"dscp": profile.cnp_dscp, "priority": profile.cnp_priority},
        "rdma_cm": {"mode": "RoCE v2", "tos": profile.rdma_cm_tos}, "forced_tc": [profile.tc],
    }[part]


def ops_of(part: str, nic: NicWish, tool: str, seen: QosObservation) -> Tuple[Op, ...]:
    """The settings of a part as ops with their undo; what is there already (a directory, a mount) is left out."""
    found: List[Op] = []
    for setting in settings.effects(part, nic, tool):
        if setting.kind == settings.MKDIR:
            if not seen.cm_device:
                # -p: a device that this apply made anew has started the NIC's boot unit, which may be quicker.
                found.append(run(("mkdir", "-p", setting.path), (("rmdir", setting.path),)))
        elif setting.kind != settings.RUN:
            undo = None
            if part == "forced_tc":  # the file does not take what it prints ("Global tclass=106"): a number sets it, and -1 takes it off
                forced = seen.told["forced_tc"]
                undo = "%d" % forced[0] if forced and seen.forced_global else "tclass=-1"
            found.append(set_value(setting.path, setting.content, undo))
        elif setting.argv not in settings.CONFIGFS_READY:
            found.append(run(setting.argv, _UNDO[part](nic, tool, seen)))
        elif not seen.cm_mounted:
            found.append(run(setting.argv, NOTHING))
    return tuple(found)


_FITS: Dict[str, Callable[[NicWish, Mapping[str, Any]], bool]] = {
    "dcbx": lambda nic, told: told["dcbx"] == "host",
    "trust": lambda nic, told: trusts_dscp(told["trust"]),
    "pfc": lambda nic, told: sorted(told["pfc"]) == sorted(nic.profile.lossless),
    "dscp_priority": lambda nic, told: all(priorities_of(told, dscp) == [priority] for dscp, priority in entries(nic.profile)),
    "ets": lambda nic, told: shares(nic.profile, told["ets"]),
    "buffers": lambda nic, told: list(told["buffers"]["of_priority"]) == list(nic.buffers[1]) and all(
        0 <= size - now < CELL for size, now in zip(nic.buffers[0], told["buffers"]["bytes"])),
    "ecn": lambda nic, told: all(nic.profile.priority in told["ecn"][point] for point in ("np", "rp")),
    "cnp": lambda nic, told: told["cnp"] == after("cnp", nic, told),
    "rdma_cm": lambda nic, told: told["rdma_cm"] == after("rdma_cm", nic, told),
    # Not asked for: what is forced only must not break the chain.
    "forced_tc": lambda nic, told: told["forced_tc"] == [nic.profile.tc] if nic.force_tc else all(
        marks(nic.profile, tc) for tc in told["forced_tc"] or ()),
}


def _map_back(nic: NicWish, tool: str, seen: QosObservation) -> Tuple[Argv, ...]:
    """An entry that was alone is put in the place of ours; several come back beside it. Ours goes where it was not."""
    commands: List[Argv] = []
    for dscp, priority in entries(nic.profile):
        old = priorities_of(seen.told, dscp) or []
        if old == [priority]:
            continue
        if len(old) == 1:
            commands.append(settings.map_argv(nic.netdev, tool, [(dscp, old[0])]))
            continue
        gone = [number for number in old if number != priority]
        if gone and tool != MLNX_QOS:
            commands.append((DCB, "app", "add", "dev", nic.netdev, "dscp-prio") + tuple("%d:%d" % (dscp, number) for number in gone))
        if priority not in old:
            commands.append((MLNX_QOS, "-i", nic.netdev, "--dscp2prio", "del,%d,%d" % (dscp, priority)) if tool == MLNX_QOS else (
                DCB, "app", "del", "dev", nic.netdev, "dscp-prio", "%d:%d" % (dscp, priority)))
    return tuple(commands) or NOTHING


_UNDO: Dict[str, Callable[[NicWish, str, QosObservation], Tuple[Argv, ...]]] = {
    "dcbx": lambda nic, tool, seen: (settings.dcbx_argv(nic.netdev, tool, seen.dcbx_flags or ("lld-managed", "ieee")),),
    # ``none`` is an order without selectors.
    "trust": lambda nic, tool, seen: (
        settings.trust_argv(nic.netdev, tool, [word for word in seen.told["trust"].split() if word != "none"]),),
    "pfc": lambda nic, tool, seen: (settings.pfc_argv(nic.netdev, tool, seen.told["pfc"]),),
    "dscp_priority": _map_back,
    "ets": lambda nic, tool, seen: (settings.ets_argv(nic.netdev, tool, *(seen.told["ets"][key] for key in ("tc", "tsa", "percent"))),),
    "buffers": lambda nic, tool, seen: (
        settings.buffers_argv(nic.netdev, tool, *(seen.told["buffers"][key] for key in ("bytes", "of_priority"))),),
}


def unset_parts(nic: NicWish, tools: Mapping[str, str]) -> List[str]:
    """What the inventory wants and nothing on this node sets. mlx5's trust comes with the entries of its table."""
    return [part for part in settings.wanted_parts(nic)
            if part not in tools or (part == "trust" and tools[part] == settings.TABLE and "dscp_priority" not in tools)]
