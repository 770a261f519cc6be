# SPDX-License-Identifier: GPL-3.0-or-later
"""A node made of files on which systemctl has its effect on links and states; what it starts is noted, not run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos import boot
from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.settings import MKDIR, RUN, Setting, value
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.qos_boot import enable_link
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change

NIC = boot.BootNic(
    "eth1", "b8:ce:f6:00:30:01", "rail0 (eth1)", "mlx5_0", 1,
    (
        Setting(RUN, ("dcb", "pfc", "set", "dev", "eth1", "prio-pfc", "all:off", "3:on"), "", ""),
        value("/sys/class/net/eth1/ecn/roce_np/enable/3", "1"),
        Setting(MKDIR, (), "/sys/kernel/config/rdma_cm/mlx5_0", ""),
        value("/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode", "RoCE v2"),
    ),
    "dscp26-prio3",
)
OTHER = NIC._replace(netdev="eth2", mac="b8:ce:f6:00:30:02", label="rail1 (eth2)", hca="mlx5_1")


class Node(TreeHost):
    """``active`` and ``broken`` are what systemd knows; a start of a broken unit fails."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.base = root
        self.active: set[str] = set()
        self.broken: set[str] = set()
        self.commands: list[tuple[str, ...]] = []

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        full = self.base / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        full.chmod(mode)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        if command[0] != "systemctl":
            return super().run(argv, timeout, stdin)
        if command[1] == "is-active":
            states = ["active" if unit in self.active else "failed" if unit in self.broken else "inactive" for unit in command[2:]]
            return Result(0 if set(states) <= {"active"} else 3, "".join(state + "\n" for state in states), "")
        self.commands.append(command)
        return self.effect(command[1], command[-1])

    def effect(self, verb: str, unit: str) -> Result:
        if verb == "daemon-reload":
            return Result(0, "", "")
        if verb != "stop" and not self.exists(boot.UNIT):
            return Result(1, "", f"Unit {unit} could not be found.\n")
        name = unit.partition("@")[2].removesuffix(".service")
        link = self.base / enable_link(name).lstrip("/")  # names of these tests need no escape
        if verb == "enable":
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(boot.UNIT)
        elif verb == "disable":
            link.unlink()
        elif verb == "start" and unit in self.broken:
            return Result(1, "", f"Job for {unit} failed because the control process exited with error code.\n")
        elif verb == "start":
            self.active.add(unit)
        else:
            assert verb == "stop"
            self.active.discard(unit)
        return Result(0, "", "")

    def plan(self, *nics: boot.BootNic) -> list[Change]:
        return boot.boot_changes("roce_qos", nics, boot.observe_boot(self, nics))

    def files(self) -> dict[str, str]:
        """Everything below /etc and /usr, links by where they lead."""
        found = {}
        for path in sorted(self.base.rglob("*")):
            name = str(path.relative_to(self.base))
            if name.startswith(("etc/", "usr/")) and (path.is_symlink() or path.is_file()):
                found[name] = str(path.readlink()) if path.is_symlink() else path.read_text()
        return found


@pytest.fixture
def node(tmp_path: Path) -> Node:
    found = Node(tmp_path)
    found.put("/run/udev/control", "")
    found.put("/bin/systemctl", "", 0o755)
    return found
