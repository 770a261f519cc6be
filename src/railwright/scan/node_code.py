# SPDX-License-Identifier: GPL-3.0-or-later
"""The code that a node runs for one question: the modules that its entry imports, packed once in a process."""

import json
import re
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from ansible_collections.railwright.rdma.plugins.module_utils.entry.boot import PACKAGE
from ansible_collections.railwright.rdma.plugins.module_utils.entry.inspection import MODULES
from railwright.ansible_env import COLLECTION, collection_root

ENTRY = "entry/inspection.py"
# ast.parse of 160 files takes most of a second; what is no import and looks like one brings a file too many.
RELATIVE = re.compile(r"^ *from (\.+)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
WORD = re.compile(r"\w+")


def module_utils() -> Path:
    return collection_root() / COLLECTION / "plugins" / "module_utils"


@cache
def boot_text() -> str:
    """What a node's Python gets as ``-c``."""
    return (module_utils() / "entry" / "boot.py").read_text(encoding="utf-8")


@cache
def packed_code(module: str) -> bytes:
    """Of this module (``rdma_check``): zlib, a JSON object of sources by their path below the package."""
    files = {f"{PACKAGE}/{name}": text for name, text in sorted(needed_files(f"entry/{MODULES[module][1]}.py").items())}
    return zlib.compress(json.dumps(files).encode("ascii"), 9)


def needed_files(entry: str) -> dict[str, str]:
    """Path below module_utils -> source, of everything that two entries import, and that in turn."""
    root = module_utils()
    found: dict[str, str] = {}
    pending = [ENTRY, entry, "__init__.py"]
    while pending:
        name = pending.pop()
        if name not in found and (root / name).is_file():
            found[name] = (root / name).read_text(encoding="utf-8")
            pending += imported_files(name, found[name])
    return found


def imported_files(name: str, source: str) -> Iterator[str]:
    """Files that the relative imports of a file may mean; not each of them is there. The packages around them too."""
    for dots, module, names in RELATIVE.findall(source):
        base = PurePosixPath(name).parents[len(dots) - 1].joinpath(*module.split("."))
        for target in (base, *(base / word for word in WORD.findall(names))):
            yield f"{target}.py"
            yield from (f"{parent}/__init__.py" for parent in (target, *target.parents))
