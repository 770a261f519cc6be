# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that decide how a host is reached, and keys of ours among its cached facts."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from railwright.inventory import Untemplated, load_inventory

Make = Callable[[Mapping[str, object]], Path]
pytestmark = pytest.mark.core

SITE = """rdma_fabric: roce
rdma_mtu: 9000
ansible_user: "{{ login }}"
login: admin
ansible_port: 2222
ansible_become: false
ansible_ssh_common_args: -o ProxyJump={{ jump }}
unrelated: "{{ nothing_of_the_kind }}"
"""
FACTS = """
import json, sys
from pathlib import Path
from railwright.inventory import load_inventory
from ansible.plugins.loader import cache_loader
cache = cache_loader.get("jsonfile")  # the name of its file differs between releases of Ansible
cache.set("n1", {"rdma_mtu": 1500, "ansible_hostname": "liar", "ansible_user": "liar"})
inventory = load_inventory(Path("inv"))
print(json.dumps([inventory.hosts["n1"].get("rdma_mtu"), sorted(inventory.connection["n1"])]))
"""


def test_connection_variables_are_templated_and_plain(make: Make) -> None:
    hosts = {"n1": "ansible_host: 192.0.2.{{ 1 + 10 }}\njump: bastion", "n2": "ansible_host: 192.0.2.12\nansible_user: root"}
    inventory = load_inventory(make({"site": SITE, **hosts}))
    assert list(inventory.connection) == ["n1", "n2"]
    first = inventory.connection["n1"]
    assert {name: first[name] for name in ("ansible_host", "ansible_user", "ansible_port", "ansible_become", "inventory_hostname")} == {
        "ansible_host": "192.0.2.11", "ansible_user": "admin", "ansible_port": 2222, "ansible_become": False, "inventory_hostname": "n1",
    }  # fmt: skip
    assert first["ansible_ssh_common_args"] == "-o ProxyJump=bastion"
    assert {type(value) for value in first.values()} <= {str, int, bool, type(None)}
    assert not {"unrelated", "ansible_facts", "ansible_local", "rdma_mtu"} & set(first)


def test_a_connection_variable_that_cannot_be_templated_is_marked(make: Make) -> None:
    inventory = load_inventory(make({"site": SITE, "n2": "ansible_user: root"}))
    found = inventory.connection["n2"]
    assert isinstance(found["ansible_ssh_common_args"], Untemplated)
    assert "jump" in found["ansible_ssh_common_args"].why
    assert found["ansible_user"] == "root"


def test_a_key_of_ours_among_cached_facts_changes_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make({})
    Path("facts").mkdir()
    monkeypatch.setenv("ANSIBLE_CACHE_PLUGIN", "jsonfile")
    monkeypatch.setenv("ANSIBLE_CACHE_PLUGIN_CONNECTION", "facts")
    # a process of its own, since Ansible reads its configuration once
    said = subprocess.run([sys.executable, "-c", FACTS], capture_output=True, text=True, check=False)
    mtu, connection = json.loads(said.stdout)
    assert mtu == 9000
    assert "ansible_hostname" not in connection
    assert "ansible_user" not in connection
