# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with one RoCE NIC on which doubles of dcb and mlnx_qos keep a driver's state, and files behave as the kernel's do.

The files of ECN and CNP are OFED's, by their documented names; configfs is cma_configfs.c's; systemctl knows units by links.
"""

from __future__ import annotations

import copy
import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import node_qos
from tests.fixtures.double_of_dcb import Dcb, Driver
from tests.fixtures.double_of_mlnx_qos import MlnxQos
from tests.fixtures.node_tree import ip_addr

from ansible_collections.railwright.rdma.plugins.module_utils.apply import apply
from ansible_collections.railwright.rdma.plugins.module_utils.apply.journal import Journal
from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos import roce_qos
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QOS_PROFILES
from ansible_collections.railwright.rdma.plugins.module_utils.errors import ApplyError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe import qos_boot
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec, errors_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Identity, Problem
from field_specs import build_spec

PROFILE = QOS_PROFILES[0]
CM = "/sys/kernel/config/rdma_cm"
MODES = ("IB/RoCE v1", "RoCE v2")


class Node(TreeHost):
    """Doubles by the name of the tool; ``tools`` are those that it has."""

    def __init__(self, root: Path, driver: Driver, tools: Sequence[str], *, apptrust: bool = False) -> None:
        super().__init__(str(root))
        self.base = root
        self.driver = driver
        self.doubles: dict[str, Dcb | MlnxQos] = {
            "dcb": Dcb(node_qos.NETDEV, driver, apptrust=apptrust),
            "mlnx_qos": MlnxQos(node_qos.NETDEV, driver),
        }
        self.tools = tuple(tools)
        self.units: dict[str, dict[str, str]] = {}
        self.commands: list[tuple[str, ...]] = []

    def which(self, tool: str) -> str | None:
        return f"/usr/sbin/{tool}" if tool in self.tools else super().which(tool) if tool not in self.doubles else None

    def put(self, path: str, text: str) -> None:
        full = Path(self.path(path))
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        self.commands.append(command)
        if command[0] in self.tools and command[0] in self.doubles:
            return self.doubles[command[0]].run(command)
        if command[0] in ("mkdir", "rmdir"):
            return self.configfs(command)
        if command[0] == "systemctl":
            return self.systemctl(command[1], command[2:])
        if command[0] in ("modprobe", "true"):
            return self.modprobe(command)
        return super().run(argv, timeout, stdin)

    def modprobe(self, command: tuple[str, ...]) -> Result:
        if command == ("modprobe", "rdma_cm"):
            Path(self.path("/sys/kernel/config")).mkdir(parents=True, exist_ok=True)
        return Result(0, "", "")

    def configfs(self, command: tuple[str, ...]) -> Result:
        """A directory of a device brings its ports with the kernel's defaults; one of no device is refused (ENODEV)."""
        path = command[-1]
        full, name = Path(self.path(path)), path.rpartition("/")[2]
        if command[0] == "mkdir" and full.is_dir():
            return Result(0, "", "") if "-p" in command else Result(1, "", f"mkdir: cannot create directory '{path}': File exists")
        if command[0] == "rmdir":
            for file in sorted(full.rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() else file.unlink()
            full.rmdir()
            return Result(0, "", "")
        if not full.parent.is_dir() or not self.exists(f"/sys/class/infiniband/{name}"):
            return Result(1, "", f"mkdir: cannot create directory '{path}': No such device")
        for port in self.listdir(f"/sys/class/infiniband/{name}/ports"):
            self.put(f"{path}/ports/{port}/default_roce_mode", "RoCE v2\n")
            self.put(f"{path}/ports/{port}/default_roce_tos", "0\n")
        return Result(0, "", "")

    def systemctl(self, verb: str, names: tuple[str, ...]) -> Result:
        if verb == "show":
            blocks = [
                {"LoadState": "not-found", "ActiveState": "inactive", "UnitFileState": ""} | self.units.get(name, {}) for name in names[1:]
            ]
            return Result(0, "\n\n".join("\n".join(f"{key}={value}" for key, value in block.items()) for block in blocks), "")
        if names == ("sys-kernel-config.mount",):
            Path(self.path(CM)).mkdir(parents=True, exist_ok=True)
            return Result(0, "", "")
        if verb in ("daemon-reload", "is-active"):
            return Result(0, "inactive\n" * len(names), "")
        if names[0].startswith("railwright-roce-qos@"):
            return self.boot_unit(verb, names[0])
        changed = {"stop": ("ActiveState", "inactive"), "start": ("ActiveState", "active"), "disable": ("UnitFileState", "disabled"),
                   "enable": ("UnitFileState", "enabled")}[verb]  # fmt: skip
        for name in names:
            self.units[name][changed[0]] = changed[1]
        if any(unit["ActiveState"] == "active" for unit in self.units.values()):
            self.put("/proc/net/unix", node_qos.SOCKETS.format("@/com/intel/lldpad"))
        else:
            self.put("/proc/net/unix", node_qos.SOCKETS.format("/run/systemd/notify"))
        return Result(0, "", "")

    def boot_unit(self, verb: str, unit: str) -> Result:
        """Enabled by a link; nothing runs it here: there is no udev, and systemd has no unit for the interface."""
        link = Path(self.path(qos_boot.enable_link(unit.partition("@")[2].removesuffix(".service"))))
        if verb == "enable":
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(qos_boot.UNIT_DIRECTORY + "/" + qos_boot.TEMPLATE)
        else:
            assert verb == "disable"
            link.unlink()
        return Result(0, "", "")

    def set_value(self, path: str, value: str) -> None:
        """What the drivers refuse, and what their files read afterwards."""
        name = path.rpartition("/")[2]
        if not self.exists(path):
            raise OSError(errno.ENOENT, "No such file or directory", path)
        ranges = {"cnp_dscp": 63, "np_cnp_dscp": 63, "cnp_802p_prio": 7, "np_cnp_prio": 7, "default_roce_tos": 255}
        if name == "traffic_class":
            number = value.rpartition("=")[2]
            if not number.lstrip("-").isdigit() or not -1 <= int(number) <= 255:
                raise OSError(errno.EINVAL, "Invalid argument", path)
            self.put(path, "" if number == "-1" else f"Global tclass={number}\n")
            return
        if (name == "default_roce_mode" and value not in MODES) or (name in ranges and not 0 <= int(value) <= ranges[name]):
            raise OSError(errno.EINVAL, "Invalid argument", path)
        self.put(path, value + "\n")


class Planned:
    """The area against the node, as plan.py calls it; changes by apply.py's own code, with its journal."""

    def __init__(self, node: Node, spec: Spec) -> None:
        self.node, self.spec = node, spec

    def identity(self) -> Identity:
        return observe_identity(self.node)

    def _both(self) -> tuple[Any, Any]:
        wanted = roce_qos.desired(self.spec, self.identity())
        return wanted, roce_qos.observe(self.node, wanted)

    def plan(self) -> list[Change]:
        return roce_qos.plan(*self._both())

    def whats(self, *, boot: bool = False) -> list[str]:
        """``boot``: what is written for boot, else what is set now."""
        return [change.what for change in self.plan() if change.what.startswith(("file ", "unit ")) == boot]

    def notes(self) -> list[str]:
        return roce_qos.notes(*self._both())

    def conflicts(self) -> list[Problem]:
        return roce_qos.conflicts(*self._both())

    def apply(self) -> Journal:
        journal = Journal(self.node, "test")
        apply.carry_out(self.node, self.plan(), journal)
        return journal

    def reverted(self, journal: Journal) -> str:
        """What apply says when an effect fails after all of these: it undoes them first."""
        with pytest.raises(ApplyError) as failed:
            apply.fail(self.node, journal, "test")
        return str(failed.value)

    def state(self) -> tuple[Any, dict[str, str], Any]:
        """Everything that an undo has to bring back."""
        files = {str(path): path.read_text() for path in sorted(self.node.base.rglob("sys/**/*")) if path.is_file()}
        return copy.deepcopy(self.node.driver), files, copy.deepcopy(self.node.units)


@pytest.fixture
def make_spec() -> Callable[..., Spec]:
    def build(**values: Any) -> Spec:
        rails = [{"name": "rail0", "match": {"mac": node_qos.MAC}, "address": "10.10.0.11/24"}]
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "rails": rails, **values}, "node1")
        assert spec is not None, errors_of(findings)
        return spec

    return build


def factory(root: Path, *, ofed: bool = True, driver: str = "mlx5_core", address: bool = True) -> None:
    """As a NIC comes: OFED's files at their defaults (ECN off on the wanted priority), nothing in configfs."""
    tree = node_qos.roce(root, driver)
    tree.write("proc/net/unix", node_qos.SOCKETS.format("/run/systemd/notify"))
    tree.write("sys/kernel/config/rdma_cm/.keep", "")
    tree.write(f"sys/class/net/{node_qos.NETDEV}/flags", "0x1003\n")
    tree.write("cmd/ip_-j_-d_addr_show", ip_addr({node_qos.NETDEV: [("inet", "10.10.0.11", 24)]} if address else {}))
    if ofed:
        for point in ("np", "rp"):
            for priority in range(8):
                tree.write(f"{node_qos.ECN}/roce_{point}/enable/{priority}", "0\n")
        tree.write(f"{node_qos.ECN}/roce_np/cnp_dscp", "4\n")
        tree.write(f"{node_qos.ECN}/roce_np/cnp_802p_prio", "0\n")
        tree.write(node_qos.TRAFFIC_CLASS, "")


@pytest.fixture
def make_node(tmp_path: Path, make_spec: Callable[..., Spec]) -> Callable[..., Planned]:
    """``make_node(tools=…, mlx5=…, apptrust=…, ofed=…, **inventory)``."""

    def build(
        tools: Sequence[str] = ("dcb",), mlx5: bool = True, apptrust: bool = False, ofed: bool = True, address: bool = True, **values: Any
    ) -> Planned:
        factory(tmp_path / "node", ofed=ofed, driver="mlx5_core" if mlx5 else "bnxt_en", address=address)
        driver = Driver(mlx5=mlx5, trust=[] if mlx5 else ["pcp"])
        return Planned(Node(tmp_path / "node", driver, tools, apptrust=apptrust), make_spec(**values))

    return build
