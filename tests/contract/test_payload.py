# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module carries to a node: AnsiballZ ships everything that its imports reach.

The catalogue of NCCL's variables, and the validation that needs it, stay on the controller: they
would be most of every module's size, and a node is handed a finished Spec.
"""

import zlib
from pathlib import Path

import pytest

import repo

PREFIX = "ansible_collections.railwright.rdma.plugins.module_utils."
CHANGES = ("apply/apply.py", "apply/journal.py", "entry/state.py")
MODULES = repo.python("plugins/modules/")


def resolve(name: str, module: str) -> str | None:
    """The file of module_utils that an import of file ``name`` loads; None for another's module."""
    if module.startswith("."):
        level = len(module) - len(module.lstrip("."))
        parts = [*Path(name).parent.parts[: len(Path(name).parent.parts) - level + 1], *module.lstrip(".").split(".")]
    elif module.startswith(PREFIX):
        parts = ["plugins", "module_utils", *module.removeprefix(PREFIX).split(".")]
    else:
        return None
    for length in (len(parts), len(parts) - 1):  # the last part may be a name in the module
        candidate = "/".join(parts[:length]) + ".py"
        if candidate in repo.files():
            return candidate
    return None


def reached(name: str) -> set[str]:
    """Every file of module_utils that a module ships."""
    found: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        for _line, module in repo.imports(current):
            target = resolve(current, module)
            if target is not None and target not in found:
                found.add(target)
                pending.append(target)
    return found


def test_imports_are_followed() -> None:
    """The module that applies a plan reaches the areas and the one file that does I/O."""
    files = reached("plugins/modules/rdma_state.py")
    assert {"plugins/module_utils/host/host.py", "plugins/module_utils/areas/network/network.py", "plugins/module_utils/types.py"} <= files


def test_what_judges_ships_nothing_that_changes_a_node() -> None:
    assert not [file for file in reached("plugins/modules/rdma_check.py") if file.endswith(CHANGES)]


@pytest.mark.parametrize("name", ["plugins/modules/rdma_facts.py", "plugins/modules/rdma_ssh_mesh.py"])
def test_a_look_does_not_bring_the_plan(name: str) -> None:
    """Facts are asked of every node in every run; they were four times as large while one file held the bodies of both modules."""
    assert "plugins/module_utils/host/host.py" in reached(name)
    assert "plugins/module_utils/plan/plan.py" not in reached(name)


@pytest.mark.parametrize("name", MODULES)
def test_size(name: str) -> None:
    """Bytes of one module as they are sent to every node in every run: each file deflated, the whole in base64 (AnsiballZ)."""
    sent = sum(len(zlib.compress(repo.text(file).encode())) for file in reached(name)) * 4 // 3
    assert sent < 700_000
