# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of what only several nodes show: one edit of the third of three nodes that are alike."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures.node_stacks import NVIDIA, UBUNTU_KERNEL

from .edits import Difference, Edit, all_of, port, put, replace, together
from .rows_ports import EIGHT, gids, mtu


def renamed(before: str, after: str) -> Edit:
    """Another kernel of the same files."""

    def edit(root: Path) -> None:
        put("proc/sys/kernel/osrelease", after + "\n")(root)
        for place in ("lib/modules", "boot"):
            for path in (root / place).glob(f"*{before}"):
                path.rename(path.with_name(path.name.replace(before, after)))

    return edit


def of_all(**files: str) -> Edit:
    return all_of(lambda hca: port(hca, **files), EIGHT)


def device(hca: str, **files: str) -> Edit:
    return together(*(put(f"sys/class/infiniband/{hca}/{name}", text + "\n") for name, text in files.items()))


def address_of(hca: str, end: str, begin: str = "0000:0000:0000:0000:0000:ffff:") -> Edit:
    """Another address in the GID table of a port."""
    return together(*(put(f"sys/class/infiniband/{hca}/ports/1/gids/{index}", f"{begin}{end}\n") for index in (2, 3)))


OTHER_STACK = replace("var/lib/dpkg/status", "3.2.2-035000", "3.1.0-091000")
OTHER_DRIVER = together(replace("proc/driver/nvidia/version", NVIDIA, "570.195.03"), put("sys/module/nvidia/version", "570.195.03\n"))
CLUSTERS = (
    Difference("h200-roce", "another release of the stack", OTHER_STACK, "cluster.stack", "fail", "doca 3.1.0"),
    Difference("h100-ib", "another release of the stack", OTHER_STACK, "cluster.stack", "fail", "doca 3.1.0"),
    Difference("b200-roce", "another kernel", renamed(UBUNTU_KERNEL, "6.11.0-29-generic"), "cluster.kernel", "fail", "6.11.0-29"),
    Difference("bond", "another kernel", renamed("5.14.0-570.12.1.el9_6.x86_64", "5.14.0-503.11.1.el9_5.x86_64"), "cluster.kernel", "warn",
               "5.14.0-503"),
    Difference("h200-roce", "another GPU driver", OTHER_DRIVER, "cluster.gpu_driver", "fail", "570.195.03"),
    Difference("l40s-roce", "another GPU driver", OTHER_DRIVER, "cluster.gpu_driver", "fail", "570.195.03"),
    Difference("b200-roce", "MTUs of 1500", together(*(mtu(rail, 1500, 1024) for rail in range(8))), "cluster.mtu", "fail", "1500"),
    Difference("ipv6-only", "one MTU of 4200", mtu(3, 4200, 2048), "cluster.mtu", "fail", "4200"),
    Difference("b200-roce", "path MTUs of 1024", together(*(mtu(rail, 1500, 1024) for rail in range(8))), "cluster.active_mtu", "fail",
               "1024"),
    Difference("h100-ib", "one path MTU below the other nodes'", mtu(3, 4092, 2048), "cluster.active_mtu", "fail", "2048"),
    Difference("h200-roce", "all ports of a node at half of the rate", of_all(rate="200 Gb/sec (4X HDR)"), "cluster.rate", "fail", "200"),
    Difference("a100-roce", "all ports at half of the rate", of_all(rate="100 Gb/sec (2X HDR)"), "cluster.rate", "fail", "100"),
    Difference("h100-ib", "all ports set to Ethernet", of_all(link_layer="Ethernet"), "cluster.link_layer", "fail", "Ethernet"),
    Difference("h200-roce", "one port set to InfiniBand", port("mlx5_2", link_layer="InfiniBand"), "cluster.link_layer", "fail",
               "InfiniBand"),
    Difference("h200-roce", "HCAs of another type", all_of(lambda hca: device(hca, hca_type="MT4131"), EIGHT), "cluster.hca_type", "fail",
               "MT4131"),
    Difference("h100-ib", "one HCA of another type", device("mlx5_6", hca_type="MT4123"), "cluster.hca_type", "fail", "MT4123"),
    Difference("h100-ib", "another firmware on all HCAs", all_of(lambda hca: device(hca, fw_ver="28.39.1002"), EIGHT), "cluster.fw_ver",
               "fail",
               "28.39.1002"),
    Difference("gb200-roce", "another firmware on one HCA", device("mlx5_1", fw_ver="28.39.1002"), "cluster.fw_ver", "fail", "28.39.1002"),
    Difference("h200-roce", "the rails' GIDs of RoCE v2 are gone", all_of(lambda rail: gids(int(rail), 3), list("01234567")),
               "cluster.gid", "fail",
               "none here"),
    Difference("gb200-roce", "a rail's GID of RoCE v2 is gone", gids(1, 3), "cluster.gid", "fail", "none here"),
    Difference("h200-roce", "a cloned HCA: the GUID of another node", device("mlx5_4", node_guid="b8ce:f602:0000:3004"),
               "cluster.node_guid",
               "fail", "b8ce:f602:0000:3004"),
    Difference("h100-ib", "a cloned HCA: the GUID of another node", device("mlx5_0", node_guid="b8ce:f602:0000:3000"), "cluster.node_guid",
               "fail", "b8ce:f602:0000:3000"),
    Difference("h200-roce", "an address of another node", address_of("mlx5_3", "0a0a:0329"), "cluster.address", "fail", "10.10.3.41"),
    Difference("ipv6-only", "an address of another node", address_of("mlx5_2", "0041", "fd00:0010:0002:0000:0000:0000:0000:"),
               "cluster.address",
               "fail", "fd00:10:2::41"),
    Difference("erdma", "another mode of eRDMA", put("sys/module/erdma/parameters/compat_mode", "N\n"), "erdma.mode", "fail",
               "cannot talk"),
)
