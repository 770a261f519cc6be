# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that takes nothing more: real file systems below a directory that stands for a node."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.disk import refusing_disk
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from module_double import Module
from rooted import RootedHost

FULL_OF_BLOCKS = "/var/lib is on a file system that is full (0 of 1 MiB free)"
FULL_OF_FILES = "/var is on a file system that is full (0 of 1 inodes free)"
READ_ONLY = "/etc is on a file system that is mounted read-only"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts file systems")


def mount(place: Path, options: str) -> None:
    place.mkdir(parents=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", options, "tmpfs", place), check=True)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Where a test mounts; each mount is gone afterwards."""
    yield tmp_path
    for place in ("etc", "var/lib", "var"):
        subprocess.run(("umount", tmp_path / place), check=False, capture_output=True)


@pytest.mark.parametrize(("place", "options", "text"), [
    ("etc", "ro", READ_ONLY), ("var/lib", "size=1m", FULL_OF_BLOCKS), ("var", "nr_inodes=1", FULL_OF_FILES), ("var/lib", "size=2m", None)])
def test_each_disk(root: Path, place: str, options: str, text: str | None) -> None:
    mount(root / place, options)
    if "size" in options:
        (root / place / "filler").write_bytes(b"x" * 1024 * 1024)
    assert refusing_disk(RootedHost(root)) == text
    assert refusing_disk(TreeHost(str(root))) is None


def test_a_module_says_it_instead_of_its_answer(root: Path) -> None:
    """What became of an apply is said whatever the disk, and of a host that is no node its disk is not asked."""
    mount(root / "etc", "ro")
    host = RootedHost(root)
    assert Module({"mode": "plan"}).call(lambda *_given: {"plan": []}, host, "role") == {"failed": True, "msg": f"role: {READ_ONLY}"}
    assert Module({"mode": "outcome"}).call(lambda *_given: {"confirm": {}}, host) == {"changed": False, "confirm": {}}
