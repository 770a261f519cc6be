# SPDX-License-Identifier: GPL-3.0-or-later
"""What each module brings to a node: its own rooms of module_utils, and no more files than it needs.

Ansible packs what a module imports, and the node compiles all of it anew for every task: 170 files cost half a second of CPU.
"""

from __future__ import annotations

import repo

BASE = "plugins/module_utils/"
ABSOLUTE = "ansible_collections.railwright.rdma.plugins.module_utils."
# What any module may bring: knowledge, forms, the host, readers, and the bodies of modules.
COMMON = {"catalogue", "entry", "errors", "formats", "host", "observe", "rules", "spec", "types"}
# Module -> the other rooms that it needs, and how many files it brings at most.
NEEDS: dict[str, tuple[set[str], int]] = {
    "rdma_bench": ({"measure", "prefix"}, 66),
    "rdma_check": ({"areas", "checks", "measure", "plan"}, 181),
    "rdma_drain": ({"scheduler"}, 18),
    "rdma_facts": ({"scheduler"}, 74),
    "rdma_measure": ({"measure"}, 40),
    "rdma_packages": ({"areas", "plan"}, 45),
    "rdma_prefix": ({"areas", "measure", "prefix"}, 78),
    "rdma_rollback": ({"apply", "areas", "plan", "rollback"}, 163),
    "rdma_ssh_mesh": ({"areas", "ssh_mesh"}, 21),
    "rdma_state": ({"apply", "areas", "plan"}, 164),
    "rdma_upgrade": ({"apply"}, 15),
}
FILES = {name.removeprefix(BASE).removesuffix(".py") for name in repo.python(BASE) if not name.endswith("/__init__.py")}


def direct(name: str) -> set[str]:
    """Files of module_utils that a file imports, below module_utils and without their suffix."""
    package = name.removeprefix(BASE).split("/")[:-1]
    found = set()
    for _line, module in repo.imports(name):
        bare = module.lstrip(".")
        dots = len(module) - len(bare)
        if not dots and not bare.startswith(ABSOLUTE):
            continue
        above = package[: len(package) - dots + 1] if dots else []
        parts = [*above, *bare.removeprefix(ABSOLUTE).split(".")]
        found |= {path for path in ("/".join(parts), "/".join(parts[:-1])) if path in FILES}
    return found


def brought(module: str) -> set[str]:
    found: set[str] = set()
    pending = direct(module)
    while pending:
        name = pending.pop()
        found.add(name)
        pending |= direct(f"{BASE}{name}.py") - found
    return found


BROUGHT = {name: files for path in repo.python("plugins/modules/")
           if (files := brought(path)) and (name := path.rpartition("/")[2].removesuffix(".py"))}


def test_every_module_is_in_the_table() -> None:
    assert set(BROUGHT) == set(NEEDS)


def test_a_module_brings_its_own_rooms_only() -> None:
    rooms = {name: {file.partition("/")[0] for file in files} - COMMON for name, files in BROUGHT.items()}
    assert rooms == {name: needed for name, (needed, _most) in NEEDS.items()}


def test_a_module_brings_no_more_files_than_it_needs() -> None:
    assert not {name: len(files) for name, files in BROUGHT.items() if len(files) > NEEDS[name][1]}


def test_what_is_brought_is_followed_through() -> None:
    """The modules that inspect a node bring its facts' readers, which the file itself does not name."""
    assert "observe/hca" in BROUGHT["rdma_check"] - direct("plugins/modules/rdma_check.py")
    assert len(BROUGHT["rdma_check"]) > 100
