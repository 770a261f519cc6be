# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated GPU node: a captured tree on which package managers, modprobe and systemctl have the effect that they have on a node."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.fixtures import node_gpu
from tests.fixtures.node_text import OS_RELEASE, dpkg_status
from tests.fixtures.node_tree import Tree

from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu import cuda, gdrcopy, gpu_driver
from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl import library
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change
from field_specs import build_spec

KERNEL = "6.8.0-85-generic"
GPUS = ("0000:1b:00.0", "0000:3b:00.0")
SWITCH = "0000:06:00.0"
AREAS: dict[str, ModuleType] = {area.NAME: area for area in (gpu_driver, cuda, gdrcopy, library)}
UNIT = re.compile(r"(nvidia-[a-z]+)\.service")


class GpuNode(TreeHost):
    """Installing a driver package puts its module on disk and its units in place; loading it makes the driver's files appear."""

    def __init__(self, root: Path, os_name: str = "ubuntu2404", *, gpus: Sequence[str] = GPUS, switches: Sequence[str] = ()) -> None:
        super().__init__(str(root / "node"))
        self.tree = Tree(root / "node")
        self.base = root / "node"
        self.tree.system(OS_RELEASE[os_name], KERNEL, "gpu1", "ext4 1 0 - Live 0x0\n")
        self.commands: list[tuple[str, ...]] = []
        self.packages: dict[str, str] = {"bash": "5.2"}
        self.disk: str | None = None
        self.active: set[str] = set()
        node_gpu.gpus(self.tree, gpus, driver="")
        self.gpus = gpus
        for switch in switches:
            node_gpu.nvidia_function(self.tree, switch, node_gpu.NVSWITCH_CLASS, node_gpu.NVSWITCH)
        self.put("usr/sbin/update-initramfs", "#!/bin/sh\n")
        (self.base / "usr/sbin/update-initramfs").chmod(0o755)
        self.write_packages()

    def put(self, path: str, text: str) -> None:
        self.tree.write(path, text)

    def write_packages(self) -> None:
        self.put("var/lib/dpkg/status", dpkg_status(self.packages))

    def hold(self, name: str) -> None:
        status = (self.base / "var/lib/dpkg/status").read_text()
        head, _name, rest = status.partition(f"Package: {name}\n")
        self.put("var/lib/dpkg/status", head + f"Package: {name}\n" + rest.replace("Status: install ok", "Status: hold ok", 1))

    def install(self, changes: Sequence[Change]) -> None:
        """The package step: versions are globs in the plan, ``580.95.05-*``."""
        for change in changes:
            if change.package is None:
                continue
            if change.after is None:
                del self.packages[change.package]
                continue
            version = str(change.after).replace("*", "1")
            self.packages[change.package] = version
            if change.package in ("nvidia-open", "cuda-drivers") or change.package.startswith("nvidia-driver-"):
                self.disk = version.partition("-")[0]
                self.put("usr/lib/systemd/system/nvidia-persistenced.service", "[Service]\n")
            if change.package.startswith("nvidia-fabricmanager"):
                self.put("usr/lib/systemd/system/nvidia-fabricmanager.service", "[Service]\n")
        self.write_packages()

    def load(self, version: str | None) -> None:
        path = self.base / "proc/driver/nvidia/version"
        if version is None:
            path.unlink(missing_ok=True)
            return
        node_gpu.loaded_driver(self.tree, version, self.gpus)
        if "nvidia " not in (self.read("/proc/modules") or ""):
            self.put("proc/modules", (self.read("/proc/modules") or "") + "nvidia 14299136 0 - Live 0x0 (O)\n")

    def opened_by(self, pid: int, name: str, device: str = "/dev/nvidia0") -> None:
        self.put(f"proc/{pid}/comm", name + "\n")
        link = self.base / f"proc/{pid}/fd/3"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(device)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        self.commands.append(command)
        if command[0] == "modinfo" and self.disk is not None:
            return Result(0, (self.disk if "version" in command else "Dual MIT/GPL") + "\n", "")
        if command == ("modprobe", "nvidia"):
            if self.disk is None:
                return Result(1, "", "modprobe: FATAL: Module nvidia not found")
            self.load(self.disk)
            return Result(0, "", "")
        if command[0] == "rmmod":
            self.load(None)
            return Result(0, "", "")
        if command[0] == "systemctl":
            return self.systemctl(command)
        if command[0] in ("modprobe", "update-initramfs"):
            return Result(0, "", "")
        return super().run(argv, timeout, stdin)

    def systemctl(self, command: tuple[str, ...]) -> Result:
        verb, unit = command[1], command[-1]
        if verb == "is-active":
            return Result(0 if unit in self.active else 3, "active\n" if unit in self.active else "inactive\n", "")
        if verb in ("start", "restart", "stop"):
            assert any((self.base / place / unit).exists() for place in ("usr/lib/systemd/system", "etc/systemd/system")), f"no unit {unit}"
            (self.active.discard if verb == "stop" else self.active.add)(unit)
        elif verb == "add-wants":
            link = self.base / "etc/systemd/system" / f"{command[2]}.wants" / unit
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/usr/lib/systemd/system/" + unit)
        return Result(0, "", "")

    def apply(self, changes: Sequence[Change]) -> None:
        for op in (op for change in changes for op in change.ops):
            if op.kind == "write":
                self.write(op.path, op.content, op.mode)
            else:
                assert op.kind == "run"
                result = self.run(op.argv)
                assert result.ok, result


class Planner:
    """An area against a node, as plan.py calls it, and what the playbook does with the plan."""

    def __init__(self, area: str, node: GpuNode, values: dict[str, Any]) -> None:
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "rails": [], **values}, "gpu1")
        assert spec is not None, findings
        self.area, self.node, self.spec = AREAS[area], node, spec

    def look(self) -> tuple[Any, Any]:
        wanted = self.area.desired(self.spec, observe_identity(self.node))
        return wanted, self.area.observe(self.node, wanted)

    def plan(self) -> list[Change]:
        changes: list[Change] = self.area.plan(*self.look())
        assert all(change.area == self.area.NAME and change.why and change.source for change in changes)
        assert len({change.key for change in changes}) == len(changes)
        return changes

    def rows(self) -> list[tuple[str, Any, Any, str]]:
        return [(change.what, change.before, change.after, change.disruption) for change in self.plan()]

    def whats(self) -> list[str]:
        return [change.what for change in self.plan()]

    def problems(self) -> list[str]:
        wanted, observed = self.look()
        found = self.area.problems(self.spec, observe_identity(self.node), wanted) + self.area.conflicts(wanted, observed)
        return [f"{problem.subject}: {problem.message}" for problem in found]

    def notes(self) -> list[str]:
        said: list[str] = self.area.notes(*self.look())
        return said

    def run(self) -> list[str]:
        """Plan, packages, plan anew and apply; nothing may come to light that the first plan did not hold. Returns what is left."""
        first = self.plan()
        self.node.install(first)
        second = self.plan()
        assert {change.key for change in second if change.ops} <= {change.key for change in first}, "apply would say: plan diverged"
        self.node.apply(second)
        return self.whats()


@pytest.fixture
def gpu_node(tmp_path: Path) -> Callable[..., GpuNode]:
    return lambda *args, **options: GpuNode(tmp_path, *args, **options)


@pytest.fixture
def planner() -> Callable[..., Planner]:
    def build(area: str, node: GpuNode, **values: Any) -> Planner:
        return Planner(area, node, values)

    return build
