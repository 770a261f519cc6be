# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in package repositories on this machine: built once, in a container, and kept outside the checkout.

``python tests/containers/standins.py`` prints the directory. It is keyed by the builder's own text, so an edit of a table
builds anew; nodes get ``deb/`` or ``rpm/`` of it read-only as ``/srv/standin``. One key pair signs everything.
"""

import hashlib
import shutil
from pathlib import Path

import harness

SOURCE = Path(__file__).with_name("standin")
TOOLS = ("apt-utils", "createrepo-c", "dnf", "gnupg", "python3-dnf", "rpm")
NODE_PATH = "/srv/standin"


def directory() -> Path:
    """The repositories in ``deb/`` and ``rpm/``, with ``right.asc``, ``wrong.asc`` and ``keys.json`` beside them."""
    text = b"".join(path.read_bytes() for path in sorted(SOURCE.glob("*.py")))
    key = hashlib.sha256(text).hexdigest()[:16]
    base = harness.cache().parent / "standins"
    base.mkdir(exist_ok=True)
    target = base / key
    with harness.locked(base / "lock"):
        if not target.is_dir():
            _build(target)
    return target


def _build(target: Path) -> None:
    made = target.with_name(f".{target.name}")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    container = harness.start(harness.build(TOOLS), f"railwright-standin-{target.name}")
    try:
        container.copy_in(SOURCE, "/root/builder")
        container.run("mkdir", "/root/out")
        container.run("python3", "/root/builder/build.py", "/root/out", timeout=harness.BUILD_SECONDS)
        container.copy_out("/root/out/.", made)
    finally:
        container.remove()
    made.replace(target)


if __name__ == "__main__":
    print(directory())
