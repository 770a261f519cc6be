# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema for editors: it takes every inventory that lint takes, marks what lint refuses, and Ansible does not read it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS
from railwright.cli.main import run
from railwright.init.editor import FILE, inventory_schema

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted(ROOT.glob("inventories/*/**/*.yml"))


@cache
def judge() -> Any:
    from jsonschema import Draft7Validator  # not in the second environment

    return Draft7Validator(inventory_schema())


def faults(document: Any) -> list[str]:
    return [error.message for error in judge().iter_errors(document)]


@pytest.mark.parametrize("file", EXAMPLES, ids=[str(file.relative_to(ROOT)) for file in EXAMPLES])
def test_the_examples_have_no_fault(file: Path) -> None:
    assert faults(yaml.safe_load(file.read_text(encoding="utf-8"))) == []


def test_defaults_examples_and_templates_are_taken() -> None:
    for pick in ("default", "example"):
        assert faults({key.name: getattr(key, pick) for key in KEYS if getattr(key, pick) is not None}) == []
    for text in ("{{ of_the_rack }}", "$ANSIBLE_VAULT;1.1;AES256\n6132"):
        assert faults({key.name: text for key in KEYS}) == []


@pytest.mark.parametrize("values", [
    {"rdma_mtu": "many"}, {"rdma_mtu": 5}, {"rdma_fabric": "token ring"}, {"rdma_fabrik": "roce"}, {"rdma_rails": {"name": "x"}},
    {"rdma_consent": ["everything"]}, {"network_manage_addresses": "perhaps"}])
def test_what_lint_refuses_is_marked_wherever_it_stands(values: dict[str, Any]) -> None:
    for document in (values, {"all": {"vars": values}}, {"all": {"children": {"rdma": {"hosts": {"node1": values}}}}},
                     {"all": {"children": {"rdma": {"children": {"rack1": {"vars": values}}}}}}):
        assert faults(document)


def test_variables_of_others_are_let_be() -> None:
    assert faults({"all": {"vars": {"ansible_user": "root", "my_key": [1]}, "hosts": {"node1": None}}}) == []


def test_init_writes_it_and_ansible_does_not_read_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", str(tmp_path / "site"), "--fabric", "roce"]) == 0
    schema = json.loads((tmp_path / "site" / FILE).read_text(encoding="utf-8"))
    assert schema == json.loads(json.dumps(inventory_schema()))
    for name, path in (("hosts.yml", FILE), ("group_vars/all/site.yml", f"../../{FILE}")):
        first = (tmp_path / "site" / name).read_text(encoding="utf-8").split("\n")[0]
        assert first == f"# yaml-language-server: $schema={path}"
        assert ((tmp_path / "site" / name).parent / path).is_file()
    capsys.readouterr()
    assert run(["explain", "host", "node1", "-i", str(tmp_path / "site"), "--format", "json"]) == 0
    assert "$schema" not in capsys.readouterr().out
