# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of the host's side of lossless RoCE: what a Spec holds of them, and what only warns."""

from __future__ import annotations

from typing import Any

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec

BUFFERS = {"bytes": ["130944", 130944, 0, 0, 0, 0, 0, 0], "priorities": [0, 0, 0, 1, 0, 0, 0, 0]}


def built(**values: Any) -> tuple[Any, list[str]]:
    spec, findings = build_spec({"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": [], **values}, "node")
    return spec, [f"{finding.severity} {finding.key}" for finding in findings]


def test_the_host_is_set_by_default_and_buffers_are_the_firmwares() -> None:
    spec, findings = built()
    assert findings == []
    assert [spec["roce_qos_" + name] for name in ("manage", "backend", "dcbx", "buffers", "force_tc")] == [True, "auto", "host", {}, False]


def test_buffers_are_integers_whatever_a_template_made_of_them() -> None:
    spec, findings = built(roce_qos_buffers=BUFFERS)
    assert findings == []
    assert spec["roce_qos_buffers"]["bytes"] == [130944, 130944, 0, 0, 0, 0, 0, 0]


def test_a_forced_class_on_a_driver_that_has_no_override_warns() -> None:
    assert built(roce_qos_force_tc=True, rdma_stack="inbox")[1] == ["warning roce_qos_force_tc"]
    assert built(roce_qos_force_tc=True, rdma_stack="soft_roce")[1] == ["warning roce_qos_force_tc"]
    assert built(roce_qos_force_tc=True, rdma_stack="doca")[1] == []
    assert built(roce_qos_force_tc=True, rdma_stack="auto")[1] == []


def test_lossless_priorities_share_a_buffer_with_lossless_ones_only() -> None:
    custom = {"tc": 106, "lossless": [3, 4]}
    places = [0, 0, 0, 1, 1, 0, 0, 0]
    buffers = {"bytes": BUFFERS["bytes"], "priorities": places}
    assert built(rdma_qos_profile="custom", rdma_qos_custom=custom, roce_qos_buffers=buffers)[1] == []
    assert built(roce_qos_buffers=buffers)[1] == ["error roce_qos_buffers.priorities[3]"]
