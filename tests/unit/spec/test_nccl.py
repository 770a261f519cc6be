# SPDX-License-Identifier: GPL-3.0-or-later
"""The NCCL catalogue, the overrides' rules, and what a host's NCCL environment comes to."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import DEFAULT_QOS, QOS_PROFILES, qos_profile
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec, errors_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import (
    DEFAULT_NCCL,
    NCCL_PROFILES,
    nccl_profile,
    nccl_variables,
)
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import (
    NEVER_IN_NCCL,
    OWNED_BY_OTHERS,
    PLUGIN_VARIABLES,
    REMOVED,
    VARIABLES,
)
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import Findings
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nccl_overrides import check_overrides, check_variable
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import FABRICS

Judge = Callable[..., tuple[Spec | None, list[Finding]]]


def test_the_catalogue_is_whole() -> None:
    assert (len(VARIABLES), len(PLUGIN_VARIABLES), len(REMOVED), len(NEVER_IN_NCCL)) == (278, 32, 28, 18)
    groups = [set(VARIABLES), set(PLUGIN_VARIABLES), set(REMOVED), set(NEVER_IN_NCCL), {row.name for row in OWNED_BY_OTHERS}]
    assert sum(map(len, groups)) == len(set().union(*groups)), "a name in two lists"
    assert {row.type for row in VARIABLES.values()} == {"int", "bool", "enum", "list", "string"}
    assert [name for name, row in VARIABLES.items() if row.type == "enum" and not row.values] == ["NCCL_SYM_KERNEL"]
    assert VARIABLES["NCCL_IB_TC"].type == "int"
    assert VARIABLES["NCCL_MIN_NCHANNELS"].deprecated == "NCCL_MIN_CTAS (2.17+)"


def test_replacements_exist() -> None:
    for row in REMOVED.values():
        if row.replacement is not None:
            assert row.replacement.split(" ")[0].split("=")[0] in VARIABLES, row


@pytest.mark.parametrize("profile", NCCL_PROFILES, ids=lambda profile: profile.name)
def test_profiles_pass_their_own_check(profile: Any) -> None:
    """Nothing is written that NCCL does not know, is deprecated, or would be read as something else."""
    findings = Findings("n1")
    check_overrides({variable.name: variable.value for variable in profile.variables}, None, findings)
    assert findings.items == []
    assert all(variable.why and variable.source for variable in profile.variables)
    assert {"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_IB_TC"}.isdisjoint(variable.name for variable in profile.variables)


@pytest.mark.parametrize("fabric", FABRICS)
def test_defaults_name_rows_that_fit(fabric: str) -> None:
    profile = nccl_profile(DEFAULT_NCCL[fabric])
    assert profile is not None
    assert fabric in profile.fabrics
    qos = qos_profile(DEFAULT_QOS[fabric])
    assert (qos is not None) == (fabric == "roce")


@pytest.mark.parametrize(
    ("name", "tc", "dscp", "ecn", "priority"),
    [
        ("dscp26-prio3", 106, 26, 2, 3),
        ("scnet-dscp34-prio4", 136, 34, 0, 4),
        ("oci-dscp10", 41, 10, 1, 1),
    ],
)
def test_traffic_class_arithmetic(name: str, tc: int, dscp: int, ecn: int, priority: int) -> None:
    """The numbers of the sources, not of our formula."""
    profile = qos_profile(name)
    assert profile is not None
    assert (profile.tc, profile.dscp, profile.ecn, profile.priority) == (tc, dscp, ecn, priority)
    assert priority == dscp >> 3
    assert (profile.lossless, profile.ets) == ((priority,), ())
    assert profile.rdma_cm_tos == tc, "RDMA-CM would open its connections in another queue than NCCL"
    assert len(QOS_PROFILES) == 3


def test_variables_of_a_host(judge: Judge) -> None:
    spec, _findings = judge()
    assert spec is not None
    assert nccl_variables(spec) == {"NCCL_IB_TIMEOUT": "22", "NCCL_IB_QPS_PER_CONNECTION": "4", "NCCL_IB_TC": "106"}
    spec, _findings = judge(
        rdma_qos_profile="scnet-dscp34-prio4",
        nccl_overrides={"NCCL_IB_TIMEOUT": None, "NCCL_DEBUG": "WARN", "NCCL_IB_QPS_PER_CONNECTION": 8},
    )
    assert spec is not None
    assert nccl_variables(spec) == {"NCCL_IB_QPS_PER_CONNECTION": "8", "NCCL_IB_TC": "136", "NCCL_DEBUG": "WARN"}
    spec, _findings = judge(rdma_qos_profile="none")
    assert spec is not None
    assert "NCCL_IB_TC" not in nccl_variables(spec)


def test_infiniband_has_neither_gid_nor_traffic_class(judge: Judge) -> None:
    spec, _findings = judge(rdma_fabric="infiniband", rdma_mtu=4092, rdma_rails=[{"name": "rail0", "match": {"pci": "1a:00.0"}}])
    assert spec is not None
    assert nccl_variables(spec) == {"NCCL_IB_TIMEOUT": "22"}


def test_erdma_address_range_is_the_common_subnet(judge: Judge) -> None:
    rails = [{"name": f"rail{index}", "match": {"pci": f"1{index}:00.0"}, "address": f"10.0.0.1{index}/24"} for index in range(2)]
    spec, _findings = judge(rdma_fabric="erdma", rdma_mtu=8500, rdma_rails=rails)
    assert spec is not None
    variables = nccl_variables(spec)
    assert variables["NCCL_IB_ADDR_RANGE"] == "10.0.0.0/24"
    assert (variables["NCCL_IB_GID_INDEX"], variables["NCCL_NET_PLUGIN"], variables["NCCL_NET_GDR_LEVEL"]) == ("-1", "none", "SYS")
    assert "NCCL_IB_TC" not in variables
    rails[1]["address"] = "10.0.1.11/24"
    spec, _findings = judge(rdma_fabric="erdma", rdma_mtu=8500, rdma_rails=rails)
    assert spec is not None
    assert "NCCL_IB_ADDR_RANGE" not in nccl_variables(spec)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IB_TIMEOUT", 22),
        ("NCCL_IB_TIMEOUT", "0x16"),
        ("NCCL_IB_GID_INDEX", -1),
        ("NCCL_IB_DISABLE", 0),
        ("NCCL_DEBUG", "info"),
        ("NCCL_NET_GDR_LEVEL", "SYS"),
        ("NCCL_NET_GDR_LEVEL", 5),
        ("NCCL_NETDEVS_POLICY", "MAX:2"),
        ("NCCL_ALGO", "allreduce:ring,tree;broadcast:^nvls"),
        ("NCCL_PROTO", "^LL128"),
        ("NCCL_TOPO_FILE", "/etc/topo.xml"),
        ("NCCL_IB_TC", 106),
        ("NCCL_INSPECTOR_ENABLE", 1),
        ("NCCL_DEBUG_FILE", "/tmp/%h.%p"),
        ("NCCL_IB_TIMEOUT", None),
        ("NCCL_SYM_KERNEL", "anything"),
    ],
)
def test_good_overrides(judge: Judge, name: str, value: object) -> None:
    spec, findings = judge(nccl_overrides={name: value})
    assert findings == []
    assert spec is not None
    assert spec["nccl_overrides"] == {name: None if value is None else str(value)}


def test_a_run_may_have_variables_of_others_too(judge: Judge) -> None:
    """In /etc/nccl.conf they are wrong: NCCL does not read them. The environment of a run is for all that runs in it."""
    given = {"NCCL_ASYNC_ERROR_HANDLING": "1", "NCCL_TESTS_DEVICE": "0", "NCCL_SHARP_DISABLE": "1", "NCCL_HOSTID": "a", "UCX_TLS": "rc",
             "NCCL_CONF_FILE": "/etc/other.conf", "LD_LIBRARY_PATH": "/opt/x"}
    for key in ("nccl_tests_environment", "ddp_benchmark_environment"):
        spec, findings = judge(**{key: given})
        assert findings == []
        assert spec is not None
        assert spec[key] == given


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("NCCL_IB_TIMEOUT", "22s", "integer 22"),
        ("NCCL_IB_TIMEOUT", "true", "integer 0"),
        ("NCCL_IB_TIMEOUT", "022", "octal: 18"),
        ("NCCL_IB_TIMEOUT", "0x", "integer 0"),
        ("NCCL_IB_TIMEOUT", " 22", "integer 22"),
        ("NCCL_IB_DISABLE", True, "no booleans"),
        ("NCCL_IB_DISABLE", "yes", "switch"),
        ("NCCL_NET_GDR_LEVEL", "sys", "not a value"),
        ("NCCL_ALGO", "rings", "rings is not"),
        ("NCCL_PROTO", "LL,", "nothing is not"),
        ("NCCL_IB_TC", 256, "traffic class"),
        ("NCCL_IB_TC", "0x88", "136 >> 2 = DSCP 34, 136 >> 5 = priority 4, PFC is on 3"),
        ("NCCL_TOPO_FILE", "", "empty"),
        ("NCCL_TOPO_FILE", "a\nNCCL_X=1", "one line"),
        ("NCCL_TOPO_FILE", "x" * 1024, "longer"),
        ("NCCL_TOPO_FILE", ["a"], "not a list"),
        ("NCCL_CONF_FILE", "/etc/x", "process environment"),
        ("NCCL_SHARP_DISABLE", 1, "nccl-rdma-sharp"),
        ("nccl_ib_tc", 106, "no variable"),
        (7, 1, "name of a variable"),
    ],
)
def test_bad_overrides(judge: Judge, name: object, value: object, word: str) -> None:
    spec, findings = judge(nccl_overrides={name: value})
    assert spec is None
    errors = errors_of(findings)
    assert len(errors) == 1
    assert word in errors[0].message
    assert errors[0].allowed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IB_GID_INDEX", 3),
        ("NCCL_IB_HCA", "mlx5"),
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("NCCL_MIN_NCHANNELS", 16),
        ("NCCL_LAUNCH_MODE", "GROUP"),
        ("NCCL_IB_HCAS", "x"),
    ],
)
def test_overrides_that_are_warned_of(judge: Judge, name: str, value: object) -> None:
    spec, findings = judge(nccl_overrides={name: value})
    assert spec is not None
    assert [(finding.key, finding.severity) for finding in findings] == [(f"nccl_overrides.{name}", "warning")]


def test_the_traffic_class_of_a_profile_is_no_contradiction(judge: Judge) -> None:
    assert judge(rdma_qos_profile="scnet-dscp34-prio4", nccl_overrides={"NCCL_IB_TC": 136})[1] == []
    assert judge(rdma_qos_profile="none", nccl_overrides={"NCCL_IB_TC": 136})[1] == []


@pytest.mark.parametrize("name", ["NCCL_IGNORE_NET_MISMATCH", "NCCL_IGNORE_COLLNET_MISMATCH", "NCCL_IGNORE_DISABLED_P2P",
                                  "NCCL_IB_RESILIENCY_PORT_FAILOVER"])  # fmt: skip
def test_what_hides_a_loss_is_warned_of(name: str) -> None:
    for value, warned in (("1", True), ("0", False)):
        of_file, of_program = Findings("n1"), Findings("n1")
        check_overrides({name: value}, None, of_file)
        check_variable(name, value, "nccl_tests_environment." + name, of_program)
        for found in (of_file.items, of_program.items):
            assert [(item.severity, "hides what is wrong" in item.message) for item in found] == ([("warning", True)] if warned else [])
