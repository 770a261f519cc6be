# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in package repositories on this machine: built once, in a container, and kept outside the checkout.

``python tests/containers/standins.py deb|rpm`` prints the directory. It is keyed by the builder's own text, so an edit of a table
builds anew; nodes get it read-only as ``/srv/standin``.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path

import harness

SOURCE = Path(__file__).with_name("standin")
TOOLS = ("apt-utils", "createrepo-c", "dnf", "gnupg", "python3-dnf", "rpm")
NODE_PATH = "/srv/standin"
KINDS = ("deb", "rpm")


def directory(kind: str) -> Path:
    """The repositories of one kind of package, with ``right.asc``, ``wrong.asc`` and ``keys.json`` beside them."""
    text = b"".join(path.read_bytes() for path in sorted(SOURCE.glob("*.py")))
    key = hashlib.sha256(kind.encode() + text).hexdigest()[:16]
    base = harness.cache().parent / "standins"
    base.mkdir(exist_ok=True)
    target = base / f"{kind}-{key}"
    with harness.locked(base / f"{kind}.lock"):
        if not target.is_dir():
            _build(kind, target)
    return target


def fingerprints(kind: str) -> dict[str, str]:
    """Of the key that signed (right) and of the other one (wrong)."""
    return dict(json.loads((directory(kind) / "keys.json").read_text(encoding="utf-8")))


def _build(kind: str, target: Path) -> None:
    made = target.with_name(f".{target.name}")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    container = harness.start(harness.build(TOOLS), f"railwright-standin-{target.name}")
    try:
        container.copy_in(SOURCE, "/root/builder")
        container.run("mkdir", "/root/out")
        container.run("python3", "/root/builder/build.py", kind, "/root/out", timeout=harness.BUILD_SECONDS)
        container.copy_out("/root/out/.", made)
    finally:
        container.remove()
    made.replace(target)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in KINDS:
        sys.exit("usage: standins.py deb|rpm")
    print(directory(sys.argv[1]))
