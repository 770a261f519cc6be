# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUDirect Storage on a captured node: judged only where nvidia-fs is installed, and nothing passes that was not read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_gds
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.storage import observe_gds
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict
from node_trees import NODES
from profile_trees import Tree, spec_of

# As NVIDIA/gds-nvidia-fs writes them, and the lines of cufile.json that count, with comments as in the file that CUDA brings.
VERSION, MODULES = "version: 2.30\n", "nvme: Not available\nrpcrdma: 25.10\nwekafsio: 1\n"
CONFIG = '{\n    // NOTE : "allow_compat_mode": false\n    "properties": {\n        "allow_compat_mode": %s\n    }%s\n}\n'
P2PDMA = ',\n    "block": {"nvme": {"use_pci_p2pdma": true}}'
KERNEL = "6.8.0-85-generic"
PROC, CUFILE, DEP = "/proc/driver/nvidia-fs", "/etc/cufile.json", f"/lib/modules/{KERNEL}/modules.dep"
SPEC, IDENTITY = spec_of("doca8"), observe_identity(TreeHost(str(NODES / "doca8")))
Make = Callable[..., Tree]


@pytest.fixture
def node(tmp_path: Path) -> Make:
    """doca8, eight GPUs, with nvidia-fs; a file that is None is left out."""

    def make(name: str = "doca8", *, loaded: bool = True, disk: bool = True, **files: str | None) -> Tree:
        tree = Tree(name, tmp_path / str(len(list(tmp_path.iterdir()))))
        if loaded:
            tree.put("/proc/modules", (tree.root / "proc/modules").read_text() + "nvidia_fs 323584 0 - Live 0x0000000000000000 (OE)\n")
            given = {f"{PROC}/version": VERSION, f"{PROC}/modules": MODULES} | files
            for path, text in given.items():
                if text is not None:
                    tree.put(path, text)
        else:
            for path, text in files.items():
                tree.put(path, text or "")
        if disk:
            tree.put(DEP, (tree.root / DEP.lstrip("/")).read_text() + "updates/dkms/nvidia-fs.ko.zst:\n")
        return tree

    return make


def seen(tree: Tree) -> tuple[Any, list[Verdict]]:
    found = observe_gds(tree.host, KERNEL)
    return found, judge_gds(inspection_of("node1", SPEC, IDENTITY, {"gpudirect": {"gds": found}}))


def judged(tree: Tree) -> tuple[str, str]:
    _facts, [verdict] = seen(tree)
    assert verdict.check == "gds.path"
    return verdict.status, verdict.message


def test_loaded_with_a_storage_driver_passes(node: Make) -> None:
    tree = node(**{CUFILE: CONFIG % ("true", "")})
    facts, [verdict] = seen(tree)
    assert facts == {"loaded": True, "version": "2.30", "storage": ["nvme", "rpcrdma"],
                     "config": {"read": True, "allow_compat_mode": True, "use_pci_p2pdma": False}}
    assert observe_facts(tree.host)["gpudirect"]["gds"] == facts
    assert (verdict.status, verdict.subject) == ("pass", "GPUDirect Storage")
    assert verdict.message.startswith("nvidia-fs 2.30 is loaded, registered: nvme and rpcrdma; where that cannot be, cuFile copies")
    assert "allow_compat_mode" not in judged(node(**{CUFILE: CONFIG % ("false", "")}))[1]


def test_where_it_is_not_installed_nothing_is_said(node: Make) -> None:
    """cufile.json comes with every CUDA."""
    assert seen(node(loaded=False, disk=False, **{CUFILE: CONFIG % ("true", "")})) == (None, [])


def test_installed_and_not_loaded_fails(node: Make) -> None:
    status, message = judged(node(loaded=False))
    assert (status, "not loaded: cuFile copies through the CPU's memory" in message) == ("warn", True)
    status, message = judged(node(loaded=False, **{CUFILE: CONFIG % ("true", P2PDMA)}))
    assert (status, "gdscheck -p says whether it can" in message) == ("unknown", True)


@pytest.mark.parametrize("modules", ["", "wekafsio: 1\n"])
def test_no_storage_driver_fails(node: Make, modules: str) -> None:
    """nvidia-fs lists WEKA's always."""
    status, message = judged(node(**{f"{PROC}/modules": modules}))
    assert (status, "no storage driver registered" in message) == ("warn", True)


def test_wekas_driver_counts_where_it_is_loaded(node: Make) -> None:
    tree = node(**{f"{PROC}/modules": "wekafsio: 1\n"})
    tree.put("/proc/modules", (tree.root / "proc/modules").read_text() + "wekafsio 999424 1 - Live 0x0000000000000000 (OE)\n")
    assert judged(tree)[0] == "pass"


@pytest.mark.parametrize(("path", "text"), [
    (f"{PROC}/version", None), (f"{PROC}/version", "\x1b[31m"), (f"{PROC}/modules", None), (CUFILE, "{"), (CUFILE, "[]"), (CUFILE, "\x00"),
    (CUFILE, "// only a comment\n"), (CUFILE, "{" + '"a": {' * 5000),
])  # fmt: skip
def test_what_cannot_be_read_is_unknown(node: Make, path: str, text: str | None) -> None:
    assert judged(node(**{path: text}))[0] == "unknown"


@pytest.mark.parametrize("modules", ["../../etc: 1\n", "\x1b]0;x: 1\n", "no colon\n", "{{ 7 }}: 1\n", "\x00" * 200000])
def test_a_name_that_is_none_is_dropped(node: Make, modules: str) -> None:
    facts, [verdict] = seen(node(**{f"{PROC}/modules": modules}))
    assert (facts["storage"], verdict.status) == ([], "warn")


def test_unreadable_modules_are_unknown_and_facts_in_trouble_crash_nothing(node: Make) -> None:
    tree = node()
    (tree.root / "proc/modules").unlink()
    assert judged(tree)[0] == "unknown"
    for gds in (None, {}, {"loaded": "yes"}, {"loaded": True, "version": "2.30", "storage": "nvme"}):
        found = judge_gds(inspection_of("node1", SPEC, IDENTITY, {"gpudirect": {"gds": gds}}))
        assert [item.status for item in found] in ([], ["unknown"])
    assert judge_gds(inspection_of("node1", SPEC, IDENTITY, {"gpudirect": None})) == []
