# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's own QoS profile: filled up, followed by all that is derived from it, and held to the rules of the catalogue's."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES, QosProfile, qos_profile, site_profile
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import nccl_variables
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import MISSING, Findings
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import check_value

Judge = Callable[..., tuple[Spec | None, list[Finding]]]


CUSTOM = BY_NAME["rdma_qos_custom"]


def chosen(spec: Spec | None) -> QosProfile:
    assert spec is not None
    profile = site_profile(spec["qos_profile"], spec["qos_custom"])
    assert profile is not None
    return profile


def numbers(profile: QosProfile) -> tuple[Any, ...]:
    return (profile.tc, profile.dscp, profile.ecn, profile.priority, profile.lossless, profile.cnp_dscp,
            profile.cnp_priority, profile.ets, profile.rdma_cm_tos)


@pytest.mark.parametrize(("custom", "expected"), [
    ({"tc": 106}, (106, 26, 2, 3, (3,), 48, 6, (), 106)),
    ({"dscp": 26}, (106, 26, 2, 3, (3,), 48, 6, (), 106)),
    ({"dscp": "34", "lossless": ["4", 3]}, (138, 34, 2, 4, (3, 4), 48, 6, (), 138)),
    ({"tc": 105, "cnp_dscp": 40}, (105, 26, 1, 3, (3,), 40, 5, (), 105)),
    ({"tc": 106, "lossless": None, "ets": [50, 0, 0, 50, 0, 0, 0, 0]},
     (106, 26, 2, 3, (3,), 48, 6, (50, 0, 0, 50, 0, 0, 0, 0), 106)),
], ids=["tc", "dscp", "text", "cnp", "ets"])
def test_what_is_not_said_follows_from_what_is(judge: Judge, custom: dict[str, object], expected: tuple[Any, ...]) -> None:
    spec, findings = judge(rdma_qos_profile="custom", rdma_qos_custom=custom)
    assert findings == []
    profile = chosen(spec)
    assert (profile.name, profile.fabrics, profile.mapped) == ("custom", ("roce",), None)
    assert numbers(profile) == expected


@pytest.mark.parametrize("row", QOS_PROFILES, ids=lambda row: row.name)
def test_the_catalogues_profiles_keep_the_same_rules(row: QosProfile) -> None:
    """And a site that writes one down as its own gets the same numbers."""
    findings = Findings("n1")
    whole = check_value(
        CUSTOM, {"tc": row.tc, "lossless": list(row.lossless), "cnp_dscp": row.cnp_dscp, "cnp_priority": row.cnp_priority}, findings)
    assert whole is not MISSING
    assert [(item.key, item.severity) for item in findings.items] == ([("rdma_qos_custom.tc", "warning")] if row.ecn == 0 else [])
    own = site_profile("custom", whole)
    assert own is not None
    assert numbers(own) == numbers(row)


def test_nccl_marks_what_the_custom_profile_says(judge: Judge) -> None:
    spec, _findings = judge(rdma_qos_profile="custom", rdma_qos_custom={"dscp": 34})
    assert spec is not None
    assert nccl_variables(spec)["NCCL_IB_TC"] == "138"
    assert nccl_variables(Spec(spec.as_dict())) == nccl_variables(spec), "as it arrives on the node"
    assert judge(rdma_qos_profile="custom", rdma_qos_custom={"dscp": 34}, nccl_overrides={"NCCL_IB_TC": "0x8a"})[1] == []


def test_names_still_lead_to_the_catalogue() -> None:
    assert site_profile("oci-dscp10", {}) == qos_profile("oci-dscp10")
    assert site_profile("none", {}) is None
    assert site_profile("custom", {}) is None


def test_a_priority_of_the_sites_own_map_is_followed_and_warned_of(judge: Judge) -> None:
    """As for switches that are told to map DSCP 34 to 3."""
    spec, findings = judge(rdma_qos_profile="custom", rdma_qos_custom={"dscp": 34, "priority": 3})
    profile = chosen(spec)
    assert (profile.priority, profile.mapped, profile.lossless, profile.cnp_priority) == (3, 3, (3,), 6)
    assert [(item.key, item.severity) for item in findings] == [("rdma_qos_custom.priority", "warning")]
    assert "34 >> 3 = priority 4" in findings[0].message
    assert "map of DSCP 34 to 3" in findings[0].allowed


@pytest.mark.parametrize(("custom", "key", "words"), [
    ({"tc": 104}, "tc", "104 & 3 = 0"),
    ({"tc": 106, "cnp_priority": 7}, "cnp_priority", "48 >> 3 = priority 6"),
    ({"tc": 106, "ets": [100, 0, 0, 0, 0, 0, 0, 0]}, "ets", "priority 3"),
], ids=["no-ecn", "cnp-map", "no-share"])
def test_what_may_be_meant_is_only_warned_of(judge: Judge, custom: dict[str, object], key: str, words: str) -> None:
    spec, findings = judge(rdma_qos_profile="custom", rdma_qos_custom=custom)
    assert spec is not None
    assert [(item.key, item.severity) for item in findings] == [(f"rdma_qos_custom.{key}", "warning")]
    assert words in findings[0].message


@pytest.mark.parametrize(("name", "largest"), [("tc", 255), ("dscp", 63), ("priority", 7), ("cnp_dscp", 63), ("cnp_priority", 7)])
def test_each_number_ends_where_its_bits_end(name: str, largest: int) -> None:
    base = {} if name in ("tc", "dscp") else {"tc": 106}
    for value, inside in ((largest, True), (0, True), (largest + 1, False), (-1, False), (True, False), (1.0, False), ("x", False)):
        findings = Findings("n1")
        check_value(CUSTOM, {**base, name: value}, findings)
        said = [item for item in findings.items if item.key == f"rdma_qos_custom.{name}" and item.allowed == f"0 to {largest}"]
        assert (said == []) is inside, (value, findings.items)


@pytest.mark.parametrize("shares", [[50, 0, 0, 60, 0, 0, 0, 0], [50, 0, 0, 40, 0, 0, 0, 0], [0] * 8, [100] * 7, 100, "100"])
def test_shares_that_are_not_a_hundred(shares: object) -> None:
    findings = Findings("n1")
    assert check_value(CUSTOM, {"tc": 106, "ets": shares}, findings) is MISSING
    assert [(item.key, item.severity) for item in findings.items] == [("rdma_qos_custom.ets", "error")]


def test_no_traffic_class_at_all_is_warned_of(judge: Judge) -> None:
    spec, findings = judge(nccl_overrides={"NCCL_IB_TC": None})
    assert spec is not None
    assert [(item.key, item.severity) for item in findings] == [("nccl_overrides.NCCL_IB_TC", "warning")]
    assert "0 >> 5 = priority 0, PFC is on 3" in findings[0].message
    assert judge(rdma_qos_profile="none", nccl_overrides={"NCCL_IB_TC": None})[1] == []
    lossless = judge(rdma_qos_profile="custom", rdma_qos_custom={"tc": 2}, nccl_overrides={"NCCL_IB_TC": None})
    assert lossless[1] == [], "what is unmarked has priority 0, and there PFC is on"


@pytest.mark.parametrize("name", ["NCCL_IB_FIFO_TC", "NCCL_GIN_IB_TC"])
@pytest.mark.parametrize("value", [-1, 106])
def test_classes_that_follow_or_equal_the_profile_are_no_contradiction(judge: Judge, name: str, value: int) -> None:
    assert judge(nccl_overrides={name: value})[1] == []


def test_clear_to_send_messages_may_have_a_lane_of_their_own(judge: Judge) -> None:
    assert judge(nccl_overrides={"NCCL_IB_FIFO_TC": 192})[1] == []


def test_a_custom_profile_with_an_error_is_not_held_against_overrides(judge: Judge) -> None:
    """One mistake, one line."""
    spec, findings = judge(rdma_qos_profile="custom", rdma_qos_custom={"tc": 300}, nccl_overrides={"NCCL_IB_TC": 41})
    assert spec is None
    assert [item.key for item in findings] == ["rdma_qos_custom.tc"]
