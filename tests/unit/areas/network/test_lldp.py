# SPDX-License-Identifier: GPL-3.0-or-later
"""lldpd on the rails: its file, its unit, its package; tests/containers/test_cabling.py has the daemon itself read the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.network import lldp
from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack.packages import wanted_packages
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec
from node_trees import NODES


def planned(tree: Path, **values: Any) -> tuple[lldp.Desired, list[Any], list[Any], list[str]]:
    host = TreeHost(str(tree))
    identity = observe_identity(host)
    rails = [{"name": f"rail{at}", "match": {"pci": hca.pci}} for at, hca in enumerate(identity.hcas[:2])]
    spec, _found = build_spec({"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": rails, **values}, "n1")
    assert spec is not None
    desired = lldp.desired(spec, identity)
    packages = [row.name for row in wanted_packages(spec, identity)]
    return desired, lldp.plan(desired, lldp.observe(host, desired)), lldp.problems(spec, identity, desired), packages


def test_off_it_is_left_as_it_is() -> None:
    desired, changes, _problems, packages = planned(NODES / "roce8-bond")
    assert (desired.enabled, changes) == (False, [])
    assert lldp.PACKAGE not in packages


def test_on_it_hears_the_rails_and_nothing_else() -> None:
    desired, changes, problems, packages = planned(NODES / "roce8-bond", network_lldp=True)
    assert len(desired.interfaces) == 2
    assert [change.what for change in changes][1:] == ["unit lldpd.service enabled", "unit lldpd.service running"]
    names = ",".join(desired.interfaces)
    assert lldp.text_of(desired.interfaces).splitlines()[-2:] == [
        f"configure system interface pattern {names}", f"configure ports {names} lldp status rx-only"]
    assert {change.disruption for change in changes} == {"none"}
    assert problems == []
    assert lldp.PACKAGE in packages


@pytest.mark.parametrize("fabric", ["infiniband", "erdma"])
def test_other_fabrics_have_none(fabric: str) -> None:
    _desired, _changes, problems, _packages = planned(NODES / "roce8-bond", network_lldp=True, rdma_fabric=fabric, rdma_mtu=4092 if
                                                      fabric == "infiniband" else 1400)
    assert [item.subject for item in problems] == ["network_lldp"]
