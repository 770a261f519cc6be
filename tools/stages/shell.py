# SPDX-License-Identifier: GPL-3.0-or-later
"""Parses every shell script of the repository with its own shell (``sh -n``, ``bash -n``): syntax only."""

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Exit status 1 and the shell's own words when a script does not parse or none was found."""
    listed = subprocess.run(("git", "ls-files", "-co", "--exclude-standard", "-z"), check=True, capture_output=True, text=True)
    found = {}
    for name in filter(None, listed.stdout.split("\0")):
        path = Path(name)
        if not path.is_file():
            continue
        with path.open("rb") as stream:
            first = stream.readline(80)
        if first.startswith(b"#!") and first.split(b"/")[-1].split()[-1] in (b"sh", b"bash"):
            found[name] = first.split(b"/")[-1].split()[-1].decode()
    bad = [name for name, shell in found.items() if subprocess.run((shell, "-n", name), check=False).returncode]
    print(f"{len(found)} scripts, {len(bad)} do not parse")
    return 1 if bad or not found else 0


if __name__ == "__main__":
    sys.exit(main())
