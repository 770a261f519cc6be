# SPDX-License-Identifier: GPL-3.0-or-later
"""The captured node doca8, copied and open to a test's hand: what its modules, mounts and units say decides the plan of area ``stack``."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.node_stacks import UBUNTU_KERNEL

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import stack
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change
from field_specs import build_spec
from node_trees import NODES

RELEASE = "3.2.2"  # of the captured node
IMAGE = f"/boot/initrd.img-{UBUNTU_KERNEL}"


class Node(TreeHost):
    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.base = root
        self.answers: dict[tuple[str, ...], Result] = {("systemctl", "--version"): Result(0, "systemd 255 (255.4-1ubuntu8)\n", "")}

    def put(self, path: str, text: str) -> None:
        full = self.base / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        return self.answers.get(tuple(argv)) or super().run(argv, timeout, stdin)

    def load(self, version: str | None, srcversion: str = "FEDCBA9876543210FEDCBA9") -> None:
        """Every module of the stack is loaded in this version, whatever lies on disk; None: the kernel's own."""
        for directory in (self.base / "sys/module").iterdir():
            if not directory.name.startswith("nvidia"):
                (directory / "srcversion").write_text(srcversion + "\n")
                (directory / "version").write_text(f"{version}\n") if version else (directory / "version").unlink()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    shutil.copytree(NODES / "doca8", tmp_path / "node", symlinks=True)
    return Node(tmp_path / "node")


class Planner:
    def __init__(self, node: Node, values: dict[str, Any]) -> None:
        given = {"fabric": "roce", "mtu": 9000, "rdma_stack": "doca", "rails": [], **values}
        if given["rdma_stack"] == "doca":
            given.setdefault("rdma_stack_version", RELEASE)
        spec, findings = build_spec(given, "doca8")
        assert spec is not None, findings
        self.node = node
        self.desired = stack.desired(spec, observe_identity(node))

    def observed(self) -> stack.Observed:
        return stack.observe(self.node, self.desired)

    def plan(self) -> list[Change]:
        changes = stack.plan(self.desired, self.observed())
        assert all(change.area == "stack" and change.why and change.source for change in changes)
        return changes

    def one(self, begins: str) -> Change:
        return next(change for change in self.plan() if change.what.startswith(begins))

    def whats(self) -> list[str]:
        return [change.what for change in self.plan()]

    def conflicts(self) -> list[str]:
        return [f"{problem.subject}: {problem.message}" for problem in stack.conflicts(self.desired, self.observed())]

    def notes(self) -> list[str]:
        return stack.notes(self.desired, self.observed())


@pytest.fixture
def planner(node: Node) -> Callable[..., Planner]:
    """The drop-in is there already, unless a test takes it away."""
    node.put(stack.DROPIN, stack.dropin_text(255))
    return lambda **values: Planner(node, values)
