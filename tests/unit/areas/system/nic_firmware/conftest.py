# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with two ConnectX-7 whose tools are the recorded double of tests/fixtures/mstflint_double.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.mstflint_double import Card, Tools, connectx7

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import nic_firmware
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Hca, Identity, Nic, Platform
from field_specs import build_spec

HCAS = ("0000:13:00.0", "0000:2b:00.0")
LABELS = tuple(f"NIC {address[:-2]} of rail{i} (eth{i})" for i, address in enumerate(HCAS))


class Machine(TreeHost):
    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.base = root
        self.commands: list[tuple[str, ...]] = []
        self.cards = {address[:-2]: connectx7() for address in HCAS}
        self.tools = Tools(self.cards, self.read, self.put)
        self.boots = 0
        for index, address in enumerate(HCAS):
            self.put(f"/sys/devices/pci/{address}/device", "0x1021\n")
            self.link(f"/sys/bus/pci/devices/{address}", f"/sys/devices/pci/{address}")
            self.put(f"/sys/devices/pci/{address}/infiniband/mlx5_{index}/board_id", "MT_0000000838\n")
            self.link(f"/sys/devices/pci/{address}/infiniband/mlx5_{index}/device", f"/sys/devices/pci/{address}")
            self.link(f"/sys/class/infiniband/mlx5_{index}", f"/sys/devices/pci/{address}/infiniband/mlx5_{index}")
        for tool in ("mstconfig", "mstflint"):
            self.put(f"/usr/bin/{tool}", "")
            (root / "usr/bin" / tool).chmod(0o755)
        self.reboot()

    def put(self, path: str, text: str) -> None:
        full = self.base / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def link(self, path: str, target: str) -> None:
        full = self.base / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.symlink_to(target)

    def reboot(self) -> None:
        self.boots += 1
        self.put("/proc/sys/kernel/random/boot_id", f"00000000-0000-4000-8000-{self.boots:012d}\n")
        for index, card in enumerate(self.cards.values()):
            card.reboot() if self.boots > 1 else None
            self.put(f"/sys/devices/pci/{HCAS[index]}/infiniband/mlx5_{index}/fw_ver", card.running + "\n")

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        self.commands.append(tuple(argv))
        if argv[0] == "rm":
            self.remove(argv[-1])
            return Result(0, "", "")
        code, out = self.tools.run(argv)
        return Result(code, out, "")

    def apply(self, changes: Sequence[Change]) -> None:
        for op in (op for change in changes for op in change.ops):
            if op.kind == "write":
                self.write(op.path, op.content, op.mode)
            else:
                assert op.kind == "run"
                result = self.run(op.argv)
                assert result.ok, result.out


class Planner:
    def __init__(self, machine: Machine, identity: Identity, values: dict[str, Any]) -> None:
        rails = [{"name": f"rail{i}", "match": {"mac": f"52:54:00:00:00:0{i}"}, "address": f"10.0.{i}.1/24"} for i in range(2)]
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "rails": rails, **values}, "node1")
        assert spec is not None, findings
        self.machine, self.identity, self.spec = machine, identity, spec

    def _seen(self) -> tuple[nic_firmware.Desired, nic_firmware.Observed]:
        wanted = nic_firmware.desired(self.spec, self.identity)
        return wanted, nic_firmware.observe(self.machine, wanted)

    def plan(self) -> list[Change]:
        changes = nic_firmware.plan(*self._seen())
        assert all(change.area == "nic_firmware" and change.why and change.source for change in changes)
        return changes

    def drift(self) -> list[str]:
        return [change.what for change in self.plan()]

    def conflicts(self) -> list[str]:
        return [f"{problem.subject}: {problem.message}" for problem in nic_firmware.conflicts(*self._seen())]

    def notes(self) -> list[str]:
        return nic_firmware.notes(*self._seen())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "node")


@pytest.fixture
def card(machine: Machine) -> Card:
    """The first of both."""
    return machine.cards["0000:13:00"]


@pytest.fixture
def identity() -> Identity:
    nics = tuple(Nic(f"eth{i}", f"52:54:00:00:00:0{i}", HCAS[i], "mlx5_core", "ethernet", False) for i in range(2))
    hcas = tuple(
        Hca(f"mlx5_{i}", f"b8ce:f603:00ab:000{i}", HCAS[i], "mlx5_core", (f"eth{i}",), (1,), ("",), "Ethernet", (f"eth{i}",))
        for i in (0, 1)
    )
    platform = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")
    return Identity("node1", platform, "6.1.0-26-amd64", "x86_64", "3.11.2", None, nics, hcas, ("systemd",))


@pytest.fixture
def planner(machine: Machine, identity: Identity) -> Callable[..., Planner]:
    def build(identity: Identity = identity, **values: Any) -> Planner:
        return Planner(machine, identity, values)

    return build
