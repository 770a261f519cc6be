# SPDX-License-Identifier: GPL-3.0-or-later
"""Every area plans every captured node, broken ones too: nothing crashes, and HCAs are named as the capture has them."""

from collections.abc import Callable

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl import environment
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import BY_NAME
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from node_trees import NODES

NAMES = sorted(path.name for path in NODES.iterdir() if path.is_dir())


@pytest.mark.parametrize("area", ["packages", "kernel_modules", "limits", "sysctl", "cpu", "nccl"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stack", ["inbox", "soft_roce"])
def test_every_area_plans_every_capture(name: str, stack: str, area: str, make_spec: Callable[..., Spec]) -> None:
    host = TreeHost(str(NODES / name))
    row = BY_NAME[area]
    identity = observe_identity(host)
    spec = make_spec(rdma_stack=stack)
    wanted = row.desired(spec, identity)
    observed = row.observe(host, wanted)
    changes = row.plan(wanted, observed)
    assert len({change.key for change in changes}) == len(changes)
    assert row.plan(wanted, row.observe(host, wanted)) == changes  # the same drift has the same plan
    row.problems(spec, identity, wanted)


def test_an_infiniband_node_lists_its_eight_hcas(make_spec: Callable[..., Spec]) -> None:
    host = TreeHost(str(NODES / "ib8"))
    identity = observe_identity(host)
    rails = [{"name": f"rail{i}", "match": {"guid": hca.node_guid}} for i, hca in enumerate(identity.hcas)]
    assert len(rails) >= 8
    spec = make_spec(fabric="infiniband", rdma_stack="inbox", mtu=2044, rails=rails)
    variables = dict(environment.desired(spec, identity).variables)
    assert variables["NCCL_IB_HCA"] == "=" + ",".join(f"{hca.name}:{hca.ports[0]}" for hca in identity.hcas)
    assert "NCCL_IB_TC" not in variables
