# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory for each base tree, which ``validate`` and ``drift`` hold a row of the table against (fields of the Spec).

Files of the plan are written to the trees (``settle``); commands and packages are not, so some of ``config.*`` fails on each base: a row
needs a verdict that its base does not have.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.fixtures import node_qos

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos_boot import enable_link
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import make_plan
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from field_specs import build_spec

from .edits import link, put
from .trees import NICS, TOPOLOGY

Fields = dict[str, Any]
NOW = 1_795_900_000.0


def rails(matches: list[tuple[str, str]], addresses: list[str]) -> list[Fields]:
    """A rail for each match; without addresses where there are none."""
    own = [{"address": address} for address in addresses] or [{}] * len(matches)
    return [{"name": f"rail{rail}", "match": dict([match]), **own[rail]} for rail, match in enumerate(matches)]


def by_pci(addresses: tuple[str, ...] = NICS, form: str = "10.10.{}.11/24") -> list[Fields]:
    return rails([("pci", address) for address in addresses], [form.format(rail) for rail in range(len(addresses))] if form else [])


ROCE: Fields = {
    "fabric": "roce", "mtu": 9000, "rdma_stack": "doca", "qos_profile": "none", "rails": by_pci(),
    "expect": {"hcas": 8, "gpus": 8, "rate_gbps": 400, "active_mtu": 4096, "fw_ver": "28.47.1080", "hca_type": "MT4129",
               "gpu_driver": "580"},
}


def expecting(base: Fields, rate: int, **more: Any) -> Fields:
    return {**base, "expect": {**base["expect"], "rate_gbps": rate}, **more}


INVENTORIES: dict[str, Fields] = {
    "h200-roce": ROCE,
    "h200-nvlink": ROCE,
    "b200-roce": ROCE,
    "vm": {**ROCE, "nccl_overrides": {"NCCL_TOPO_FILE": TOPOLOGY}, "rails": rails(
        [("mac", f"b8:ce:f6:00:30:{rail:02x}") for rail in range(8)], [f"10.10.{rail}.11/24" for rail in range(8)])},
    "h100-ib": {**ROCE, "fabric": "infiniband", "mtu": 4092, "rails": by_pci(form="")},
    "a100-roce": expecting(ROCE, 200),
    "l40s-roce": expecting(ROCE, 100),
    "ipv6-only": {**ROCE, "rails": by_pci(form="fd00:10:{:x}::11/64")},
    "gb200-roce": {**ROCE, "rails": by_pci(NICS[:4]), "expect": {**ROCE["expect"], "hcas": 4, "gpus": 4}},
    "bond": {"fabric": "roce", "rdma_stack": "inbox", "mtu": 9000, "qos_profile": "none", "expect": {"hcas": 8, "rate_gbps": 400},
             "rails": by_pci(tuple(f"0000:{30 + rail}:00.0" for rail in range(7)))},
    "erdma": {"fabric": "erdma", "mtu": 1400, "expect": {"hcas": 2}, "rails": rails(
        [("mac", f"00:16:3e:11:22:0{number}") for number in (1, 2)], ["172.16.0.11/16", "172.16.1.11/16"])},
    "soft-roce": {"fabric": "roce", "rdma_stack": "soft_roce", "mtu": 9000, "qos_profile": "none", "expect": {"hcas": 1},
                  "firewall_peers": ["10.10.0.0/24"], "bootstrap_interface": "eth0",
                  "rails": rails([("mac", "52:54:00:bb:00:01")], ["10.10.0.11/24"])},
    "lossless": {"fabric": "roce", "rdma_stack": "inbox", "mtu": 9000, "qos_profile": QOS_PROFILES[0].name, "expect": {"hcas": 1},
                 "bootstrap_interface": node_qos.NETDEV, "rails": rails([("mac", node_qos.MAC)], ["10.10.0.11/24"])},
}


@cache
def spec_of(tree: str) -> Spec:
    return spec_with(tree, {})


def spec_with(tree: str, more: Fields) -> Spec:
    """The tree's inventory with other values; those of ``expect`` are added to its own."""
    fields = {**INVENTORIES[tree], **more}
    if "expect" in more:
        fields["expect"] = {**INVENTORIES[tree]["expect"], **more["expect"]}
    spec, findings = build_spec(fields, "node")
    assert spec is not None, findings
    return spec


def settle(root: Path, tree: str) -> Path:
    """Write the files of the tree's plan, and the state of its units: what an apply leaves, without its other commands and packages."""
    put("cmd/nft_-j_list_ruleset", '{"nftables": []}')(root)
    plan = make_plan(TreeHost(str(root)), spec_of(tree), None, None, NOW)
    for op in (op for change in plan.changes for op in change.ops):
        if op.kind == "write":
            put(op.path[1:], op.content)(root)
            (root / op.path[1:]).chmod(op.mode)
        elif op.argv[:2] == ("systemctl", "enable"):
            name, at, instance = op.argv[2].partition("@")
            place = enable_link(instance.partition(".")[0])[1:] if at else f"etc/systemd/system/multi-user.target.wants/{name}"
            link(place, f"etc/systemd/system/{name}{'@.service' if at else ''}")(root)
            put(f"cmd/systemctl_show_-p_ActiveState,Result_{op.argv[2]}", "ActiveState=active\nResult=success\n")(root)
        elif op.argv[:2] == ("systemctl", "start"):
            put(f"cmd/systemctl_is-active_{op.argv[2]}", "active\n")(root)
    return root
