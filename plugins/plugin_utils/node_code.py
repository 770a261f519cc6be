# SPDX-License-Identifier: GPL-3.0-or-later
"""The code that a node runs when our own ssh asks it: all that the bodies of entry/inspection.py import, packed once in a process.

It is sent with each question, or an apply leaves it on the node under its digest (areas/system/node_code.py).
"""

import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from ansible_collections.railwright.rdma.plugins.module_utils.entry import boot
from ansible_collections.railwright.rdma.plugins.module_utils.entry.inspection import ALONE, MODULES

ROOT = Path(boot.__file__).parents[1]
ENTRIES = (
    "__init__.py", "entry/inspection.py", "entry/boot.py",
    *(f"{file[1:].replace('.', '/') if file[0] == '.' else f'entry/{file}'}.py"
      for file in (*(row[1] for row in MODULES.values()), *ALONE.values())),
)
# ast.parse of 180 files takes most of a second; what is no import and looks like one brings a file too many.
RELATIVE = re.compile(r"^ *from (\.+)((?:\w[\w.]*)?) import (\([^()]*\)|[^\n]*)", re.MULTILINE)
WORD = re.compile(r"\w+")


@cache
def boot_text() -> str:
    """What a node's Python gets as ``-c``."""
    return Path(boot.__file__).read_text(encoding="utf-8")


@cache
def sources() -> bytes:
    """A JSON object of sources by their path below the package."""
    return json.dumps({f"{boot.PACKAGE}/{name}": text for name, text in sorted(needed_files().items())}).encode("ascii")


@cache
def code_digest() -> str:
    """Of the sources: what zlib makes of them is not the same everywhere."""
    return hashlib.sha256(sources()).hexdigest()


@cache
def packed_code() -> bytes:
    return zlib.compress(sources())


def needed_files(entries: Iterable[str] = ENTRIES) -> dict[str, str]:
    """Path below module_utils -> source, of everything that the entries import, and that in turn."""
    there = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}
    found: dict[str, str] = {}
    pending = set(entries)
    while pending:
        name = pending.pop()
        found[name] = (ROOT / name).read_text(encoding="utf-8")
        pending |= (there & set(imported_files(name, found[name]))) - found.keys()
    return found


def imported_files(name: str, source: str) -> Iterator[str]:
    """Files that the relative imports of a file may mean; not each of them is there. The packages around them too."""
    for dots, module, names in RELATIVE.findall(source):
        base = PurePosixPath(name).parents[len(dots) - 1].joinpath(*module.split("."))
        for target in (base, *(base / word for word in WORD.findall(names))):
            yield f"{target}.py"
            yield from (f"{parent}/__init__.py" for parent in (target, *target.parents))
