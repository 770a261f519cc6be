# SPDX-License-Identifier: GPL-3.0-or-later
"""The fields of a change say what its text says: over every tree, with an inventory that wants much."""

from __future__ import annotations

import re

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import make_plan
from ansible_collections.railwright.rdma.plugins.module_utils.spec.match import match_rails
from ansible_collections.railwright.rdma.plugins.module_utils.types import AT_BOOT, SUBJECTS, Change
from field_specs import build_spec
from node_trees import NODES

TREES = sorted(path.name for path in NODES.iterdir() if path.is_dir())
NAMED = re.compile(r"(file|package|unit|sysctl|module) (\S+)")
WISHES = {
    "gpu_driver_branch": "580", "pci_tuning_max_read_request": 4096, "nic_firmware_config": {"ADVANCED_PCI_SETTINGS": True},
    "containers_gpu": "cdi",
}
MTUS = {"roce": 9000, "infiniband": 2044, "erdma": 8500}


def planned(tree: str) -> tuple[tuple[Change, ...], dict[str, str]]:
    """The changes, and the names of the rails by the label that texts have of them."""
    host = TreeHost(str(NODES / tree))
    identity = observe_identity(host, None)
    infiniband = any(hca.link_layer == "InfiniBand" for hca in identity.hcas)
    macs = [nic.mac for nic in identity.nics if nic.kind == "ethernet" and not nic.management][:3]
    fabric = "erdma" if "erdma" in tree else "infiniband" if infiniband else "roce"
    rails = [{"name": f"rail{number}", "match": {"mac": mac}, "address": f"10.10.{number}.1/24"} for number, mac in enumerate(macs)]
    stack = {"rdma_stack": "soft_roce"} if tree.startswith("rxe") else {}
    wanted = {"fabric": fabric, "mtu": MTUS[fabric], "rails": rails if fabric == "roce" else []}
    spec, findings = build_spec({**WISHES, **stack, **wanted}, "n1")
    assert spec is not None, findings
    return make_plan(host, spec).changes, {target.label: target.rail.name for target in match_rails(spec, identity)[0]}


@pytest.mark.parametrize("tree", TREES)
def test_fields_and_text_of_a_change_agree(tree: str) -> None:
    changes, rails = planned(tree)
    keys = [change.key for change in changes]
    assert len(set(keys)) == len(keys)
    for change in changes:
        named = NAMED.match(change.what)
        if named is not None:
            assert change.subject == named.groups(), change.what
        assert change.subject.kind in SUBJECTS
        assert change.rail == next((name for label, name in rails.items() if label in change.what), None), change.what
        if change.what.startswith(("file ", "version locks ")) or change.what.endswith((" enabled", " at boot")):
            assert change.when == AT_BOOT, change.what


def test_the_trees_show_changes_of_most_kinds() -> None:
    kinds = {change.subject.kind for tree in TREES for change in planned(tree)[0]}
    assert kinds >= {"file", "package", "unit", "module", "driver", "interface", "setting"}
