# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a new inventory, and writing them without overwriting anything."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import FABRICS
from railwright.exitcodes import InputError
from railwright.init.site import site_text
from railwright.writing import make_directories, usual_mode, write_atomic


class InitError(InputError):
    """The inventory cannot be written there."""


def files(fabric: str) -> dict[str, str]:
    """Relative path: text. The examples under inventories/ are exactly this."""
    if fabric not in FABRICS:
        raise InitError(f"--fabric {fabric}: is no fabric that railwright knows; allowed: {', '.join(FABRICS)}")
    template = resources.files("railwright.init") / "templates" / fabric / "hosts.yml"
    return {"hosts.yml": template.read_text(encoding="utf-8"), "group_vars/all/site.yml": site_text(fabric)}


def write_inventory(directory: Path, fabric: str, *, force: bool = False) -> list[Path]:
    """Write the files and return their paths. Raises InitError before anything is written if one exists."""
    texts = {directory / name: text for name, text in files(fabric).items()}
    if directory.exists() and not directory.is_dir():
        raise InitError(f"{directory}: is a file; allowed: a directory that is new or holds no inventory")
    existing = [path for path in texts if path.exists() or path.is_symlink()]
    if existing and not force:
        raise InitError(f"{existing[0]}: exists and is not overwritten; allowed: another directory")
    for path, text in texts.items():
        try:
            make_directories(path.parent)
            write_atomic(path, text, usual_mode())
        except OSError as error:
            raise InitError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from error
    return list(texts)
