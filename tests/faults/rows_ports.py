# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of ports and their peers, of RDMA devices that are missing, and of what is gone from the bus."""

from __future__ import annotations

from .edits import DOWN, Edit, Fault, Healthy, all_of, nothing, off_the_bus, port, put, remove, together, unbound, without_rdma
from .trees import GPUS, NICS

EIGHT = [f"mlx5_{rail}" for rail in range(8)]
MODULES = "proc/modules"


def mtu(rail: int, size: int, active: int) -> Edit:
    """The MTU of an interface, and the path MTU that it leaves."""
    own = f"hca_id:\tmlx5_{rail}\n"

    def edit(root):  # type: ignore[no-untyped-def]
        put(f"sys/class/net/ens{rail + 10}np0/mtu", f"{size}\n")(root)
        text = (root / "cmd/ibv_devinfo_-v").read_text()
        head, _own, tail = text.partition(own)
        (root / "cmd/ibv_devinfo_-v").write_text(head + own + tail.replace("active_mtu:\t\t4096 (5)", f"active_mtu:\t\t{active} (3)", 1))

    return edit


def gids(rail: int, *indexes: int) -> Edit:
    """Empty these slots of a port's GID table."""
    return together(*(put(f"sys/class/infiniband/mlx5_{rail}/ports/1/gids/{index}", "0000:" * 7 + "0000\n") for index in indexes))


def no_mlx5_ib(root):  # type: ignore[no-untyped-def]
    """mlx5_ib is not loaded: no RDMA device, while mlx5_core drives all functions."""
    all_of(without_rdma, NICS)(root)
    remove("sys/module/mlx5_ib")(root)
    text = (root / MODULES).read_text().splitlines(keepends=True)
    (root / MODULES).write_text("".join(line for line in text if not line.startswith("mlx5_ib ")))


FAULTS = (
    Fault("h200-roce", "a link that is up and not active", port("mlx5_3", state="2: INIT"), "port.state", "fail", "INIT"),
    Fault("h200-roce", "one port at 100 Gb/s in one lane", port("mlx5_2", rate="100 Gb/sec (1X NDR)"), "port.rate", "fail", "mlx5_2"),
    Fault("h200-roce", "one port with one lane", port("mlx5_2", rate="100 Gb/sec (1X NDR)"), "port.width", "fail", "1X"),
    Fault("h200-roce", "one port at 200 Gb/s", port("mlx5_7", rate="200 Gb/sec (4X HDR)"), "port.rate", "fail", "400 Gb/s"),
    Fault("h200-roce", "mlx5_ib is not loaded", no_mlx5_ib, "hca.device", "fail", "mlx5_ib is not loaded"),
    Fault("h200-roce", "an HCA whose probe failed", unbound(NICS[4]), "hca.device", "fail", "did its probe fail"),
    Fault("h200-roce", "an HCA without an RDMA device", without_rdma(NICS[4]), "hca.device", "fail", NICS[4]),
    Fault("h200-roce", "an HCA gone from the bus", off_the_bus(NICS[3]), "pci.switch", "fail", "no HCA"),
    Fault("h200-roce", "a GPU gone from the bus", off_the_bus(GPUS[5]), "pci.switch", "fail", "no GPU"),
    Fault("h200-roce", "a rail without IPv4 GIDs", gids(6, 2, 3), "rail.gid", "fail", "has its interface an address"),
    Fault("h200-roce", "one MTU of 1500", mtu(1, 1500, 1024), "rail.mtu", "fail", "1500"),
    Fault("h200-roce", "one path MTU of 1024", mtu(1, 1500, 1024), "port.active_mtu", "fail", "1024"),
    Fault("h200-roce", "one firmware among eight", put("sys/class/infiniband/mlx5_5/fw_ver", "28.39.1002\n"), "hca.fw_ver", "warn", "28.39"),
    Fault("h200-roce", "a rail without a link", port("mlx5_0", **DOWN), "port.state", "fail", "no link"),
    Fault("h200-roce", "a rail that polls", port("mlx5_0", state="1: DOWN", phys_state="2: Polling"), "port.state", "fail", "Polling"),
    Fault("h200-roce", "no rail has a link", all_of(lambda name: port(name, **DOWN), EIGHT), "port.state", "unknown", "none of the 8"),
    Fault("h200-roce", "half of the rails have a link", all_of(lambda name: port(name, **DOWN), EIGHT[4:]), "port.state", "unknown", "4 of 8"),
    Fault("h200-roce", "a rate that cannot be read", remove("sys/class/infiniband/mlx5_4/ports/1/rate"), "port.rate", "unknown", "rate"),
    Fault("h200-roce", "nvidia-smi is not there", remove("cmd/nvidia-smi_-q_-x"), "gpu.answers", "unknown", "does not answer"),
)

HEALTHY = (
    Healthy("h200-roce", "the base tree", nothing),
)
