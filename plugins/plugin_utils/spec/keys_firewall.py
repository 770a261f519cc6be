# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for the host's firewall. ``schema.py`` joins them."""

from __future__ import annotations

from .key import Key

FIREWALL = (
    Key("firewall_manage", "firewall", "bool", True,
        "Where a firewall runs and stops the cluster's nodes, they are let in: all TCP on the bootstrap interface, and UDP 4791 on the "
        "rails with soft_roce. false: nothing is changed, only judged.",
        "NCCL (src/misc/socket.cc: ports that the kernel hands out); choice: nothing more is opened"),
    Key("firewall_backend", "firewall", "str", "auto",
        "Which firewall is told: auto is every one whose rules stop the cluster's nodes. Another name is that one alone, and what "
        "another one stops is refused.", "firewalld, ufw and nftables are what the supported systems ship",
        choices=("auto", "nftables", "firewalld", "ufw")),
    Key("firewall_peers", "firewall", "list", [],
        "Who is let in, as addresses or networks. Empty: the addresses of all nodes of group rdma that the inventory knows: ansible_host "
        "where it is an IP address, rdma_rails[].address, ssh_mesh_addresses.",
        "choice: the addresses of the cluster's nodes and nothing more", elements="str", pattern=r"^[0-9a-fA-F.:]+(/[0-9]{1,3})?$",
        form="a list of IP addresses and networks, like 192.0.2.0/24", example=["192.0.2.0/24"]),
)

FIREWALL_ROLES = ("firewall",)
FIREWALL_KEYS = FIREWALL
