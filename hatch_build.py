# SPDX-License-Identifier: GPL-3.0-or-later
"""Build hook: the wheel carries the collection at ansible_collections/railwright/rdma.

Only for real builds. An editable install reaches the collection through ``.dev``
(see ``dev-mode-dirs`` in pyproject.toml); a copy in site-packages would shadow edits.
There is no ``__init__.py`` at ``ansible_collections`` and ``ansible_collections/railwright``:
other distributions ship collections into the same namespace.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DESTINATION = "ansible_collections/railwright/rdma"
# galaxy.yml and meta make it a collection; the rest is what it offers.
FILES = ("galaxy.yml", "README.md", "LICENSE", "CHANGELOG.md")
DIRECTORIES = ("meta", "plugins", "roles", "playbooks")
NEVER = {"__pycache__", ".mypy_cache", ".ruff_cache", "molecule", "tests"}


def collection_files(root: Path) -> dict[str, str]:
    """Every file of the collection: its path here -> its path in the wheel."""
    found = [root / name for name in FILES]
    for directory in DIRECTORIES:
        found += sorted(path for path in (root / directory).rglob("*") if path.is_file())
    kept = [path for path in found if not NEVER & set(path.relative_to(root).parts) and path.suffix != ".pyc"]
    return {str(path): f"{DESTINATION}/{path.relative_to(root)}" for path in kept}


class CollectionHook(BuildHookInterface[Any]):
    """Adds the collection to a wheel that is not an editable one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        build_data["force_include"].update(collection_files(Path(self.root)))
