# SPDX-License-Identifier: GPL-3.0-or-later
"""Every module is documented, and every one says what it does in check mode and with --diff."""

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import repo
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS

EXPECTED_MODULES = {
    "rdma_facts",
    "rdma_state",
    "rdma_check",
    "rdma_measure",
    "rdma_preflight",
    "rdma_consent",
    "rdma_cluster",
    "rdma_ssh_mesh",
    "rdma_bench",
}
SERVE = "ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module.serve"
MODULES = sorted({Path(name).stem for name in repo.python("plugins/modules/")} | EXPECTED_MODULES)


@cache
def documents() -> dict[str, Any]:
    """What this environment's ansible-doc says of all of them, in one start."""
    names = [f"railwright.rdma.{name}" for name in MODULES]
    argv = (str(Path(sys.executable).parent / "ansible-doc"), "-t", "module", "--json", *names)
    env = dict(os.environ, ANSIBLE_COLLECTIONS_PATH=str(repo.ROOT / ".dev"), ANSIBLE_NOCOLOR="1")
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.core
@pytest.mark.parametrize("name", MODULES)
def test_ansible_doc(name: str) -> None:
    """Documentation, examples and return values, read by Ansible itself."""
    document = documents()[f"railwright.rdma.{name}"]
    assert document["doc"]["short_description"]
    assert document["examples"]
    assert document["return"]


def test_the_areas_of_rdma_state_are_those_of_the_registry() -> None:
    [text] = documents()["railwright.rdma.rdma_state"]["doc"]["options"]["areas"]["description"]
    assert re.findall(r"V\((\w+)\)", text) == [area.name for area in AREAS]


@pytest.mark.parametrize("name", MODULES)
def test_check_and_diff_are_documented(name: str) -> None:
    attributes = documents()[f"railwright.rdma.{name}"]["doc"].get("attributes") or {}
    assert {"check_mode", "diff_mode"} <= set(attributes)
    for attribute in ("check_mode", "diff_mode"):
        assert attributes[attribute]["support"] in ("full", "partial", "none", "N/A")
        assert attributes[attribute]["support"] != "partial" or attributes[attribute].get("details"), "partial, but which part?"
    assert attributes["check_mode"]["support"] == "full", "a plan runs everything in check mode"


def test_the_action_group_has_every_module() -> None:
    assert repo.read_yaml("meta/runtime.yml")["action_groups"]["rdma"] == [name for name in MODULES if f"plugins/modules/{name}.py" in
                                                                           repo.python("plugins/modules/")]


@pytest.mark.parametrize("name", repo.python("plugins/modules/"))
def test_no_module_tells_its_arguments(name: str) -> None:
    """They hold the inventory's secrets: NodeModule keeps them out of the node's syslog and of the result. What runs on the controller only
    has a description here and no code."""
    imported = {module for _line, module in repo.imports(name)}
    assert not [module for module in imported if module.startswith("ansible.")]
    code = [node for node in repo.tree(name).body if isinstance(node, ast.FunctionDef)]
    assert not code or SERVE in imported


@pytest.mark.parametrize("name", MODULES)
def test_examples_use_the_full_name(name: str) -> None:
    examples = yaml.safe_load(documents()[f"railwright.rdma.{name}"]["examples"])
    used = {key for task in repo.tasks(examples) for key in task}
    assert f"railwright.rdma.{name}" in used


def test_the_state_module_returns_its_plan() -> None:
    """before, plan and after: the product of every run, in check mode and without it."""
    returned = documents()["railwright.rdma.rdma_state"]["return"]
    assert {"plan", "problems", "before", "after", "restore_point"} <= set(returned)


@pytest.mark.core
@pytest.mark.parametrize("name", repo.matching("playbooks/", suffix=".yml"))
def test_playbook_syntax(name: str) -> None:
    """ansible-core of this environment reads the playbook: every module, role and keyword is known to it."""
    argv = (str(Path(sys.executable).parent / "ansible-playbook"), "--syntax-check", "-i", "localhost,", name)
    env = dict(os.environ, ANSIBLE_COLLECTIONS_PATH=str(repo.ROOT / ".dev"), ANSIBLE_NOCOLOR="1")
    done = subprocess.run(argv, cwd=repo.ROOT, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
