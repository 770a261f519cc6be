# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdict erdma.mode, of a node and over all nodes: from the driver's parameter, and from its devices where it has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.verdicts import judge_mode, judge_modes, wire_letter
from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_node
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Gpu, Identity, Platform
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cluster import judge_cluster

MakeSpec = Callable[..., Spec]
PLATFORM = Platform("ubuntu", "22.04", "jammy", ("debian",), "Ubuntu 22.04", "debian", "apt")
GPU = Gpu("0000:1b:00.0", "0x2330", 0)


def identity(*gpus: Gpu) -> Identity:
    return Identity("n1", PLATFORM, "5.15.0", "x86_64", "3.10", None, (), (), (), gpus)


def facts(letter: str | None, *types: str, loaded: bool = True, **more: Any) -> dict[str, Any]:
    module = {"version": None, "used_by": [], "parameters": {"compat_mode": letter}}
    hcas = [{"name": f"erdma_{at}", "driver": "erdma", "node_type": kind} for at, kind in enumerate(types)]
    hcas.append({"name": "mlx5_0", "driver": "mlx5_core", "node_type": "CA"})
    return {"modules": {"erdma": module} if loaded else {}, "hcas": hcas, **more}


@pytest.mark.parametrize(
    ("mode", "seen", "status", "words"),
    [
        ("compat", facts("Y", "CA", "CA"), "pass", "the driver runs as compat or ofed (compat_mode=Y)"),
        ("ofed", facts("Y", "CA"), "pass", "the driver runs as compat or ofed (compat_mode=Y)"),
        ("default", facts("N", "RNIC"), "pass", "the driver runs as default (compat_mode=N)"),
        ("compat", facts("N", "RNIC"), "fail",
         "the driver runs as default (compat_mode=N), not in mode compat; apply reloads it, with consent"),
        ("default", facts("Y", "CA"), "fail",
         "the driver runs as compat or ofed (compat_mode=Y), not in mode default; apply reloads it, with consent"),
        ("compat", facts(None, "CA"), "pass", "the driver runs as compat or ofed (node_type 1: CA, the kernel's own driver)"),
        ("compat", facts(None, "RNIC"), "fail",
         "the driver runs as default (node_type 4: RNIC, the kernel's own driver), not in mode compat; apply reloads it, with consent"),
        ("compat", facts(None), "unknown", "the kernel's own driver has no modes, and there is no device to tell by"),
        ("compat", facts("Y", loaded=False), "fail", "the driver erdma is not loaded: this node has no eRDMA device"),
        ("compat", {"modules": None, "hcas": None}, "unknown", "which kernel modules are loaded cannot be read on this node"),
        ("compat", facts("Y", "CA", "RNIC"), "fail",
         "the devices and the driver's parameter disagree: erdma_1 is `4: RNIC`, compat_mode is Y; load the driver again"),
    ],
)
def test_of_a_node(make_spec: MakeSpec, mode: str, seen: dict[str, Any], status: str, words: str) -> None:
    (found,) = judge_mode(inspection_of("n1", make_spec(erdma_mode=mode), identity(), seen))
    assert (found.check, found.node, found.status, found.message) == ("erdma.mode", "n1", status, words)


def test_auto_expects_ofed_of_a_gpu_node_and_leave_is_judged_all_the_same(make_spec: MakeSpec) -> None:
    (found,) = judge_mode(inspection_of("n1", make_spec(), identity(GPU), facts("N", "RNIC")))
    assert (found.status, found.expected) == ("fail", "ofed (compat_mode=Y)")
    (found,) = judge_mode(inspection_of("n1", make_spec(erdma_driver="leave"), identity(), facts("N", "RNIC")))
    assert found.message.endswith("erdma_driver is leave, so railwright does not change it")


def test_eadm_is_quoted_where_it_is_there(make_spec: MakeSpec) -> None:
    (found,) = judge_mode(inspection_of("n1", make_spec(), identity(), facts("Y", "CA", erdma={"eadm_version": "eadm 1.2.3"})))
    assert found.found == "compat or ofed (compat_mode=Y; eadm: eadm 1.2.3)"


def test_another_fabric_is_not_judged(make_spec: MakeSpec) -> None:
    assert judge_mode(inspection_of("n1", make_spec(fabric="roce", mtu=9000), identity(), facts("Y", "CA"))) == []


def nodes(**seen: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: {"facts": found, "rails": []} for name, found in seen.items()}


def test_over_all_nodes_one_wire_mode() -> None:
    (found,) = judge_modes(nodes(a=facts("Y", "CA"), b=facts(None, "CA")))
    assert (found.node, found.status, found.message) == ("", "pass", "2 nodes run as compat or ofed (RoCE-compatible)")
    (found,) = judge_modes(nodes(a=facts("Y", "CA"), b=facts("Y", "CA"), c=facts("N", "RNIC")))
    assert found.status == "fail"
    assert found.message == (
        "nodes in different modes cannot talk RDMA to each other: compat or ofed (RoCE-compatible) on a, b; default (iWARP-like) on c")
    (found,) = judge_modes(nodes(a=facts("Y", "CA"), b=facts(None)))
    assert found.status == "skipped"
    assert judge_modes(nodes(a=facts("Y", loaded=False))) == [], "nothing of eRDMA anywhere"


def test_the_cluster_verdicts_have_it() -> None:
    mixed = nodes(a=facts("Y", "CA"), b=facts("N", "RNIC"))
    assert [(item.status, item.node) for item in judge_cluster(mixed, []) if item.check == "erdma.mode"] == [("fail", "")]


def test_devices_that_disagree_tell_nothing() -> None:
    assert wire_letter(facts(None, "CA", "RNIC")) is None


@pytest.mark.parametrize(("letter", "status"), [("Y", "pass"), ("N", "fail")])
def test_on_a_captured_node_whose_devices_follow(make_spec: MakeSpec, nodes: Path, tmp_path: Path, letter: str, status: str) -> None:
    """The captured tree is of a node in compat; the other letter is written into a copy, devices and all."""
    host = TreeHost(str(nodes / "erdma2"))
    seen = observe_facts(host)
    if letter == "N":
        seen["modules"]["erdma"]["parameters"]["compat_mode"] = "N"
        for hca in seen["hcas"]:
            hca["node_type"] = "RNIC"
    judged = [item for _area, item in judge_node(inspection_of("n1", make_spec(erdma_mode="compat"), observe_identity(host), seen))]
    assert [item.status for item in judged if item.check == "erdma.mode"] == [status]
