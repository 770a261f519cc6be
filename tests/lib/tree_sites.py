# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories that fit some of the written trees, with most that a node can be expected to have."""

from __future__ import annotations

from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from field_specs import build_spec

RAILS = {tree: [{"name": f"rail{index}", "match": match, "address": address} for index, (match, address) in enumerate(rows)]
         for tree, rows in {
             "ib8": [({"guid": f"b8ce:f603:00ab:{index:04x}"}, f"10.1.{index}.11/24") for index in (0, 1)],
             "erdma2": [({"mac": f"00:16:3e:11:22:0{index}"}, f"172.16.{index - 1}.11/24") for index in (1, 2)],
             "rxe": [({"mac": "52:54:00:bb:00:01"}, "10.10.0.11/24")],
             "doca8": [({"pci": f"0000:{0x13 + 0x18 * index:02x}:00.0"}, f"10.1.{index}.11/24") for index in (0, 1)],
             "erdma-gpu": [({"mac": "00:16:3e:11:22:01"}, "172.16.0.11/24")],
             "roce8-bond": [({"pci": f"0000:{30 + index}:00.0"}, f"10.10.{index}.11/24") for index in (0, 1)],
         }.items()}  # fmt: skip
SITES: dict[str, dict[str, Any]] = {
    "ib8": {"fabric": "infiniband", "mtu": 4092, "expect": {
        "rate_gbps": 400, "hcas": 8, "active_mtu": 4096, "fw_ver": "28.41.1000", "hca_type": "MT4129"}},
    "roce8-bond": {"fabric": "roce", "rdma_stack": "inbox", "mtu": 9000, "expect": {"rate_gbps": 100, "hcas": 8}},
    "doca8": {"fabric": "roce", "rdma_stack": "doca", "mtu": 9000, "expect": {"hcas": 8}, "gpu_driver_fabricmanager": None},
    "erdma-gpu": {"fabric": "erdma", "mtu": 1400},
    "erdma2": {"fabric": "erdma", "mtu": 1400, "expect": {"hcas": 2}},
    "rxe": {"fabric": "roce", "rdma_stack": "soft_roce", "mtu": 9000, "expect": {"hcas": 1}},
}


def spec_of(tree: str) -> Spec:
    spec, _findings = build_spec({**SITES[tree], "rails": RAILS[tree]}, "node")
    assert spec is not None
    return spec
