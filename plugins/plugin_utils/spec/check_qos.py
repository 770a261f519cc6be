# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the QoS profile, each with its arithmetic, and of receive buffers: a custom one has to hold together as the catalogue's do.

NCCL_IB_TC -> DSCP -> priority -> PFC is one chain, and nothing complains when a link of it is missing:
traffic on a priority that PFC does not pause is dropped under load, and RDMA is slow without an error.
"""

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import qos

from .findings import Findings, did_you_mean
from .values import as_int, type_name

KEY = "rdma_qos_custom"
NUMBERS = {"tc": 255, "dscp": 63, "priority": 7, "cnp_dscp": 63, "cnp_priority": 7}  # the largest of each; the smallest is 0
LISTS = {"lossless": 7, "ets": 100}  # the largest of each element
FIELDS = ("tc", "dscp", "priority", "lossless", "cnp_dscp", "cnp_priority", "ets")
WIDTHS = {255: "a traffic class is one byte", 63: "a DSCP has 6 bits", 7: "there are 8 priorities"}
ETS_FORM = "eight percents that sum to 100, or unset"
BUFFERS = "roce_qos_buffers"
BUFFER_FIELDS = ("bytes", "priorities")
COUNT = 8  # priorities, and buffers of a port (dcbnl: struct dcbnl_buffer)
LARGEST = {"bytes": 2 ** 32 - 1, "priorities": COUNT - 1}
NO_PFC = {"infiniband": "InfiniBand has credit-based flow control", "erdma": "eRDMA knows no DSCP, PFC or ECN"}


def check_custom(given: Mapping[Any, Any], findings: Findings) -> Any:
    """``rdma_qos_custom`` with every field, as ``site_profile`` reads it; empty when it is empty."""
    before = findings.error_count()
    fields: dict[str, Any] = {}
    for name, value in given.items():
        path = f"{KEY}.{name}"
        if name not in FIELDS:
            findings.error(path, value, f"is no part of a QoS profile{did_you_mean(str(name), FIELDS)}", ", ".join(FIELDS))
        elif value is not None and name in NUMBERS:
            fields[name] = _integer(path, value, NUMBERS[name], findings)
        elif isinstance(value, list):
            fields[name] = [_integer(f"{path}[{at}]", item, LISTS[name], findings) for at, item in enumerate(value)]
        elif value is not None:
            findings.error(path, value, f"must be a list, not {type_name(value)}", f"a list of integers from 0 to {LISTS[name]}")
    if given and findings.error_count() == before:
        _check_mark(fields, findings)
    if not given or findings.error_count() != before:
        return fields
    whole = _filled(fields)
    profile = qos.site_profile(qos.CUSTOM, whole)
    if profile is not None:
        _check_lossless(profile, findings)
        _check_cnp(profile, fields, findings)
        _check_ets(profile, findings)
    return whole


def _integer(path: str, value: Any, largest: int, findings: Findings) -> int | None:
    number = as_int(value)
    if number is None:
        findings.error(path, value, f"must be an integer, not {type_name(value)}", f"0 to {largest}")
    elif not 0 <= number <= largest:
        findings.error(path, value, "is out of range" + (": " + WIDTHS[largest] if largest in WIDTHS else ""), f"0 to {largest}")
    return number


def _check_mark(fields: Mapping[str, Any], findings: Findings) -> None:
    """How the traffic is marked: by the whole byte or by its DSCP, once."""
    tc, dscp = fields.get("tc"), fields.get("dscp")
    if tc is None and dscp is None:
        findings.error(KEY, None, "does not say how RoCE traffic is marked", "tc or dscp in it")
    elif tc is not None and dscp is not None:
        findings.error(KEY + ".dscp", dscp, f"is there beside tc, which holds it: {tc} >> 2 = DSCP {qos.dscp_of(tc)}", "one of them")
    elif tc is not None and tc & 3 == 3:
        findings.error(KEY + ".tc", tc, f"{tc} & 3 = 3 marks every packet as one that met congestion", f"{tc - 1}: ECN bits 2")
    elif tc is not None and tc & 3 == 0:
        findings.warning(KEY + ".tc", tc, f"{tc} & 3 = 0: packets are not ECN-capable unless the NIC marks them so by itself",
                         f"{tc + qos.ECT0}: ECN bits 2")


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    tc = fields["tc"] if "tc" in fields else fields["dscp"] << 2 | qos.ECT0
    priority = fields.get("priority", qos.priority_of(tc))
    cnp_dscp = fields.get("cnp_dscp", qos.CNP_DSCP)
    return {
        "tc": tc, "priority": priority, "lossless": sorted(fields.get("lossless", [priority])), "cnp_dscp": cnp_dscp,
        "cnp_priority": fields.get("cnp_priority", cnp_dscp >> 3), "ets": fields.get("ets", []),
    }


def _check_lossless(profile: qos.QosProfile, findings: Findings) -> None:
    path = KEY + ".lossless"
    lossless = list(profile.lossless)
    if len(set(lossless)) < len(lossless):
        findings.error(path, lossless, "names a priority twice", "each priority once")
    elif profile.priority not in lossless:
        findings.error(path, lossless, f"the RoCE traffic is lossy: {arithmetic(profile.tc, profile)}",
                       f"a list with {profile.priority} in it")
    elif len(lossless) > qos.MAX_LOSSLESS:
        findings.error(path, lossless, "%d priorities are more than the buffers of a port hold headroom for: %d (%s)" % (
            len(lossless), qos.MAX_LOSSLESS, qos.MAX_LOSSLESS_SOURCE), f"at most {qos.MAX_LOSSLESS} priorities")
    default = qos.priority_of(profile.tc)
    if profile.mapped is not None and not findings.has_error(path):
        findings.warning(KEY + ".priority", profile.priority, "NICs and switches map %d >> 3 = priority %d unless told otherwise" % (
            profile.dscp, default), f"{default}, or a map of DSCP {profile.dscp} to {profile.priority} on every NIC and switch")


def _check_cnp(profile: qos.QosProfile, fields: Mapping[str, Any], findings: Findings) -> None:
    """A CNP says that a queue is congested; in a queue that PFC pauses it comes too late."""
    dscp, priority = profile.cnp_dscp, profile.cnp_priority
    mapped = dscp >> 3
    if dscp == profile.dscp:
        findings.error(KEY + ".cnp_dscp", dscp, "is the DSCP of the RoCE traffic too: CNPs wait in the queue that they are about",
                       f"another one; {qos.CNP_DSCP} is usual")
    elif priority in profile.lossless and "cnp_priority" in fields:
        findings.error(KEY + ".cnp_priority", priority, f"is a lossless priority ({_pfc(profile)}): CNPs wait where PFC pauses",
                       f"a lossy priority; {qos.CNP_DSCP >> 3} is usual")
    elif mapped in profile.lossless:
        path = ".cnp_dscp" if "cnp_dscp" in fields else ".lossless"
        findings.error(KEY + path, dscp if "cnp_dscp" in fields else list(profile.lossless),
                       f"CNPs wait where PFC pauses: CNP DSCP {dscp} >> 3 = priority {mapped}, {_pfc(profile)}",
                       f"a lossy priority for CNP; DSCP {qos.CNP_DSCP} is usual")
    elif mapped != priority:
        findings.warning(KEY + ".cnp_priority", priority, f"{dscp} >> 3 = priority {mapped}, where switches that trust DSCP have it",
                         f"{mapped}, or a map of DSCP {dscp} to {priority} on every switch")


def _check_ets(profile: qos.QosProfile, findings: Findings) -> None:
    ets = list(profile.ets)
    if not ets:
        return
    if len(ets) != 8:
        findings.error(KEY + ".ets", ets, f"has {len(ets)} percents, and there are 8 priorities", ETS_FORM)
    elif sum(ets) != 100:
        findings.error(KEY + ".ets", ets, f"{' + '.join(map(str, ets))} = {sum(ets)}", ETS_FORM)
    elif not ets[profile.priority]:
        findings.warning(KEY + ".ets", ets, f"leaves priority {profile.priority}, the RoCE traffic's, nothing of its own",
                         f"a share for priority {profile.priority}")


def check_qos(values: Mapping[str, Any], _rails: Any, findings: Findings) -> None:
    """``rdma_qos_custom`` and ``rdma_qos_profile: custom`` belong together, and both to RoCE."""
    fabric, name, custom = values["fabric"], values["qos_profile"], values["qos_custom"]
    if fabric in NO_PFC:
        if custom and name == qos.NONE:
            findings.error(KEY, None, f"PFC, DSCP and CNP are for RoCE; {NO_PFC[fabric]}", "unset")
    elif name == qos.CUSTOM and not custom:
        findings.error("rdma_qos_profile", name, f"is what {KEY} describes, and that is not set", f"{KEY}, or the name of a profile")
    elif custom and name != qos.CUSTOM:
        findings.error(KEY, None, f"is read only where rdma_qos_profile is custom; it is {name}", "rdma_qos_profile: custom, or unset")


def arithmetic(tc: int, profile: qos.QosProfile) -> str:
    """Where a traffic class leads with this profile: ``41 >> 2 = DSCP 10, 41 >> 5 = priority 1, PFC is on 3``."""
    if profile.mapped is not None and qos.dscp_of(tc) == profile.dscp:
        queue = f"which is mapped to priority {profile.mapped}"
    else:
        queue = f"{tc} >> 5 = priority {qos.priority_of(tc)}"
    return f"{tc} >> 2 = DSCP {qos.dscp_of(tc)}, {queue}, {_pfc(profile)}"


def _pfc(profile: qos.QosProfile) -> str:
    return "PFC is on " + " and ".join(map(str, profile.lossless)) if profile.lossless else "PFC is off"


def check_buffers(given: Mapping[Any, Any], findings: Findings) -> Any:
    """``roce_qos_buffers`` with two lists of eight integers; empty when it is empty."""
    before = findings.error_count()
    for name in given:
        if name not in BUFFER_FIELDS:
            findings.error(f"{BUFFERS}.{name}", given[name], f"is no part of the receive buffers{did_you_mean(str(name), BUFFER_FIELDS)}",
                           ", ".join(BUFFER_FIELDS))
    if not given:
        return {}
    lists = {name: _integers(f"{BUFFERS}.{name}", given.get(name), LARGEST[name], findings) for name in BUFFER_FIELDS}
    for priority, buffer in enumerate(lists["priorities"]) if findings.error_count() == before else ():
        if not lists["bytes"][buffer]:
            findings.error(f"{BUFFERS}.priorities[{priority}]", buffer,
                           f"has no bytes: what comes on priority {priority} would be dropped", "a buffer that bytes gives a size")
    return lists


def _integers(path: str, value: Any, largest: int, findings: Findings) -> list[int]:
    if not isinstance(value, list) or len(value) != COUNT:
        what = "is missing" if value is None else f"has {len(value)} values" if isinstance(value, list) else f"is {type_name(value)}"
        findings.error(path, value, what, f"a list of {COUNT} integers from 0 to {largest}")
        return []
    numbers: list[int] = []
    for at, item in enumerate(value):
        number = as_int(item)
        if number is None or not 0 <= number <= largest:
            findings.error(f"{path}[{at}]", item, "is not within range", f"an integer from 0 to {largest}")
        else:
            numbers.append(number)
    return numbers


def check_roce_qos(values: Mapping[str, Any], _rails: Any, findings: Findings) -> None:
    """What belongs to RoCE, and lossless traffic in a buffer of its own: one that lossy traffic fills pauses the lossless traffic in it."""
    fabric, name, buffers = values["fabric"], values["qos_profile"], values[BUFFERS]
    profile = qos.site_profile(name, values["qos_custom"])
    if fabric != "roce" or name == qos.NONE:
        if buffers:
            findings.error(BUFFERS, None, f"sizes the buffers of lossless RoCE; rdma_fabric is {fabric} with rdma_qos_profile {name}",
                           "unset")
        return
    places, lossless = buffers["priorities"] if buffers else [], profile.lossless if profile is not None and buffers else ()
    for priority in lossless:
        other = next((other for other in range(COUNT) if other not in lossless and places[other] == places[priority]), None)
        if other is not None:
            findings.error(f"{BUFFERS}.priorities[{priority}]", places[priority], f"is the buffer of priority {other} too, which is lossy: "
                           f"it fills, and PFC pauses priority {priority} for it", "a buffer of its own for the lossless priorities")
            break
    if values.get("roce_qos_force_tc") and values.get("rdma_stack") in ("inbox", "soft_roce"):
        findings.warning("roce_qos_force_tc", True, "only the driver of OFED and DOCA can force a class; rdma_stack is "
                         + values["rdma_stack"], "false, or rdma_stack: doca")
