# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the NCCL profile and the other keys: its QoS, its NCCL, what defeats it, and the one GID index of a host. Pure."""

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import qos
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import numbers
from ansible_collections.railwright.rdma.plugins.module_utils.rules.erdma_mode import DEFAULT

from ..nccl_catalogue.profiles import AUTO, GID_INDEX, HCA, Exclusion, NcclProfile, nccl_profile, wanted_nccl
from ..nccl_catalogue.variables import VERSION
from .check_qos import arithmetic
from .findings import Findings
from .nccl_overrides import RDMA_OFF, TURNS_OFF, check_name, check_value, rdma_off

KEY = "nccl_gid_index"
PROFILE = "rdma_nccl_profile"


def check_nccl_env(values: Mapping[str, Any], rails: list[dict[str, Any]], findings: Findings) -> None:
    profile = nccl_profile(values["nccl_profile"])
    _check_index(values, profile, findings)
    _check_rdma_off(values, profile, findings)
    if profile is None or values["fabric"] not in profile.fabrics:
        return
    _check_rows(profile, findings)
    _check_qos(values, profile, findings)
    _check_release(values, profile, findings)
    for row in profile.excludes:
        _check_exclusion(row, values["nccl_overrides"], profile, findings)
    _check_devices(values, rails, profile, findings)


def _check_index(values: Mapping[str, Any], profile: NcclProfile | None, findings: Findings) -> None:
    given = {KEY: values[KEY] if values[KEY] != AUTO else None,
             "nccl_overrides." + GID_INDEX: values["nccl_overrides"].get(GID_INDEX)}
    set_ones = {key: value for key, value in given.items() if value is not None}
    if len(set_ones) == 2:
        findings.error(KEY, values[KEY], f"nccl_overrides sets {GID_INDEX} too", "one of the two")
    elif values["fabric"] == "infiniband":
        for key, value in set_ones.items():
            findings.error(key, value, "InfiniBand has no GID index: NCCL returns before it reads it",
                           AUTO if key == KEY else "leave it out")
    elif profile is not None and profile.transport and KEY in set_ones:
        findings.error(KEY, values[KEY], "with rdma_nccl_profile %s the transport is %s, which finds GIDs by itself" % (
            profile.name, profile.transport), AUTO)


def _check_rdma_off(values: Mapping[str, Any], profile: NcclProfile | None, findings: Findings) -> None:
    """A plugin that brings a transport of its own is not turned off with NCCL's, and its profile says what it does not go with."""
    for name, (_values, allowed) in RDMA_OFF.items():
        text = values["nccl_overrides"].get(name)
        if isinstance(text, str) and rdma_off(name, text) and not (profile is not None and profile.transport):
            findings.error(f"nccl_overrides.{name}", text, f"{TURNS_OFF}; rdma_fabric is {values['fabric']}", allowed)
    if profile is not None and values["fabric"] == "erdma" == profile.fabrics[0] and values["erdma_mode"] == DEFAULT:
        findings.warning("erdma_mode", DEFAULT, f"does not go with rdma_nccl_profile {profile.name}: devices in this mode have no GID of "
                         "type RoCE v2, so NCCL goes over TCP sockets", "auto, compat or ofed where jobs use NCCL")


def _check_rows(profile: NcclProfile, findings: Findings) -> None:
    """The catalogue's own rows, held to what NCCL reads: a release of ours must not write what NCCL no longer knows."""
    for row in profile.variables:
        own = Findings(findings.host)
        known = check_name(row.name, row.name, own, VERSION)
        if known is not None:
            check_value(known, row.value, None, row.name, own)
        for item in own.items:
            findings.error(PROFILE, profile.name, f"sets {row.name}={row.value}, which {item.message}",
                           f"another profile, or nccl_overrides: {{{row.name}: null}}")


def _check_qos(values: Mapping[str, Any], profile: NcclProfile, findings: Findings) -> None:
    chosen = qos.site_profile(values["qos_profile"], values["qos_custom"])
    if profile.qos == qos.NONE and chosen is not None:
        findings.error(PROFILE, profile.name, "carries no RoCE traffic that a traffic class could mark; rdma_qos_profile %s would write "
                       "NCCL_IB_TC=%d" % (chosen.name, chosen.tc), "rdma_qos_profile: none beside it")
    wanted = qos.qos_profile(profile.qos or qos.NONE)
    if wanted is None:
        return
    if chosen is None or (chosen.dscp, chosen.priority) != (wanted.dscp, wanted.priority):
        why = "is for a fabric with TC %d (%d >> 2 = DSCP %d, %d >> 5 = priority %d); rdma_qos_profile %s" % (
            wanted.tc, wanted.tc, qos.dscp_of(wanted.tc), wanted.tc, qos.priority_of(wanted.tc), _against(chosen))
        findings.error(PROFILE, profile.name, why, f"rdma_qos_profile: {wanted.name} beside it")
    elif chosen.tc != wanted.tc:
        why = "is for a fabric with TC %d; rdma_qos_profile %s has %d, the same DSCP with ECN bits %d and not %d" % (
            wanted.tc, chosen.name, chosen.tc, chosen.ecn, wanted.ecn)
        findings.warning(PROFILE, profile.name, why, f"rdma_qos_profile: {wanted.name} beside it")


def _against(chosen: qos.QosProfile | None) -> str:
    if chosen is None:
        return "none marks nothing: the traffic lands in priority 0, where the fabric drops"
    return f"{chosen.name} has TC {chosen.tc}: {arithmetic(chosen.tc, chosen)}"


def _check_release(values: Mapping[str, Any], profile: NcclProfile, findings: Findings) -> None:
    first, last = profile.nccl
    key = "nccl_version" if values["nccl_version"] is not None else "nccl_install"
    version = wanted_nccl(values)
    if version is None:
        return
    number = (*numbers(version), 0, 0)[:2]
    if (first is None or number >= _pair(first)) and (last is None or number <= _pair(last)):
        return
    allowed = f"NCCL {first} to {last}" if first and last else f"NCCL {first} and later" if first else f"NCCL up to {last}"
    findings.error(key, values[key], f"rdma_nccl_profile {profile.name} is for {allowed}; this is {number[0]}.{number[1]}", allowed)


def _pair(text: str) -> Any:
    major, _dot, minor = text.partition(".")
    return int(major), int(minor)


def _check_exclusion(row: Exclusion, overrides: Mapping[str, Any], profile: NcclProfile, findings: Findings) -> None:
    value = overrides.get(row.name)
    if value is None or (row.values and value not in row.values):
        return
    say = findings.error if row.severity == "error" else findings.warning
    say("nccl_overrides." + row.name, value, f"does not go with rdma_nccl_profile {profile.name}: {row.why}",
        "leave it out" if not row.values or row.severity == "warning" else "another value, or leave it out")


def _check_devices(values: Mapping[str, Any], rails: list[dict[str, Any]], profile: NcclProfile, findings: Findings) -> None:
    if len(profile.hcas) > 1 and not rails and HCA not in values["nccl_overrides"]:
        findings.error(PROFILE, profile.name, "has a list of HCAs for each of its shapes, and nothing says which one this host is",
                       "rdma_rails, or nccl_overrides.%s: %s" % (HCA, "; or ".join(
                           f"={','.join(names)} ({shape})" for shape, names in profile.hcas)))
    if profile.hca_prefix is None and rails and not findings.has_error("rdma_rails"):
        findings.warning("rdma_rails", None, f"the devices of rdma_nccl_profile {profile.name} have no RoCE GIDs, so a rail on one fails "
                         "validation", "no rails on this host")
