# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for what an eRDMA node is bought as, and for its place in the routing table. ``keys_erdma.py`` joins them."""

from __future__ import annotations

from .key import Key

ERDMA_INSTANCE = (
    Key("erdma_instance_type", "erdma", "str", None,
        "ECS instance type of the node, such as ecs.ebmgn7ex.32xlarge. It says how many eRDMA devices there must be, whether MTU 8500 is "
        "possible, and what bandwidth validate and bench expect, as far as the catalogue knows the type. Unset: rdma_expect.hcas and the "
        "thresholds say it, or nothing is judged; the rate in sysfs is 100 Gb/sec on every type.",
        "docs/erdma-instances.md", pattern=r"^ecs\.[a-z][a-z0-9-]*\.[a-z0-9]+$",
        form="the name of an ECS instance type, like ecs.ebmgn7ex.32xlarge"),  # no example: commented in, it would be wrong elsewhere
    Key("erdma_route_metric", "erdma", "int", 200,
        "Metric of the route to a rail's own subnet, now and after a reboot. A second network interface in the subnet of the first would "
        "otherwise carry that one's traffic. A rail with a metric has a routing table of its own, also where it is the only one. 0: "
        "whatever the network manager gives it. Of the interface that the controller comes in by the metric is left as it is.",
        "ERC (internal/drivers/netdev.go: 200, and never below what is there)", minimum=0, maximum=4294967295),
)
