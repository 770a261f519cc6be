# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of a node's facts and of its rails: docs/reference/facts.md as what the controller reads out of them."""

from __future__ import annotations

from typing import Any

from .form import DATA, Either, Map, Text

NAME = Text(r"[A-Za-z0-9][A-Za-z0-9_.:@-]*", "a name of letters, digits and _ . : @ -", 128)
ADDRESS = Text(r"[0-9A-Fa-f:.]{2,45}", "an IP address without a zone")


def maybe(form: Any) -> Either:
    return Either(form, None)


TEXT, NUMBER, WHOLE, YES = maybe(str), maybe(float), maybe(int), maybe(bool)
OBJECT, OBJECTS = maybe(Map(DATA)), maybe([Map(DATA)])

PORT = {
    "number": int, "state": TEXT, "phys_state": TEXT, "rate_gbps": NUMBER, "link_layer": TEXT, "lid": WHOLE, "lmc": WHOLE, "sm_lid": WHOLE,
    "cap_mask": TEXT, "port_guid": TEXT, "active_mtu": WHOLE, "netdev": TEXT, "netdev_mtu": WHOLE,
    "gids": maybe([{"index": int, "gid": str, "type": TEXT, "netdev": TEXT}]), "counters": Map(WHOLE), "hw_counters": Map(WHOLE),
}
HCA = {
    "name": str, "node_type": TEXT, "node_guid": TEXT, "sys_image_guid": TEXT, "board_id": TEXT, "fw_ver": TEXT, "hw_rev": TEXT,
    "hca_type": TEXT, "pci_address": TEXT, "vendor_id": TEXT, "device_id": TEXT, "numa_node": WHOLE, "driver": TEXT, "ports": [PORT],
    "link?": OBJECT, "firmware?": OBJECT,
}
NETDEV = {
    "name": str, "mac": TEXT, "pci_address": TEXT, "driver": TEXT, "kind": str, "management": bool, "mtu": WHOLE, "operstate": TEXT,
    "speed_mbps": WHOLE, "addresses": maybe([str]),
}
QOS_NIC = {
    "hca": str, "port": int, "netdev": str, "driver": TEXT, "trust": DATA, "pfc": DATA, "dscp_priority": DATA, "ets": DATA, "buffers": DATA,
    "dcbx": DATA, "ecn": DATA, "cnp": DATA, "rdma_cm": DATA, "forced_tc": DATA, "sources": DATA, "missing": DATA, "boot?": DATA,
}
FACTS = {
    "schema": int, "hostname": TEXT, "virtual": TEXT, "os": Map(TEXT), "kernel": TEXT, "arch": TEXT, "boot": OBJECT,
    "stack": {"name": TEXT, "version": TEXT, "source": TEXT, "modules": OBJECT, "half_installed": maybe([str])},
    "dkms": OBJECTS, "storage": OBJECTS, "hcas": [HCA], "netdevs": [NETDEV], "qos": {"lldpad": DATA, "nics": [QOS_NIC]}, "firewall": OBJECT,
    "modules": maybe(Map(Map(DATA))), "gpus": [Map(DATA)], "pci": OBJECT, "gpu_driver": OBJECT, "gpudirect": OBJECT, "limits": OBJECT,
    "nccl": OBJECT, "aiacc": OBJECT, "nccl_libraries": OBJECTS, "packages": maybe(Map(str)), "erdma": OBJECT,
}
RAIL = {
    "name": NAME, "label": str, "address": maybe(ADDRESS), "mtu": int, "netdev": maybe(NAME), "hca": maybe(NAME), "port": WHOLE,
    "gid_index": WHOLE, "gid_needed": bool, "rdma_cm?": bool, "exchange?": maybe(ADDRESS),
}
