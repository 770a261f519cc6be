# SPDX-License-Identifier: GPL-3.0-or-later
"""Healthy nodes of four GPUs and four rails of which every tool and file answers that a check reads."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults import rows_gpu, rows_second, trees
from tests.fixtures.node_tree import Tree

COUNT = 4  # so many peers judge each other
MODULE = Path(__file__).with_name("ethtool_module.txt")
AER = {"correctable": "RxErr 0\nBadTLP 0\nTOTAL_ERR_COR 0\n", "nonfatal": "DLP 0\nTLP 0\nTOTAL_ERR_NONFATAL 0\n",
       "fatal": "DLP 0\nTLP 0\nTOTAL_ERR_FATAL 0\n"}
PS = "cmd/ps_-eo_pid=,stat=,wchan:32=,comm="
MOUNTS = "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n40 22 0:45 / /home rw,relatime shared:2 - nfs4 nas:/home rw,hard\n"
HEALTH = "<health>\n<summary>Healthy</summary>\n<bandwidth>Full</bandwidth>\n<route_unhealthy>False</route_unhealthy>\n"


def roce(directory: Path, count: int = COUNT) -> Path:
    """H200 and RoCE."""
    tree = trees.Opened(trees.h200_nvlink(directory, count))
    node(tree, count)
    text = (tree.root / "cmd/nvidia-smi_-q_-x").read_text()
    start, end = text.index("<health>"), text.index("</health>")
    tree.write("cmd/nvidia-smi_-q_-x", text.replace(text[start:end].rstrip(), HEALTH))
    for netdev in (f"ens{rail + 10}np0" for rail in range(count)):
        tree.write(f"cmd/ethtool_-m_{netdev}", MODULE.read_text().partition("\n")[2])
        tree.write(f"cmd/ethtool_-I_--show-fec_{netdev}",
                   f"FEC parameters for {netdev}:\nActive FEC encoding: RS\nStatistics:\n  uncorrectable_blocks: 0\n")
        tree.write(f"cmd/ethtool_{netdev}", f"Settings for {netdev}:\n\tSpeed: 400000Mb/s\n\tLanes: 4\n\tAuto-negotiation: on\n")
        tree.write(f"cmd/ethtool_-S_{netdev}", "NIC statistics:\n     tx_pause_storm_error_events: 0\n")
        tree.write(f"sys/class/net/{netdev}/carrier_down_count", "1\n")
    return tree.root


def infiniband(directory: Path) -> Path:
    """H100 and InfiniBand, with mlxlink."""
    tree = trees.Opened(trees.hgx(directory, trees.H100, layer="InfiniBand", count=COUNT))
    tree.write("proc/uptime", "864600.00 1.00\n")
    for rail in range(COUNT):
        rows_gpu.mlxlink(f"mlx5_{rail}")(tree.root)
        port = f"sys/class/infiniband/mlx5_{rail}/ports/1/counters"
        tree.files(port, (("link_error_recovery", "0"), ("local_link_integrity_errors", "0")))
    return tree.root


def bond(directory: Path) -> Path:
    """Two members of a bond with LACP."""
    root = trees.TREES["bond"](directory)
    rows_second.bond(rows_second.LACP)(root)
    return root


def node(tree: Tree, count: int) -> None:
    """What belongs to no port: the kernel's counters, the clock, processes, mounts, DCGM, NVLinks' errors, nvidia-fs."""
    tree.write("proc/uptime", "864600.00 1.00\n")
    tree.write("proc/sys/kernel/tainted", "12288\n")
    tree.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
    tree.write("etc/nccl.conf", "NCCL_IB_HCA=mlx5\n")
    tree.write("proc/stat", "btime 1790000000\n")
    for name in ("ce_count", "ue_count"):
        tree.write(f"sys/devices/system/edac/mc/mc0/{name}", "0\n")
    tree.write("cmd/timedatectl_show_-p_NTPSynchronized_--value", "yes\n")
    tree.write(PS, "      1 Ss   ep_poll                          systemd\n    900 Ssl  futex_wait_queue                 slurmd\n")
    tree.write("proc/self/mountinfo", MOUNTS)
    tree.write("cmd/stat_-f_-c_%n_--_-home", "/home\n")
    tree.write("cmd/dcgmi_health_-g_0_-c_-j", json.dumps({"body": {"Overall Health": {"value": "Healthy"}}}))
    tree.write("cmd/nvidia-smi_nvlink_-e", "".join(
        f"GPU {number}: NVIDIA H200 (UUID: GPU-00000000-0000-4000-8000-{number:012x})\n"
        "\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 0\n\t Link 0: CRC Errors: 0\n" for number in range(count)))
    tree.write("proc/driver/nvidia-fs/version", "version: 2.30\n")
    tree.write("proc/driver/nvidia-fs/modules", "nvme: Not available\nrpcrdma: 25.10\nwekafsio: 1\n")
    modules = (tree.root / "proc/modules").read_text()
    tree.write("proc/modules", modules + "nvidia_fs 323584 0 - Live 0x0000000000000000 (OE)\n")
    for link in (tree.root / "sys/bus/pci/devices").iterdir():
        for name, text in AER.items():
            tree.write(f"sys/bus/pci/devices/{link.name}/aer_dev_{name}", text)
