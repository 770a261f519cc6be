# SPDX-License-Identifier: GPL-3.0-or-later
"""What validation says of AIACC's plugin and of every NCCL beside it, from the facts of simulated nodes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiacc_node import AiaccNode
from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl.aiacc import judge_aiacc
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from field_specs import build_spec
from inspections import bare_inspection

MakeNode = Callable[..., AiaccNode]
PLUGIN = "/usr/local/lib/libnccl-net.so"
NCCL = "/usr/local/lib/libnccl.so.2"


def verdicts(node: AiaccNode, profile: str = "erdma-aiacc") -> list[Verdict]:
    spec, findings = build_spec({"fabric": "erdma", "mtu": 1400, "rails": []}, "node1")
    assert spec is not None, findings
    facts: dict[str, Any] = json.loads(json.dumps(observe_facts(node)))
    return judge_aiacc(bare_inspection("node1", Spec({**spec.as_dict(), "nccl_profile": profile}), facts))


def of(found: list[Verdict], check: str) -> list[Verdict]:
    return [item for item in found if item.check == check]


def plugin(node: AiaccNode, profile: str = "erdma-aiacc") -> Verdict:
    (found,) = of(verdicts(node, profile), "aiacc.plugin")
    return found


@pytest.fixture
def served(node: MakeNode) -> Callable[..., AiaccNode]:
    """A node on which everything is as it should be."""

    def make(os_name: str = "ubuntu2404") -> AiaccNode:
        host = node(os_name)
        if host.rpm:
            host.put("etc/ld.so.conf.d/railwright-aiacc.conf", "/usr/local/lib\n")
        host.install("aiacc-nccl-plugin", "1.0.2", PLUGIN)
        host.nccl(NCCL, "2.16.5")
        host.ldconfig()
        return host

    return make


@pytest.mark.parametrize("os_name", ["ubuntu2404", "rocky9"])
def test_all_is_well(served: MakeNode, os_name: str) -> None:
    found = verdicts(served(os_name))
    assert [(item.check, item.status) for item in found] == [("aiacc.nccl", "pass"), ("aiacc.plugin", "pass")]


def test_a_cluster_without_any_of_it_has_no_verdict(node: MakeNode) -> None:
    host = node()
    host.nccl(NCCL, "2.30.7")
    assert verdicts(host, "erdma-native") == []


def test_every_nccl_outside_the_range_is_a_failure_of_its_own(served: MakeNode) -> None:
    host = served()
    host.nccl("/opt/railwright/nccl/2.30.7-cu13/lib/libnccl.so.2", "2.30.7")
    host.put("/usr/lib/x86_64-linux-gnu/libnccl.so.2", b"\x7fELF")
    host.ldconfig()
    found = {item.subject: item for item in of(verdicts(host), "aiacc.nccl")}
    assert {subject: item.status for subject, item in found.items()} == {
        f"NCCL {NCCL}": "pass", "NCCL /usr/lib/x86_64-linux-gnu/libnccl.so.2": "unknown",
        "NCCL /opt/railwright/nccl/2.30.7-cu13/lib/libnccl.so.2": "fail",
    }  # fmt: skip
    worst = found["NCCL /opt/railwright/nccl/2.30.7-cu13/lib/libnccl.so.2"]
    assert (worst.expected, worst.found) == ("2.8 to 2.16", "2.30.7")
    assert "(prefix)" in worst.message


def test_without_any_nccl_nothing_is_claimed(served: MakeNode) -> None:
    host = served()
    Path(host.path(NCCL)).unlink()
    host.ldconfig()
    assert [item.status for item in of(verdicts(host), "aiacc.nccl")] == ["skipped"]


def test_a_plugin_that_is_not_there(node: MakeNode) -> None:
    assert (plugin(node()).status, plugin(node()).message) == ("fail", "AIACC's plugin is not on this node: NCCL uses its own transport")


def test_a_plugin_that_the_loader_does_not_find(node: MakeNode) -> None:
    host = node("rocky9")
    host.install("aiacc-nccl-plugin", "1.0.2-1", PLUGIN)
    host.ldconfig()
    assert "/usr/local/lib is not in its path" in plugin(host).message
    host.put("etc/ld.so.conf.d/x.conf", "/usr/local/lib\n")
    assert "ldconfig has not run" in plugin(host).message
    assert plugin(host).status == "fail"


def test_another_plugin_before_it_or_in_its_place(served: MakeNode, node: MakeNode) -> None:
    host = served()
    host.put("etc/ld.so.conf.d/a.conf", "/opt/other\n")
    host.put("/opt/other/libnccl-net.so", b"\x7fELF")
    host.ldconfig()
    assert (plugin(host).status, plugin(host).found) == ("fail", "/opt/other/libnccl-net.so")
    other = node("debian12")
    other.put(PLUGIN, b"\x7fELF")
    assert "belongs to no package" in plugin(other).message


@pytest.mark.parametrize(("path", "text"), [
    ("/etc/nccl.conf", "NCCL_NET_PLUGIN=none\n"), ("/etc/profile.d/x.sh", "export NCCL_NET_PLUGIN=none\n"),
    ("/etc/environment", "NCCL_NET_PLUGIN=none\n")])  # fmt: skip
def test_a_variable_that_keeps_it_out_is_named_with_its_file(served: MakeNode, path: str, text: str) -> None:
    host = served()
    host.put(path, text)
    assert plugin(host).status == "fail"
    assert f"{path} sets NCCL_NET_PLUGIN=none" in plugin(host).message


def test_an_empty_variable_is_none_to_nccl(served: MakeNode) -> None:
    host = served()
    host.put("/etc/nccl.conf", "NCCL_NET_PLUGIN=\n")
    assert plugin(host).status == "pass"


def test_with_the_native_profile_the_plugin_must_be_turned_off(served: MakeNode) -> None:
    host = served()
    assert plugin(host, "erdma-native").status == "fail"
    assert "nccl.conf does not set it" in plugin(host, "erdma-native").message
    host.put("/etc/profile.d/x.sh", "export NCCL_NET_PLUGIN=none\n")
    assert plugin(host, "erdma-native").status == "fail", "jobs of srun and mpirun read no profile.d"
    host.put("/etc/nccl.conf", "NCCL_NET_PLUGIN=none\n")
    assert plugin(host, "erdma-native").status == "pass"
    host.put("/etc/profile.d/x.sh", "export NCCL_NET_PLUGIN=aiacc\n")
    assert "/etc/profile.d/x.sh sets it to aiacc" in plugin(host, "erdma-native").message


def test_with_the_native_profile_a_plugin_off_the_loaders_path_is_harmless(node: MakeNode) -> None:
    host = node("rocky9")
    host.install("aiacc-nccl-plugin", "1.0.2-1", PLUGIN)
    host.ldconfig()
    assert plugin(host, "erdma-native").status == "pass"


def test_with_another_profile_a_foreign_plugin_is_not_judged(node: MakeNode) -> None:
    host = node()
    host.install("aws-ofi-nccl", "1.9", PLUGIN)
    host.ldconfig()
    assert verdicts(host, "erdma-native") == []


@pytest.mark.parametrize("profile", ["erdma-aiacc", "erdma-native"])
def test_deepnccl_is_a_warning_that_says_what_it_did(served: MakeNode, profile: str) -> None:
    host = served()
    host.put(NCCL + ".bak", b"\x7fELF")
    (warning,) = [item for item in verdicts(host, profile) if item.status == "warn"]
    assert (warning.check, warning.subject) == ("aiacc.nccl", "DeepNCCL")
    assert f"over the one that was there; what it overwrote is in {NCCL}.bak" in warning.message


def test_a_package_of_an_index_is_a_warning(node: MakeNode) -> None:
    host = node()
    host.put("/usr/local/lib/python3.11/dist-packages/deepncclplugin-2.1.0.dist-info/METADATA", "")
    (warning,) = verdicts(host, "erdma-native")
    assert (warning.check, warning.status, warning.found) == ("aiacc.plugin", "warn", "2.1.0")
    assert "past every pin" in warning.message
