# SPDX-License-Identifier: GPL-3.0-or-later
"""Base trees of the table of faults: constructed nodes that are healthy, so that `railwright check --sysroot` ends 0 on each.

They are made from the writers of tests/fixtures (formats of the kernel and of the tools, not captured from whole machines); the answers of
nvidia-smi were recorded on one H100 and one H200, and carry another board's name and ids in the trees of other boards. A base is a function
that writes its tree below a directory and returns its root.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.faults.edits import off_the_bus
from tests.fixtures import node_accelerators, node_erdma, node_gpu, node_healthy, node_stacks
from tests.fixtures.node_pci import pci_link
from tests.fixtures.node_text import dpkg_status
from tests.fixtures.node_tree import Device, Port, Tree, roce_gids

GPUS = tuple(f"0000:{0x14 + 0x18 * place:02x}:00.0" for place in range(8))
NICS = tuple(f"0000:{0x13 + 0x18 * place:02x}:00.0" for place in range(8))
LIMITS = "cmd/systemctl_show_-p_DefaultLimitMEMLOCK_-p_DefaultLimitNOFILE"
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


def nvlink5(directory: Path, board: Board, services: tuple[str, ...]) -> Path:
    """A board with NVLink 5: what joins its GPUs runs and says that it is done. No NVSwitch or bridge function is on the bus."""
    root = hgx(directory, board, count=4 if board is GB200 else 8)
    tree = Opened(root)
    tree.write(FABRIC, "Completed, Success\n" * (4 if board is GB200 else 8))
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
    tree.write("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor\n")
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
    node_healthy.roce8_bond(directory)
    root = directory / "roce8-bond"
    tree = Opened(root)
    tree.write(LIMITS, "DefaultLimitMEMLOCK=infinity\n")
    for path in sorted((root / "sys/devices").rglob("uevent")):
        if "mlx5_core" in path.read_text():
            node_stacks.on_bus(tree, str(path.parent.relative_to(root / "sys/devices")), "0x020000")
    return root


def erdma(directory: Path) -> Path:
    node_erdma.erdma2(directory)
    return directory / "erdma2"


def h200_nvlink(directory: Path, count: int = 8) -> Path:
    """The same with what the driver's tools say of NVLinks: all 18 of each GPU are up, the fabric manager has done its work."""
    root = hgx(directory, H200, count=count)
    tree = Opened(root)
    node_gpu.loaded_driver(tree, node_stacks.NVIDIA, GPUS[:count])
    for address in GPUS[:count]:
        place = root / f"proc/driver/nvidia/gpus/{address}/information"
        place.write_text(place.read_text().replace("NVIDIA H100 80GB HBM3", "NVIDIA H200"))
    node_gpu.nvlinks(tree, count, 18)
    text = (root / "cmd/nvidia-smi_-q_-x").read_text()
    head, middle, tail = "\t\t<fabric>\n", "<state>N/A</state>\n\t\t\t<status>N/A</status>", "</fabric>"
    assert text.count(head) == count and tail in text
    for before, after in ((middle, "<state>Completed</state>\n\t\t\t<status>Success</status>"), ("<cliqueId>N/A<", "<cliqueId>0<"),
                          ("<clusterUuid>N/A<", "<clusterUuid>00000000-0000-0000-0000-000000000000<")):
        text = text.replace(before, after)
    tree.write("cmd/nvidia-smi_-q_-x", text)
    tree.write("cmd/nvidia-smi_--query-gpu=fabric.state,fabric.status_--format=csv,noheader", "Completed, Success\n" * count)
    return root


def written(write: Callable[[Path], None], name: str) -> Callable[[Path], Path]:
    """A node of tests/fixtures as it is."""

    def base(directory: Path) -> Path:
        write(directory)
        return directory / name

    return base


TREES: dict[str, Callable[[Path], Path]] = {
    "h200-roce": partial(hgx, board=H200),
    "h100-ib": partial(hgx, board=H100, layer="InfiniBand"),
    "b200-roce": partial(nvlink5, board=B200, services=("nvidia-fabricmanager",)),
    "gb200-roce": partial(nvlink5, board=GB200, services=("nvidia-imex",)),
    "a100-roce": partial(hgx, board=A100, rate="200 Gb/sec (4X HDR)"),
    "l40s-roce": partial(hgx, board=L40S, rate="100 Gb/sec (4X EDR)"),
    "ipv6-only": ipv6_only,
    "two-fabrics": two_fabrics,
    "vm": vm,
    "bond": bond,
    "erdma": erdma,
    "h200-nvlink": h200_nvlink,
    "mi300x8": written(node_accelerators.mi300x8, "mi300x8"),
    "efa-p5": written(node_accelerators.efa_p5, "efa-p5"),
}
