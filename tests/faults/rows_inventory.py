# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of what an inventory expects: rails, counts, versions, the stack and its next boot, GPUDirect, QoS, eRDMA, and settings on disk."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fixtures import node_qos
from tests.fixtures.node_firmware import HEALTHY as FIRMWARE
from tests.fixtures.node_firmware import config_table, flash_query
from tests.fixtures.node_gpudirect import OTHER_CRC, answers, peermem
from tests.fixtures.node_stacks import DOCA_DKMS, NVIDIA, UBUNTU_KERNEL, kernel

from nccl_files import elf

from .edits import Difference, Edit, Fault, Healthy, all_of, nothing, off_the_bus, port, put, remove, replace, together, without_rdma
from .rows_boards import fabric_says
from .trees import GPUS, NICS, Opened

MODULES = "proc/modules"
NEXT = "6.8.0-90-generic"
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
VERBS, CUDA = "cmd/railwright-probe-verbs", "cmd/railwright-probe-cuda"
DMABUF = {"gpudirect_path": "dmabuf"}
PSID = "MT_0000000838"
CONF = "etc/nccl.conf"
PROVIDER = "usr/lib64/libibverbs/liberdma-rdmav34.so"
LIBNCCL = "opt/railwright/nccl/1/lib/libnccl.so.2"


def gone(rail: int) -> Edit:
    """The interface of a rail, as a renamed or removed one: no match of the inventory finds it."""
    return off_the_bus(NICS[rail])


def address(before: str, after: str) -> Edit:
    return replace("cmd/ip_-j_addr", before, after)


def newer_kernel(headers: bool = True) -> Edit:
    """A kernel that the next boot starts, without DKMS's modules."""
    return lambda root: kernel(Opened(root), NEXT, "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko.zst:\n", headers=headers)


def conf(name: str, value: str) -> Edit:
    """Another value of a variable in nccl.conf."""

    def edit(root: Path) -> None:
        lines = [line for line in (root / CONF).read_text().splitlines() if not line.startswith(f"{name}=")]
        put(CONF, "\n".join([*lines, f"{name}={value}", ""]))(root)

    return edit


def half_installed(name: str) -> Edit:
    """dpkg stopped before it had configured a package."""

    def edit(root: Path) -> None:
        head, mark, rest = (root / "var/lib/dpkg/status").read_text().partition(f"Package: {name}\n")
        assert mark
        put("var/lib/dpkg/status", head + mark + rest.replace("install ok installed", "install ok half-configured", 1))(root)

    return edit


def dropping(port_rule: str = "") -> Edit:
    chain = {"chain": {"family": "inet", "table": "filter", "name": "input", "handle": 1, "type": "filter", "hook": "input", "prio": 0,
                       "policy": "accept" if port_rule else "drop"}}
    rule = {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 3, "expr": [
        {"match": {"op": "==", "left": {"payload": {"protocol": port_rule, "field": "dport"}}, "right": 4791}}, {"drop": None}]}}
    table = {"table": {"family": "inet", "name": "filter", "handle": 1}}
    return put("cmd/nft_-j_list_ruleset", json.dumps({"nftables": [table, chain, *([rule] if port_rule else [])]}))


def firmware_setting(nic: str, **values: tuple[str, str, str]) -> Edit:
    return put(f"cmd/mstconfig_-d_{nic}_-e_q", config_table(nic, {**FIRMWARE, **values}))


def dcb(name: str, **changed: object) -> Edit:
    """Another value in an answer of dcb, for the NIC of the lossless chain."""

    def edit(root: Path) -> None:
        path = root / node_qos.DCB.format(name)
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))

    return edit


def gds(*drivers: str, module: bool = True) -> Edit:
    """nvidia-fs on disk, and loaded, with what registered with it."""

    def edit(root: Path) -> None:
        dep = root / f"lib/modules/{UBUNTU_KERNEL}/modules.dep"
        dep.write_text(dep.read_text() + "updates/dkms/nvidia-fs.ko.zst:\n")
        if module:
            put(MODULES, (root / MODULES).read_text() + "nvidia_fs 4096 0 - Live 0x0\n")(root)
            put("proc/driver/nvidia-fs/version", "version: 2.26.6\n")(root)
            put("proc/driver/nvidia-fs/modules", "".join(f"{driver}: 2.26.6\n" for driver in drivers))(root)

    return edit


def probe(hca: str, answer: str) -> Edit:
    return lambda root: put(VERBS, "".join(f"hca {line.split()[1]} {answer}\n" if line.split()[1] == hca else line + "\n"
                                           for line in (root / VERBS).read_text().splitlines()))(root)


RAILS = (
    Difference("h200-roce", "a rail whose HCA is gone", gone(3), "rail.device", "fail", "no device with pci"),
    Difference("h100-ib", "a rail without an RDMA device", without_rdma(NICS[5]), "rail.device", "fail", "no RDMA device is on it"),
    Difference("soft-roce", "the Soft-RoCE device is gone", together(
        remove("sys/class/infiniband/rxe0"), remove("sys/devices/virtual/infiniband")), "rail.device", "fail",
               "no RDMA device is on it"),
    Difference("a100-roce", "a rail without its address", address('"local": "10.10.4.11"', '"local": "10.10.4.12"'), "rail.address", "fail",
               "10.10.4.11/24 is not on"),
    Difference("ipv6-only", "a rail with another prefix", address('"local": "fd00:10:2::11", "prefixlen": 64',
                                                                  '"local": "fd00:10:2::11", "prefixlen": 128'), "rail.address", "fail",
               "fd00:10:2::11/64 is not on"),
    Difference("gb200-roce", "all MTUs are 1500", all_of(lambda rail: put(f"sys/class/net/ens1{rail}np0/mtu", "1500\n"), list("0123")),
               "rail.mtu", "fail", "1500"),
    Difference("b200-roce", "NCCL takes the GID of RoCE v1", conf("NCCL_IB_GID_INDEX", "2"), "nccl.gid", "fail", "NCCL_IB_GID_INDEX=2"),
    Difference("h200-roce", "NCCL takes a GID without an address", conf("NCCL_IB_GID_INDEX", "0"), "nccl.gid", "fail",
               "NCCL_IB_GID_INDEX=0"),
    Difference("a100-roce", "an NCCL that finds no GID by itself", put(LIBNCCL, elf("2.18.5", "12.2")), "nccl.gid", "fail", "2.18.5"),
    Difference("h200-roce", "all ports at half of the rate", all_of(lambda hca: port(hca, rate="200 Gb/sec (4X HDR)"), [
        f"mlx5_{rail}" for rail in range(8)]), "port.rate", "fail", "200, below 400"),
    Difference("h200-roce", "all HCAs of another firmware", all_of(lambda hca: put(f"sys/class/infiniband/{hca}/fw_ver", "28.39.1002\n"), [
        f"mlx5_{rail}" for rail in range(8)]), "hca.fw_ver", "fail", "28.39.1002, not 28.47.1080"),
    Difference("b200-roce", "an HCA of another type", put("sys/class/infiniband/mlx5_3/hca_type", "MT4123\n"), "hca.hca_type", "fail",
               "MT4123"),
    Difference("h100-ib", "an HCA of another type", put("sys/class/infiniband/mlx5_3/hca_type", "MT41692\n"), "hca.hca_type", "fail",
               "MT41692"),
)
COUNTS = (
    Difference("h100-ib", "seven of eight HCAs", gone(2), "node.hcas", "fail", "7, not 8"),
    Difference("bond", "seven of eight HCAs", off_the_bus("0000:33:00.0"), "node.hcas", "fail", "7, not 8"),
    Difference("vm", "seven of eight GPUs", off_the_bus("0000:00:05.0"), "gpu.count", "fail", "7, not 8"),
    Difference("gb200-roce", "three of four GPUs", off_the_bus(GPUS[1]), "gpu.count", "fail", "3, not 4"),
    Difference("b200-roce", "a driver of another branch", nothing, "gpu.driver", "fail", "580.95.05, not 570",
               {"expect": {"gpu_driver": "570"}}),
    Difference("l40s-roce", "the driver is not loaded", together(
        replace(MODULES, "nvidia", "other"), remove("proc/driver/nvidia/version"), remove("sys/module/nvidia")), "gpu.driver", "fail",
               "no NVIDIA driver is loaded"),
    Difference("a100-roce", "persistence mode off", replace(
        "cmd/nvidia-smi_--query-gpu=pci.bus_id,persistence_mode_--format=csv,noheader", "Enabled", "Disabled"), "gpu.persistence", "fail",
               "off on", {"gpu_driver_branch": "580"}),
    Difference("h200-roce", "a fabric manager is wanted and not installed", nothing, "gpu.fabricmanager", "fail", "not installed",
               {"gpu_driver_fabricmanager": True, "gpu_driver_branch": "580"}),
    Difference("h200-nvlink", "the fabric is in progress", fabric_says("In Progress, N/A", 8), "gpu.fabricmanager", "fail", "In Progress"),
    Difference("h100-ib", "the distribution's subnet manager on NDR", replace(
        "var/lib/dpkg/status", "Package: perftest",
        "Package: opensm\nStatus: install ok installed\nArchitecture: amd64\nVersion: 3.3.23-2\n\n"
        "Package: perftest"), "opensm.build", "warn", "3.3.23", {"network_opensm": True}),
    Difference("h100-ib", "an older subnet manager of the distribution on NDR", replace(
        "var/lib/dpkg/status", "Package: perftest",
        "Package: opensm\nStatus: install ok installed\nArchitecture: amd64\nVersion: 3.3.20-1\n\n"
        "Package: perftest"), "opensm.build", "warn", "3.3.20", {"network_opensm": True}),
)
STACK = (
    Difference("h200-roce", "another kernel runs than is pinned", newer_kernel(), "kernel.pinned", "fail", "not 6.8.0-90-generic",
               {"kernel_version": NEXT}),
    Difference("b200-roce", "the next boot starts another kernel than is pinned", newer_kernel(), "kernel.pinned", "fail",
               "the next boot starts",
               {"kernel_version": UBUNTU_KERNEL}),
    Difference("h200-roce", "firmware that waits for a reset", put(f"cmd/mstflint_-d_{NICS[0]}_q", flash_query("28.48.1000", PSID)),
               "firmware.version", "fail", "in flash", {"nic_firmware_versions": {PSID: "28.47.1080"}}),
    Difference("b200-roce", "firmware of another version", nothing, "firmware.version", "fail", "not 28.48.1000", {
        "nic_firmware_versions": {PSID: "28.48.1000"}}),
    Difference("h200-roce", "a firmware setting of another value", nothing, "firmware.config", "fail", "ATS_ENABLED is", {
        "nic_firmware_config": {"ATS_ENABLED": True}}),
    Difference("a100-roce", "a firmware setting that waits for a reboot", firmware_setting(NICS[2], NUM_OF_VFS=("0", "0", "8")),
               "firmware.config", "fail", "after a reboot", {"nic_firmware_config": {"NUM_OF_VFS": 8}}),
    Difference("h200-roce", "the peer memory module is built for another stack", lambda root: peermem(
        Opened(root), UBUNTU_KERNEL, "updates/dkms/nvidia-peermem.ko.zst", OTHER_CRC), "gpudirect.built", "fail", "another RDMA stack", {
            "gpudirect_path": "nvidia_peermem"}),
    Difference("b200-roce", "the peer memory module was built before OFED", lambda root: peermem(
        Opened(root), UBUNTU_KERNEL, "updates/dkms/nvidia-peermem.ko.zst", None), "gpudirect.built", "fail", "before OFED", {
            "gpudirect_path": "nvidia_peermem"}),
    Difference("h100-ib", "the peer memory module is not loaded", together(
        replace(MODULES, "nvidia_peermem", "other"), remove("sys/module/nvidia_peermem")), "gpudirect.peermem", "fail", "is not loaded", {
            "gpudirect_path": "nvidia_peermem"}),
)
STACK_FAULTS = (
    Fault("b200-roce", "the next boot starts a kernel without the stack's modules", newer_kernel(), "kernel.newest", "fail", NEXT),
    Fault("h100-ib", "the next boot starts a kernel without the stack's modules", newer_kernel(), "kernel.newest", "fail", "has not built"),
    Fault("h200-roce", "no headers for the next kernel", newer_kernel(headers=False), "stack.headers", "warn", NEXT, 1),
    Fault("a100-roce", "no headers for the running kernel", remove(f"usr/src/linux-headers-{UBUNTU_KERNEL}"), "stack.headers", "warn",
          UBUNTU_KERNEL),
    Fault("a100-roce", "the stack is not built for the running kernel", remove(
        f"var/lib/dkms/mlnx-ofed-kernel/kernel-{UBUNTU_KERNEL}-x86_64"), "stack.dkms", "fail", f"mlnx-ofed-kernel/{DOCA_DKMS}"),
    Fault("l40s-roce", "the driver is not built for the running kernel", remove(f"var/lib/dkms/nvidia/kernel-{UBUNTU_KERNEL}-x86_64"),
          "stack.dkms", "fail", f"nvidia/{NVIDIA}"),
    Fault("b200-roce", "the stack was upgraded under its loaded modules", replace(
        f"cmd/modinfo_-k_{UBUNTU_KERNEL}_mlx5_core", "0123456789ABCDEF012345", "FEDCBA9876543210FEDCBA"), "stack.modules", "fail",
        "mlx5_core"),
    Fault("ipv6-only", "ib_core was loaded before the stack was installed", replace(
        f"cmd/modinfo_-k_{UBUNTU_KERNEL}_ib_core", "0123456789ABCDEF012345", "FEDCBA9876543210FEDCBA"), "stack.modules", "fail", "ib_core"),
    Fault("h100-ib", "dpkg stopped half-way through the stack", half_installed("mlnx-ofed-kernel-dkms"), "stack.packages", "fail",
          "mlnx-ofed-kernel-dkms"),
    Fault("gb200-roce", "dpkg stopped half-way through a library", half_installed("rdma-core"), "stack.packages", "fail", "rdma-core"),
    Fault("a100-roce", "Secure Boot without DKMS's key", together(put(SECURE_BOOT, b"\x06\x00\x00\x00\x01"), put("var/lib/dkms/mok.pub",
          ""), put(
        "cmd/mokutil_--test-key_-var-lib-dkms-mok.pub", "/var/lib/dkms/mok.pub is not enrolled\n")), "stack.secure_boot", "fail",
          "not enrolled"),
    Fault("l40s-roce", "Secure Boot whose key waits for the console", together(put(SECURE_BOOT, b"\x06\x00\x00\x00\x01"), put(
        "var/lib/dkms/mok.pub", ""), put("cmd/mokutil_--test-key_-var-lib-dkms-mok.pub",
                                         "/var/lib/dkms/mok.pub is already in the enrollment request\n")), "stack.secure_boot", "fail",
          "waits to be enrolled"),
    Fault("b200-roce", "the peer memory module did not register", replace(MODULES, "nvidia_peermem,rdma_cm", "rdma_cm"),
          "gpudirect.peermem", "fail", "loaded, but ib_core"),
    Fault("h100-ib", "the peer memory module did not register", replace(MODULES, "nvidia_peermem,rdma_cm", "rdma_cm"),
          "gpudirect.peermem", "fail", "loaded, but ib_core"),
    Fault("efa-p5", "no HCA can register DMA-BUF", lambda root: answers(Opened(root),
          {f"rdmap{number}s0": "EOPNOTSUPP" for number in range(8)}),
          "gpudirect.path", "warn", "no path"),
    Fault("efa-p5", "CUDA exports no DMA-BUF", replace(CUDA, " 1\n", " 0\n"), "gpudirect.path", "warn", "no path"),
    Fault("h200-nvlink", "GPUDirect Storage is not loaded", gds(module=False), "gds.path", "warn", "not loaded"),
    Fault("b200-roce", "no storage driver for GPUDirect Storage", gds(), "gds.path", "warn", "no storage driver"),
    Fault("vm", "a hypervisor's topology file is not set", remove(CONF), "gpu.near", "unknown", "NCCL_TOPO_FILE tells NCCL", 0),
    Fault("a100-roce", "NCCL may go no further than the PCIe switch, and a GPU must", together(
        conf("NCCL_NET_GDR_LEVEL", "LOC")), "gpu.near", "warn", "nearer than"),
)
GPUDIRECT = (
    Difference("h200-roce", "an HCA that cannot register DMA-BUF", probe("mlx5_3", "EOPNOTSUPP"), "gpudirect.dmabuf", "fail", "mlx5_3",
               DMABUF),
    Difference("a100-roce", "CUDA exports no DMA-BUF", replace(CUDA, " 1\n", " 0\n"), "gpudirect.dmabuf", "fail", "exports no dma-buf",
               DMABUF),
    Difference("b200-roce", "the wanted path is not set up", together(
        replace(MODULES, "nvidia_peermem", "other"), remove("sys/module/nvidia_peermem")), "gpudirect.path", "fail", "is not set up", {
            "gpudirect_path": "nvidia_peermem"}),
    Difference("h100-ib", "no HCA can register DMA-BUF", lambda root: answers(Opened(root),
               {f"mlx5_{rail}": "EOPNOTSUPP" for rail in range(8)}),
               "gpudirect.path", "fail", "dmabuf", DMABUF),
)
QOS = (
    Difference("lossless", "the NIC trusts PCP", dcb("apptrust", order=["pcp"]), "qos.chain", "fail", "trust is the first link"),
    Difference("lossless", "PFC is off", dcb("pfc", prio_pfc=[False] * 8), "qos.chain", "fail", "PFC is the first link"),
    Difference("lossless", "NCCL sends with class 0", conf("NCCL_IB_TC", "0"), "qos.chain", "fail", "NCCL_IB_TC is the first link"),
    Difference("lossless", "ECN is off at the reaction point", put(f"{node_qos.ECN}/roce_rp/enable/3", "0\n"), "qos.chain", "fail",
               "ECN is the first link"),
    Difference("lossless", "nothing sets the NIC at boot", remove(
        "etc/systemd/system/sys-subsystem-net-devices-eth1.device.wants"), "qos.boot", "fail", "not enabled"),
    Difference("lossless", "the settings file is gone", remove("etc/railwright/roce-qos/eth1"), "qos.boot", "fail", "no settings file"),
)
CLOUDS = (
    Difference("erdma", "the driver runs in mode default", put("sys/module/erdma/parameters/compat_mode", "N\n"), "erdma.mode", "fail",
               "disagree"),
    Difference("erdma", "the driver is not loaded", together(remove("sys/module/erdma"), replace(MODULES, "erdma", "other")), "erdma.mode",
               "fail", "not loaded"),
    Difference("erdma", "one device of two", together(without_rdma("0000:00:09.0")), "erdma.count", "fail", "1 eRDMA devices, not 2"),
    Difference("erdma", "a device that the instance was not given", off_the_bus("0000:00:09.0"), "erdma.count", "fail",
               "the PCI bus has 1"),
    Difference("erdma", "no NCCL that goes with AIACC", put(LIBNCCL, elf("2.28.7", "13.0")), "aiacc.nccl", "fail", "2.28.7", {
        "nccl_profile": "erdma-aiacc", "aiacc_install": True, "artifact_pins": {"aiacc_nccl_plugin_rpm": "e" * 64}}),
    Difference("erdma", "an NCCL older than AIACC's", put(LIBNCCL, elf("2.7.8", "11.0")), "aiacc.nccl", "fail", "2.7.8", {
        "nccl_profile": "erdma-aiacc", "aiacc_install": True, "artifact_pins": {"aiacc_nccl_plugin_rpm": "e" * 64}}),
    Difference("erdma", "the loader does not know AIACC's plugin", nothing, "aiacc.plugin", "fail",
               "the loader does not know", {"nccl_profile": "erdma-aiacc", "aiacc_install": True,
                                    "artifact_pins": {"aiacc_nccl_plugin_rpm": "e" * 64}}),
    Difference("erdma", "AIACC's plugin is not there", remove("usr/local/lib/libnccl-net.so"), "aiacc.plugin", "fail", "not on this node", {
        "nccl_profile": "erdma-aiacc", "aiacc_install": True, "artifact_pins": {"aiacc_nccl_plugin_rpm": "e" * 64}}),
    Difference("soft-roce", "the firewall drops TCP", dropping(), "firewall.tcp", "fail", "TCP is stopped"),
    Difference("bond", "the firewall drops TCP", dropping(), "firewall.tcp", "fail", "TCP is stopped",
               {"firewall_peers": ["10.20.0.0/24"]}),
    Difference("soft-roce", "the firewall drops RoCE", dropping("udp"), "firewall.roce", "fail", "UDP port 4791 is stopped"),
    Difference("soft-roce", "the firewall drops all", dropping(), "firewall.roce", "fail", "UDP port 4791 is stopped"),
    Difference("h200-roce", "no plugin for AWS", put(LIBNCCL, elf("2.28.7", "13.0")), "nccl.plugin", "warn", "is in none of", {
        "nccl_profile": "aws-efa"}),
    Difference("b200-roce", "no plugin for AWS", put(LIBNCCL, elf("2.28.7", "13.0")), "nccl.plugin", "warn", "is in none of", {
        "nccl_profile": "aws-efa"}),
)
CLOUD_FAULTS = (
    Fault("erdma", "a device without a link", port("erdma_1", state="1: DOWN", phys_state="3: Disabled"), "erdma.port", "fail", "DOWN"),
    Fault("erdma", "both devices without a link", together(*(
        port(f"erdma_{number}", state="1: DOWN", phys_state="3: Disabled") for number in (0, 1))), "erdma.port", "fail", "DOWN", None),
    Fault("erdma", "no provider for libibverbs", remove(PROVIDER), "erdma.provider", "fail", "no program can open"),
    Fault("erdma", "the provider's driver file is gone", remove("etc/libibverbs.d/erdma.driver"), "erdma.provider", "fail", "erdma.driver"),
)


def changed(tree: str, area: str, path: str, word: str) -> Difference:
    return Difference(tree, f"{path} was edited", put(path, "# somebody's own\n"), f"config.{area}", "fail", word)


CONFIG = (
    changed("h200-roce", "sysctl", "etc/sysctl.d/90-railwright.conf", "90-railwright.conf"),
    changed("bond", "limits", "etc/security/limits.d/90-railwright.conf", "limits.d"),
    changed("erdma", "nccl", CONF, CONF),
    changed("lossless", "roce_qos", "etc/railwright/roce-qos/eth1", "roce-qos/eth1"),
    changed("h100-ib", "kernel_modules", "etc/modules-load.d/railwright.conf", "modules-load.d"),
    Difference("soft-roce", "the unit of a rail is gone", remove("usr/local/libexec/railwright/rxe-link"), "config.rxe", "fail",
               "rxe-link"),
    Difference("b200-roce", "the PCI unit is gone", remove("etc/systemd/system/railwright-pci.service"), "config.pci_tuning", "fail",
               "railwright-pci.service"),
    Difference("vm", "nccl.conf is gone", remove(CONF), "config.nccl", "fail", CONF),
)
FAULTS = (*STACK_FAULTS, *CLOUD_FAULTS)
DIFFERENCES = (*RAILS, *COUNTS, *STACK, *GPUDIRECT, *QOS, *CLOUDS, *CONFIG)
HEALTHY = (
    Healthy("b200-roce", "GPUDirect Storage with a driver", gds("lustre"), ("gds.path",)),
    Healthy("a100-roce", "Secure Boot with DKMS's key", together(put(SECURE_BOOT, b"\x06\x00\x00\x00\x01"), put("var/lib/dkms/mok.pub",
            ""), put(
        "cmd/mokutil_--test-key_-var-lib-dkms-mok.pub", "/var/lib/dkms/mok.pub is already enrolled\n")), ("stack.secure_boot",)),
)
