# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of an engineer who had read neither the code nor the table: 40 faults (F) and 40 healthy oddities (H).

Evidence is from vendors' manuals, issue trackers and the kernel's and drivers' sources. Where the tool asks for the same thing by another
command than the engineer did, both forms are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.fixtures.node_accelerators import ADDRESSES
from tests.fixtures.node_pci import ACS_ALL, DOWNSTREAM, config_space
from tests.fixtures.node_text import dpkg_status
from tests.fixtures.node_tree import Device, Port

from .edits import Edit, Fault, Healthy, function, port, put, remove, replace, together, unbound
from .rows_gpu import DETAILS, EIGHTEEN, HOPPER, PERSISTENCE, RACK, amd, fabric, mlxlink, nvlinks, smi_without, tag
from .rows_health import said
from .rows_ports import DOWN, gids, nic, rate, void
from .trees import FABRIC, GPUS, NICS, Opened, extra_nic, node_gpu, node_stacks

ZERO_GID = "0000:" * 7 + "0000\n"
NVIDIA, KERNEL = node_stacks.NVIDIA, node_stacks.UBUNTU_KERNEL
FM, IMEX = "nvidia-fabricmanager", "nvidia-imex"


def pci(address: str, **files: str | bytes) -> Edit:
    """Write files of a PCI function."""
    return together(*(put(f"sys/bus/pci/devices/{address}/{name}", text) for name, text in files.items()))


def counters(hca: str, **values: int) -> Edit:
    return together(*(put(f"sys/class/infiniband/{hca}/ports/1/counters/{name}", f"{value}\n") for name, value in values.items()))


def hw_counters(hca: str, **values: int) -> Edit:
    return together(*(put(f"sys/class/infiniband/{hca}/ports/1/hw_counters/{name}", f"{value}\n") for name, value in values.items()))


def devinfo(hca: str, *changes: tuple[str, str]) -> Edit:
    """Change the answer of ibv_devinfo -v for one device."""

    def edit(root: Path) -> None:
        head, own, rest = (root / "cmd/ibv_devinfo_-v").read_text().partition(f"hca_id:\t{hca}\n")
        block, more, tail = rest.partition("hca_id:")
        for before, after in changes:
            block = block.replace(before, after)
        (root / "cmd/ibv_devinfo_-v").write_text(head + own + block + more + tail)

    return edit


def unit(name: str, state: str, **properties: str) -> Edit:
    """A service as ``systemctl is-active`` and ``systemctl show`` answer of it."""
    shown = {"LoadState": "loaded", "ActiveState": state, **properties}
    text = "".join(f"{key}={value}\n" for key, value in shown.items())

    def edit(root: Path) -> None:
        node_gpu.daemon(Opened(root), name, state)
        put(f"cmd/systemctl_show_{name}.service", text)(root)

    return edit


def packages(**versions: str) -> Edit:
    return lambda root: void(Opened(root).write("var/lib/dpkg/status", dpkg_status({**node_stacks.DOCA_PACKAGES, **{
        name.replace("_", "-"): version for name, version in versions.items()}})))


def nvswitches(*addresses: str, device: str = "0x22a3") -> Edit:
    """NVSwitches on the bus."""

    def edit(root: Path) -> None:
        tree = Opened(root)
        for address in addresses or ("0000:d1:00.0", "0000:d2:00.0", "0000:d3:00.0", "0000:d4:00.0"):
            path = f"pci0000:{address[5:7]}/{address}"
            tree.pci_function(path, "nvidia-nvswitch", "0x10de", device, "1")
            node_stacks.on_bus(tree, path, "0x068000")

    return edit


def fabric_manager(version: str = f"{NVIDIA}-1") -> Edit:
    return together(unit(FM, "active"), packages(nvidia_fabricmanager=version))


def fabric_answers(state: str, status: str, count: int = 8) -> Edit:
    return together(put(FABRIC, f"{state}, {status}\n" * count), fabric("state", state, range(count)),
                    fabric("status", status, range(count)))


def without_modules(*names: str) -> Edit:
    """Take modules out of the kernel's list, also as users of others."""

    def edit(root: Path) -> None:
        lines = [line for line in (root / "proc/modules").read_text().splitlines() if line.split()[0] not in names]
        for name in names:
            lines = [line.replace(f" {name},", " ").replace(f",{name},", ",") for line in lines]
            if (root / f"sys/module/{name}").exists():
                remove(f"sys/module/{name}")(root)
        (root / "proc/modules").write_text("".join(line + "\n" for line in lines))

    return edit


def closed_driver(version: str) -> Edit:
    flavour = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Thu Apr 25 00:00:00 UTC 2026\n"
    return together(put("proc/driver/nvidia/version", flavour),
                    put(f"cmd/modinfo_-k_{KERNEL}_-F_license_nvidia", "NVIDIA\n"))


def nvidia_smi_fails(code: int, text: str) -> Edit:
    names = (DETAILS, PERSISTENCE, FABRIC)
    return together(*(edit for name in names for edit in (put(name, text), put(name + ".rc", f"{code}\n"))))


def module(netdev: str, *received: float, warn: float = 0.091) -> Edit:
    """A transceiver of four lanes in ethtool's form of CMIS modules; received power and its low warning threshold in mW."""
    rows = ["\tIdentifier                                : 0x19 (OSFP 8X Pluggable Transceiver)"]
    for lane, power in enumerate(received, 1):
        rows += [f"\tLaser tx bias current (Channel {lane})         : 7.812 mA",
                 f"\tTransmit avg optical power (Channel {lane})    : 1.4329 mW / 1.56 dBm",
                 f"\tRcvr signal avg optical power (Channel {lane}) : {power:.4f} mW / 0.00 dBm"]
    rows += [f"\tLaser rx power {kind} threshold : {value:.4f} mW / 0.00 dBm" for kind, value in (
        ("high alarm", 5.0119), ("low alarm", 0.0457), ("high warning", 3.9811), ("low warning", warn))]
    return together(put(f"cmd/ethtool_-m_{netdev}", "\n".join(rows) + "\n"),
                    put(f"cmd/ethtool_{netdev}", f"Settings for {netdev}:\n\tSpeed: 400000Mb/s\n\tLanes: 4\n"))


def acs(control: int) -> Edit:
    """ACS control of the switches' downstream ports above GPUs and NICs."""

    def edit(root: Path) -> None:
        for address in (root / "sys/bus/pci/devices").iterdir():
            if (address / "class").read_text().startswith("0x0604"):
                (address / "config").write_bytes(config_space(0x1000, 0xC030, DOWNSTREAM, acs=control))

    return edit


def iommu(kind: str) -> Edit:
    return lambda root: void([path.write_text(kind + "\n") for path in root.glob("sys/kernel/iommu_groups/*/type")])


def addresses(*changes: tuple[str, str]) -> Edit:
    return together(*(replace("cmd/ip_-j_addr", *change) for change in changes))


def bond(text: str) -> Edit:
    return put("proc/net/bonding/bond0", text)


def bonding(mode: str, members: str, *, partner: str = "94:6d:ae:aa:00:01", ports: int = 2) -> str:
    """/proc/net/bonding/bond0 (bond_procfs.c): head, information of 802.3ad, and ``members``."""
    return (
        f"Ethernet Channel Bonding Driver: v6.8.0-79-generic\n\nBonding Mode: {mode}\nTransmit Hash Policy: layer3+4 (1)\nMII Status: up\n"
        "MII Polling Interval (ms): 100\nUp Delay (ms): 0\nDown Delay (ms): 0\nPeer Notification Delay (ms): 0\n\n"
        + ("802.3ad info\nLACP active: on\nLACP rate: fast\nMin links: 0\nAggregator selection policy (ad_select): stable\n"
           "System priority: 65535\nSystem MAC address: b8:ce:f6:00:30:20\nActive Aggregator Info:\n\tAggregator ID: 1\n"
           f"\tNumber of ports: {ports}\n\tActor Key: 31\n\tPartner Key: 1\n\tPartner Mac Address: {partner}\n\n"
           if "802.3ad" in mode else "") + members)


def member(name: str, mac: str, *, aggregator: int = 1, churn: str = "none", partner: str = "94:6d:ae:aa:00:01", failures: int = 0,
           lacp: bool = True) -> str:
    text = (f"Slave Interface: {name}\nMII Status: up\nSpeed: 100000 Mbps\nDuplex: full\nLink Failure Count: {failures}\n"
            f"Permanent HW addr: {mac}\nSlave queue ID: 0\n")
    if lacp:
        text += (f"Aggregator ID: {aggregator}\nActor Churn State: {churn}\nPartner Churn State: {churn}\nActor Churned Count: 0\n"
                 f"Partner Churned Count: 0\ndetails actor lacp pdu:\n    system priority: 65535\n    system mac address: "
                 f"b8:ce:f6:00:30:20\n"
                 "    port key: 31\n    port priority: 255\n    port number: 1\n    port state: 63\ndetails partner lacp pdu:\n"
                 f"    system priority: 65535\n    system mac address: {partner}\n    oper key: 1\n    port priority: 255\n"
                 "    port number: 1\n    port state: 63\n")
    return text + "\n"


BONDED = (("ens20f0np0", "b8:ce:f6:00:30:20"), ("ens20f1np1", "b8:ce:f6:00:30:21"))
NONE = "00:00:00:00:00:00"
NO_LACP = bonding("IEEE 802.3ad Dynamic link aggregation", "".join(
    member(name, mac, aggregator=place, churn="churned", partner=NONE) for place, (name, mac) in enumerate(BONDED, 1)), partner=NONE,
        ports=1)


def qos(netdev: str, trust: str, pfc: Iterable[int]) -> Edit:
    """mlnx_qos -i NETDEV, as mlnx-tools prints it."""
    lossless = list(pfc)
    flags = "   ".join(str(int(priority in lossless)) for priority in range(8))
    lines = ["DCBX mode: OS controlled", f"Priority trust state: {trust}"]
    if trust == "dscp":
        lines.append("dscp2prio mapping:")
        lines += [f"\tprio:{prio} dscp:" + "".join(f"{dscp:02d}," for dscp in range(8 * prio + 7, 8 * prio - 1, -1)) for prio in range(8)]
    lines += ["default priority:", "Receive buffer size (bytes): 130944,130944,0,0,0,0,0,0,total_size=262016", "Cable len: 7",
              "PFC configuration:", "\tpriority    0   1   2   3   4   5   6   7", f"\tenabled     {flags}   ",
              "\tbuffer      0   0   0   0   0   0   0   0   "]
    for tc in range(8):
        lines += [f"tc: {tc} ratelimit: unlimited, tsa: vendor", f"\t priority:  {tc}"]
    return put(f"cmd/mlnx_qos_-i_{netdev}", "\n".join(lines) + "\n")


def inbox(root: Path) -> None:
    """The kernel's own RDMA drivers and the distribution's libraries in place of DOCA-OFED."""
    tree = Opened(root)
    for name in node_stacks.STACK_MODULES:
        (root / f"sys/module/{name}/version").unlink(missing_ok=True)
    without_modules("mlx_compat")(root)
    for place in ("var/lib/dkms/mlnx-ofed-kernel", f"usr/src/mlnx-ofed-kernel-{node_stacks.DOCA_DKMS}", "usr/src/ofa_kernel",
                  "usr/lib/systemd/system/openibd.service", "etc/systemd/system/sysinit.target.wants/openibd.service"):
        remove(place)(root)
    names = tuple(name for name in node_stacks.STACK_MODULES if name != "mlx_compat")
    node_stacks.modinfo(tree, KERNEL, names, "kernel/drivers/net/ethernet/mellanox/mlx5/core", ".ko.zst", "")
    dep = "".join(f"kernel/drivers/infiniband/{name}.ko.zst:\n" for name in names)
    tree.write(f"lib/modules/{KERNEL}/modules.dep", dep + "".join(f"updates/dkms/{name}.ko.zst:\n" for name in (
        "nvidia", "nvidia-uvm", "nvidia-peermem")))
    own = {name: version for name, version in node_stacks.DOCA_PACKAGES.items() if name.startswith(("linux-", "dkms", "libnccl"))}
    tree.write("var/lib/dpkg/status", dpkg_status({**own, **dict.fromkeys(("rdma-core", "libibverbs1", "ibverbs-providers"),
        "50.0-2build2")}))


def mounts(line: str) -> Edit:
    return together(put("proc/self/mounts", line), put("proc/self/mountinfo",
        "36 25 0:45 / /scratch rw,relatime - nfs4 10.20.0.9:/scratch rw\n"))


def secure_boot(root: Path) -> None:
    """No module of the driver loads: its functions have no driver, and nvidia-smi has nobody to ask."""
    without_modules("nvidia_peermem", "nvidia_uvm", "nvidia")(root)
    remove("proc/driver/nvidia")(root)
    for address in (root / "sys/bus/pci/devices").iterdir():
        if (address / "vendor").read_text().strip() == "0x10de" and (address / "driver").is_symlink():
            (address / "driver").unlink()


def no_device(root: Path) -> None:
    """Both eRDMA functions are on the bus, and the driver made no device of them."""
    for name in ("erdma_0", "erdma_1"):
        own = (root / f"sys/class/infiniband/{name}/device").resolve()
        unbound(own.name)(root)
    remove("sys/class/infiniband_verbs")(root)


def erdma_mac_gids(root: Path) -> None:
    """Standard mode: one GID, which holds the MAC address and is of no RoCE kind (erdma_query_gid)."""
    for name in ("erdma_0", "erdma_1"):
        base = root / f"sys/class/infiniband/{name}/ports/1"
        for index in (base / "gids").iterdir():
            index.write_text(ZERO_GID)
        put(f"sys/class/infiniband/{name}/ports/1/gids/0", "0016:3e12:3456:0000:0000:0000:0000:0000\n")(root)
        put(f"sys/class/infiniband/{name}/ports/1/gid_attrs/types/0", "IB/RoCE v1\n")(root)
        put(f"sys/class/infiniband/{name}/node_type", "4: RNIC\n")(root)
        put(f"sys/class/infiniband/{name}/ports/1/lid", "0x0\n")(root)
        put(f"sys/class/infiniband/{name}/ports/1/sm_lid", "0x0\n")(root)
    put("sys/module/erdma/parameters/compat_mode", "N\n")(root)


EFA_CLASS = together(*(pci(address, **{"class": "0x020000\n"}) for address in NICS))  # an Ethernet controller, by lspci


def efa_p2p(text: str, dmabuf: str) -> Edit:
    """amzn-drivers' attribute of each function, and what its devices and CUDA answer about dma-buf."""

    def edit(root: Path) -> None:
        for address in NICS:
            (function(root, address) / "p2p").write_text(text)
        put("cmd/railwright-probe-verbs", "".join(f"hca rdmap{place}s0 {dmabuf}\n" for place in range(8)))(root)
        put("cmd/railwright-probe-cuda", "".join(f"gpu {address} 1\n" for address in GPUS))(root)

    return edit


SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
NODE5 = NICS[5]
ROCE5 = f"mlx5_core {NODE5}: "
GPU5 = GPUS[5]
IPV6_RAIL = "fd00:10:2::11"
LIMITS_8M = ("Limit                     Soft Limit           Hard Limit           Units     \n"
             "Max locked memory         8388608              8388608              bytes     \n"
             "Max open files            1048576              1048576              files     \n")


def clocksource(current: str, available: str) -> Edit:
    base = "sys/devices/system/clocksource/clocksource0"
    return together(put(f"{base}/current_clocksource", current + "\n"), put(f"{base}/available_clocksource", available + "\n"))


def bridges(root: Path) -> None:
    """Four functions of the NVSwitches' management: the PCI id of a ConnectX-7, another firmware and PSID, and a word in the VPD."""
    tree = Opened(root)
    for number in range(4):
        path = f"pci0000:f0/0000:f0:{number + 1:02x}.0/0000:{0xF1 + number:02x}:00.0"
        port = Port(link_layer="InfiniBand", rate="400 Gb/sec (4X NDR)", gids=((0, f"fe80:0000:0000:0000:b83f:d203:00aa:00{number:02x}",
            "IB/RoCE v1", ""),),
                    state="2: INIT" if number == 3 else "4: ACTIVE", phys_state="5: LinkUp")
        tree.hca(Device(f"mlx5_{number + 8}", path, "mlx5_core", f"b83f:d203:00aa:00{number:02x}", (port,), fw_ver="28.43.1014",
                        board_id="MT_0000001235"))
        node_stacks.on_bus(tree, path, "0x020700")
        tree.write(f"sys/devices/{path}/vpd",
                   b"\x82\x10\x00NVLink Bridge   \x90\x20\x00SN\x08MT0000" + b"%02d" % number + b"SMDL\x06SW_MNG\x78")
    unit(FM, "active")(root)


FAULTS: tuple[Fault, ...] = (
    Fault("h100-ib", "F01: a port stuck in INIT, no subnet manager", together(
        port("mlx5_3", state="2: INIT", sm_lid="0x0", lid="0xffff"), devinfo("mlx5_3", ("PORT_ACTIVE (4)", "PORT_INIT (2)")),
        put("sys/class/net/ens13np0/operstate", "down\n")), "port.state", "fail", "no subnet manager"),
    Fault("a100-roce", "F02: a port on half of its lanes", together(
        rate("mlx5_2", "100 Gb/sec (2X HDR)"), put("sys/class/net/ens12np0/speed", "100000\n"), put(
            "cmd/ethtool_ens12np0", "Settings for ens12np0:\n\tSpeed: 100000Mb/s\n\tLanes: 2\n")), "port.rate", "fail", "100"),
    Fault("h200-roce", "F03: a lane of a module receives too little light", module("ens15np0", 1.5438, 1.5812, 0.0643, 1.5765),
          "port.optics", "warn", "lane 3"),
    Fault("l40s-roce", "F04: a link that flaps, up at the moment", together(
        put("sys/class/net/ens10np0/carrier_changes", "3127\n"), put("sys/class/net/ens10np0/carrier_up_count", "1564\n"),
        put("sys/class/net/ens10np0/carrier_down_count", "1563\n"), counters("mlx5_0", link_downed=1563),
        put("cmd/ethtool_-S_ens10np0", "NIC statistics:\n     link_down_events_phy: 1563\n"),
        said(*[f"mlx5_core {NICS[0]} ens10np0: Link {word}" for _time in range(12) for word in ("down", "up")]), put(
            "proc/uptime", "42000.00 1.00\n")), "port.flaps", "fail", "went down 12 times"),
    Fault("h200-roce", "F05: a NIC trained at Gen4", together(
        pci(NICS[1], current_link_speed="16.0 GT/s PCIe\n"), lambda root: void((function(root, NICS[1]).parent / "current_link_speed")
                                                                             .write_text("16.0 GT/s PCIe\n")),
        said(f"mlx5_core {NICS[1]}: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 link at 0000:28:01.0 (capable of "
             "504.112 Gb/s with 32.0 GT/s PCIe x16 link)")), "pci.link_speed", "fail", "16 GT/s"),
    Fault("b200-roce", "F06: corrected PCIe errors pour in", together(
        pci(NICS[5], aer_dev_correctable="RxErr 0\nBadTLP 48211\nBadDLLP 19377\nRollover 12\nTimeout 3051\nNonFatalErr 0\nCorrIntErr 0\n"
            "HeaderOF 0\nTOTAL_ERR_COR 70651\n"),
        said(f"pcieport 0000:8a:01.0: AER: Multiple Correctable error message received from {NODE5}",
             ROCE5 + "PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)",
             ROCE5 + "  device [15b3:1021] error status/mask=00000040/0000e000", ROCE5 + "   [ 6] BadTLP                ")), "pci.aer",
          "warn", "70651 corrected"),
    Fault("h100-ib", "F07: a GPU fell off the bus", together(
        pci(GPU5, config=b"\xff" * 64, current_link_speed="Unknown\n", current_link_width="63\n"), smi_without(5), replace(
            DETAILS, "<attached_gpus>8<", "<attached_gpus>7<"),
        said(f"NVRM: GPU at PCI:{GPU5[:-2]}: GPU-5c1a1c0e-0000-4000-8000-9b0000000000",
             f"NVRM: Xid (PCI:{GPU5[:-2]}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
             f"NVRM: GPU {GPU5}: GPU has fallen off the bus.")), "gpu.xid", "fail", "Xid 79"),
    Fault("h200-roce", "F08: row remapping failed", together(tag("remapped_row_unc", "9", [3]), tag("remapped_row_failure", "Yes", [3])),
          "gpu.remap", "fail", "could not be remapped"),
    Fault("b200-roce", "F09: the driver demands a reboot", together(
        tag("gpu_recovery_action", "Reboot", [1]),
        said(f"NVRM: Xid (PCI:{GPUS[1][:-2]}): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")),
          "gpu.recovery", "fail", "Reboot"),
    Fault("h200-nvlink", "F10: two NVLinks of one GPU are inactive", nvlinks(*[EIGHTEEN] * 4, [HOPPER] * 6 + [0.0] * 2 + [HOPPER] * 10,
                                                                           EIGHTEEN), "gpu.nvlink", "fail", "16 of the board's 18"),
    Fault("h100-ib", "F11: the fabric manager is of another version than the driver", together(
        nvswitches(), unit(FM, "failed", SubState="failed", Result="exit-code", ExecMainStatus="1"), packages(
            nvidia_fabricmanager_580="580.105.08-1"), fabric_answers("In Progress", "N/A")), "gpu.fabricmanager", "fail", "580.105.08"),
    Fault("b200-roce", "F12: ib_umad is not loaded, the fabric manager cannot start", together(
        bridges, without_modules("ib_umad"), unit(FM, "failed", SubState="failed", Result="exit-code"), fabric_answers("In Progress",
            "N/A")),
          "gpu.fabricmanager", "fail", "ib_umad"),
    Fault("gb200-roce", "F13: the NVLink fabric is degraded", together(
        tag("state", "Completed", [2], "<fabric>"), tag("status", "Success", [2], "<fabric>"), tag("cliqueId", "1", [2], "<fabric>"),
        tag("clusterUuid", RACK, [2], "<fabric>"), tag("summary", "Unhealthy", [2], "<fabric>"),
        tag("bandwidth", "Degraded", [2], "<fabric>")), "gpu.fabric", "fail", "bandwidth degraded"),
    Fault("gb200-roce", "F14: IMEX is dead", together(
        unit(IMEX, "failed", UnitFileState="enabled", SubState="failed", Result="exit-code"), put(
            "etc/nvidia-imex/nodes_config.cfg", "".join(f"10.2.0.{node}\n" for node in range(1, 19)))), "gpu.imex", "fail",
          "nvidia-imex does not run"),
    Fault("a100-roce", "F15: a fatal SXid of an NVSwitch", together(
        nvswitches("0000:c5:00.0", device="0x1af1"), fabric_manager(), said(
            "nvidia-nvswitch0: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            "nvidia-nvswitch0: SXid (PCI:0000:c5:00.0): 20034, Severity 1 Engine instance 30 Sub-engine instance 00",
            f"NVRM: Xid (PCI:{GPUS[2][:-2]}): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x0, 0x0, "
            "0x10000, 0x0, 0x0, 0x0, 0x0)")), "gpu.sxid", "fail", "20034"),
    Fault("l40s-roce", "F16: a DIMM with a flood of corrected errors", together(
        put("sys/devices/system/edac/mc/mc1/ce_count", "48231\n"), put("sys/devices/system/edac/mc/mc1/ue_count", "0\n"),
        put("sys/devices/system/edac/mc/mc1/dimm3/dimm_ce_count", "48231\n"), put("sys/devices/system/edac/mc/mc1/dimm3/dimm_ue_count",
            "0\n"),
        put("sys/devices/system/edac/mc/mc1/dimm3/dimm_label", "CPU_SrcID#0_MC#1_Chan#1_DIMM#0\n"),
        put("sys/devices/system/edac/mc/mc1/seconds_since_reset", "412003\n"),
        said("EDAC MC1: 128 CE memory read error on CPU_SrcID#0_MC#1_Chan#1_DIMM#0 (channel:1 slot:0 page:0x30aa905 offset:0xa80 grain:32 "
             "syndrome:0x0 -  err_code:0x0101:0x0091  SystemAddress:0x30aa905a80 ProcessorSocketId:0x0 MemoryControllerId:0x1)",
             "mce: CMCI storm detected: switching to poll mode")), "node.memory", "warn", "CPU_SrcID#0_MC#1_Chan#1_DIMM#0"),
    Fault("two-fabrics", "F17: a NIC's firmware died", together(
        said(ROCE5 + "poll_health:825:(pid 0): device's health compromised - reached miss count",
             ROCE5 + "print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
             ROCE5 + "print_health_info:435:(pid 0): assert_var[0] 0x08040700",
             ROCE5 + "print_health_info:446:(pid 0): synd 0x1: firmware internal error"),
        put(f"cmd/devlink_health_show_pci-{NODE5}_reporter_fw_fatal",
            f"pci/{NODE5}:\n  reporter fw_fatal\n    state error error 1 recover 0\n")),
          "hca.health", "fail", NODE5),
    Fault("l40s-roce", "F18: the driver's libraries are newer than the loaded module", together(
        nvidia_smi_fails(18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.105\n"),
        put(f"cmd/modinfo_-k_{KERNEL}_-F_version_nvidia", "580.105.08\n"),
        said("NVRM: API mismatch: the client has the version 580.105.08, but",
            "NVRM: this kernel module has the version 580.95.05.  Please",
             "NVRM: make sure that this kernel module and all NVIDIA driver", "NVRM: components have the same version.")), "gpu.answers",
          "fail", "the driver was upgraded under"),
    Fault("h100-ib", "F19: the kernel refuses nvidia-peermem, and no DMA-BUF", together(
        without_modules("nvidia_peermem"), remove("sys/kernel/mm/memory_peers/nv_mem"), closed_driver(NVIDIA),
        replace("cmd/railwright-probe-cuda", " 1\n", " 0\n"), said(
            "nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client",
            "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)")), "gpudirect.peermem", "fail", "nvidia_peermem"),
    Fault("vm", "F20: Secure Boot keeps the GPU driver out", together(
        secure_boot, put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"), put("cmd/mokutil_--sb-state",
            "SecureBoot enabled\n"), put(SECURE_BOOT, b"\x06\x00\x00\x00\x01"),
        nvidia_smi_fails(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
        "latest NVIDIA "
                         "driver is installed and running.\n"),
        said("Loading of module with unavailable key is rejected")), "gpu.driver_loaded", "fail", "no NVIDIA driver is loaded"),
    Fault("h200-roce", "F21: ACS redirects in the PCIe switches of bare metal", acs(ACS_ALL), "pci.acs", "warn", "ReqRedir",
          validate=("pci.acs", "fail", "ReqRedir")),
    Fault("mi300x8", "F22: the IOMMU translates for MI300X", together(
        iommu("DMA-FQ"), put("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=UUID=0a1b ro\n"),
        said("iommu: Default domain type: Translated", "iommu: DMA domain TLB invalidation policy: lazy mode")), "pci.iommu", "warn",
          "iommu=pt", 4),
    Fault("mi300x8", "F23: uncorrectable HBM errors", together(
        amd(3, "ras/umc_err_count", "ue: 2\nce: 0\n"), amd(3, "ras/gpu_vram_bad_pages", "0x027f5d43 : 0x00001000 : P\n"),
        said(f"amdgpu {ADDRESSES[3]}: amdgpu: 2 uncorrectable hardware errors detected in umc block")), "accelerator.ras", "fail", "umc 2"),
    Fault("erdma", "F24: eRDMA functions that their driver could not initialise", together(
        no_device, said("erdma 0000:00:08.0: wait init done failed.", "erdma: probe of 0000:00:08.0 failed with error -110")), "hca.device",
          "fail", "0000:00:08.0"),
    Fault("erdma", "F25: eRDMA in standard mode where NCCL is to use verbs", together(
        erdma_mac_gids, put("etc/nccl.conf", "NCCL_IB_GID_INDEX=1\nNCCL_IB_HCA=erdma\n")), "nccl.gid", "fail", "NCCL_IB_GID_INDEX=1"),
    Fault("efa-p5", "F26: an EFA function without a device", together(
        EFA_CLASS, unbound(NICS[2]), said(f"efa {NICS[2]}: EFA device init failed")), "hca.device", "fail", NICS[2]),
    Fault("efa-p5", "F27: EFA without a provider of GPU memory", efa_p2p("\n", "EOPNOTSUPP"), "gpudirect.path",
        "warn", "attribute p2p is empty"),
    Fault("ipv6-only", "F28: a rail's IPv6 address is a duplicate", together(
        gids(2, 2, 3), addresses((f'"local": "{IPV6_RAIL}", "prefixlen": 64, "scope": "global"',
                                  f'"local": "{IPV6_RAIL}", "prefixlen": 64, "scope": "global", "dadfailed": true, "tentative": true')),
        said(f"IPv6: ens12np0: IPv6 duplicate address {IPV6_RAIL} used by 94:6d:ae:11:22:33 detected!")), "rail.duplicate", "fail",
            IPV6_RAIL),
    Fault("two-fabrics", "F29: two rails with one IPv4 address", together(
        addresses(("10.10.6.11", "10.10.5.11")),
        *(put(f"sys/class/infiniband/mlx5_6/ports/1/gids/{index}", "0000:0000:0000:0000:0000:ffff:0a0a:050b\n") for index in (2, 3))),
          "rail.duplicate", "fail", "10.10.5.11"),
    Fault("bond", "F30: LACP never came up", together(
        bond(NO_LACP), said("bond0: Warning: No 802.3ad response from the link partner for any adapters in the bond")), "port.bond", "fail",
          "does not answer LACP"),
    Fault("h200-roce", "F31: PFC and trust differ on one rail", together(
        *(qos(f"ens{rail + 10}np0", "dscp", [3]) for rail in range(8) if rail != 6), qos("ens16np0", "pcp", [])), "qos.peers", "warn",
            "trust", validate=()),
    Fault("h100-ib", "F32: nccl.conf names HCAs that do not exist", put(
        "etc/nccl.conf", "NCCL_IB_HCA==ibp24s0:1,ibp64s0:1,ibp79s0:1,ibp94s0:1\n"), "nccl.hcas", "fail", "ibp24s0"),
    Fault("a100-roce", "F33: a container runtime may lock 8 MiB", together(
        unit("containerd", "active"), put("cmd/systemctl_show_-p_Id_-p_LimitMEMLOCK_containerd.service",
                                          "Id=containerd.service\nLimitMEMLOCK=8388608\n"), put("proc/2211/comm", "containerd\n"), put(
            "proc/2211/limits", LIMITS_8M), put("etc/security/limits.d/rdma.conf", "* - memlock unlimited\n")), "node.memlock", "warn",
          "containerd"),
    Fault("two-fabrics", "F34: a cgroup forbids RDMA objects", put(
        "sys/fs/cgroup/kubepods.slice/rdma.max", "".join(f"mlx5_{rail} hca_handle=0 hca_object=0\n" for rail in range(8))),
            "node.rdma_limit",
          "warn", "kubepods.slice"),
    Fault("two-fabrics", "F35: an NFS server hangs", together(
        mounts("10.20.0.9:/scratch /scratch nfs4 rw,relatime,vers=4.2,hard,proto=rdma,port=20049,timeo=600 0 0\n"),
        put("proc/pressure/io", "some avg10=98.00 avg60=90.00 avg300=60.00 total=1\nfull avg10=97.21 avg60=88.00 avg300=60.00 total=1\n"),
        put("proc/48211/stat", "48211 (python3) D 1 48211 48211 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n"),
        put("proc/48211/wchan", "rpc_wait_bit_killable"),
        said("nfs: server 10.20.0.9 not responding, still trying", "INFO: task python3:48211 blocked for more than 122 seconds.",
             "      Tainted: P           OE      6.8.0-79-generic #79-Ubuntu",
             '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.')), "node.nfs", "fail", "10.20.0.9"),
    Fault("h200-roce", "F36: the TSC is unstable, the kernel runs on HPET", together(
        clocksource("hpet", "hpet acpi_pm "), said(
            "clocksource: timekeeping watchdog on CPU37: Marking clocksource 'tsc' as unstable because the skew is too large:",
            "tsc: Marking TSC unstable due to clocksource watchdog", "clocksource: Switched to clocksource hpet")), "node.clocksource",
                "warn",
          "hpet"),
    Fault("gb200-roce", "F37: a local NVMe is dead", together(
        put("sys/class/nvme/nvme2/state", "dead\n"), put("sys/block/md0/md/array_state", "broken\n"),
        said("nvme nvme2: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
             "nvme nvme2: Does your device have a faulty power saving mode enabled?",
             'nvme nvme2: Try "nvme_core.default_ps_max_latency_us=0 pcie_aspm=off pcie_port_pm=off" and report a bug',
             "nvme nvme2: Disabling device after reset failure: -19")), "node.disk", "fail", "nvme2"),
    Fault("l40s-roce", "F38: a GPU in thermal slowdown", together(
        tag("gpu_temp", "93 C", [2]), tag("clocks_event_reason_hw_slowdown", "Active", [2]), tag(
            "clocks_event_reason_hw_thermal_slowdown", "Active", [2])), "gpu.thermal", "fail", "93 C"),
    Fault("h100-ib", "F39: the power brake is on for all GPUs", together(
        tag("clocks_event_reason_hw_power_brake_slowdown", "Active"), tag("clocks_event_reason_hw_slowdown", "Active"), tag(
            "sm_clock", "345 MHz", begin="<clocks>"), put("cmd/ipmitool_sdr_type_Power_Supply",
                                                          "PS3 Status       | C4h | ok  | 10.3 | Presence detected, Failure detected\n")),
          "gpu.clocks", "fail", "power brake"),
    Fault("vm", "F40: RoCE is off by devlink", together(
        gids(2, *range(4)), put("cmd/devlink_dev_param_show_pci-0000:00:0d.0_name_enable_roce",
                                "pci/0000:00:0d.0:\n  name enable_roce type generic\n    values:\n      cmode driverinit value false\n")),
          "rail.gid", "fail", "mlx5_2", validate="rail2"),
)


def unplugged(root: Path) -> None:
    """The second port of a storage NIC: no cable, administratively down, no address, a placeholder for a rate."""
    netdev = extra_nic(Opened(root), 9, 0x81, "40 Gb/sec (4X QDR)", **DOWN)
    put(f"sys/class/net/{netdev}/operstate", "down\n")(root)
    said("mlx5_core 0000:82:00.0: Port module event: module 1, Cable unplugged")(root)
    put("cmd/mlxlink_-d_mlx5_9_-p_1_-m_-c_--json", json.dumps({"result": {"output": {"Operational Info": {"State": "Disable"}}}}))(root)


IB = [f"mlx5_{rail}" for rail in range(8)]
COPPER = {"Temperature [C]": "0 [0..0]", "Voltage [mV]": "0 [0..0]", "Rx Power Current [dBm]": "0,0,0,0 [0..0]",
          "Tx Power Current [dBm]": "0,0,0,0 [0..0]", "Bias Current [mA]": "0,0,0,0 [0..0]", "Cable Type": "Passive copper cable",
          "Cable Technology": "Copper cable unequalized"}


def raw_errors(hca: str) -> Edit:
    """mlxlink -c of a healthy PAM4 link."""
    raw = {"Raw Physical Errors Per Lane": "747567424,215603747,158456437,30578923", "Raw Physical BER": "4E-7", "Symbol Errors": "0",
           "Effective Physical Errors": "0"}

    def edit(root: Path) -> None:
        mlxlink(hca)(root)
        path = root / f"cmd/mlxlink_-d_{hca}_-p_1_-m_-c_--json"
        answer = json.loads(path.read_text())
        answer["result"]["output"]["Physical Counters and BER Info"].update(raw)
        path.write_text(json.dumps(answer))

    return edit


def numa(nodes: int, memory: str) -> Edit:
    base = "sys/devices/system/node"
    return together(
        put(f"{base}/online", f"0-{nodes - 1}\n"), put(f"{base}/has_cpu", "0-1\n"), put(f"{base}/has_memory", memory + "\n"),
        *(put(f"{base}/node{node}/meminfo", f"Node {node} MemTotal:              0 kB\n") for node in range(2, nodes)),
        *(put(f"{base}/node{node}/cpulist", "\n") for node in range(2, nodes)))


def root_ports_of_vm(root: Path) -> None:
    """QEMU's pcie-root-port above each function: 2.5 GT/s x1, while the device itself has its own link."""
    for address in (root / "sys/bus/pci/devices").iterdir():
        if (address / "class").read_text().startswith(("0x0302", "0x0200", "0x0207")):
            pci(address.name, current_link_speed="32.0 GT/s PCIe\n", max_link_speed="32.0 GT/s PCIe\n", current_link_width="16\n",
                max_link_width="16\n")(root)
    said("pci 0000:00:03.0: 2.000 Gb/s available PCIe bandwidth, limited by 2.5 GT/s PCIe x1 link at 0000:00:02.4 (capable of 504.112 Gb/s "
         "with 32.0 GT/s PCIe x16 link)")(root)


def idle_link(address: str) -> Edit:
    """The link of an idle GPU at its lowest speed, at both of its ends."""
    return together(pci(address, current_link_speed="2.5 GT/s PCIe\n"), lambda root: void(
        (function(root, address).parent / "current_link_speed").write_text("2.5 GT/s PCIe\n")))


idle_links = together(*map(idle_link, GPUS), tag("current_link_gen", "1"), tag("performance_state", "P8"))


def mig(root: Path) -> None:
    for name, value in (("current_mig", "Enabled"), ("pending_mig", "Enabled"), ("gpu_util", "N/A"), ("used", "81 MiB")):
        tag(name, value)(root)
    for name in ("remapped_row_corr", "remapped_row_unc", "remapped_row_pending", "remapped_row_failure"):
        tag(name, "N/A")(root)
    nvlinks([0.0] * 12)(root)


def infiniband_without_ipoib(root: Path) -> None:
    for rail in range(4):
        netdev = root / f"sys/class/net/ens{rail + 10}np0"
        (netdev / "operstate").write_text("down\n")
        (netdev / "mtu").write_text("2044\n")
    text = json.loads((root / "cmd/ip_-j_addr").read_text())
    for row in text:
        if row["ifname"] in [f"ens{rail + 10}np0" for rail in range(4)]:
            row["addr_info"], row["flags"] = [], ["BROADCAST", "MULTICAST"]
    put("cmd/ip_-j_addr", json.dumps(text))(root)
    without_modules("ib_ipoib")(root)
    put("etc/nccl.conf", "NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3\nNCCL_SOCKET_IFNAME=eth0\n")(root)


def erdma_netdevs(root: Path) -> None:
    for number in range(3):
        put(f"sys/class/net/eth{number}/mtu", "1500\n")(root)
        put(f"sys/class/net/eth{number}/speed", "-1\n")(root)
    for name in ("erdma_0", "erdma_1"):
        put(f"sys/class/infiniband/{name}/ports/1/rate", "10 Gb/sec (4X SDR)\n")(root)
    path = root / "cmd/ibv_devinfo"
    path.write_text(path.read_text().replace("4096 (5)", "1024 (3)"))


CPU = "sys/devices/system/cpu"
REFUSED = (f"mlx5_core {NICS[7]}: mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), "
           "syndrome (0x305684), err(-22)")
CUDA_JOB = "pid=1587983, name=python3"
GPU0 = f"NVRM: Xid (PCI:{GPUS[6][:-2]}): "
LACP = bonding("IEEE 802.3ad Dynamic link aggregation", "".join(member(name, mac) for name, mac in BONDED))
BACKUP = bonding("fault-tolerance (active-backup)", "".join(member(name, mac, failures=1 - place, lacp=False) for place, (
    name, mac) in enumerate(BONDED))).replace("MII Status: up\nMII Polling",
        "Currently Active Slave: ens20f0np0\nMII Status: up\nMII Polling")

HEALTHY: tuple[Healthy, ...] = (
    Healthy("b200-roce", "H01: four functions that manage NVSwitches", bridges, ("port.state", "hca.fw_ver", "gpu.near", "port.rate")),
    Healthy("h200-roce", "H02: the second port of the storage NIC has no cable", unplugged, ("port.state", "port.rate", "port.optics")),
    Healthy("h100-ib", "H03: passive copper measures no light", together(*(mlxlink(hca, **COPPER) for hca in IB)), ("port.optics",
        "port.cable")),
    Healthy("h100-ib", "H04: raw errors in millions, none after FEC", together(*map(raw_errors, IB)), ("port.ber", "port.fec")),
    Healthy("h100-ib", "H05: VL15 drops and waits for credits", together(*(counters(
        hca, VL15_dropped=37, port_xmit_wait=918273645546, multicast_rcv_packets=0, port_rcv_errors=0, symbol_error=0, link_downed=0,
        local_link_integrity_errors=0) for hca in IB)), ("port.ber", "port.flaps", "port.errors")),
    Healthy("h200-roce", "H06: congestion control at work", together(
        hw_counters("mlx5_0", np_ecn_marked_roce_packets=48213377, np_cnp_sent=48213377, rp_cnp_handled=39920112, roce_adp_retrans=0,
                    out_of_sequence=5120, rx_icrc_encapsulated=0, packet_seq_err=0, local_ack_timeout_err=0),
        put("cmd/ethtool_-S_ens10np0", "NIC statistics:\n     rx_prio3_pause: 1523411\n     tx_prio3_pause: 892\n")), ("qos.storm",
            "port.ber")),
    Healthy("l40s-roce", "H07: idle L40S at 2.5 GT/s", idle_links),
    Healthy("l40s-roce", "H08: no NVLink and no fabric manager", together(
        put("cmd/nvidia-smi_nvlink_--status", "".join(
            f"GPU {number}: NVIDIA L40S (UUID: GPU-00000000-0000-4000-8000-{number:012x})\n"
            "\t NVML: Unable to retrieve NVLink information as all links are inActive\n" for number in range(8))),
        fabric_answers("N/A", "N/A"),
        put("cmd/systemctl_show_nvidia-fabricmanager.service", "LoadState=not-found\nActiveState=inactive\n")),
            ("gpu.nvlink", "gpu.fabricmanager")),
    Healthy("gb200-roce", "H09: a tray without fabric manager and NVSwitches", together(
        put("cmd/systemctl_show_nvidia-fabricmanager.service", "LoadState=not-found\nActiveState=inactive\n"),
        put("cmd/nvidia-smi_nvlink_--status", "".join(
            f"GPU {number}: NVIDIA GB200 (UUID: GPU-00000000-0000-4000-8000-{number:012x})\n" + "".join(
                f"\t Link {place}: 50 GB/s\n" for place in range(18)) for number in range(4)))), ("gpu.fabricmanager", "gpu.nvlink")),
    Healthy("gb200-roce", "H10: NUMA nodes without memory and CPUs", numa(34, "0-2,10,18,26"), ("pci.numa",)),
    Healthy("gb200-roce", "H11: Grace has no TSC, no SMT and 64K pages", together(
        clocksource("arch_sys_counter", "arch_sys_counter "), put(f"{CPU}/smt/control", "notimplemented\n"), put("cmd/getconf_PAGESIZE",
            "65536\n"),
        put("proc/sys/kernel/arch", "aarch64\n"), put("proc/meminfo", "MemTotal:       500000000 kB\nHugepagesize:     524288 kB\n")),
            ("node.clocksource",)),
    Healthy("vm", "H12: no function has a NUMA node", together(
        lambda root: void([(address / "numa_node").write_text("-1\n") for address in (root / "sys/bus/pci/devices").iterdir()]),
        put("sys/devices/system/node/online", "0\n")), ("pci.numa",)),
    Healthy("vm", "H13: the virtual root port is a 2.5 GT/s x1 link", root_ports_of_vm, ("pci.link_speed", "pci.link_width")),
    Healthy("vm", "H14: the fabric manager runs on the host", together(
        fabric_answers("Completed", "Success"), nvlinks(EIGHTEEN), tag("virtualization_mode", "Pass-Through"),
        put("cmd/systemctl_show_nvidia-fabricmanager.service", "LoadState=not-found\nActiveState=inactive\n")),
            ("gpu.fabricmanager", "gpu.nvlink")),
    Healthy("bond", "H15: RoCE LAG has one device for two functions", together(
        bond(LACP), put("sys/class/net/ens20f0np0/address", "b8:ce:f6:00:30:20\n"), put("sys/class/net/ens20f1np1/address",
            "b8:ce:f6:00:30:20\n"),
        said("mlx5_core 0000:41:00.0: lag map: port 1:1 port 2:1", "mlx5_core 0000:41:00.0: shared_fdb:1 mode:queue_affinity",
             "mlx5_core 0000:41:00.0: Operation mode is single FDB",
             "bond0: (slave ens20f1np1): Enslaving as a backup interface with an up link")), ("hca.device", "rail.duplicate", "port.bond")),
    Healthy("bond", "H16: active-backup, one member carries nothing", together(
        bond(BACKUP), put("sys/class/net/ens20f1np1/statistics/tx_bytes", "1024\n")), ("port.bond",)),
    Healthy("erdma", "H17: a GID that is a MAC, in standard mode", together(erdma_mac_gids), ("rail.gid", "port.state", "erdma.mode",
        "nccl.gid")),
    Healthy("erdma", "H18: interfaces of virtio_net, MTU 1500, no vendor's tool", erdma_netdevs, ("port.rate", "rail.mtu",
        "port.active_mtu")),
    Healthy("efa-p5", "H19: EFA has one GID, no LID and no interface", together(*(put(
        f"sys/class/infiniband/rdmap{place}s0/{name}", text) for place in range(4) for name, text in (
            ("ports/1/sm_lid", "0x0\n"), ("ports/1/lid", "0x0\n"), ("ports/1/lid_mask_count", "1\n"), ("node_type", "7: unspecified\n"),
            ("ports/1/gid_attrs/types/0", "IB/RoCE v1\n")))), ("port.state", "rail.gid")),
    Healthy("efa-p5", "H20: 10 GiB of huge pages that nobody uses", together(
        put("proc/meminfo", "HugePages_Total:    5128\nHugePages_Free:     5128\nHugepagesize:       2048 kB\n"),
        put("etc/sysctl.d/90-efa-hugepages.conf", "vm.nr_hugepages = 5128\n"))),
    Healthy("efa-p5", "H21: EFA's own way to GPU memory, no nvidia-peermem", efa_p2p("NVIDIA\n", "EOPNOTSUPP"),
        ("gpudirect.path",)),
    Healthy("ipv6-only", "H22: no IPv4 GID, index 3 is IPv6", put(
        "etc/nccl.conf", "NCCL_SOCKET_FAMILY=AF_INET6\nNCCL_IB_ADDR_FAMILY=AF_INET6\n"), ("rail.gid", "nccl.gid", "nccl.hcas")),
    Healthy("h200-roce", "H26: no nvidia-peermem with the open driver", together(
        inbox, without_modules("nvidia_peermem"), remove("sys/kernel/mm/memory_peers")),
            ("gpudirect.path", "gpudirect.peermem")),
    Healthy("a100-roce", "H27: a tainted kernel", together(
        put("proc/sys/kernel/tainted", "12289\n"), said(
            "nvidia: loading out-of-tree module taints kernel.", "nvidia: module license 'NVIDIA' taints kernel.",
            "Disabling lock debugging due to kernel taint",
            "nvidia: module verification failed: signature and/or required key missing - tainting kernel")), ("node.oops",)),
    Healthy("l40s-roce", "H28: the kernel's own RDMA drivers", together(
        inbox, without_modules("nvidia_peermem"), remove("sys/kernel/mm/memory_peers")), ("gpudirect.path", "stack.modules")),
    Healthy("a100-roce", "H29: MIG on, with instances", mig, ("gpu.nvlink", "gpu.remap", "gpu.mig")),
    Healthy("h100-ib", "H30: rows remapped in the past", together(
        tag("remapped_row_corr", "2", [1]), tag("remapped_row_unc", "1", [1]), tag("dram_uncorrectable", "1", [1], "<aggregate>")),
            ("gpu.remap", "gpu.ecc", "gpu.xid")),
    Healthy("h100-ib", "H31: Xids of an application", said(
        GPU0 + f"31, {CUDA_JOB}, Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC5 GPCCLIENT_T1_5 faulted @ 0x2ae1_d6600000. "
        "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE", GPU0 + f"43, {CUDA_JOB}, Ch 00000008",
            GPU0 + "45, pid=1587990, name=python3, Ch 0000000c"), (), {"gpu.xid": "Xid 31 may be the GPU's own fault"}),
    Healthy("h200-nvlink", "H32: SXid 22013 at boot", together(
        nvswitches("0000:0a:00.0"), fabric_manager(), said(
            "nvidia-nvswitch3: SXid (PCI:0000:0a:00.0): 22013, Non-fatal, Link 55 Minion Link DLREQ interrupt",
            "nvidia-nvswitch3: SXid (PCI:0000:0a:00.0): 22013, Severity 0 Engine instance 55 Sub-engine instance 00",
            "nvidia-nvswitch3: SXid (PCI:0000:0a:00.0): 22013, Data {0x00000037, 0x00000037, 0x00000000, 0x00000037}")), ("gpu.sxid",)),
    Healthy("h200-roce", "H33: powersave of intel_pstate", together(
        put(f"{CPU}/intel_pstate/status", "active\n"), *(put(f"{CPU}/cpu{number}/cpufreq/{name}", text) for number in range(4) for name,
            text in (
            ("scaling_driver", "intel_pstate\n"), ("scaling_governor", "powersave\n"), ("energy_performance_preference",
                "performance\n"))))),
    Healthy("l40s-roce", "H34: a RAID is being checked, images are full", put(
        "proc/mdstat", "Personalities : [raid1]\nmd0 : active raid1 nvme1n1p2[1] nvme0n1p2[0]\n"
        "      936640512 blocks super 1.2 [2/2] [UU]\n"
        "      [==>..................]  check = 14.2% (133012992/936640512) finish=71.3min speed=187654K/sec\n"), ("node.disk",)),
    Healthy("b200-roce", "H35: monitoring tools are refused a register", said(*[REFUSED] * 30), ("hca.health",)),
    Healthy("two-fabrics", "H36: InfiniBand rails without IP", infiniband_without_ipoib, ("port.state", "rail.gid", "rail.mtu",
        "nccl.hcas")),
    Healthy("two-fabrics", "H37: containers beyond their own memory", said(
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=985",
        "memory: usage 67108864kB, limit 67108864kB, failcnt 2113",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-1f.scope,mems_allowed=0-1,oom_memcg=/kubepods.slice/a,"
        "task_memcg=/kubepods.slice/a,task=python3,pid=48211,uid=1000",
        "Memory cgroup out of memory: Killed process 48211 (python3) total-vm:90000000kB, anon-rss:66000000kB, file-rss:0kB, "
        "shmem-rss:0kB, UID:1000 pgtables:130000kB oom_score_adj:985",
        "pt_main_thread[50112]: segfault at 7f797fe00000 ip 00007f7c7ac69996 sp 00007f7c12fd7c30 error 4 in libnccl.so.2[7f7c7+1000]")),
    Healthy("h200-roce", "H38: nccl.conf that excludes, and comments", together(
        nic(8, 0xE0), nic(9, 0xE4), put(
            "etc/nccl.conf", "# rails only, storage NICs out\nNCCL_IB_HCA=^mlx5_8,mlx5_9\nNCCL_SOCKET_IFNAME==eth0\n"
                                        "#NCCL_IB_DISABLE=1\nNCCL_IB_TC=106\n")), ("nccl.hcas", "nccl.gid")),
    Healthy("h100-ib", "H39: busy GPUs at the power cap, idle ones slow", together(
        tag("clocks_event_reason_sw_power_cap", "Active", range(4)), tag("clocks_event_reason_gpu_idle", "Not Active", range(4)),
        tag("gpu_util", "100 %", range(4)), tag("sm_clock", "1395 MHz", range(4), "<clocks>"), tag("sm_clock", "345 MHz", range(4, 8),
            "<clocks>")),
            ("gpu.clocks", "gpu.thermal", "gpu.power")),
    Healthy("vm", "H40: a guest's clock, Secure Boot, no EDAC, no IOMMU", together(
        clocksource("kvm-clock", "kvm-clock tsc acpi_pm "), put("cmd/mokutil_--sb-state", "SecureBoot enabled\n"), put(SECURE_BOOT,
            b"\x06\x00\x00\x00\x01"),
        put("var/lib/shim-signed/mok/MOK.der", "key"), put(
            "cmd/mokutil_--test-key_-var-lib-shim-signed-mok-MOK.der", "/var/lib/shim-signed/mok/MOK.der is already enrolled\n"),
        put("proc/sys/kernel/tainted", "4097\n"), lambda root: void((root / "sys/devices/system/edac/mc").mkdir(parents=True)),
        remove("sys/kernel/iommu_groups"), put("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=UUID=0a1b ro\n")),
            ("node.clocksource", "stack.secure_boot", "pci.acs", "pci.iommu", "node.memory")),
)
FAULTS += (
    Fault("l40s-roce", "H07: the speed of idle GPUs' links", idle_links, "pci.link_speed", "unknown", "inspect again under load", 0),
    Fault("l40s-roce", "one of the idle GPUs at 2.5 GT/s", idle_link(GPUS[3]), "pci.link_speed", "warn", "2.5 GT/s"),
)
SLURMD = together(unit("slurmd", "active"), put("cmd/systemctl_show_-p_Id_-p_LimitMEMLOCK_slurmd.service",
                                               "Id=slurmd.service\nLimitMEMLOCK=65536\n"))
CONF = "etc/nccl.conf"
# Beside the list: the other ways in which the checks that it asked for fail and warn.
FAULTS += (
    Fault("h200-roce", "NCCL_IB_HCA excludes all HCAs", put(CONF, "NCCL_IB_HCA=^mlx5\n"), "nccl.hcas", "fail", "no RDMA device"),
    Fault("h200-roce", "NCCL_IB_HCA names a device too many", put(CONF, "NCCL_IB_HCA=mlx5_0,mlx5_1,rdma0\n"), "nccl.hcas", "warn", "rdma0"),
    Fault("h200-roce", "NCCL_IB_GID_INDEX names RoCE v1", put(CONF, "NCCL_IB_GID_INDEX=2\n"), "nccl.gid", "fail", "that is index 3"),
    Fault("h200-roce", "NCCL_IB_GID_INDEX names a link-local GID, and there is no other", together(
        put(CONF, "NCCL_IB_GID_INDEX=1\n"), *(gids(rail, 2, 3) for rail in range(8))), "nccl.gid", "warn", "link-local",
          validate=("nccl.gid", "fail", "link-local")),
    Fault("bond", "LACP without a partner, seen without root", bond(NO_LACP.replace(f"\tPartner Mac Address: {NONE}\n", "")), "port.bond",
          "fail", "does not answer LACP"),
    Fault("bond", "members at two switches without MLAG", bond(NO_LACP.replace(NONE, "94:6d:ae:aa:00:01").replace("churned", "none")),
          "port.bond", "warn", "2 aggregators"),
    Fault("bond", "a member without a link", bond(LACP.replace("ens20f1np1\nMII Status: up", "ens20f1np1\nMII Status: down")), "port.bond",
          "warn", "ens20f1np1 has no link"),
    Fault("h200-roce", "PFC on another priority on one rail", together(
        *(qos(f"ens{rail + 10}np0", "dscp", [4 if rail == 2 else 3]) for rail in range(8))), "qos.peers", "warn", "PFC 4", validate=()),
    Fault("l40s-roce", "the ACPI timer is the clock source", clocksource("acpi_pm", "acpi_pm "), "node.clocksource", "warn", "acpi_pm"),
    Fault("a100-roce", "slurmd may lock 64 KiB", SLURMD, "node.memlock", "warn", "slurmd.service"),
    Fault("h200-roce", "a cgroup below without RDMA objects", put("sys/fs/cgroup/system.slice/jobs.slice/rdma.max", "mlx5_0 hca_handle=max "
          "hca_object=0\n"), "node.rdma_limit", "warn", "system.slice/jobs.slice"),
)
HEALTHY += (
    Healthy("h200-roce", "one /32 on all rails of a routed host", addresses(*(
        (f'"local": "10.10.{rail}.11", "prefixlen": 24', '"local": "10.9.9.9", "prefixlen": 32')
        for rail in range(8))), ("rail.duplicate",)),
    Healthy("h200-roce", "NCCL's settings fit the node", put(CONF, "NCCL_IB_HCA=mlx5\nNCCL_IB_GID_INDEX=3\n"), ("nccl.hcas", "nccl.gid")),
)
HEALTHY += (  # check ends 4 on every node with an MI300X, because its model is not judged
    Healthy("mi300x8", "H23: eight MI300X in CPX are healthy", together(
        *(amd(number, name, text) for number in range(8) for name, text in (
            ("current_compute_partition", "CPX\n"), ("current_memory_partition", "NPS4\n"))))),
    Healthy("mi300x8", "H24: corrected errors and retired pages are healthy", together(
        amd(5, "ras/umc_err_count", "ue: 0\nce: 3\n"), amd(5, "ras/gpu_vram_bad_pages", "0x027f5d43 : 0x00001000 : R\n" * 8))),
    Healthy("mi300x8", "H25: no peer memory module is healthy", together(
        remove("sys/module/amdgpu/version"), put("boot/config-6.8.0-60-generic", "CONFIG_PCI_P2PDMA=y\nCONFIG_DMABUF_MOVE_NOTIFY=y\n"))),
)
