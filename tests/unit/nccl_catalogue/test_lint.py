# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the profiles beyond one mistake each (tests/unit/lint/bad_inventories_profiles.yml): what passes, what is warned of."""

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import qos_profile
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue import profiles
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import NCCL_PROFILES, NcclVariable, nccl_profile
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec import check_nccl_env
from field_specs import build_spec

RAIL = {"name": "rail0", "match": {"guid": "b8ce:f603:00ab:0000"}, "address": "198.51.100.11/25"}
MTU = {"roce": 9000, "erdma": 1400, "infiniband": 2044}


def judge(name: str, **values: Any) -> list[tuple[str, str, str]]:
    profile = nccl_profile(name)
    assert profile is not None
    fabric = profile.fabrics[0]
    given = {"fabric": fabric, "mtu": MTU[fabric], "nccl_profile": name, "rails": [RAIL] if profile.hca_prefix else [],
             "artifact_pins": {"aiacc_nccl_plugin_rpm": "0" * 64}, **values}
    if profile.qos is not None:
        given.setdefault("qos_profile", profile.qos)
    _spec, findings = build_spec(given, "n1")
    return [(item.severity, item.key, item.message) for item in findings]


@pytest.mark.parametrize("name", [row.name for row in NCCL_PROFILES])
def test_a_profile_with_what_it_needs_has_no_finding(name: str) -> None:
    assert judge(name) == []


@pytest.mark.parametrize("profile", NCCL_PROFILES, ids=lambda row: str(row.name))
def test_a_row_says_all_that_a_reader_must_know(profile: Any) -> None:
    assert profile.why.endswith(".")
    assert profile.source
    assert all(row.said and row.instead and row.why.endswith(".") for row in profile.corrected)
    assert all(row.why and row.source and row.severity in ("error", "warning") for row in profile.excludes)
    assert profile.qos in (None, "none") or qos_profile(profile.qos) is not None
    never = {row.name for row in profile.excludes if not row.values}
    assert never.isdisjoint(row.name for row in profile.variables), "it sets what it excludes"
    assert all(len(set(names)) == len(names) in (4, 8, 16) for _shape, names in profile.hcas)


PLUGINS = [row for row in NCCL_PROFILES if row.transport and row.name != "erdma-aiacc"]


@pytest.mark.parametrize("profile", PLUGINS, ids=lambda row: str(row.name))
def test_a_plugin_that_nobody_installs_here_says_so(profile: Any) -> None:
    """AWS's and Google's: variables, and the refusal of what turns the plugin off. NCCL_NET is left to NCCL."""
    checked = "nothing here installs or pins it, the check nccl.plugin reports whether it is there, and this profile refuses what turns it"
    assert ("nothing here installs, pins or checks it, this profile only sets" if profile.variables else checked) in profile.needs[0]
    assert profile.excludes, "which is all that a profile without variables is for"
    assert not {"NCCL_NET", "NCCL_NET_PLUGIN"} & {row.name for row in profile.variables}
    for variable, value in (("NCCL_NET", "IB"), ("NCCL_NET", "Socket"), ("NCCL_NET_PLUGIN", "none")):
        assert [item[:2] for item in judge(profile.name, nccl_overrides={variable: value})] == [("error", f"nccl_overrides.{variable}")]
    assert [item[0] for item in judge(profile.name, qos_profile="dscp26-prio3")] == ["error"], "the plugin marks its own traffic"


def test_which_clouds_have_a_profile() -> None:
    names = {row.name for row in NCCL_PROFILES}
    assert {row.name for row in PLUGINS} == {"aws-efa", "gcp-a3-high", "gcp-a3-mega", "gcp-a3-ultra", "gcp-a4", "gcp-a4x", "gcp-a4x-max"}
    assert {name for name in names if name.startswith("oci-gb")} == {"oci-gb200", "oci-gb200-v3", "oci-gb300"}
    assert {name for name in names if name.startswith("azure")} == {"azure-ndv4", "azure-ndv5", "azure-gb200", "azure-gb300"}
    assert "spectrum-x" in names


@pytest.mark.parametrize(("name", "variable"), [
    ("azure-gb300", "NCCL_MNNVL_ENABLE"), ("azure-gb200", "NCCL_NET_GDR_LEVEL"), ("gcp-a3-high", "NCCL_ALGO"), ("gcp-a4", "NCCL_NET"),
    ("spectrum-x", "NCCL_IB_ADAPTIVE_ROUTING"), ("spectrum-x", "NCCL_NET_PLUGIN"),
])  # fmt: skip
def test_what_sources_say_and_nobody_sets_has_its_reason(name: str, variable: str) -> None:
    """Sources that contradict each other, or a value for one job: no default, and the row says why."""
    profile = nccl_profile(name)
    assert profile is not None
    assert variable not in {row.name for row in profile.variables}
    assert [row.why for row in profile.corrected if variable in row.said] != []


@pytest.mark.parametrize(("version", "said"), [("2.7.8", True), ("2.8.4", False), ("2.16.5", False), ("2.17.1", True), ("2.20.5", True)])
def test_aiaccs_range_of_nccl(version: str, said: bool) -> None:
    found = judge("erdma-aiacc", nccl_install="distribution", nccl_version=version)
    assert [(severity, key) for severity, key, _message in found] == ([("error", "nccl_version")] if said else [])
    assert judge("erdma-aiacc", nccl_install="distribution") == [], "which one that is, the node shows"


@pytest.mark.parametrize(("name", "variable", "severity"), [
    ("erdma-aiacc", "NCCL_NET_PLUGIN", "error"), ("aws-efa", "NCCL_BUFFSIZE", "warning"), ("aws-efa", "NCCL_MIN_CTAS", "warning"),
])  # fmt: skip
def test_what_defeats_a_profile(name: str, variable: str, severity: str) -> None:
    assert [item[:2] for item in judge(name, nccl_overrides={variable: 4})] == [(severity, f"nccl_overrides.{variable}")]
    assert judge(name, nccl_overrides={variable: None}) == [], "to leave it out is what is wanted"


def test_aws_may_name_its_plugin() -> None:
    assert judge("aws-efa", nccl_overrides={"NCCL_NET_PLUGIN": "ofi"}) == []
    ((severity, key, message),) = judge("aws-efa", rails=[RAIL])
    assert (severity, key) == ("warning", "rdma_rails")
    assert "no RoCE GIDs" in message


def test_a_qos_of_the_site_with_the_same_dscp_is_warned_of() -> None:
    ((severity, key, message),) = judge("scnet", qos_profile="custom", qos_custom={"tc": 138, "lossless": [4]})
    assert (severity, key) == ("warning", "rdma_nccl_profile")
    assert "the same DSCP with ECN bits 2 and not 0" in message


@pytest.mark.parametrize(("variable", "said"), [
    (NcclVariable("NCCL_CREATE_THREAD_CONTEXT", "1", "x", "x"), "sets NCCL_CREATE_THREAD_CONTEXT=1, which was removed from NCCL"),
    (NcclVariable("NCCL_NCHANNELS", "4", "x", "x"), "sets NCCL_NCHANNELS=4, which has never been a variable of NCCL"),
    (NcclVariable("NCCL_IB_TIMEOUTS", "22", "x", "x"), "sets NCCL_IB_TIMEOUTS=22, which is no variable of NCCL"),
    (NcclVariable("NCCL_MIN_NCHANNELS", "16", "x", "x"), "sets NCCL_MIN_NCHANNELS=16, which is deprecated"),
    (NcclVariable("NCCL_IB_TIMEOUT", "22s", "x", "x"), "sets NCCL_IB_TIMEOUT=22s, which NCCL reads it as the integer 22"),
])  # fmt: skip
def test_a_row_with_a_variable_that_nccl_no_longer_reads_is_refused(
    variable: NcclVariable, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = NCCL_PROFILES[0]._replace(variables=(variable,))
    monkeypatch.setattr(profiles, "NCCL_PROFILES", (stale, *NCCL_PROFILES[1:]))
    assert check_nccl_env.nccl_profile("roce") == stale
    ((severity, key, message),) = judge("roce")
    assert (severity, key) == ("error", "rdma_nccl_profile")
    assert message.startswith(said)


def test_an_index_with_a_family_that_is_not_looked_for_is_no_contradiction() -> None:
    values = {"nccl_gid_index": 3, "nccl_overrides": {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}}
    assert judge("roce", **values) == []
    assert [item[0] for item in judge("roce", **{**values, "nccl_gid_index": "auto"})] == ["error"]
