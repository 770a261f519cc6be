# SPDX-License-Identifier: GPL-3.0-or-later
"""A captured node for container tests: two HCAs on two NUMA nodes, GPUs, runtimes that answered, all of it written by the test."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from packages_nodes import Node, identity, node, spec

__all__ = ("identity", "node", "spec")

NVRM = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {0}  Release Build  (builder)  Tue Jan  1 00:00:00 UTC 2026\n"
ADDRESSES = [
    {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
    {"ifname": "eth0", "addr_info": [{"family": "inet6", "local": "fe80::1", "prefixlen": 64},
                                     {"family": "inet", "local": "192.0.2.11", "prefixlen": 24}]},
]  # fmt: skip
CDI = """---
cdiVersion: 0.5.0
containerEdits:
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{0}
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.{0}
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: all
kind: nvidia.com/gpu
"""


class Captured(Node):
    """What the tests of the inspection, the area and the verb put into a tree."""

    def hca(self, number: int, numa: int) -> None:
        name, pci = f"mlx5_{number}", f"0000:{number + 1:x}8:00.0"
        self.put(f"/sys/class/infiniband/{name}/node_guid", f"b8ce:f603:0000:000{number}\n")
        self.put(f"/sys/class/infiniband/{name}/device/numa_node", f"{numa}\n")
        self.put(f"/sys/class/infiniband/{name}/device/uevent", f"DRIVER=mlx5_core\nPCI_SLOT_NAME={pci}\n")
        self.put(f"/sys/class/infiniband/{name}/ports/1/state", "4: ACTIVE\n")
        self.put(f"/sys/class/infiniband_verbs/uverbs{number}/ibdev", f"{name}\n")

    def gpu(self, number: int, numa: int) -> None:
        place = f"/sys/bus/pci/devices/0000:{number + 1:x}a:00.0"
        for name, value in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200"), ("numa_node", str(numa))):
            self.put(f"{place}/{name}", value + "\n")

    def driver(self, version: str) -> None:
        self.put("/proc/driver/nvidia/version", NVRM.format(version))

    def docker(self, version: str = "28.3.2", **info: Any) -> None:
        told = {"ServerVersion": version, "Runtimes": {"runc": {"path": "runc"}}, **info}
        self.put("/cmd/docker_--version", f"Docker version {version}, build 578ccf6\n")
        self.put("/cmd/docker_info_--format_{{json .}}", json.dumps(told) + "\n")
        self.put("/cmd/systemctl_is-active_docker.service", "active\n")

    def podman(self, version: str = "4.9.3") -> None:
        self.put("/cmd/podman_--version", f"podman version {version}\n")

    def toolkit(self, version: str = "1.19.1") -> None:
        self.put("/cmd/nvidia-ctk_--version", f"NVIDIA Container Toolkit CLI version {version}\ncommit: 09ceee5d\n")
        for name in ("nvidia-container-runtime", "nvidia-container-runtime-hook"):
            self.put(f"/cmd/{name}", "")

    def cdi(self, driver: str, path: str = "/var/run/cdi/nvidia.yaml") -> None:
        self.put(path, CDI.format(driver))


@pytest.fixture
def captured(tmp_path: Path) -> Captured:
    """A node with RDMA, without GPUs and runtimes."""
    found = Captured(str(tmp_path / "tree"))
    found.hca(0, 0)
    found.hca(1, 1)
    found.put("/sys/class/misc/rdma_cm/dev", "10:60\n")
    found.put("/sys/class/infiniband_mad/umad0/dev", "231:0\n")
    found.put("/sys/class/infiniband_mad/issm0/dev", "231:64\n")
    found.put("/sys/devices/system/node/node0/cpulist", "0-15,32-47\n")
    found.put("/sys/devices/system/node/node1/cpulist", "16-31,48-63\n")
    found.put("/proc/sys/kernel/hostname", "gpu-host-1\n")
    found.put("/proc/sys/kernel/osrelease", "6.1.0-26-amd64\n")
    found.put("/etc/os-release", 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n')
    found.put("/etc/nccl.conf", "# by hand\nNCCL_IB_TIMEOUT=22\nNCCL_SOCKET_IFNAME==eth0\n")
    found.put("/sys/class/net/eth0/address", "52:54:00:00:00:01\n")
    found.put("/proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
              "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n")
    found.put("/cmd/ip_-j_addr", json.dumps(ADDRESSES))
    return found


@pytest.fixture
def with_gpus(captured: Captured) -> Captured:
    captured.gpu(0, 0)
    captured.gpu(1, 1)
    captured.driver("580.126.20")
    return captured


Write = Callable[..., str]


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """An inventory of two nodes in an empty working directory; ``site`` is group_vars/all.yml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def write(site: str = "rdma_fabric: roce\nrdma_mtu: 9000\n") -> str:
        rails = "[{{name: rail0, match: {{pci: '0000:18:00.0'}}, address: 198.51.100.{0}/25}}]"
        hosts = "".join(f"        {name}:\n          ansible_host: 192.0.2.{last}\n          rdma_rails: {rails.format(last)}\n"
                        for name, last in (("zeta", 11), ("alpha", 12)))  # fmt: skip
        (tmp_path / "inv/group_vars").mkdir(parents=True, exist_ok=True)
        (tmp_path / "inv/hosts.yml").write_text("all:\n  children:\n    rdma:\n      hosts:\n" + hosts, encoding="utf-8")
        (tmp_path / "inv/group_vars/all.yml").write_text(site, encoding="utf-8")
        return "inv"

    return write
