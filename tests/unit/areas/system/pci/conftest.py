# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with PCIe switches, written from the specification's layout, on which setpci writes the bytes that it would write."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_pci import ACS_AT, EXPRESS_AT, hgx_pair, numa_nodes
from tests.fixtures.node_tree import Tree

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import pci
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.pci import EXTENDED_ACS
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Gpu, Hca, Identity, Nic, Op, Platform
from field_specs import build_spec

HCAS = ("0000:13:00.0", "0000:2b:00.0")
GPUS = ("0000:14:00.0", "0000:2c:00.0")
BRIDGES = ("0000:10:01.0", "0000:12:00.0", "0000:12:01.0", "0000:28:01.0", "0000:2a:00.0", "0000:2a:01.0")
OLD_GRUB = "root=UUID=0a1b ro quiet"


def paths(rail: int) -> tuple[str, str]:
    bus = 0x10 + 0x18 * rail
    above = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0/0000:{bus + 2:02x}"
    return f"{above}:00.0/0000:{bus + 3:02x}:00.0", f"{above}:01.0/0000:{bus + 4:02x}:00.0"


class Machine(TreeHost):
    """setpci and systemctl do here what they do on a node; update-grub and grubby are doubles of their effect on files."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.base = root
        self.commands: list[tuple[str, ...]] = []

    def put(self, path: str, text: str | bytes, mode: int = 0o644) -> None:
        full = self.base / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(text if isinstance(text, bytes) else text.encode())
        full.chmod(mode)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        self.commands.append(command)
        if command[0] == "setpci":
            return self.setpci(command[1:])
        if command[:2] == ("systemctl", "is-active"):
            return Result(0, self.read("/run/active/" + command[2]) or "inactive\n", "")
        if command[0] == "systemctl":
            return self.systemctl(command)
        if command[0] == "update-grub":
            self.update_grub()
        elif command[0] == "grubby":
            return self.grubby(command[1:])
        return Result(0, "", "")

    def setpci(self, words: Sequence[str]) -> Result:
        address = words[words.index("-s") + 1]
        found = re.fullmatch(r"(ECAP_ACS|CAP_EXP)\+(?:0x)?([0-9a-f]+)\.w=([0-9a-f]{4})(?::([0-9a-f]{4}))?", words[-1])
        assert found is not None, words
        at = {"ECAP_ACS": ACS_AT, "CAP_EXP": EXPRESS_AT}[found[1]] + int(found[2], 16)
        full = Path(self.path(f"/sys/bus/pci/devices/{address}/config"))
        data = bytearray(full.read_bytes())
        if found[1] == "ECAP_ACS" and data[ACS_AT] != EXTENDED_ACS:
            return Result(1, "", f"setpci: {address}: Instance #0 of Extended Capability 000d not found")
        mask, value = int(found[4] or "ffff", 16), int(found[3], 16)
        old = data[at] | data[at + 1] << 8
        data[at : at + 2] = (old & ~mask | value & mask).to_bytes(2, "little")
        full.write_bytes(data)
        return Result(0, "", "")

    def systemctl(self, command: tuple[str, ...]) -> Result:
        if command[1] == "daemon-reload":
            return Result(0, "", "")
        link = self.base / "etc/systemd/system/multi-user.target.wants" / command[2]
        active = self.base / "run/active" / command[2]
        if command[1] == "enable":
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/etc/systemd/system/" + command[2])
        elif command[1] == "disable":
            link.unlink()
        elif command[1] == "start":
            active.parent.mkdir(parents=True, exist_ok=True)
            active.write_text("active\n")
        return Result(0, "", "")

    def update_grub(self) -> None:
        words = OLD_GRUB
        ours = re.search(r'\$GRUB_CMDLINE_LINUX ([^"]*)"', self.read("/etc/default/grub.d/railwright.cfg") or "")
        if ours:
            words += " " + ours[1]
        self.put("/boot/grub/grub.cfg", f"menuentry 'Debian' {{\n\tlinux\t/boot/vmlinuz-6.1.0-26-amd64 {words}\n}}\n")

    def grubby(self, words: Sequence[str]) -> Result:
        now = (self.read("/boot/args") or OLD_GRUB).split()
        for word in words:
            if word.startswith("--args="):
                now += [item for item in word[7:].split() if item not in now]
            elif word.startswith("--remove-args="):
                now = [item for item in now if item not in word[14:].split()]
        self.put("/boot/args", " ".join(now))
        return Result(0, f'index=0\nkernel="/boot/vmlinuz-5.14.0"\nargs="{" ".join(now)}"\nroot="/dev/vda1"\n', "")

    def apply(self, changes: Sequence[Change]) -> None:
        for op in (op for change in changes for op in change.ops):
            self.effect(op)

    def effect(self, op: Op) -> None:
        if op.kind == "write":
            self.write(op.path, op.content, op.mode)
        elif op.kind == "remove":
            self.remove(op.path)
        else:
            assert op.kind == "run"
            result = self.run(op.argv)
            assert result.ok, result.err


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Two pairs of GPU and HCA below a switch each, ACS on everywhere, MaxReadReq 512; Debian with GRUB; nothing of ours."""
    tree = Tree(tmp_path / "node")
    for rail in range(2):
        hca, gpu = paths(rail)
        hgx_pair(tree, hca, gpu, rail, acs=0x1D, read_request=512)
        for path in (hca, gpu):
            for depth in range(2, len(path.split("/")) + 1):
                part = "/".join(path.split("/")[:depth])
                link = "sys/bus/pci/devices/" + part.rsplit("/", 1)[-1]
                if not (tree.root / link).is_symlink():
                    tree.link(link, "sys/devices/" + part)
    numa_nodes(tree, 2)
    tree.write("usr/bin/setpci", "")
    tree.write("usr/sbin/update-grub", "")
    for tool in ("usr/bin/setpci", "usr/sbin/update-grub"):
        (tree.root / tool).chmod(0o755)
    tree.write("proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-6.1.0-26-amd64 {OLD_GRUB}\n")
    tree.write("proc/cpuinfo", "vendor_id\t: GenuineIntel\n")
    tree.write("sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    found = Machine(tree.root)
    found.update_grub()
    return found


@pytest.fixture
def identity() -> Identity:
    """Bare metal."""
    nics = tuple(Nic(f"eth{i}", f"52:54:00:00:00:0{i}", HCAS[i], "mlx5_core", "ethernet", False) for i in range(2))
    hcas = tuple(
        Hca(f"mlx5_{i}", f"b8ce:f603:00ab:000{i}", HCAS[i], "mlx5_core", (f"eth{i}",), (1,), ("",), "Ethernet", (f"eth{i}",))
        for i in range(2)
    )
    platform = Platform("debian", "12", "bookworm", (), "Debian GNU/Linux 12", "debian", "apt")
    gpus = tuple(Gpu(address, "0x2335", 0) for address in GPUS)
    return Identity("node1", platform, "6.1.0-26-amd64", "x86_64", "3.11.2", None, nics, hcas, ("systemd",), gpus)


@pytest.fixture
def make_spec() -> Callable[..., Spec]:
    def build(**values: Any) -> Spec:
        rails = [{"name": f"rail{i}", "match": {"mac": f"52:54:00:00:00:0{i}"}, "address": f"10.0.{i}.1/24"} for i in range(2)]
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "rails": rails, **values}, "node1")
        assert spec is not None, findings
        return spec

    return build


class Planner:
    def __init__(self, machine: Machine, identity: Identity, spec: Spec) -> None:
        self.machine, self.identity, self.spec = machine, identity, spec

    def _seen(self) -> tuple[pci.Desired, pci.Observed]:
        wanted = pci.desired(self.spec, self.identity)
        return wanted, pci.observe(self.machine, wanted)

    def plan(self) -> list[Change]:
        changes = pci.plan(*self._seen())
        assert all(change.area == "pci_tuning" and change.why and change.source for change in changes)
        return changes

    def drift(self) -> list[str]:
        return [change.what for change in self.plan()]

    def conflicts(self) -> list[str]:
        return [problem.message for problem in pci.conflicts(*self._seen())]

    def notes(self) -> list[str]:
        return pci.notes(*self._seen())

    def converge(self) -> list[str]:
        """Apply; what is left afterwards."""
        self.machine.apply(self.plan())
        return self.drift()


@pytest.fixture
def planner(machine: Machine, identity: Identity, make_spec: Callable[..., Spec]) -> Callable[..., Planner]:
    def build(identity: Identity = identity, **values: Any) -> Planner:
        return Planner(machine, identity, make_spec(**values))

    return build
