# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated node with GPUs and ConnectX HCAs: a tree on which modprobe, dkms and modinfo have their real effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu import gpudirect
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Gpu, Hca, Identity
from field_specs import build_spec

MODERN, OLD = "6.8.0-85-generic", "4.18.0-553.el8_10.x86_64"
OPEN, PROPRIETARY = "Dual MIT/GPL", "NVIDIA"
CLIENT = "ib_register_peer_memory_client"
STACK_CRC, OTHER_CRC = "0x7d5b1b8e", "0x1f2e3d4c"
PEERMEM = "updates/dkms/nvidia-peermem.ko"


class Node(TreeHost):
    """What apply runs here does what it does on a node; nothing else is answered."""

    def __init__(self, root: Path, kernel: str) -> None:
        super().__init__(str(root))
        self.base, self.kernel = root, kernel
        self.commands: list[tuple[str, ...]] = []
        self.versions: dict[str, str] = {}  # of the driver on disk: version, license
        self.crc: str | None = None  # checksum that nvidia-peermem was built with; None: built before OFED
        self.build_fails = False

    def put(self, path: str, text: str) -> None:
        full = self.base / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    # What is on the node, in the words of an administrator.

    def driver(self, version: str, license_: str = OPEN, *, loaded: bool = True, dkms: bool = True, crc: str | None = None) -> None:
        self.versions = {"version": version, "license": license_}
        self.crc = crc
        self.put(f"/lib/modules/{self.kernel}/modules.dep", f"updates/dkms/nvidia.ko:\n{PEERMEM}: updates/dkms/nvidia.ko\n")
        if loaded:
            kind = "Open Kernel Module for x86_64" if license_ == OPEN else "x86_64 Kernel Module"
            self.put("/proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX {kind}  {version}  Release Build  (x)\n")
            self.load("nvidia")
        if dkms:
            self.dkms_installed("nvidia", version, "nvidia-peermem")

    def dkms_installed(self, module: str, version: str, *files: str) -> None:
        base = f"/var/lib/dkms/{module}/{version}"
        self.put(f"/usr/src/{module}-{version}/dkms.conf", "")
        for name in files:
            self.put(f"{base}/{self.kernel}/x86_64/module/{name}.ko", "")
            self.put(f"/lib/modules/{self.kernel}/updates/dkms/{name}.ko", "")
        for link, target in (
            (f"{base}/source", f"/usr/src/{module}-{version}"),
            (f"/var/lib/dkms/{module}/kernel-{self.kernel}-x86_64", f"{version}/{self.kernel}/x86_64"),
        ):
            full = self.base / link.lstrip("/")
            if not full.is_symlink():
                full.symlink_to(target)

    def stack(self, package: str, version: str) -> None:
        """A vendor's stack: its meta package, its headers, openibd."""
        self.put("/var/lib/dpkg/status", f"Package: {package}\nStatus: install ok installed\nVersion: {version}\n\n")
        self.put(f"/usr/src/ofa_kernel/x86_64/{self.kernel}/Module.symvers", f"{STACK_CRC}\t{CLIENT}\tib_core\tEXPORT_SYMBOL\t\n")
        self.put("/usr/lib/systemd/system/openibd.service", "[Unit]\n")

    def load(self, name: str, *, registered: bool = True) -> None:
        rows = dict(line.split(" ", 1) for line in (self.read("/proc/modules") or "").splitlines())
        rows[name] = "16384 0 - Live 0x0"
        if name in ("nvidia_peermem", "nv_peer_mem") and registered:
            rows["ib_core"] = f"16384 1 {name}, Live 0x0"
        self.put("/proc/modules", "".join(f"{key} {rest}\n" for key, rest in rows.items()))

    def unload(self, name: str) -> None:
        lines = (self.read("/proc/modules") or "").replace(f"{name},", "-").splitlines()
        self.put("/proc/modules", "".join(line + "\n" for line in lines if not line.startswith(name + " ")))

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        self.commands.append(command)
        if command[:2] == ("modprobe", "--dump-modversions"):
            lines = "0x2719b8a4\tmodule_layout\n" + (f"{self.crc}\t{CLIENT}\n" if self.crc else "")
            return Result(0, lines, "")
        if command[:2] == ("modprobe", "-r"):
            self.unload(command[2])
        elif command[0] == "modprobe":
            return self._modprobe(command[1])
        elif command[0] == "dkms":
            return self._dkms(command)
        elif command[0] == "modinfo" and "-k" in command and self.versions:
            return Result(0, self.versions[command[4]] + "\n", "")
        elif command[0] != "systemctl":
            return super().run(argv, timeout, stdin)
        return Result(0, "", "")

    def _modprobe(self, name: str) -> Result:
        """The kernel's own answers: built before OFED, built against another one."""
        if self.crc is None and name == "nvidia_peermem":
            return Result(1, "", "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n")
        self.load(name)
        return Result(0, "", "")

    def _dkms(self, command: tuple[str, ...]) -> Result:
        verb, (module, version) = command[1], command[2].split("/")
        if verb == "install":
            if self.build_fails:
                return Result(10, "", "Error! Bad return status for module build on kernel\n")
            self.dkms_installed(module, version, "nvidia-peermem" if module == "nvidia" else module)
            if module == "nv_peer_mem":
                self.put(f"/lib/modules/{self.kernel}/modules.dep", "updates/dkms/nvidia.ko:\nupdates/dkms/nv_peer_mem.ko:\n")
            self.crc = STACK_CRC
        return Result(0, "", "")

    def apply(self, changes: Sequence[Change]) -> None:
        for op in (op for change in changes for op in change.ops):
            if op.kind == "write":
                self.write(op.path, op.content, op.mode)
            elif op.kind == "remove":
                self.remove(op.path)
            else:
                assert op.kind == "run"
                done = self.run(op.argv)
                assert done.ok, done.err


class Planner:
    """The area against the node, as plan.py calls it."""

    def __init__(self, node: Node, spec: Spec, **identity: Any) -> None:
        self.node, self.spec, self.changed = node, spec, identity

    @property
    def identity(self) -> Identity:
        return observe_identity(self.node)._replace(**self.changed)

    def _seen(self) -> tuple[Any, Any]:
        wanted = gpudirect.desired(self.spec, self.identity)
        return wanted, gpudirect.observe(self.node, wanted)

    def plan(self) -> list[Change]:
        changes = gpudirect.plan(*self._seen())
        assert all(change.area == "gpudirect" and change.why and change.source and change.ops for change in changes)
        return changes

    def keys(self) -> list[str]:
        return [change.what for change in self.plan()]

    def problems(self) -> list[str]:
        return [f"{item.subject}: {item.message}" for item in gpudirect.conflicts(*self._seen())]

    def notes(self) -> list[str]:
        return gpudirect.notes(*self._seen())

    def converge(self) -> None:
        self.node.apply(self.plan())
        assert self.plan() == []


GPUS = tuple(Gpu(f"0000:{bus:02x}:00.0", "0x2330", 0) for bus in (0x1B, 0x3B))
HCAS = tuple(Hca(f"mlx5_{i}", f"b8ce:f603:00ab:000{i}", f"0000:1{i}:00.0", "mlx5_core", (), (1,), (), "Ethernet") for i in range(2))


@pytest.fixture
def make_spec() -> Callable[..., Spec]:
    def build(**values: Any) -> Spec:
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", **values}, "node1")
        assert spec is not None, findings
        return spec

    return build


@pytest.fixture
def planner(tmp_path: Path, make_spec: Callable[..., Spec]) -> Callable[..., Planner]:
    """A planner for a node with two H100 and two ConnectX, on this kernel, with these inventory values."""

    def build(
        kernel: str = MODERN,
        gpus: tuple[Gpu, ...] = GPUS,
        hcas: tuple[Hca, ...] = HCAS,
        capabilities: tuple[str, ...] = ("systemd",),
        **values: Any,
    ) -> Planner:
        node = Node(tmp_path, kernel)
        node.put("/etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\nID_LIKE=debian\n')
        node.put("/proc/sys/kernel/osrelease", kernel + "\n")
        node.put("/proc/modules", "ib_core 16384 0 - Live 0x0\n")
        node.put(
            f"/boot/config-{kernel}",
            "CONFIG_DMA_SHARED_BUFFER=y\nCONFIG_PCI_P2PDMA=y\nCONFIG_INFINIBAND_ON_DEMAND_PAGING=y\n",
        )
        node.put("/var/lib/dpkg/status", "Package: rdma-core\nStatus: install ok installed\nVersion: 50.0-2\n\n")
        return Planner(node, make_spec(**values), gpus=gpus, hcas=hcas, capabilities=capabilities)

    return build
