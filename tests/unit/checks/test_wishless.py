# SPDX-License-Identifier: GPL-3.0-or-later
"""What is judged of captured nodes that nobody has described: which verdicts, and that a wish is in none."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.lib.node_trees import NODES

from ansible_collections.railwright.rdma.plugins.module_utils.checks.check_report import COLUMNS, LINES, document, node_lines
from ansible_collections.railwright.rdma.plugins.module_utils.checks.wishless import NEEDS_WISH
from ansible_collections.railwright.rdma.plugins.module_utils.entry.alone import answer
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec as wish
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import COMMANDS

TREES = sorted(path.name for path in NODES.iterdir())
# What each tree has wrong without anybody's wish.
FAULTS = {
    "doca8": {"fail gpu.fabricmanager"},
    "erdma-default": {"fail erdma.port", "fail erdma.provider"},
    "erdma-gpu": {"fail gpudirect.built", "fail gpudirect.path", "fail gpudirect.peermem", "warn stack.headers"},
    "half-installed": {"fail stack.packages"},
    "hgx-skew": {"fail gpu.driver_loaded", "fail gpu.fabricmanager", "fail gpu.nvlink", "warn gpu.persistence"},
    "ib8": {"warn gpu.near", "warn stack.headers"},
    "port-polling": {"fail port.state"},
}


def judged(tree: Path) -> dict[str, Any]:
    return answer(TreeHost(str(tree)), {"mode": "check", "node": "n1", "spec": wish().as_dict()}, False)


def shown(found: dict[str, Any], *, every: bool = False) -> list[str]:
    node = {"status": "ok", "message": "", "overview": found["overview"]}
    return [text for _kind, text in node_lines(document({"n1": node}, found["verdicts"], COMMANDS), "n1", every)]


@pytest.mark.parametrize("name", TREES)
def test_faults_of_captured_nodes(name: str) -> None:
    verdicts = judged(NODES / name)["verdicts"]
    assert {f"{item['status']} {item['check']}" for item in verdicts if item["status"] in ("fail", "warn")} == FAULTS.get(name, set())
    assert [item for item in verdicts if item["check"] in NEEDS_WISH or item["status"] == "skipped"] == []
    assert {item["node"] for item in verdicts} <= {"n1"}


@pytest.mark.parametrize("name", TREES)
def test_a_node_is_one_screen(name: str) -> None:
    """The prompt stands below."""
    found = judged(NODES / name)
    lines = shown(found)
    assert len(lines) < LINES
    assert max(map(len, lines)) < COLUMNS
    whole = "\n".join(shown(found, every=True))
    assert [item["check"] for item in found["verdicts"] if item["check"] not in whole] == []


def changed(tmp_path: Path, name: str, files: dict[str, str]) -> list[dict[str, Any]]:
    """Its verdicts on ports after these files of the tree were written."""
    tree = tmp_path / name
    shutil.copytree(NODES / name, tree, symlinks=True)
    for path, text in files.items():
        (tree / path).write_text(text)
    return [item for item in judged(tree)["verdicts"] if item["check"].startswith("port.")]


def of_port(hca: str, state: str, phys: str) -> dict[str, str]:
    place = f"sys/class/infiniband/{hca}/ports/1"
    return {f"{place}/state": state + "\n", f"{place}/phys_state": phys + "\n"}


def test_a_port_beside_a_gpu_without_a_link_fails(tmp_path: Path) -> None:
    """Seven of eight ports of its kind have one."""
    verdicts = changed(tmp_path, "doca8", of_port("mlx5_3", "1: DOWN", "3: Disabled"))
    assert [(item["hca"], item["status"], item["found"]) for item in verdicts if item["status"] != "pass"] == [("mlx5_3", "fail", "DOWN")]


def test_ports_beside_gpus_of_which_few_have_a_link(tmp_path: Path) -> None:
    """Two rails by design, or six cables pulled: no pass, and no failure."""
    idle = {key: text for hca in range(2, 8) for key, text in of_port(f"mlx5_{hca}", "1: DOWN", "3: Disabled").items()}
    found = {(item["hca"], item["status"]) for item in changed(tmp_path, "doca8", idle) if item["check"] == "port.state"}
    assert found == {(f"mlx5_{hca}", "pass" if hca < 2 else "unknown") for hca in range(8)}


def test_a_link_that_is_up_and_not_active_fails(tmp_path: Path) -> None:
    verdicts = changed(tmp_path, "ib8", of_port("mlx5_1", "2: INIT", "5: LinkUp"))
    (found,) = [item for item in verdicts if item["status"] == "fail"]
    assert (found["check"], found["hca"], found["found"]) == ("port.state", "mlx5_1", "INIT")


def test_what_a_node_says_moves_no_cursor(tmp_path: Path) -> None:
    tree = tmp_path / "rxe"
    shutil.copytree(NODES / "rxe", tree, symlinks=True)
    (tree / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian \x1b[2J\x9b1A"\n')
    assert all(char.isprintable() for line in shown(judged(tree), every=True) for char in line)
