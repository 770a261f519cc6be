# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written for boot, carried out on a NIC fresh from its driver: plan, facts and verdict find nothing to say.

The lines are carried out here on the doubles of this directory, as the script does on a node (boot/test_script.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.double_of_dcb import Driver

from ansible_collections.railwright.rdma.plugins.module_utils.apply import apply
from ansible_collections.railwright.rdma.plugins.module_utils.apply.journal import Journal
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos import observe_qos
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos_boot import lines_of, sets, with_boot

from .conftest import Node, factory

MakeNode = Callable[..., Any]
SETTINGS = "/etc/railwright/roce-qos/eth1"
CUSTOM = {"tc": 106, "ets": [20, 0, 0, 80, 0, 0, 0, 0]}
BUFFERS = {"bytes": [130944, 130944, 0, 0, 0, 0, 0, 0], "priorities": [0, 0, 0, 1, 0, 0, 0, 0]}
EVERYTHING = {"qos_profile": "custom", "qos_custom": CUSTOM, "roce_qos_buffers": BUFFERS, "roce_qos_force_tc": True}
NODES: list[dict[str, Any]] = [
    {"tools": ("dcb",)}, {"tools": ("dcb",), "mlx5": False, "apptrust": True}, {"tools": ("mlnx_qos",)}, {"tools": ("dcb", "mlnx_qos")}]
SITES: list[dict[str, Any]] = [*({"qos_profile": profile.name} for profile in QOS_PROFILES), EVERYTHING]


def carry_out(node: Node, text: str) -> None:
    for words in lines_of(text):
        if words[0] == "run":
            assert node.run(words[1:]).ok, words
        elif words[0] == "mkdir":
            assert node.exists(words[1]) or node.run(words).ok, words
        elif words[0] == "value":
            node.set_value(words[1], words[2])
        else:
            assert words[0] == "mac"


def boot_of(planned: Any) -> dict[str, Any]:
    found: dict[str, Any] = with_boot(planned.node, observe_qos(planned.node, planned.identity()))["nics"][0]["boot"]
    return found


@pytest.mark.parametrize("site", SITES, ids=lambda site: site["qos_profile"])
@pytest.mark.parametrize("tools", NODES, ids=lambda tools: "-".join(tools["tools"]) + ("" if tools.get("mlx5", True) else "-other"))
def test_the_boot_form_alone_makes_a_bare_nic_what_the_plan_wants(
    make_node: MakeNode, tmp_path: Path, tools: dict[str, Any], site: dict[str, Any]
) -> None:
    planned = make_node(**tools, **site)
    planned.apply()
    text = planned.node.read(SETTINGS)
    for name in ("etc", "usr"):  # what a reboot keeps
        shutil.copytree(tmp_path / "node" / name, tmp_path / name, symlinks=True)
    mlx5 = tools.get("mlx5", True)
    factory(tmp_path / "node", driver="mlx5_core" if mlx5 else "bnxt_en")
    for name in ("etc", "usr"):
        shutil.copytree(tmp_path / name, tmp_path / "node" / name, symlinks=True, dirs_exist_ok=True)
    driver = Driver(mlx5=mlx5, trust=[] if mlx5 else ["pcp"])
    planned.node = Node(tmp_path / "node", driver, tools["tools"], apptrust=tools.get("apptrust", False))
    assert planned.whats() != []
    assert boot_of(planned)["differs"] != []
    carry_out(planned.node, text)
    assert planned.plan() == []
    assert (boot_of(planned)["differs"], boot_of(planned)["profile"]) == ([], site["qos_profile"])


@pytest.mark.parametrize("tools", NODES, ids=lambda tools: "-".join(tools["tools"]) + ("" if tools.get("mlx5", True) else "-other"))
def test_what_the_plan_sees_changed_the_facts_see_changed(make_node: MakeNode, tools: dict[str, Any]) -> None:
    planned = make_node(**tools, **EVERYTHING)
    planned.apply()
    assert boot_of(planned)["differs"] == []
    planned.node.driver.pfc.clear()
    planned.node.driver.ets["bw"] = [80, 0, 0, 20, 0, 0, 0, 0]
    planned.node.set_value("/sys/class/net/eth1/ecn/roce_np/cnp_dscp", "4")
    planned.node.set_value("/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "0")
    assert boot_of(planned)["differs"] == ["cnp", "ets", "pfc", "rdma_cm"]
    assert [what.rpartition(" of ")[0] for what in planned.whats()] == ["PFC", "ETS", "CNP marking", "RDMA-CM default"]


def test_a_boot_unit_that_is_quicker_than_the_apply_is_in_nobodys_way(make_node: MakeNode) -> None:
    """An apply that makes the RDMA device anew (openibd, rxe) has udev start the unit between its plan and its own effects."""
    planned = make_node(tools=("mlnx_qos",), **EVERYTHING)
    changes = planned.plan()
    text = next(op.content for change in changes for op in change.ops if op.path == SETTINGS)
    carry_out(planned.node, text)
    apply.carry_out(planned.node, changes, Journal(planned.node, "test"))
    assert planned.plan() == []


def test_every_part_that_is_set_is_read_back_from_the_file(make_node: MakeNode) -> None:
    planned = make_node(tools=("dcb", "mlnx_qos"), **EVERYTHING)
    planned.apply()
    read = set(sets(lines_of(planned.node.read(SETTINGS))))
    assert read == {"buffers", "cnp", "dcbx", "dscp_priority", "ecn", "ets", "forced_tc", "pfc", "rdma_cm", "trust"}
