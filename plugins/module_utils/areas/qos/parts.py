# SPDX-License-Identifier: GPL-3.0-or-later
"""One part of a NIC's QoS at a time: whether it fits the profile, what it was, what it becomes, and what takes the change back. Pure.

What was read before is the undo, in the words of the tool that makes the change.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...types import Op, run, set_value
from . import fit
from .settings import (
    CONFIGFS_READY,
    DCB,
    MKDIR,
    MLNX_QOS,
    RUN,
    TABLE,
    NicWish,
    Setting,
    buffers_argv,
    entries,
    ets_argv,
    force,
    map_argv,
    pfc_argv,
    settings_of,
)

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


class Seen(NamedTuple):
    """One NIC as it is. ``told``: its entry of ``facts["qos"]["nics"]``; the rest is what only undoing needs."""

    told: Mapping[str, Any]
    dcbx_flags: Tuple[str, ...]
    cm_mounted: bool  # RDMA-CM's directory in configfs is there
    cm_device: bool  # and that of this HCA in it
    forced_global: bool  # the class that is forced is for all queue pairs, not by address
    disruption: str  # of touching this NIC now


def fits(part: str, nic: NicWish, told: Mapping[str, Any]) -> bool:
    return _FITS[part](nic, told)


def before(part: str, nic: NicWish, told: Mapping[str, Any]) -> Any:
    if part == "dscp_priority":
        return _map_words(nic, told)
    return told.get(part)


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


def ops_of(part: str, nic: NicWish, tool: str, seen: Seen) -> Tuple[Op, ...]:
    """The settings of a part as ops with their undo; what is there already (a directory, a mount) is left out."""
    found: List[Op] = []
    made: Tuple[Setting, ...] = (force(nic),) if part == "forced_tc" else settings_of(part, nic, {part: tool})
    for setting in made:
        if setting.kind == MKDIR:
            if not seen.cm_device:
                # -p: a device that this apply made anew has started the NIC's boot unit, which may be quicker.
                found.append(run(("mkdir", "-p", setting.path), (("rmdir", setting.path),)))
        elif setting.kind != RUN:
            found.append(set_value(setting.path, setting.content, _forced_back(seen) if part == "forced_tc" else None))
        elif setting.argv not in CONFIGFS_READY:
            found.append(run(setting.argv, _UNDO[part](nic, tool, seen)))
        elif not seen.cm_mounted:
            found.append(run(setting.argv, NOTHING))
    return tuple(found)


def _map_words(nic: NicWish, told: Mapping[str, Any]) -> Optional[Dict[str, List[int]]]:
    if told.get("dscp_priority") is None:
        return None
    return {str(dscp): fit.priorities_of(told, dscp) or [] for dscp, _priority in entries(nic.profile)}


def _map_fits(nic: NicWish, told: Mapping[str, Any]) -> bool:
    return all(fit.priorities_of(told, dscp) == [priority] for dscp, priority in entries(nic.profile))


def _ecn_fits(nic: NicWish, told: Mapping[str, Any]) -> bool:
    return all(nic.profile.priority in told["ecn"][point] for point in ("np", "rp"))


def _forced_fits(nic: NicWish, told: Mapping[str, Any]) -> bool:
    """Not asked for: what is forced only must not break the chain."""
    forced = told["forced_tc"] or []
    return forced == [nic.profile.tc] if nic.force_tc else all(fit.marks(nic.profile, tc) for tc in forced)


_FITS: Dict[str, Callable[[NicWish, Mapping[str, Any]], bool]] = {
    "dcbx": lambda nic, told: told["dcbx"] == "host",
    "trust": lambda nic, told: fit.trusts_dscp(told["trust"]),
    "pfc": lambda nic, told: sorted(told["pfc"]) == sorted(nic.profile.lossless),
    "dscp_priority": _map_fits,
    "ets": lambda nic, told: fit.shares(nic.profile, told["ets"]),
    "buffers": lambda nic, told: fit.buffered(nic.buffers[0], nic.buffers[1], told["buffers"]),
    "ecn": _ecn_fits,
    "cnp": lambda nic, told: told["cnp"] == after("cnp", nic, told),
    "rdma_cm": lambda nic, told: told["rdma_cm"] == after("rdma_cm", nic, told),
    "forced_tc": _forced_fits,
}


def _dcbx_back(nic: NicWish, tool: str, seen: Seen) -> Tuple[Argv, ...]:
    if tool == MLNX_QOS:
        return ((MLNX_QOS, "-i", nic.netdev, "-d", "fw"),)
    return ((DCB, "dcbx", "set", "dev", nic.netdev) + (seen.dcbx_flags or ("lld-managed", "ieee")),)


def _trust_back(nic: NicWish, tool: str, seen: Seen) -> Tuple[Argv, ...]:
    """``none`` is an order without selectors."""
    trust = seen.told["trust"]
    if tool == MLNX_QOS:
        return ((MLNX_QOS, "-i", nic.netdev, "--trust", "pcp"),)
    return ((DCB, "apptrust", "set", "dev", nic.netdev, "order") + tuple(word for word in trust.split() if word != "none"),)


def _pfc_back(nic: NicWish, tool: str, seen: Seen) -> Tuple[Argv, ...]:
    return (pfc_argv(nic.netdev, tool, seen.told["pfc"]),)


def _map_back(nic: NicWish, tool: str, seen: Seen) -> Tuple[Argv, ...]:
    """An entry that was alone is put in the place of ours; several come back beside it. Ours goes where it was not."""
    commands: List[Argv] = []
    for dscp, priority in entries(nic.profile):
        old = fit.priorities_of(seen.told, dscp) or []
        if old == [priority]:
            continue
        if len(old) == 1:
            commands.append(map_argv(nic.netdev, tool, [(dscp, old[0])]))
            continue
        gone = [number for number in old if number != priority]
        if gone and tool != MLNX_QOS:
            commands.append((DCB, "app", "add", "dev", nic.netdev, "dscp-prio") + tuple("%d:%d" % (dscp, number) for number in gone))
        if priority not in old:
            commands.append(_delete(nic.netdev, tool, dscp, priority))
    return tuple(commands) or NOTHING


def _delete(netdev: str, tool: str, dscp: int, priority: int) -> Argv:
    if tool == MLNX_QOS:
        return (MLNX_QOS, "-i", netdev, "--dscp2prio", "del,%d,%d" % (dscp, priority))
    return (DCB, "app", "del", "dev", netdev, "dscp-prio", "%d:%d" % (dscp, priority))


def _ets_back(nic: NicWish, tool: str, seen: Seen) -> Tuple[Argv, ...]:
    ets = seen.told["ets"]
    return (ets_argv(nic.netdev, tool, ets["tc"], ets["tsa"], ets["percent"]),)


def _buffers_back(nic: NicWish, tool: str, seen: Seen) -> Tuple[Argv, ...]:
    buffers = seen.told["buffers"]
    return (buffers_argv(nic.netdev, tool, buffers["bytes"], buffers["of_priority"]),)


_UNDO: Dict[str, Callable[[NicWish, str, Seen], Tuple[Argv, ...]]] = {
    "dcbx": _dcbx_back, "trust": _trust_back, "pfc": _pfc_back, "dscp_priority": _map_back, "ets": _ets_back, "buffers": _buffers_back,
}


def _forced_back(seen: Seen) -> str:
    """The file does not take what it prints ("Global tclass=106"): a number sets it, and -1 takes it off."""
    forced = seen.told["forced_tc"]
    return "%d" % forced[0] if forced and seen.forced_global else "tclass=-1"


def unset_parts(nic: NicWish, told: Mapping[str, Any], tools: Mapping[str, str], wanted: Sequence[str]) -> List[str]:
    """What the inventory wants and nothing on this node sets. mlx5's trust comes with the entries of its table."""
    return [part for part in wanted if part not in tools or (part == "trust" and tools[part] == TABLE and "dscp_priority" not in tools)]
