# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the QoS profile, each with its arithmetic: a custom one has to hold together as the catalogue's do.

NCCL_IB_TC -> DSCP -> priority -> PFC is one chain, and nothing complains when a link of it is missing:
traffic on a priority that PFC does not pause is dropped under load, and RDMA is slow without an error.
"""

from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import (
    CNP_DSCP,
    CUSTOM,
    ECT0,
    MAX_LOSSLESS,
    MAX_LOSSLESS_SOURCE,
    NONE,
    QosProfile,
    dscp_of,
    priority_of,
    site_profile,
)

from .findings import Findings, did_you_mean
from .values import MISSING, as_int, type_name

KEY = "qos_custom"
NUMBERS = {"tc": 255, "dscp": 63, "priority": 7, "cnp_dscp": 63, "cnp_priority": 7}  # the largest of each; the smallest is 0
LISTS = ("lossless", "ets")
FIELDS = ("tc", "dscp", "priority", "lossless", "cnp_dscp", "cnp_priority", "ets")
WIDTHS = {255: "a traffic class is one byte", 63: "a DSCP has 6 bits", 7: "there are 8 priorities"}
ETS_FORM = "eight percents that sum to 100, or unset"
NO_PFC = {"infiniband": "InfiniBand has credit-based flow control", "erdma": "eRDMA knows no DSCP, PFC or ECN"}


def check_custom(given: Mapping[Any, Any], findings: Findings) -> Any:
    """``qos_custom`` with every field, as ``site_profile`` reads it; empty when it is empty; MISSING after an error."""
    before = findings.error_count()
    fields = _fields(given, findings)
    if findings.error_count() != before or not given:
        return fields if findings.error_count() == before else MISSING
    _check_mark(fields, findings)
    if findings.error_count() != before:
        return MISSING
    whole = _filled(fields)
    profile = site_profile(CUSTOM, whole)
    if profile is not None:
        _check_lossless(profile, findings)
        _check_cnp(profile, fields, findings)
        _check_ets(profile, findings)
    return whole if findings.error_count() == before else MISSING


def _fields(given: Mapping[Any, Any], findings: Findings) -> Dict[str, Any]:
    """What is set, each field by itself."""
    fields: Dict[str, Any] = {}
    for name, value in given.items():
        path = "%s.%s" % (KEY, name)
        if name not in FIELDS:
            findings.error(path, value, "is no part of a QoS profile%s" % did_you_mean(str(name), FIELDS), ", ".join(FIELDS))
        elif value is None:
            continue
        elif name in LISTS:
            fields[name] = _integers(path, value, 7 if name == "lossless" else 100, findings)
        else:
            fields[name] = _integer(path, value, NUMBERS[name], findings)
    return fields


def _integer(path: str, value: Any, largest: int, findings: Findings) -> Optional[int]:
    number = as_int(value)
    if number is None:
        findings.error(path, value, "must be an integer, not %s" % type_name(value), "0 to %d" % largest)
    elif not 0 <= number <= largest:
        findings.error(path, value, "is out of range" + (": " + WIDTHS[largest] if largest in WIDTHS else ""), "0 to %d" % largest)
    return number


def _integers(path: str, value: Any, largest: int, findings: Findings) -> List[Optional[int]]:
    if not isinstance(value, list):
        findings.error(path, value, "must be a list, not %s" % type_name(value), "a list of integers from 0 to %d" % largest)
        return []
    return [_integer("%s[%d]" % (path, at), item, largest, findings) for at, item in enumerate(value)]


def _check_mark(fields: Mapping[str, Any], findings: Findings) -> None:
    """How the traffic is marked: by the whole byte or by its DSCP, once."""
    tc, dscp = fields.get("tc"), fields.get("dscp")
    if tc is None and dscp is None:
        findings.error(KEY, None, "does not say how RoCE traffic is marked", "tc or dscp in it")
    elif tc is not None and dscp is not None:
        findings.error(KEY + ".dscp", dscp, "is there beside tc, which holds it: %d >> 2 = DSCP %d" % (tc, dscp_of(tc)), "one of them")
    elif tc is not None and tc & 3 == 3:
        findings.error(KEY + ".tc", tc, "%d & 3 = 3 marks every packet as one that met congestion" % tc, "%d: ECN bits 2" % (tc - 1))
    elif tc is not None and tc & 3 == 0:
        findings.warning(KEY + ".tc", tc, "%d & 3 = 0: packets are not ECN-capable unless the NIC marks them so by itself" % tc,
                         "%d: ECN bits 2" % (tc + ECT0))


def _filled(fields: Mapping[str, Any]) -> Dict[str, Any]:
    tc = fields["tc"] if "tc" in fields else fields["dscp"] << 2 | ECT0
    priority = fields.get("priority", priority_of(tc))
    cnp_dscp = fields.get("cnp_dscp", CNP_DSCP)
    return {
        "tc": tc, "priority": priority, "lossless": sorted(fields.get("lossless", [priority])), "cnp_dscp": cnp_dscp,
        "cnp_priority": fields.get("cnp_priority", cnp_dscp >> 3), "ets": fields.get("ets", []),
    }


def _check_lossless(profile: QosProfile, findings: Findings) -> None:
    path = KEY + ".lossless"
    lossless = list(profile.lossless)
    if len(set(lossless)) < len(lossless):
        findings.error(path, lossless, "names a priority twice", "each priority once")
    elif profile.priority not in lossless:
        findings.error(path, lossless, "the RoCE traffic is lossy: %s" % arithmetic(profile.tc, profile),
                       "a list with %d in it" % profile.priority)
    elif len(lossless) > MAX_LOSSLESS:
        findings.error(path, lossless, "%d priorities are more than the buffers of a port hold headroom for: %d (%s)" % (
            len(lossless), MAX_LOSSLESS, MAX_LOSSLESS_SOURCE), "at most %d priorities" % MAX_LOSSLESS)
    default = priority_of(profile.tc)
    if profile.mapped is not None and not findings.has_error(path):
        findings.warning(KEY + ".priority", profile.priority, "NICs and switches map %d >> 3 = priority %d unless told otherwise" % (
            profile.dscp, default), "%d, or a map of DSCP %d to %d on every NIC and switch" % (default, profile.dscp, profile.priority))


def _check_cnp(profile: QosProfile, fields: Mapping[str, Any], findings: Findings) -> None:
    """A CNP says that a queue is congested; in a queue that PFC pauses it comes too late."""
    dscp, priority = profile.cnp_dscp, profile.cnp_priority
    mapped = dscp >> 3
    if dscp == profile.dscp:
        findings.error(KEY + ".cnp_dscp", dscp, "is the DSCP of the RoCE traffic too: CNPs wait in the queue that they are about",
                       "another one; %d is usual" % CNP_DSCP)
    elif priority in profile.lossless and "cnp_priority" in fields:
        findings.error(KEY + ".cnp_priority", priority, "is a lossless priority (%s): CNPs wait where PFC pauses" % _pfc(profile),
                       "a lossy priority; %d is usual" % (CNP_DSCP >> 3))
    elif mapped in profile.lossless:
        path = ".cnp_dscp" if "cnp_dscp" in fields else ".lossless"
        findings.error(KEY + path, dscp if "cnp_dscp" in fields else list(profile.lossless),
                       "CNPs wait where PFC pauses: CNP DSCP %d >> 3 = priority %d, %s" % (dscp, mapped, _pfc(profile)),
                       "a lossy priority for CNP; DSCP %d is usual" % CNP_DSCP)
    elif mapped != priority:
        findings.warning(KEY + ".cnp_priority", priority, "%d >> 3 = priority %d, where switches that trust DSCP have it" % (dscp, mapped),
                         "%d, or a map of DSCP %d to %d on every switch" % (mapped, dscp, priority))


def _check_ets(profile: QosProfile, findings: Findings) -> None:
    ets = list(profile.ets)
    if not ets:
        return
    if len(ets) != 8:
        findings.error(KEY + ".ets", ets, "has %d percents, and there are 8 priorities" % len(ets), ETS_FORM)
    elif sum(ets) != 100:
        findings.error(KEY + ".ets", ets, "%s = %d" % (" + ".join(map(str, ets)), sum(ets)), ETS_FORM)
    elif not ets[profile.priority]:
        findings.warning(KEY + ".ets", ets, "leaves priority %d, the RoCE traffic's, nothing of its own" % profile.priority,
                         "a share for priority %d" % profile.priority)


def check_qos(values: Mapping[str, Any], findings: Findings) -> None:
    """``qos_custom`` and ``qos_profile: custom`` belong together, and both to RoCE."""
    if any(key not in values for key in ("fabric", "qos_profile", KEY)):
        return
    fabric, name, custom = values["fabric"], values["qos_profile"], values[KEY]
    if fabric in NO_PFC:
        if custom and name == NONE:
            findings.error(KEY, None, "PFC, DSCP and CNP are for RoCE; %s" % NO_PFC[fabric], "unset")
    elif name == CUSTOM and not custom:
        findings.error("qos_profile", name, "is what %s describes, and that is not set" % KEY, "%s, or the name of a profile" % KEY)
    elif custom and name != CUSTOM:
        findings.error(KEY, None, "is read only where qos_profile is custom; it is %s" % name, "qos_profile: custom, or unset")


def arithmetic(tc: int, profile: QosProfile) -> str:
    """Where a traffic class leads with this profile: ``41 >> 2 = DSCP 10, 41 >> 5 = priority 1, PFC is on 3``."""
    if profile.mapped is not None and dscp_of(tc) == profile.dscp:
        queue = "which is mapped to priority %d" % profile.mapped
    else:
        queue = "%d >> 5 = priority %d" % (tc, priority_of(tc))
    return "%d >> 2 = DSCP %d, %s, %s" % (tc, dscp_of(tc), queue, _pfc(profile))


def _pfc(profile: QosProfile) -> str:
    return "PFC is on " + " and ".join(map(str, profile.lossless)) if profile.lossless else "PFC is off"


CHECKS = {KEY: check_custom}
