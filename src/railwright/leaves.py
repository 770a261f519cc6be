# SPDX-License-Identifier: GPL-3.0-or-later
"""Which leaf switch each rail is on, as the inventory says it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster.cabling import planned_ends
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.groups import leaf_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.cross_host import site_value

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec


def leaf_name(spec: "Spec", group: str, rail: str) -> str:
    """Of a group of rdma_leaves: one switch for all rails, or one for each."""
    return f"{group} {rail}" if spec["leaf_per_rail"] else group


def leaf_of_rails(specs: "Mapping[str, Spec]", groups: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Node -> rail -> its leaf, by rdma_cabling or else rdma_leaves; '' where the inventory does not say."""
    found: dict[str, dict[str, str]] = {}
    group_of = leaf_of(site_value(specs.values(), "leaves"), groups) if specs else {}
    for name, spec in specs.items():
        group, plan = group_of.get(name, ""), planned_ends(spec["cabling"])
        found[name] = {rail.name: plan[rail.name].switch if rail.name in plan else group and leaf_name(spec, group, rail.name)
                       for rail in spec.rails}  # fmt: skip
    return found
