# SPDX-License-Identifier: GPL-3.0-or-later
"""Every inventory that we ship lints without a word, and the two that stand for documents say what those say."""


import pytest

from railwright.inventory import load_inventory
from railwright.lint import build_specs, lint
from repo import ROOT

INVENTORIES = ROOT / "inventories"
NAMES = sorted(path.name for path in INVENTORIES.iterdir() if (path / "hosts.yml").is_file())


def test_the_documents_have_theirs() -> None:
    assert {"alibaba-erdma", "scnet"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_no_findings(name: str) -> None:
    assert [str(finding) for finding in lint(INVENTORIES / name)] == []


def test_the_walkthroughs_nodes_have_two_erdma_devices_each() -> None:
    specs = build_specs(load_inventory(INVENTORIES / "alibaba-erdma", None))[0]
    assert {name: len(spec.rails) for name, spec in specs.items()} == {"node1": 2, "node2": 2}
    for spec in specs.values():
        assert (spec.fabric, spec["nccl_profile"], spec["qos_profile"]) == ("erdma", "erdma-native", "none")
        assert (spec.mtu, spec["erdma_instance_type"]) == (1400, "ecs.ebmgn7ex.32xlarge")
        assert spec["erdma_repository_fingerprint"] is None, "nobody here has read it"


def test_scnet_marks_what_its_switches_carry() -> None:
    for spec in build_specs(load_inventory(INVENTORIES / "scnet", None))[0].values():
        assert (spec["nccl_profile"], spec["qos_profile"], spec.rdma_stack) == ("scnet", "scnet-dscp34-prio4", "inbox")
