# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes everything that follows from the schema and the catalogue: ``python tools/generate [--check]``.

Argument specs and defaults of the roles, the variable tables in their READMEs, the
reference pages (the command line too), the man page, the example inventories, the types of a Spec's keys, the project's
addresses. ``--check`` writes nothing and ends 1 with the names of the files that are not what they would be.
"""

import argparse
import sys
from pathlib import Path

import changelog
import commands
import drivers
import examples
import manpage
import pages
import project
import rolefiles
import rotation
import spectypes

ROOT = Path(__file__).resolve().parents[2]


def generated(root: Path) -> dict[str, str]:
    """Relative path: text, of every generated file (READMEs: whole, with their table replaced)."""
    return {**rolefiles.files(root), **pages.files(), **examples.files(), **commands.files(), **drivers.files(),
            **changelog.files(root), **spectypes.files(), **project.files(root), **manpage.files(root),
            **rotation.files(root)}


def stale(root: Path) -> list[str]:
    """The files that differ from what would be written, or do not exist."""
    wanted = generated(root)
    return [name for name, text in wanted.items() if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; end 1 when a file is out of date")
    arguments = parser.parse_args()
    names = stale(ROOT)
    if arguments.check:
        for name in names:
            print(f"{name}: out of date; run: make generate", file=sys.stderr)
        return 1 if names else 0
    texts = generated(ROOT)
    for name in names:
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[name], encoding="utf-8")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
