# SPDX-License-Identifier: GPL-3.0-or-later
"""`railwright explain` of NCCL: every profile, what a host's file will hold and whose each value is, and no node contacted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl import environment
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import NCCL_PROFILES, nccl_profile
from profile_trees import Tree
from railwright.exitcodes import ExitCode
from railwright.nccl.explain import of_host
from verb_said import said_by

Explain = Callable[..., tuple[int, str, str]]
RAILS = 'rdma_rails: [{name: rail0, match: {mac: "02:00:00:00:0%d:00"}, address: 198.51.100.1%d/25}]'


@pytest.fixture
def explain(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Explain:
    """The verb as on a command line: (exit code, stdout, stderr)."""
    from railwright import run as runner

    def started(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a playbook was started")

    monkeypatch.setattr(runner, "run_playbook", started)

    def call(*argv: str) -> tuple[int, str, str]:
        return said_by(capfd, "explain", *argv)

    return call


@pytest.fixture
def inventory(tmp_path: Path) -> Callable[[str], str]:
    """An inventory of two RoCE nodes with this text in group_vars/all.yml."""

    def write(site: str) -> str:
        directory = tmp_path / "inv"
        (directory / "group_vars").mkdir(parents=True)
        hosts = "".join(f"    n{i}:\n      {RAILS % (i, i)}\n" for i in (1, 2))
        (directory / "hosts.yml").write_text(f"rdma:\n  hosts:\n{hosts}")
        (directory / "group_vars/all.yml").write_text(site)
        return str(directory)

    return write


@pytest.mark.parametrize("name", [row.name for row in NCCL_PROFILES])
def test_a_profile_in_full(name: str, explain: Explain) -> None:
    code, text, _err = explain(name)
    row = nccl_profile(name)
    assert row is not None
    assert code == ExitCode.OK
    wanted = [row.why, row.source, *row.needs, *(part for item in row.variables for part in (item.name, item.value, item.why, item.source)),
              *(part for item in row.corrected for part in item),
              *(part for item in row.excludes for part in (item.name, item.why, item.source)),
              *(",".join(devices) for _shape, devices in row.hcas)]
    assert [part for part in wanted if part not in text] == []
    if row.qos is not None:
        assert f"rdma_qos_profile: {row.qos}" in text
    code, out, _err = explain(name, "--format", "json")
    found = json.loads(out)
    assert (found["name"], found["needs"]["qos_profile"], found["needs"]["nccl"]["last"]) == (name, row.qos, row.nccl[1])
    assert [(item["name"], item["value"]) for item in found["variables"]] == [(item.name, item.value) for item in row.variables]
    assert len(found["corrected"]) == len(row.corrected)
    assert found["excludes"] == [{**item._asdict(), "values": list(item.values)} for item in row.excludes]


def test_without_a_name_all_are_listed(explain: Explain) -> None:
    code, text, _err = explain("profile")
    assert code == ExitCode.OK
    assert [row.name for row in NCCL_PROFILES if f"  {row.name} " not in text] == []
    assert [item["name"] for item in json.loads(explain("profile", "--format", "json")[1])] == [row.name for row in NCCL_PROFILES]


@pytest.mark.parametrize(("name", "near"), [
    ("scnett", "scnet"), ("oci-h20", "oci-h200"), ("azure", "azure-ndv4"), ("ERDMA-AIACC", "erdma-aiacc")])  # fmt: skip
def test_an_unknown_name_ends_64_with_the_nearest(name: str, near: str, explain: Explain) -> None:
    code, text, err = explain(name)
    assert (code, text) == (ExitCode.USAGE, "")
    assert f"{name}: is nothing that explain knows; nearest: " in err
    assert near in err.partition("nearest: ")[2].partition(";")[0]


def test_a_limit_without_an_inventory_is_refused(explain: Explain) -> None:
    code, _text, err = explain("profile", "--limit", "n1")
    assert code == ExitCode.USAGE
    assert "give -i INVENTORY too" in err


def test_a_host_of_an_inventory(explain: Explain, inventory: Callable[[str], str]) -> None:
    path = inventory("rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: scnet-dscp34-prio4\nrdma_nccl_profile: scnet\n"
                     "rdma_bootstrap_interface: eno1\n"
                     "nccl_overrides: {NCCL_DEBUG: null, NCCL_IB_TIMEOUT: 23}\n")
    code, out, _err = explain("profile", "-i", path, "--limit", "n1", "--format", "json")
    assert code == ExitCode.OK
    found = json.loads(out)
    assert list(found) == ["n1"]
    assert (found["n1"]["profile"], found["n1"]["path"]) == ("scnet", "/etc/nccl.conf")
    rows = {row["name"]: (row["value"], row["origin"]) for row in found["n1"]["variables"]}
    assert rows == {
        "NCCL_DEBUG": (None, "override"), "NCCL_IB_TIMEOUT": ("23", "override"), "NCCL_IB_QPS_PER_CONNECTION": ("8", "profile"),
        "NCCL_IB_TC": ("136", "qos_profile"), "NCCL_SOCKET_IFNAME": ("=eno1", "inventory"), "NCCL_IB_HCA": (None, "node"),
        "NCCL_IB_GID_INDEX": (None, "node")}
    code, text, _err = explain("profile", "-i", path)
    assert "n1: /etc/nccl.conf by profile scnet" in text
    assert "n2: /etc/nccl.conf by profile scnet" in text
    assert text.count("(left out)") == 4
    assert text.count("exactly the ports of rail0, found by their match") == 2


def test_a_variable_alone_is_what_it_means_to_nccl(explain: Explain) -> None:
    code, out, _err = explain("NCCL_IB_TC", "--format", "json")
    assert (code, json.loads(out)["known"]) == (ExitCode.OK, True)
    code, text, _err = explain("NCCL_IB_TCC", "-i", "nowhere")
    assert code == ExitCode.FAILED
    assert "NCCL_IB_TC" in text.partition("nearest")[2]


def test_a_variable_on_the_hosts_of_an_inventory(explain: Explain, inventory: Callable[[str], str]) -> None:
    path = inventory("rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: scnet-dscp34-prio4\nrdma_nccl_profile: scnet\n")
    code, out, _err = explain("NCCL_IB_TC", "-i", path, "--format", "json")
    assert code == ExitCode.OK
    assert [[row["value"] for row in host["variables"]] for host in json.loads(out).values()] == [["136"], ["136"]]
    assert explain("NCCL_ALGO", "-i", path)[1].count("NCCL_ALGO is not set") == 2


def test_the_old_form_with_two_names_is_refused_with_the_new_one(explain: Explain) -> None:
    code, text, err = explain("profile", "scnet", "--format", "json")
    assert (code, text) == (ExitCode.USAGE, "")
    assert "explain takes one name; allowed: railwright explain scnet" in err


def test_a_profile_has_no_captured_tree(explain: Explain) -> None:
    code, _text, err = explain("scnet", "--sysroot", ".")
    assert code == ExitCode.USAGE
    assert "scnet is explained without a node" in err


def test_another_profile_in_place_of_the_inventorys(explain: Explain, inventory: Callable[[str], str]) -> None:
    path = inventory("rdma_fabric: roce\nrdma_mtu: 9000\nrdma_qos_profile: oci-dscp10\n")
    assert json.loads(explain("oci-h100", "-i", path, "--format", "json")[1])["n1"]["profile"] == "oci-h100"
    code, text, err = explain("scnet", "-i", path)
    assert (code, text) == (ExitCode.USAGE, "")
    assert "explain scnet: rdma_nccl_profile: scnet: is for a fabric with TC 136" in err
    assert "no node was contacted" in err


@pytest.mark.parametrize(("name", "captured", "values"), [
    ("roce", "doca8", {}), ("roce", "doca8", {"nccl_gid_index": 3}), ("erdma-native", "erdma2", {}), ("erdma-aiacc", "erdma2", {}),
    ("infiniband", "ib8", {"nccl_overrides": {"NCCL_IB_TIMEOUT": None}}), ("azure-ndv5", "ib8", {}),
    ("scnet", "doca8", {"qos_profile": "scnet-dscp34-prio4", "bootstrap_interface": None}),
    ("oci-h200", "doca8", {"qos_profile": "oci-dscp10", "rails": []}), ("aws-efa", "doca8", {"qos_profile": "none", "rails": []}),
])  # fmt: skip
def test_what_is_said_of_a_host_is_what_its_plan_writes(
    name: str, captured: str, values: dict[str, Any], tmp_path: Path
) -> None:
    """On a captured node (written from documented formats): the same names, and the same values where no node is needed for them."""
    node = Tree(captured, tmp_path)
    spec = node.spec(nccl_profile=name, **values)
    wanted = environment.desired(spec, observe_identity(node.host))
    written = dict(environment.variables_of(wanted, environment.observe(node.host, wanted)))
    rows = of_host(spec)["variables"]
    assert {row["name"]: row["value"] for row in rows if row["value"] is not None} == {
        key: value for key, value in written.items() if key in [row["name"] for row in rows if row["value"] is not None]}
    assert set(written) <= {row["name"] for row in rows}
    unwritten = {row["name"] for row in rows if row["value"] is None and row["name"] not in written}
    assert unwritten <= {"NCCL_IB_GID_INDEX", "NCCL_IB_TIMEOUT"}
