# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated node for the host-side areas: a captured tree on which a few commands have their real effect."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import limits
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import BY_NAME, Area
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Hca, Nic
from field_specs import build_spec

KERNEL = "6.1.0-26-amd64"
INFINIBAND = ("ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_ucm", "rdma_rxe")
MAC = "52:54:00:00:00:0%d"


class Node(TreeHost):
    """A node as a directory. What apply runs there (modprobe, systemctl) does here what it does on a node."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.base = root
        self.commands: list[tuple[str, ...]] = []

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        full = self.base / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        full.chmod(mode)

    def get(self, path: str) -> str:
        return (self.base / path.lstrip("/")).read_text()

    def show_limits(self) -> str:
        """`systemctl show`, answered from what the last daemon-reexec read."""
        return self.read("/run/test-manager") or "DefaultLimitMEMLOCK=8388608\nDefaultLimitNOFILE=524288\n"

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        self.commands.append(command)
        if command[0] == "modprobe":
            self.put("/proc/modules", (self.read("/proc/modules") or "") + f"{command[1]} 16384 0 - Live 0x0\n")
        elif command == ("systemctl", "daemon-reexec"):
            text = self.get(limits.SYSTEM_FILE).replace("=1024:", "=")
            self.put("/run/test-manager", "".join(row + "\n" for row in text.splitlines() if row.startswith("Default")))
        elif command[:2] == ("systemctl", "enable"):
            target = "timers" if command[2].endswith(".timer") else "multi-user"
            link = self.base / f"etc/systemd/system/{target}.target.wants" / command[2]
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/etc/systemd/system/" + command[2])
        elif command[:2] == ("systemctl", "show"):
            return Result(0, self.show_limits(), "")
        elif command[0] != "systemctl":
            return super().run(argv, timeout, stdin)
        return Result(0, "", "")

    def apply(self, changes: Sequence[Change]) -> None:
        for op in (op for change in changes for op in change.ops):
            if op.kind == "write":
                self.write(op.path, op.content, op.mode)
            elif op.kind == "value":
                self.set_value(op.path, op.content)
            else:
                assert op.kind == "run"
                assert self.run(op.argv).ok


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A bare Debian 12 virtual machine with two fabric NICs and cpufreq: nothing of ours on it."""
    found = Node(tmp_path)
    found.put("/etc/os-release", 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    found.put("/proc/sys/kernel/osrelease", KERNEL + "\n")
    found.put("/proc/1/comm", "systemd\n")
    found.put("/proc/modules", "virtio_net 86016 0 - Live 0x0\n")
    found.put(f"/lib/modules/{KERNEL}/modules.dep", "".join(f"kernel/drivers/infiniband/{name}.ko: \n" for name in INFINIBAND))
    found.put("/proc/self/mounts", "proc /proc proc rw,nosuid 0 0\n")
    found.put("/proc/sys/fs/nr_open", "1073741816\n")
    found.put("/proc/sys/kernel/numa_balancing", "1\n")
    found.put("/proc/sys/vm/zone_reclaim_mode", "0\n")
    for index, value in ((1, 128), (2, 512), (3, 1024)):
        found.put(f"/proc/sys/net/ipv4/neigh/default/gc_thresh{index}", f"{value}\n")
    for name in ("eth1", "eth2"):
        for key in ("rp_filter", "arp_ignore", "arp_announce"):
            found.put(f"/proc/sys/net/ipv4/conf/{name}/{key}", "0\n")
    for index in range(12):
        policy = f"/sys/devices/system/cpu/cpufreq/policy{index}/"
        found.put(policy + "scaling_governor", "schedutil\n")
        found.put(policy + "scaling_available_governors", "performance schedutil \n")
    found.put("/var/lib/dpkg/status", "Package: bash\nStatus: install ok installed\nVersion: 5.2.15-2\n\n")
    return found


@pytest.fixture
def make_spec() -> Callable[..., Spec]:
    def build(**values: Any) -> Spec:
        rails = [{"name": f"rail{i}", "match": {"mac": MAC % (i + 1)}, "address": f"10.0.{i}.1/24"} for i in range(2)]
        spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": "soft_roce", "rails": rails, **values}, "node1")
        assert spec is not None, findings
        return spec

    return build


@pytest.fixture
def nics() -> tuple[Nic, ...]:
    return (
        Nic("eth0", MAC % 9, "0000:00:03.0", "virtio_net", "ethernet", True, 0),
        *(Nic(f"eth{i}", MAC % i, f"0000:00:0{3 + i}.0", "mlx5_core", "ethernet", False) for i in (1, 2)),
    )


@pytest.fixture
def hcas() -> tuple[Hca, ...]:
    return tuple(
        Hca(f"mlx5_{i}", f"b8ce:f603:00ab:000{i}", None, "mlx5_core", (f"eth{i + 1}",), (1,), (), "Ethernet") for i in range(2)
    )


class Planner:
    """The areas against a simulated node, as plan.py calls them."""

    def __init__(self, node: Node, spec: Spec, nics: tuple[Nic, ...], hcas: tuple[Hca, ...] = ()) -> None:
        self.node, self.spec, self.nics, self.hcas = node, spec, nics, hcas

    def _observed(self, area: Area) -> tuple[Any, Any, Any]:
        identity = observe_identity(self.node)._replace(nics=self.nics, hcas=self.hcas)
        wanted = area.desired(self.spec, identity)
        return identity, wanted, area.observe(self.node, wanted)

    def plan(self, name: str) -> list[Change]:
        _identity, wanted, observed = self._observed(BY_NAME[name])
        changes: list[Change] = BY_NAME[name].plan(wanted, observed)
        assert all(change.area == name and change.why and change.source for change in changes)
        return changes

    def keys(self, name: str) -> list[str]:
        return [change.what for change in self.plan(name)]

    def problems(self, name: str) -> list[str]:
        area = BY_NAME[name]
        identity, wanted, observed = self._observed(area)
        found = area.problems(self.spec, identity, wanted) + area.conflicts(wanted, observed)
        return [f"{problem.subject}: {problem.message}" for problem in found]

    def notes(self, name: str) -> list[str]:
        _identity, wanted, observed = self._observed(BY_NAME[name])
        said: list[str] = BY_NAME[name].notes(wanted, observed)
        return said

    def converge(self, name: str) -> None:
        self.node.apply(self.plan(name))
        assert self.plan(name) == []


@pytest.fixture
def planner(node: Node, make_spec: Callable[..., Spec], nics: tuple[Nic, ...]) -> Callable[..., Planner]:
    """A planner for a spec with these inventory values."""

    def build(hcas: tuple[Hca, ...] = (), nics: tuple[Nic, ...] = nics, **values: Any) -> Planner:
        return Planner(node, make_spec(**values), nics, hcas)

    return build
