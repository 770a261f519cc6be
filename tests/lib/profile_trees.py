# SPDX-License-Identifier: GPL-3.0-or-later
"""Captured trees with an inventory that fits each: a copy of a tree, its Spec, and the plan of area ``nccl`` on it."""

import shutil
from pathlib import Path
from typing import Any

from tests.lib.field_specs import build_spec
from tests.lib.node_trees import NODES

from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl import environment
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

MTU = {"roce": 9000, "erdma": 8500, "infiniband": 2044}
LIBRARY = "/opt/railwright/nccl/%s/lib/libnccl.so.2"
BUSES = ("13", "2b", "43", "5b", "73", "8b", "a3", "bb")
# tree: (fabric, [(kind of match, value, address)])
RAILS: dict[str, tuple[str, list[tuple[str, str, str | None]]]] = {
    "doca8": ("roce", [("pci", f"0000:{bus}:00.0", f"10.10.{i}.11/24") for i, bus in enumerate(BUSES)]),
    "erdma2": ("erdma", [("pci", "0000:00:08.0", "172.16.0.11/16"), ("pci", "0000:00:09.0", "172.16.1.11/16")]),
    "ib8": ("infiniband", [("pci", f"0000:{bus}:00.0", None) for bus in ("18", "19", "1a", "1b", "1c", "1d", "1e", "1f")]),
    "rxe": ("roce", [("mac", "52:54:00:bb:00:01", "10.10.0.11/24")]),
}


def spec_of(name: str, **values: Any) -> Spec:
    """An inventory that fits the tree."""
    fabric, matches = RAILS[name] if name in RAILS else rails_found(name)
    rails = [{"name": f"rail{i}", "match": {kind: value}} | ({"address": address} if address else {})
             for i, (kind, value, address) in enumerate(matches)]
    given = {"fabric": fabric, "mtu": MTU[fabric], "rdma_stack": "inbox", "rails": rails, "bootstrap_interface": "eth0",
             "artifact_pins": {"aiacc_nccl_plugin_rpm": "0" * 64}, **values}
    spec, findings = build_spec(given, "node1")
    assert spec is not None, findings
    return spec


def rails_found(name: str) -> tuple[str, list[tuple[str, str, str | None]]]:
    """A rail for each HCA with a PCI function of its own."""
    hcas = [hca for hca in observe_identity(TreeHost(str(NODES / name))).hcas if hca.pci is not None]
    layers = {"erdma" if hca.driver == "erdma" else "infiniband" if hca.link_layer == "InfiniBand" else "roce" for hca in hcas}
    fabric = min(layers, default="roce")
    return fabric, [("pci", str(hca.pci), None if fabric == "infiniband" else f"10.10.{i}.11/24") for i, hca in enumerate(hcas)]


class Tree:
    """A copy of a captured node that a test may change."""

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.root = name, root / name
        shutil.copytree(NODES / name, self.root, symlinks=True)
        self.host = TreeHost(str(self.root))

    def put(self, path: str, text: str | bytes) -> None:
        full = self.root / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(text if isinstance(text, bytes) else text.encode())
        full.chmod(0o644)

    def gid(self, hca: str, index: int, gid: str, kind: str) -> None:
        """One slot of a port's table, as sysfs has it."""
        port = f"/sys/class/infiniband/{hca}/ports/1"
        target = (self.root / port[1:]).resolve()
        assert self.root in target.parents, "a test must not write into the captured tree"
        for part, text in (("gids", gid), ("gid_attrs/types", kind)):
            (target / part).mkdir(parents=True, exist_ok=True)
            (target / part / str(index)).write_text(text + "\n")

    def without_gid(self, hca: str, *indexes: int) -> None:
        for index in indexes:
            self.gid(hca, index, "0000:0000:0000:0000:0000:0000:0000:0000", "")

    def library(self, version: str) -> None:
        """libnccl of a release below our prefix, as the files say their version."""
        self.put(LIBRARY % version, b"\x7fELF" + f"\0NCCL version {version}+cuda12.4\0".encode())

    def spec(self, **values: Any) -> Spec:
        return spec_of(self.name, **values)

    def conf(self, **values: Any) -> dict[str, str]:
        """What /etc/nccl.conf is to hold."""
        wanted, seen = self._look(self.spec(**values))
        return dict(environment.variables_of(wanted, seen))

    def _look(self, spec: Spec) -> tuple[environment.Desired, environment.Observed]:
        wanted = environment.desired(spec, observe_identity(self.host))
        return wanted, environment.observe(self.host, wanted)

    def problems(self, **values: Any) -> list[str]:
        spec = self.spec(**values)
        wanted, seen = self._look(spec)
        found = environment.problems(spec, observe_identity(self.host), wanted) + environment.conflicts(wanted, seen)
        return [f"{item.subject}: {item.message}" for item in found]

    def notes(self, **values: Any) -> list[str]:
        return environment.notes(*self._look(self.spec(**values)))

    def plan(self, **values: Any) -> list[str]:
        return [change.what for change in environment.plan(*self._look(self.spec(**values)))]

    def apply(self, **values: Any) -> None:
        for change in environment.plan(*self._look(self.spec(**values))):
            for op in change.ops:
                self.host.write(op.path, op.content, op.mode)
        assert self.plan(**values) == []

    def facts(self) -> dict[str, Any]:
        return observe_facts(self.host)
