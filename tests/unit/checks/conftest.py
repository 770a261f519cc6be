# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy RoCE node with two rails, as Spec, Identity and facts; a test breaks one thing of it and inspects the verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_node, rail_views
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec, errors_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Hca, Identity, Nic, Platform, Verdict
from field_specs import build_spec

DEBIAN = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")


class Node:
    """Spec values, identity and facts of one node, each open to a test's hand."""

    def __init__(self, number: int = 1) -> None:
        self.name = f"node{number}"
        self.values: dict[str, Any] = {
            "fabric": "roce",
            "mtu": 9000,
            "rdma_stack": "inbox",
            "expect": {"rate_gbps": 400, "hcas": 2, "fw_ver": "28.41.1000", "hca_type": "MT4129", "active_mtu": 4096},
            "rails": [
                {"name": f"rail{index}", "match": {"mac": f"52:54:00:00:{index:02x}:{number:02x}"}, "address": f"10.10.{index}.{number}/24"}
                for index in range(2)
            ],
        }
        nics = tuple(
            Nic(f"eth{i + 1}", f"52:54:00:00:{i:02x}:{number:02x}", f"0000:{i + 1:02x}:00.0", "mlx5_core", "ethernet", False)
            for i in range(2)
        )
        hcas = tuple(
            Hca(
                f"mlx5_{i}",
                f"5054:00ff:fe00:{i:02x}{number:02x}",
                f"0000:{i + 1:02x}:00.0",
                "mlx5_core",
                (f"eth{i + 1}",),
                (1,),
                ("",),
                "Ethernet",
            )
            for i in range(2)
        )
        self.identity = Identity(self.name, DEBIAN, "6.1.0-28-amd64", "x86_64", "3.11.2", None, nics, hcas, ("systemd",))
        self.facts: dict[str, Any] = {
            "kernel": "6.1.0-28-amd64",
            "stack": {"name": "inbox", "version": "44.0-2", "source": "package rdma-core"},
            "limits": {"systemd_effective": {"memlock": "infinity", "nofile": 1048576}},
            "netdevs": [{"name": f"eth{i + 1}", "mtu": 9000, "addresses": [f"10.10.{i}.{number}/24", "fe80::1/64"]} for i in range(2)],
            "hcas": [self._hca(i, number) for i in range(2)],
            "nccl": {"conf": {"variables": {"NCCL_IB_TC": "106"}, "malformed_lines": []}, "profile_d": {}},
            "qos": {"lldpad": False, "nics": [self._qos(i) for i in range(2)]},
            "firewall": {"runs": [], "chains": [], "missing": None},
        }

    @staticmethod
    def _qos(index: int) -> dict[str, Any]:
        """A NIC whose chain is that of dscp26-prio3, the profile that a RoCE site has unless it says otherwise."""
        return {
            "hca": f"mlx5_{index}",
            "port": 1,
            "netdev": f"eth{index + 1}",
            "driver": "mlx5_core",
            "trust": "dscp",
            "pfc": [3],
            "dscp_priority": [[26, 3], [48, 6]],
            "ets": None,
            "buffers": None,
            "dcbx": "host",
            "ecn": {"np": [3], "rp": [3]},
            "cnp": {"dscp": 48, "priority": 6},
            "rdma_cm": {"mode": "RoCE v2", "tos": 106},
            "forced_tc": [],
            "sources": {},
            "missing": {},
            "boot": {
                "file": f"/etc/railwright/roce-qos/eth{index + 1}",
                "enabled": True,
                "unit": {"name": f"railwright-roce-qos@eth{index + 1}.service", "state": "active", "result": "success"},
                "profile": "dscp26-prio3",
                "differs": [],
            },
        }

    @staticmethod
    def _hca(index: int, number: int) -> dict[str, Any]:
        gid = f"0000:0000:0000:0000:0000:ffff:0a0a:{index:02x}{number:02x}"
        return {
            "name": f"mlx5_{index}",
            "node_guid": f"5054:00ff:fe00:{index:02x}{number:02x}",
            "fw_ver": "28.41.1000",
            "hca_type": "MT4129",
            "driver": "mlx5_core",
            "pci_address": f"0000:{index + 1:02x}:00.0",
            "vendor_id": "0x15b3",
            "device_id": "0x1021",
            "ports": [
                {
                    "number": 1,
                    "state": "ACTIVE",
                    "phys_state": "LinkUp",
                    "rate_gbps": 400.0,
                    "link_layer": "Ethernet",
                    "lid": 0,
                    "sm_lid": 0,
                    "active_mtu": 4096,
                    "netdev": f"eth{index + 1}",
                    "netdev_mtu": 9000,
                    "gids": [
                        {"index": 1, "gid": "fe80:0000:0000:0000:5054:00ff:fe00:0001", "type": "RoCE v2", "netdev": f"eth{index + 1}"},
                        {"index": 2, "gid": gid, "type": "IB/RoCE v1", "netdev": f"eth{index + 1}"},
                        {"index": 3, "gid": gid, "type": "RoCE v2", "netdev": f"eth{index + 1}"},
                    ],
                    "counters": {"symbol_error": 7, "link_downed": 3},
                    "hw_counters": {"out_of_sequence": 0},
                }
            ],
        }

    def port(self, index: int = 0) -> dict[str, Any]:
        port: dict[str, Any] = self.facts["hcas"][index]["ports"][0]
        return port

    @property
    def spec(self) -> Spec:
        spec, findings = build_spec(self.values, self.name)
        assert spec is not None, errors_of(findings)
        return spec

    def verdicts(self) -> list[Verdict]:
        return [item for _area, item in judge_node(inspection_of(self.name, self.spec, self.identity, self.facts))]

    def view(self) -> dict[str, Any]:
        """What rdma_check returns for this node, as far as the cluster's verdicts read it."""
        return {"facts": self.facts, "rails": rail_views(inspection_of(self.name, self.spec, self.identity, self.facts))}


@pytest.fixture
def make_node() -> Callable[[int], Node]:
    return Node


@pytest.fixture
def node() -> Node:
    return Node()
