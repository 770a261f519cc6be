# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the role roce_qos: receive buffers that hold together, and keys that would do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import NONE, QosProfile, site_profile

from .findings import Findings, did_you_mean
from .values import MISSING, as_int, type_name

KEY = "roce_qos_buffers"
FIELDS = ("bytes", "priorities")
COUNT = 8  # priorities, and buffers of a port (dcbnl: struct dcbnl_buffer)
LARGEST = {"bytes": 2 ** 32 - 1, "priorities": COUNT - 1}
NO_OVERRIDE = ("inbox", "soft_roce")


def check_buffers(given: Mapping[Any, Any], findings: Findings) -> Any:
    """``roce_qos_buffers`` with two lists of eight integers; empty when it is empty; MISSING after an error."""
    before = findings.error_count()
    for name in given:
        if name not in FIELDS:
            findings.error(f"{KEY}.{name}", given[name], f"is no part of the receive buffers{did_you_mean(str(name), FIELDS)}",
                           ", ".join(FIELDS))
    if not given:
        return {}
    lists = {name: _integers(f"{KEY}.{name}", given.get(name), LARGEST[name], findings) for name in FIELDS}
    if findings.error_count() != before:
        return MISSING
    for priority, buffer in enumerate(lists["priorities"]):
        if not lists["bytes"][buffer]:
            findings.error(f"{KEY}.priorities[{priority}]", buffer,
                           f"has no bytes: what comes on priority {priority} would be dropped", "a buffer that bytes gives a size")
    return lists if findings.error_count() == before else MISSING


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


def check_roce_qos(checked: Mapping[str, Any], findings: Findings) -> None:
    """What belongs to RoCE, and lossless traffic in a buffer of its own."""
    if any(name not in checked for name in ("fabric", "qos_profile", "qos_custom", KEY)):
        return
    buffers = checked[KEY]
    profile = site_profile(checked["qos_profile"], checked["qos_custom"])
    if checked["fabric"] != "roce" or checked["qos_profile"] == NONE:
        if buffers:
            findings.error(KEY, None, "sizes the buffers of lossless RoCE; rdma_fabric is %s with rdma_qos_profile %s" % (
                checked["fabric"], checked["qos_profile"]), "unset")
        return
    if buffers and profile is not None:
        _check_shared(profile, buffers["priorities"], findings)
    if checked.get("roce_qos_force_tc") and checked.get("rdma_stack") in NO_OVERRIDE:
        findings.warning("roce_qos_force_tc", True, "only the driver of OFED and DOCA can force a class; rdma_stack is %s" % (
            checked["rdma_stack"]), "false, or rdma_stack: doca")


def _check_shared(profile: QosProfile, places: list[int], findings: Findings) -> None:
    """A buffer that lossy traffic fills pauses the lossless traffic in it."""
    for priority in profile.lossless:
        other = _sharer(profile, places, priority)
        if other is not None:
            findings.error(f"{KEY}.priorities[{priority}]", places[priority],
                           "is the buffer of priority %d too, which is lossy: it fills, and PFC pauses priority %d for it" % (
                               other, priority), "a buffer of its own for the lossless priorities")
            return


def _sharer(profile: QosProfile, places: list[int], priority: int) -> int | None:
    return next((other for other in range(COUNT) if other not in profile.lossless and places[other] == places[priority]), None)


CHECKS = {KEY: check_buffers}
