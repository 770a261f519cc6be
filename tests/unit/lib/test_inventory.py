# SPDX-License-Identifier: GPL-3.0-or-later
"""Which group of the inventory a container of a scenario is in."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import cluster


def test_a_machine_that_is_not_managed_is_in_the_inventory_and_not_in_rdma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "site"
    (source / "group_vars").mkdir(parents=True)
    platforms = [{"name": "controller", "managed": False, "rails": 0}, {"name": "node1", "groups": ["login"]}]
    (source / "molecule.yml").write_text(yaml.safe_dump({"platforms": platforms}), encoding="utf-8")
    monkeypatch.setattr(cluster, "SCENARIOS", tmp_path)
    made = cluster.Cluster("site")
    made.inventory = tmp_path / "inventory"
    made.inventory.mkdir()
    made.write_inventory({"controller": "192.0.2.11", "node1": "192.0.2.12"})
    groups = yaml.safe_load((made.inventory / "hosts.yml").read_text(encoding="utf-8"))["all"]["children"]
    assert {name: sorted(group["hosts"]) for name, group in groups.items()} == {
        "rdma": ["node1"], "others": ["controller"], "login": ["node1"]}
    assert groups["others"]["hosts"]["controller"]["ansible_host"] == "192.0.2.11"
