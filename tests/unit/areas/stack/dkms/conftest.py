# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated node with DKMS's tree: ``dkms install`` does to the tree what the real one does, as dkms(8) and its source describe it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_stacks import dkms as registered
from tests.fixtures.node_stacks import kernel
from tests.fixtures.node_text import OS_RELEASE, dpkg_status, proc_modules
from tests.fixtures.node_tree import Tree

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import dkms
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Hca, Identity, Nic, Problem
from field_specs import build_spec

KERNEL = "6.1.0-26-amd64"
DOCA = "25.10.OFED.25.10.1.7.1"
RELEASE = "3.2.3"
MAC = "52:54:00:00:00:01"


class Node(TreeHost):
    """``live`` as far as file times go: initramfs and modules are compared by them."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.tree = Tree(root)
        self.commands: list[tuple[str, ...]] = []
        self.answers: dict[tuple[str, ...], Result] = {}
        self.broken_build = False
        root.mkdir(exist_ok=True)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        self.commands.append(command)
        if command in self.answers:
            return self.answers[command]
        if command[:2] == ("dkms", "install"):
            module, _slash, version = command[2].partition("/")
            return self._install(module, version, command[4])
        if command[:2] == ("dkms", "remove"):
            base = self.tree.root / "var/lib/dkms" / command[2].partition("/")[0]
            for path in sorted(base.rglob("*"), reverse=True):
                path.unlink() if path.is_symlink() or path.is_file() else path.rmdir()
            return Result(0, "", "")
        return super().run(argv, timeout, stdin)

    def _install(self, module: str, version: str, release: str) -> Result:
        if self.broken_build:
            self.tree.write(f"var/lib/dkms/{module}/{version}/build/make.log", "make: Entering\nmain.c:7: error: no member named 'x'\n")
            return Result(10, "", f"Error! Bad return status for module build on kernel: {release} (x86_64)")
        self.tree.write(f"var/lib/dkms/{module}/{version}/{release}/x86_64/module/{module}.ko", "")
        link = self.tree.root / f"var/lib/dkms/{module}/kernel-{release}-x86_64"
        link.unlink(missing_ok=True)
        link.symlink_to(f"{version}/{release}/x86_64")
        self.tree.write(f"lib/modules/{release}/updates/dkms/{module}.ko", "")
        return Result(0, "", "")

    def packages(self, **versions: str) -> None:
        self.tree.write("var/lib/dpkg/status", dpkg_status({"bash": "5.2", **{name.replace("_", "-"): v for name, v in versions.items()}}))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """Debian 12 on hardware with one ConnectX-7, headers there, nothing of a vendor's."""
    found = Node(tmp_path / "node")
    found.tree.system(OS_RELEASE["debian12"], KERNEL, "n1", proc_modules({"mlx5_core": "", "ib_core": ""}))
    kernel(found.tree, KERNEL, "kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko:\nkernel/drivers/infiniband/core/ib_core.ko:\n")
    found.tree.write("sys/firmware/memmap/0/type", "System RAM\n")
    found.packages()
    return found


@pytest.fixture
def make_spec() -> Callable[..., Spec]:
    def build(**values: Any) -> Spec:
        rails = [{"name": "rail0", "match": {"mac": MAC}, "address": "10.0.0.1/24"}]
        given = {"fabric": "roce", "mtu": 9000, "rdma_stack": "doca", "rails": rails, **values}
        if given["rdma_stack"] == "doca":
            given["rdma_stack_version"] = RELEASE
        spec, findings = build_spec(given, "n1")
        assert spec is not None, findings
        return spec

    return build


def identity_of(node: Node) -> Identity:
    nics = (Nic("eth1", MAC, "0000:03:00.0", "mlx5_core", "ethernet", False),)
    hcas = (Hca("mlx5_0", "b8ce:f603:00ab:0001", "0000:03:00.0", "mlx5_core", ("eth1",), (1,), (), "Ethernet"),)
    return observe_identity(node)._replace(nics=nics, hcas=hcas)


class Planner:
    """The area against a node, as plan.py calls it."""

    def __init__(self, node: Node, spec: Spec, identity: Identity) -> None:
        self.node, self.spec, self.identity = node, spec, identity

    @property
    def _parts(self) -> tuple[dkms.Desired, dkms.Observed]:
        wanted = dkms.desired(self.spec, self.identity)
        return wanted, dkms.observe(self.node, wanted)

    def plan(self) -> list[Change]:
        changes = dkms.plan(*self._parts)
        assert all(change.area == "dkms" and change.why and change.source for change in changes)
        return changes

    def conflicts(self) -> list[Problem]:
        return dkms.conflicts(*self._parts)

    def notes(self) -> list[str]:
        return dkms.notes(*self._parts)

    def apply(self) -> list[Result]:
        return [self.node.run(op.argv) for change in self.plan() for op in change.ops]


@pytest.fixture
def planner(node: Node, make_spec: Callable[..., Spec]) -> Callable[..., Planner]:
    return lambda **values: Planner(node, make_spec(**values), identity_of(node))


@pytest.fixture
def added(node: Node) -> Callable[..., None]:
    """Register a module with DKMS, as a package's script does; ``built`` for the running kernel if asked."""

    def register(module: str = "mlnx-ofed-kernel", version: str = DOCA, built: bool = False, installed: bool = False) -> None:
        registered(node.tree, module, version, (module,), (KERNEL,) if built or installed else (), KERNEL if installed else None)
        if installed:
            node.tree.write(f"lib/modules/{KERNEL}/updates/dkms/{module}.ko", "")

    return register
