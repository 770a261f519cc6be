# SPDX-License-Identifier: GPL-3.0-or-later
"""Base trees of the table of faults: constructed nodes that are healthy, so that `railwright check --sysroot` ends 0 on each.

They are made from the writers of tests/fixtures (formats of the kernel and of the tools, not captured from whole machines); the answers of
nvidia-smi were recorded on one H100 and one H200, and carry another board's name and ids in the trees of other boards. A base is a function
that writes its tree below a directory and returns its root.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.faults.edits import off_the_bus, unbound
from tests.fixtures import node_accelerators, node_erdma, node_gpu, node_healthy, node_qos, node_stacks
from tests.fixtures.node_accelerators import EFA_PORT
from tests.fixtures.node_gpudirect import answers
from tests.fixtures.node_healthy import MTU_4096
from tests.fixtures.node_pci import config_space, iommu_group, numa_nodes, pci_link
from tests.fixtures.node_text import dpkg_status, ibv_devinfo, proc_modules
from tests.fixtures.node_tree import Device, Port, Tree, ip_addr, roce_gids

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES

GPUS = tuple(f"0000:{0x14 + 0x18 * place:02x}:00.0" for place in range(8))
NICS = tuple(f"0000:{0x13 + 0x18 * place:02x}:00.0" for place in range(8))
VIRTUAL_CPU = "processor\t: 0\nflags\t\t: fpu vme hypervisor\n"
TOPOLOGY = "/opt/topology.xml"
LIMITS = "cmd/systemctl_show_-p_DefaultLimitMEMLOCK_-p_DefaultLimitNOFILE"
ZERO, RACK = "00000000-0000-0000-0000-000000000000", "8f2c6d5e-0b1a-4c3d-9e8f-7a6b5c4d3e2f"
FABRIC = "cmd/nvidia-smi_--query-gpu=fabric.state,fabric.status_--format=csv,noheader"


class Opened(Tree):
    """A tree that was written before."""

    def __init__(self, root: Path) -> None:
        self.root = root


class Board(NamedTuple):
    """A GPU board: PCI device id, product name, the recording that its answers are made from, generation of its PCIe link."""

    device: str
    name: str
    model: str
    generation: int = 5


H200 = Board("0x2335", "NVIDIA H200", "h200")
H100 = Board("0x2330", "NVIDIA H100 80GB HBM3", "h100")
B200 = Board("0x2901", "NVIDIA B200", "h200")
GB200 = Board("0x2941", "NVIDIA GB200", "h200")
A100 = Board("0x20b2", "NVIDIA A100-SXM4-80GB", "h100", 4)
L40S = Board("0x26b9", "NVIDIA L40S", "h100", 4)


def hgx(directory: Path, board: Board, rate: str = "400 Gb/sec (4X NDR)", layer: str = "Ethernet", count: int = 8) -> Path:
    """``count`` GPUs beside as many NICs, a PCIe switch for each pair; no NVSwitch on the bus."""
    node_stacks.doca8(directory)
    tree = Opened(directory / "doca8")
    for bus in range(0xD1, 0xD5):
        (tree.root / f"sys/bus/pci/devices/0000:{bus:02x}:00.0").unlink()
    tree.write(LIMITS, "DefaultLimitMEMLOCK=infinity\n")
    for address in GPUS[count:] + NICS[count:]:
        off_the_bus(address)(tree.root)
    gpu_answers(tree, board, GPUS[:count])
    for rail in range(count):
        tree.write(f"sys/class/infiniband/mlx5_{rail}/ports/1/rate", rate + "\n")
        if layer == "InfiniBand":
            infiniband(tree, rail)
    if layer == "InfiniBand":
        text = (tree.root / "cmd/ibv_devinfo_-v").read_text()
        tree.write("cmd/ibv_devinfo_-v", text.replace("link_layer:\t\tEthernet", "link_layer:\t\tInfiniBand"))
    return tree.root


def infiniband(tree: Tree, rail: int) -> None:
    """Make an InfiniBand port of a RoCE port: class, link layer, LIDs, one GID, an IPoIB interface."""
    port, netdev = f"sys/class/infiniband/mlx5_{rail}/ports/1", f"sys/class/net/ens{rail + 10}np0"
    tree.files(port, (("link_layer", "InfiniBand"), ("lid", hex(0x10 + rail)), ("sm_lid", "0x1")))
    for index in range(1, 4):
        tree.write(f"{port}/gids/{index}", "0000:" * 7 + "0000\n")
        (tree.root / f"{port}/gid_attrs/ndevs/{index}").unlink()
    tree.write(f"{port}/gids/0", f"fe80:0000:0000:0000:b8ce:f603:0000:30{rail:02x}\n")
    mac = f"00:00:10:49:fe:80:{'00:' * 6}b8:ce:f6:03:00:00:30:{rail:02x}"
    tree.files(f"{port}/pkeys", (("0", "0xffff"), ("1", "0x0000")))
    tree.files(netdev, (("type", "32"), ("mtu", "4092"), ("address", mac)))
    tree.write(f"sys/bus/pci/devices/{NICS[rail]}/class", "0x020700\n")


def gpu_answers(tree: Tree, board: Board, gpus: tuple[str, ...]) -> None:
    """What the PCI bus and the driver's tools say of healthy GPUs of a board."""
    node_gpu.driver_on_disk(tree, node_stacks.UBUNTU_KERNEL, node_stacks.NVIDIA)
    node_gpu.persistence(tree, gpus)
    text = node_gpu.smi_xml(gpus, node_stacks.NVIDIA, board.model)
    for model in (H100, H200):
        text = text.replace(model.name, board.name).replace(f"{model.device[2:].upper()}10DE", f"{board.device[2:].upper()}10DE")
    tree.write("cmd/nvidia-smi_-q_-x", text)
    tree.write(FABRIC, "N/A, N/A\n" * len(gpus))
    for address in gpus:
        tree.write(f"sys/bus/pci/devices/{address}/device", board.device + "\n")
        if board.generation != 5:
            own = (tree.root / "sys/bus/pci/devices" / address).resolve().relative_to((tree.root / "sys/devices").resolve())
            pci_link(tree, str(own), speed=board.generation, max_speed=board.generation)


def nvlinked(root: Path, board: Board, links: int = 18, rate: float = 26.562, cluster: str = ZERO) -> Path:
    """The same with what the driver's tools say of NVLinks: all of each GPU are up, and the fabric manager has done its work."""
    tree = Opened(root)
    head, *parts = (root / "cmd/nvidia-smi_-q_-x").read_text().split("\t\t<fabric>\n")
    gpus = GPUS[:len(parts)]
    node_gpu.loaded_driver(tree, node_stacks.NVIDIA, gpus)
    for address in gpus:
        place = root / f"proc/driver/nvidia/gpus/{address}/information"
        place.write_text(place.read_text().replace(H100.name, board.name))
    node_gpu.nvlinks(tree, len(gpus), links)
    status = root / "cmd/nvidia-smi_nvlink_--status"
    status.write_text(status.read_text().replace("26.562", f"{rate:g}").replace(H100.name, board.name))
    values = {"state": "Completed", "status": "Success", "cliqueId": "0" if cluster == ZERO else "1", "clusterUuid": cluster}
    for name, value in values.items() if board is not A100 else ():
        parts = [re.sub(f"<{name}>[^<]*</{name}>", f"<{name}>{value}</{name}>", part, count=1) for part in parts]
    tree.write("cmd/nvidia-smi_-q_-x", "\t\t<fabric>\n".join([head, *parts]))
    tree.write(FABRIC, "Completed, Success\n" * len(gpus) if board is not A100 else "N/A, N/A\n" * len(gpus))
    return root


def a100(directory: Path) -> Path:
    return nvlinked(hgx(directory, A100, "200 Gb/sec (4X HDR)"), A100, 12, 25.0)


def nvlink5(directory: Path, board: Board, services: tuple[str, ...]) -> Path:
    """A board with NVLink 5: what joins its GPUs runs and says that it is done. No NVSwitch or bridge function is on the bus."""
    rack = board is GB200
    root = nvlinked(hgx(directory, board, count=4 if rack else 8), board, 18, 53.125, RACK if rack else ZERO)
    tree = Opened(root)
    versions = {"nvidia-fabricmanager": "580.95.05-1", "nvlsm": "2025.06.5-1", "nvidia-imex": "580.95.05-1", "infiniband-diags": "50.0-2"}
    tree.write("var/lib/dpkg/status", dpkg_status({**node_stacks.DOCA_PACKAGES, **versions}))
    for unit in services:
        node_gpu.daemon(tree, unit, "active")
    tree.write("dev/nvidia-caps-imex-channels/channel0", "")
    return root


def ipv6_only(directory: Path) -> Path:
    """RoCE rails with global IPv6 addresses alone."""
    root = hgx(directory, H200)
    tree = Opened(root)
    for rail in range(8):
        port = f"sys/class/infiniband/mlx5_{rail}/ports/1"
        for index in (2, 3):
            tree.write(f"{port}/gids/{index}", f"fd00:0010:{rail:04x}:0000:0000:0000:0000:0011\n")
    text = (root / "cmd/ip_-j_addr").read_text()
    for rail in range(8):
        text = text.replace(f'"family": "inet", "local": "10.10.{rail}.11", "prefixlen": 24',
                            f'"family": "inet6", "local": "fd00:10:{rail:x}::11", "prefixlen": 64')
    tree.write("cmd/ip_-j_addr", text)
    return root


def two_fabrics(directory: Path) -> Path:
    """Four InfiniBand rails and four RoCE rails, each near a GPU."""
    root = hgx(directory, H200)
    tree = Opened(root)
    for rail in range(4):
        infiniband(tree, rail)
    blocks = (root / "cmd/ibv_devinfo_-v").read_text().split("hca_id:\t")
    blocks[1:5] = [block.replace("link_layer:\t\tEthernet", "link_layer:\t\tInfiniBand") for block in blocks[1:5]]
    tree.write("cmd/ibv_devinfo_-v", "hca_id:\t".join(blocks))
    return root


def extra_nic(tree: Tree, number: int, bus: int, rate: str, **more: str) -> str:
    """Add a NIC on a root port of its own, far from every GPU; returns its interface. ``address`` (IPv4) and ``mtu`` of the interface."""

    netdev, mac = f"ens{number + 10}np0", f"b8:ce:f6:00:40:{number:02x}"
    pci = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
    port = Port(link_layer="Ethernet", rate=rate, gids=roce_gids(mac, netdev, more.get("address")),
                state=more.get("state", "4: ACTIVE"), phys_state=more.get("phys_state", "5: LinkUp"))
    tree.pci_function(pci.rpartition("/")[0], "pcieport", "0x8086", "0x352a", "0")
    tree.hca(Device(f"mlx5_{number}", pci, "mlx5_core", f"b8ce:f603:0000:40{number:02x}", (port,), device=more.get("device", "0x101d"),
                    hca_type="MT4125", fw_ver="22.41.1000", board_id=more.get("board", "MT_0000000359")))
    node_stacks.on_bus(tree, pci.rpartition("/")[0], "0x060400")
    node_stacks.on_bus(tree, pci, "0x020000")
    pci_link(tree, pci, speed=4, max_speed=4)
    pci_link(tree, pci.rpartition("/")[0], speed=4, max_speed=4)
    tree.netdev(netdev, mac, int(more.get("mtu", "1500")), pci, dev_port="0")
    text = (tree.root / "cmd/ibv_devinfo_-v").read_text()
    tree.write("cmd/ibv_devinfo_-v", text + text[:text.index("hca_id:", 5)].replace("mlx5_0", f"mlx5_{number}"))
    return netdev


def second_function(tree: Tree, rail: int, **more: str) -> None:
    """Add the second function of a dual-port card, with one port of its own."""
    first = (tree.root / "sys/bus/pci/devices" / NICS[rail]).resolve().relative_to(tree.root.resolve() / "sys/devices")
    pci, netdev, mac = f"{first}"[:-1] + "1", f"ens{rail + 10}np1", f"b8:ce:f6:00:50:{rail:02x}"
    port = Port(link_layer="Ethernet", gids=roce_gids(mac, netdev, f"10.20.{rail}.11"), state=more.get("state", "4: ACTIVE"),
                phys_state=more.get("phys_state", "5: LinkUp"))
    guid = f"b8ce:f603:0000:50{rail:02x}"
    tree.hca(Device(f"mlx5_{rail + 20}", pci, "mlx5_core", guid, (port,), numa=str(rail // 4), fw_ver="28.47.1080"))
    node_stacks.on_bus(tree, pci, "0x020000")
    pci_link(tree, pci)
    tree.netdev(netdev, mac, 9000, pci, dev_port="0")
    text = (tree.root / "cmd/ibv_devinfo_-v").read_text()
    own = text[:text.index("hca_id:", 5)].replace("mlx5_0", f"mlx5_{rail + 20}").replace("\tInfiniBand\n", "\tEthernet\n")
    tree.write("cmd/ibv_devinfo_-v", text + own)


def vm(directory: Path) -> Path:
    """A virtual machine: every function below one host bridge, no PCIe switch, no link speeds."""
    root = hgx(directory, H200)
    tree = Opened(root)
    for slot, (gpu, nic) in enumerate(zip(GPUS, NICS, strict=True)):
        for address, place in ((gpu, f"0000:00:{slot + 3:02x}.0"), (nic, f"0000:00:{slot + 11:02x}.0")):
            moved(tree, address, place)
    for directory_of in (root / "sys/bus/pci/devices").iterdir():
        if (directory_of / "class").read_text().startswith("0x0604"):
            directory_of.unlink()
    tree.write("proc/cpuinfo", VIRTUAL_CPU)
    tree.write("etc/nccl.conf", f"NCCL_TOPO_FILE={TOPOLOGY}\n")  # a hypervisor that hides PCIe switches hands out such a file
    tree.write(TOPOLOGY[1:], '<system version="1">\n</system>\n')
    return root


def moved(tree: Tree, address: str, place: str) -> None:
    """Put a function below the host bridge of a virtual machine, with a new address in all texts."""
    root = tree.root
    old = (root / "sys/bus/pci/devices" / address).resolve()
    new = root / "sys/devices/pci0000:00" / place
    new.parent.mkdir(parents=True, exist_ok=True)
    links = [path for folder in ("infiniband", "net") for path in (root / "sys/class" / folder).iterdir() if old in path.resolve().parents]
    inner = [path for path in old.rglob("*") if path.is_symlink()]
    targets = {path.relative_to(old): path.resolve() for path in inner}
    old.rename(new)
    for relative, target in targets.items():
        (new / relative).unlink()
        same = new / target.relative_to(old) if target == old or old in target.parents else target
        tree.link(str((new / relative).relative_to(root)), str(same.relative_to(root)))
    for path in links:
        inside = path.parent / path.readlink()
        relative = Path(str(inside)[str(inside).index(address) + len(address) + 1:])
        path.unlink()
        tree.link(str(path.relative_to(root)), str((new / relative).relative_to(root)))
    (root / "sys/bus/pci/devices" / address).unlink()
    tree.link(f"sys/bus/pci/devices/{place}", str(new.relative_to(root)))
    for name in ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width"):
        (new / name).unlink()
    for path in [*(root / "cmd").iterdir(), new / "uevent"]:
        text = path.read_text()
        path.write_text(text.replace(address, place).replace(address.upper(), place.upper()))


def bond(directory: Path) -> Path:
    root = limited(node_healthy.roce8_bond, "roce8-bond")(directory)
    tree = Opened(root)
    for number, path in enumerate(sorted((root / "sys/devices").rglob("uevent"))):
        if "mlx5_core" in path.read_text():
            place = str(path.parent.relative_to(root / "sys/devices"))
            node_stacks.on_bus(tree, place, "0x020000")
            node_stacks.on_bus(tree, place.rpartition("/")[0], "0x060400")
            pci_link(tree, place)
            pci_link(tree, place.rpartition("/")[0])
            tree.write(f"sys/devices/{place}/config", config_space(0x15B3, 0x1021, read_request=4096))
            iommu_group(tree, place, number, "identity")
    numa_nodes(tree, 2)
    return root


def limited(write: Callable[[Path], None], name: str) -> Callable[[Path], Path]:
    """A node of tests/fixtures, with the limits of its services."""

    def base(directory: Path) -> Path:
        write(directory)
        Opened(directory / name).write(LIMITS, "DefaultLimitMEMLOCK=infinity\n")
        return directory / name

    return base


def efa(directory: Path) -> Path:
    """A virtual machine of AWS: eight H100, and EFA devices in the place of the NICs."""
    root = nvlinked(hgx(directory, H100), H100)
    tree = Opened(root)
    for number, address in enumerate(NICS):
        own = (root / "sys/bus/pci/devices" / address).resolve()
        unbound(address)(root)
        name = f"rdmap{number}s0"
        gids = ((0, f"fe80:0000:0000:0000:0c2b:12ff:fe00:{number:04x}", "", ""),)
        port = Port(rate="100 Gb/sec (4X EDR)", link_layer="Unspecified", gids=gids, counters=(), hw_counters=EFA_PORT)
        tree.hca(Device(name, str(own.relative_to(root.resolve() / "sys/devices")), "efa", f"{number:04x}:0000:0000:0000", (port,),
                        vendor="0x1d0f", device="0xefa2", numa=str(number // 4), node_type="4: unspecified", fw_ver="", hca_type="",
                        board_id=""))
    for name in node_stacks.STACK_MODULES:
        shutil.rmtree(root / "sys/module" / name)
        (root / f"cmd/modinfo_-k_{node_stacks.UBUNTU_KERNEL}_{name}").unlink()
        (root / f"lib/modules/{node_stacks.UBUNTU_KERNEL}/updates/dkms/{name}.ko.zst").unlink()
    dep = root / f"lib/modules/{node_stacks.UBUNTU_KERNEL}/modules.dep"
    kept = [line for line in dep.read_text().splitlines(keepends=True) if "nvidia" in line]
    tree.write(str(dep.relative_to(root)), "".join([*kept, "kernel/drivers/infiniband/core/ib_core.ko.zst:\n"]))
    (root / "cmd/ibv_devinfo_-v").unlink()
    answers(tree, {f"rdmap{number}s0": "EBADF" for number in range(8)}, GPUS)
    modules = {"efa": "", "ib_uverbs": "efa", "ib_core": "efa,ib_uverbs", "nvidia_uvm": "", "nvidia": "nvidia_uvm"}
    tree.write("proc/modules", proc_modules(modules))
    shutil.rmtree(root / "var/lib/dkms/mlnx-ofed-kernel")
    tree.write("var/lib/dpkg/status", dpkg_status({"rdma-core": "59.amzn0-1", "dkms": "3.0.11-1ubuntu13"}))
    tree.write("sys/module/efa/version", "2.17.2g\n")
    tree.write("proc/cpuinfo", VIRTUAL_CPU)
    return root


def h200_nvlink(directory: Path, count: int = 8) -> Path:
    """Eight H200, or ``count``, whose NVLinks are all up."""
    return nvlinked(hgx(directory, H200, count=count), H200)


def lossless(directory: Path) -> Path:
    """A RoCE NIC whose lossless chain is whole."""
    node_qos.with_dcb(directory / "qos", QOS_PROFILES[0])
    tree = Opened(directory / "qos")
    tree.write(LIMITS, "DefaultLimitMEMLOCK=infinity\n")
    node_stacks.on_bus(tree, node_qos.PCI, "0x020000")
    for place in (node_qos.PCI, node_qos.PCI.rpartition("/")[0]):
        pci_link(tree, place)
    iommu_group(tree, node_qos.PCI, 40, "identity")
    tree.write(f"sys/devices/{node_qos.PCI}/config", config_space(0x15B3, 0x1021, read_request=4096))
    numa_nodes(tree, 2)
    tree.write("cmd/ibv_devinfo_-v", ibv_devinfo([(node_qos.HCA, 1, MTU_4096, "Ethernet")]))
    tree.write("cmd/ip_-j_addr", ip_addr({node_qos.NETDEV: [("inet", "10.10.0.11", 24)]}))
    return tree.root


def h100_infiniband(directory: Path) -> Path:
    """A whole HGX H100 with InfiniBand: NVSwitches on the bus, and the fabric manager that runs for them."""
    root = nvlinked(hgx(directory, H100, layer="InfiniBand"), H100)
    tree = Opened(root)
    for bus in range(0xD1, 0xD5):
        tree.link(f"sys/bus/pci/devices/0000:{bus:02x}:00.0", f"sys/devices/pci0000:d0/0000:d0:{bus - 0xD0:02x}.0/0000:{bus:02x}:00.0")
    node_gpu.daemon(tree, "nvidia-fabricmanager", "active")
    versions = {"nvidia-fabricmanager-580": "580.95.05-1"}
    tree.write("var/lib/dpkg/status", dpkg_status({**node_stacks.DOCA_PACKAGES, **versions}))
    return root


TREES: dict[str, Callable[[Path], Path]] = {
    "h200-roce": partial(hgx, board=H200),
    "h100-ib": h100_infiniband,
    "b200-roce": partial(nvlink5, board=B200, services=("nvidia-fabricmanager",)),
    "gb200-roce": partial(nvlink5, board=GB200, services=("nvidia-imex",)),
    "a100-roce": a100,
    "l40s-roce": partial(hgx, board=L40S, rate="100 Gb/sec (4X EDR)"),
    "ipv6-only": ipv6_only,
    "two-fabrics": two_fabrics,
    "vm": vm,
    "bond": bond,
    "erdma": limited(node_erdma.erdma2, "erdma2"),
    "h200-nvlink": h200_nvlink,
    "mi300x8": limited(node_accelerators.mi300x8, "mi300x8"),
    "efa-p5": efa,
    "soft-roce": limited(node_healthy.rxe, "rxe"),
    "lossless": lossless,
}
