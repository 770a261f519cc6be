# SPDX-License-Identifier: GPL-3.0-or-later
"""No answer of a node goes round the gate: what runs remotely in our plays is an action of ours, and each module has a form."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml
from tests.lib.repo import matching, read_yaml, text

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.forms import FORMS
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import BUILTIN
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import NodeAction

# What Ansible does on the controller alone, with values that nothing is run, read or written with.
CONTROLLER = {"assert", "debug", "fail", "group_by", "import_playbook", "include_role", "include_tasks", "meta", "set_fact"}
MODULES = sorted(name.rpartition("/")[2].removesuffix(".py") for name in matching("plugins/modules/", suffix=".py"))
PLAYED = [name for name in matching("roles/", "playbooks/", suffix=".yml") if name.startswith("playbooks/") or "/tasks/" in name]
# Modules whose action plugin does everything itself and sends nothing of theirs to a node.
HERE = {"rdma_cluster", "rdma_consent", "rdma_guarded", "rdma_preflight", "rdma_switch"}
# Of these the documentation names what people read; the rest is for the next step of a role of ours.
STEPS = {"rdma_bench", "rdma_prefix", "rdma_ssh_mesh"}
WORDS = {
    "name", "when", "become", "register", "loop", "loop_control", "vars", "until", "retries", "delay", "changed_when", "failed_when",
    "no_log", "run_once", "any_errors_fatal", "check_mode", "delegate_to", "ignore_errors", "ignore_unreachable", "hosts", "gather_facts",
    "serial", "max_fail_percentage",
}  # fmt: skip


def tasks_of(items: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for item in items if isinstance(items, list) else []:
        if not isinstance(item, dict):
            continue
        parts = [key for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers") if key in item]
        for key in parts:
            found += tasks_of(item[key])
        if not parts and "roles" not in item:
            found.append(item)
    return found


@pytest.mark.parametrize("name", PLAYED)
def test_what_runs_on_a_node_is_an_action_of_ours(name: str) -> None:
    for task in tasks_of(yaml.safe_load(text(name))):
        for action in [key for key in task if key not in WORDS]:
            ours = action.removeprefix("railwright.rdma.")
            assert ours in MODULES or action.removeprefix("ansible.builtin.") in CONTROLLER, (name, task.get("name"), action)


@pytest.mark.parametrize("name", MODULES)
def test_every_module_has_an_action_that_begins_with_the_gate(name: str) -> None:
    action = importlib.import_module(f"ansible_collections.railwright.rdma.plugins.action.{name}").ActionModule
    assert issubclass(action, NodeAction)


@pytest.mark.parametrize("name", [name for name in MODULES if name not in HERE])
def test_a_form_names_what_the_documentation_names(name: str) -> None:
    """The documentation may name more: what the action plugin adds on the controller."""
    documented = set(read_yaml(f"plugins/modules/{name}.yml")["RETURN"])
    formed = {key.removesuffix("?") for form in FORMS[name].values() for key in form} - {"diff"}
    assert formed <= documented or name in STEPS
    assert set(FORMS) == set(MODULES) - HERE


def test_the_guard_takes_the_modules_that_have_a_form() -> None:
    choices = read_yaml("plugins/modules/rdma_guarded.yml")["DOCUMENTATION"]["options"]["module"]["choices"]
    assert choices == sorted(BUILTIN)
