# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of ports and their peers, of RDMA devices that are missing, and of what is gone from the bus."""

from __future__ import annotations

from pathlib import Path

from .edits import (
    DOWN,
    Edit,
    Fault,
    Healthy,
    all_of,
    function,
    link,
    nothing,
    off_the_bus,
    port,
    put,
    remove,
    together,
    unbound,
    without_rdma,
)
from .trees import GPUS, NICS, Opened, extra_nic, second_function

EIGHT = [f"mlx5_{rail}" for rail in range(8)]
HDR, TWO_LANES, ONE_LANE_NDR = "200 Gb/sec (4X HDR)", "200 Gb/sec (2X NDR)", "100 Gb/sec (1X NDR)"
STORAGE = {"address": "10.30.0.11"}
PARTIAL = ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width", "config", "resource", "iommu_group")


def mtu(rail: int, size: int, active: int) -> Edit:
    """The MTU of an interface, and the path MTU that it leaves."""

    def edit(root: Path) -> None:
        put(f"sys/class/net/ens{rail + 10}np0/mtu", f"{size}\n")(root)
        head, own, tail = (root / "cmd/ibv_devinfo_-v").read_text().partition(f"hca_id:\tmlx5_{rail}\n")
        (root / "cmd/ibv_devinfo_-v").write_text(head + own + tail.replace("active_mtu:\t\t4096 (5)", f"active_mtu:\t\t{active} (3)", 1))

    return edit


def rate(hca: str, text: str) -> Edit:
    return port(hca, rate=text)


def gids(rail: int, *indexes: int) -> Edit:
    """Empty these slots of a port's GID table."""
    return together(*(put(f"sys/class/infiniband/mlx5_{rail}/ports/1/gids/{index}", "0000:" * 7 + "0000\n") for index in indexes))


def no_mlx5_ib(root: Path) -> None:
    """mlx5_ib is not loaded: no RDMA device, while mlx5_core drives all functions."""
    together(*map(without_rdma, NICS), remove("sys/module/mlx5_ib"))(root)
    lines = (root / "proc/modules").read_text().splitlines(keepends=True)
    (root / "proc/modules").write_text("".join(line for line in lines if not line.startswith("mlx5_ib ")))


def two_connectx4(root: Path) -> None:
    """As seen on a cloud's host in 2026: two functions of class 0x0207 with mlx5_core, and no RDMA device."""
    no_mlx5_ib(root)
    for address in NICS[2:]:
        off_the_bus(address)(root)
    for address in NICS[:2]:
        put(f"sys/bus/pci/devices/{address}/class", "0x020700\n")(root)
        put(f"sys/bus/pci/devices/{address}/device", "0x1013\n")(root)


def nic(number: int, bus: int, rate: str = "100 Gb/sec (4X EDR)", **more: str) -> Edit:
    """Another NIC, far from every GPU."""
    return lambda root: void(extra_nic(Opened(root), number, bus, rate, **more))


def void(_value: object) -> None:
    return None


def management(root: Path) -> None:
    """A NIC with an RDMA device that carries the default route."""
    netdev = extra_nic(Opened(root), 8, 0xE0, "25 Gb/sec (1X EDR)", address="10.0.0.12")
    Opened(root).routes(netdev)


def seconds(**more: str) -> Edit:
    """A second function on each of the eight cards."""

    def edit(root: Path) -> None:
        for rail in range(8):
            second_function(Opened(root), rail, **more)

    return edit


def virtual_functions(root: Path) -> None:
    """Two virtual functions of the first NIC, whose ports are down."""
    for number in (1, 2):
        second_function(Opened(root), number - 1, **DOWN)
        address = NICS[number - 1][:-1] + "1"
        link(f"sys/bus/pci/devices/{address}/physfn", f"sys/bus/pci/devices/{NICS[number - 1]}")(root)


def handed_out(root: Path) -> None:
    """A NIC of a virtual machine: vfio-pci has it."""
    unbound(NICS[6])(root)
    link(f"sys/bus/pci/devices/{NICS[6]}/driver", "sys/bus/pci/drivers/vfio-pci")(root)


def rdma_off(root: Path) -> None:
    """RDMA off by devlink: the function has no auxiliary device for it, while the others have."""
    without_rdma(NICS[6])(root)
    for rail, address in enumerate(NICS):
        put(f"sys/bus/pci/devices/{address}/mlx5_core.eth.{rail}/uevent", "")(root)
        if address != NICS[6]:
            put(f"sys/bus/pci/devices/{address}/mlx5_core.rdma.{rail}/uevent", "")(root)


def roce_off(root: Path) -> None:
    """RoCE off by devlink, on a kernel without auxiliary devices."""
    without_rdma(NICS[6])(root)
    text = f"pci/{NICS[6]}:\n  name enable_roce type generic\n    values:\n      cmode driverinit value false\n"
    put(f"cmd/devlink_dev_param_show_pci-{NICS[6]}_name_enable_roce", text)(root)


def socket_direct(root: Path) -> None:
    """The second function of a socket-direct card, with the serial number of the first."""
    without_rdma(NICS[6])(root)
    for address in (NICS[2], NICS[6]):
        put(f"sys/bus/pci/devices/{address}/vpd", b"\x82\x04\x00CX-7\x90\x10\x00PN\x04MCX7SN\x06MT2345RV\x00\x78")(root)


def sub_function(root: Path) -> None:
    """A sub-function with an RDMA device whose port is down."""
    own = function(root, NICS[0]).relative_to(root.resolve())
    Opened(root).link("sys/class/infiniband/mlx5_30", f"{own}/mlx5_core.sf.2/infiniband/mlx5_30")
    base = f"{own}/mlx5_core.sf.2/infiniband/mlx5_30"
    put(f"{base}/board_id", "MT_0000000838\n")(root)
    put(f"{base}/node_guid", "b8ce:f603:0000:6000\n")(root)
    link(f"{base}/device", f"{own}/mlx5_core.sf.2")(root)
    for name, text in (*DOWN.items(), ("rate", "400 Gb/sec (4X NDR)"), ("link_layer", "Ethernet")):
        put(f"{base}/ports/1/{name}", text + "\n")(root)


def idle(root: Path) -> None:
    """GPUs whose links run at 2.5 GT/s until a job starts."""
    for address in GPUS:
        put(f"sys/bus/pci/devices/{address}/current_link_speed", "2.5 GT/s PCIe\n")(root)


def partial_sys(root: Path) -> None:
    """A /sys without links, registers and IOMMU groups of PCI functions, as in a container."""
    for directory in (root / "sys/bus/pci/devices").iterdir():
        for name in PARTIAL:
            path = directory.resolve() / name
            if path.is_symlink() or path.exists():
                path.unlink()


ONE_LANE = rate("mlx5_2", ONE_LANE_NDR)
POLLING = port("mlx5_0", state="1: DOWN", phys_state="2: Polling")
HALF = all_of(lambda name: port(name, **DOWN), EIGHT[4:])
NONE = all_of(lambda name: port(name, **DOWN), EIGHT)
OLD = put("sys/class/infiniband/mlx5_5/fw_ver", "28.39.1002\n")
RATE_FILE = "sys/class/infiniband/mlx5_4/ports/1/rate"
SLOW = ("port.rate", "fail", "200 Gb/s", None, "200, below 400")
LINKLESS = ("port.state", "fail", "DOWN, not ACTIVE")
OFTEN = ("h200-roce", "h100-ib", "a100-roce", "l40s-roce", "b200-roce")

FAULTS = (
    # A needed answer is missing.
    Fault("h200-roce", "no rail has a link", NONE, "port.state", "unknown", "none of the 8", None, LINKLESS),
    Fault("h200-roce", "half of the rails have a link", HALF, "port.state", "unknown", "4 of 8", None, LINKLESS),
    Fault("h200-roce", "a rate that cannot be read", remove(RATE_FILE), "port.rate", "unknown", "rate"),
    Fault("h200-roce", "nvidia-smi is not there", remove("cmd/nvidia-smi_-q_-x"), "gpu.answers", "unknown", "does not answer"),
    Fault("h200-roce", "a state that cannot be read", together(remove("sys/class/infiniband/mlx5_1/ports/1/state"),
          remove("sys/class/infiniband/mlx5_1/ports/1/phys_state")), "port.state", "unknown", "state of the port", None,
          "state cannot be read"),
    Fault("h200-roce", "a failure comes before a missing answer", together(remove(RATE_FILE), POLLING), "port.rate", "unknown", "rate", 1),
    # Ports and their peers.
    Fault("h200-roce", "a link that is up and not active", port("mlx5_3", state="2: INIT"), "port.state", "fail", "INIT"),
    *(Fault(tree, "one port at 100 Gb/s in one lane", ONE_LANE, "port.width", "fail", "", None) for tree in OFTEN),
    Fault("h200-roce", "one port at a quarter of the rate", ONE_LANE, "port.rate", "fail", "on 7 of 8 peer ports 400 Gb/s", None,
          "100, below 400"),
    Fault("h100-ib", "one port at half of the rate", rate("mlx5_7", TWO_LANES), *SLOW),
    Fault("h100-ib", "all ports with one lane", all_of(lambda name: rate(name, ONE_LANE_NDR), EIGHT), "port.width", "fail", "one lane"),
    Fault("gb200-roce", "one of four ports at half of the rate", rate("mlx5_3", HDR), *SLOW),
    Fault("vm", "one port at half of the rate", rate("mlx5_3", HDR), *SLOW),
    Fault("h200-roce", "one port faster than its peers", all_of(lambda name: rate(name, HDR), EIGHT[1:]), "port.rate",
          "warn", "400 Gb/s", None, ("port.rate", "fail", "200, below 400")),
    Fault("h200-roce", "half of the ports at half of the rate", all_of(lambda name: rate(name, HDR), EIGHT[4:]),
          "port.rate", "warn", "disagree", None, ("port.rate", "fail", "200, below 400")),
    Fault("h200-roce", "a rail without IPv4 GIDs", gids(6, 2, 3), "rail.gid", "fail", "has its interface an address", None, "is it on"),
    Fault("ipv6-only", "a rail without IPv6 GIDs", gids(6, 2, 3), "rail.gid", "fail", "IPv6 address", None, "is it on"),
    Fault("h200-roce", "one MTU of 1500", mtu(1, 1500, 1024), "rail.mtu", "fail", "1500"),
    Fault("h200-roce", "one path MTU of 1024", mtu(1, 1500, 1024), "port.active_mtu", "fail", "1024"),
    Fault("h100-ib", "one path MTU of 2048", mtu(1, 4092, 2048), "port.active_mtu", "fail", "2048"),
    Fault("h200-roce", "one firmware among eight", OLD, "hca.fw_ver", "warn", "28.39", None, ("hca.fw_ver", "fail", "28.39.1002, not")),
    *(Fault(tree, "a rail without a link", port("mlx5_0", **DOWN), "port.state", "fail", "no link", None, "DOWN, not ACTIVE")
      for tree in OFTEN),
    Fault("h200-roce", "a rail that polls", POLLING, "port.state", "fail", "Polling", None, "DOWN, not ACTIVE"),
    # RDMA devices.
    *(Fault(tree, "mlx5_ib is not loaded", no_mlx5_ib, "hca.device", "fail", "mlx5_ib is not loaded") for tree in OFTEN),
    Fault("h200-roce", "two ConnectX-4 without an RDMA device", two_connectx4, "hca.device", "fail", "15b3:1013"),
    *(Fault(tree, "an HCA whose probe failed", unbound(NICS[4]), "hca.device", "fail", "did its probe fail") for tree in OFTEN),
    Fault("h200-roce", "an HCA without an RDMA device", without_rdma(NICS[4]), "hca.device", "fail", NICS[4]),
    Fault("bond", "an HCA without an RDMA device", without_rdma("0000:33:00.0"), "hca.device", "fail", "0000:33:00.0"),
    # Gone from the bus.
    *(Fault(tree, "an HCA gone from the bus", off_the_bus(NICS[3]), "pci.switch", "fail", "no HCA") for tree in OFTEN),
    *(Fault(tree, "a GPU gone from the bus", off_the_bus(GPUS[5]), "pci.switch", "fail", "no GPU") for tree in OFTEN),
    Fault("h200-roce", "two GPUs gone from the bus", together(off_the_bus(GPUS[5]), off_the_bus(GPUS[6])), "pci.switch", "fail", "no GPU"),
    # Two fabrics, and NICs that are no rails.
    Fault("two-fabrics", "an InfiniBand rail that is not active", port("mlx5_1", state="2: INIT"), "port.state", "fail", "INIT"),
    Fault("two-fabrics", "a RoCE rail that is not active", port("mlx5_6", state="2: INIT"), "port.state", "fail", "INIT"),
    Fault("two-fabrics", "a RoCE rail at half of the rate", rate("mlx5_6", HDR), *SLOW),
    Fault("two-fabrics", "an InfiniBand rail at half of the rate", rate("mlx5_2", TWO_LANES), *SLOW),
    Fault("two-fabrics", "a RoCE rail without IPv4 GIDs", gids(5, 2, 3), "rail.gid", "fail", "IPv4"),
    Fault("h200-roce", "a storage NIC that is up and not active", nic(8, 0xE0, state="2: INIT", **STORAGE), "port.state", "fail",
          "far from every GPU", None, ()),  # an inventory names the rails alone
)

STILL_NAMED = {"nccl.hcas": "nccl.conf still names the HCA"}
HEALTHY = (
    *(Healthy(tree, "the base tree", nothing) for tree in (
        "h200-roce", "h100-ib", "a100-roce", "l40s-roce", "b200-roce", "gb200-roce", "vm", "erdma")),
    Healthy("bond", "a bond has one RDMA device", nothing, ("hca.device",)),
    Healthy("ipv6-only", "IPv6-only RoCE", nothing, ("rail.gid",)),
    Healthy("two-fabrics", "two fabrics", nothing, ("gpu.near",)),
    Healthy("h200-roce", "virtual functions are down", virtual_functions, ("port.state", "hca.device")),
    Healthy("h200-roce", "a sub-function is down", sub_function, ("port.state", "hca.device")),
    Healthy("h200-roce", "one dark storage port", nic(8, 0xE0, **DOWN, **STORAGE), ("port.state", "gpu.near")),
    Healthy("h200-roce", "a storage NIC far from GPUs, with another MTU and rate", nic(8, 0xE0, **STORAGE),
            ("gpu.near", "rail.mtu", "port.rate")),
    Healthy("h200-roce", "a storage NIC of the rails' model", nic(8, 0xE0, device="0x1021", board="MT_0000000838", **STORAGE),
            ("gpu.near", "rail.mtu", "port.rate")),
    Healthy("h200-roce", "a management NIC", management, ("gpu.near", "port.rate", "port.width", "hca.device")),
    Healthy("h200-roce", "an unused second port on each card", seconds(**DOWN), ("port.state",)),
    Healthy("h200-roce", "a second port that is used on two cards", together(seconds(**DOWN), *(
            port(f"mlx5_{number}", state="4: ACTIVE", phys_state="5: LinkUp") for number in (20, 21)))),
    Healthy("h100-ib", "dual-port cards split into InfiniBand and Ethernet", seconds(), ("port.rate", "gpu.near", "rail.gid")),
    Healthy("h200-roce", "an unused Aux port beside a management port", together(management, nic(9, 0xE2, **DOWN)), ("port.state",)),
    Healthy("h200-roce", "idle GPUs at 2.5 GT/s", idle),
    Healthy("h200-roce", "a partial /sys", partial_sys),
    Healthy("h200-nvlink", "an HCA handed to a virtual machine", handed_out, ("hca.device", "pci.switch"), STILL_NAMED),
    Healthy("h200-nvlink", "RDMA off for one function by devlink", rdma_off, ("hca.device",), STILL_NAMED),
    Healthy("h200-nvlink", "RoCE off for one function by devlink", roce_off, ("hca.device",), STILL_NAMED),
    Healthy("h200-nvlink", "the second function of a socket-direct card", socket_direct, ("hca.device",), STILL_NAMED),
    Healthy("h200-roce", "no user can read the VPD or the registers", partial_sys, ("port.state",))._replace(tree="h100-ib"),
)
