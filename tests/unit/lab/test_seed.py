# SPDX-License-Identifier: GPL-3.0-or-later
"""Per-node files, written into a real (small) ext4 image with the real debugfs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from railwright.lab import LabError, seed, tools

needs_e2fsprogs = pytest.mark.skipif(tools.find_tool("mkfs.ext4") is None or tools.find_tool("debugfs") is None, reason="needs e2fsprogs")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "root").mkdir(parents=True)
    (tree / "etc").mkdir()
    (tree / "etc/hostname").write_text("image\n")
    disk = tmp_path / "base.img"
    with disk.open("wb") as handle:
        handle.truncate(8 * 1024**2)
    subprocess.run([tools.tool("mkfs.ext4"), "-q", "-F", "-d", str(tree), str(disk)], check=True, capture_output=True, timeout=60)
    shutil.rmtree(tree)
    return disk


@needs_e2fsprogs
def test_files_modes_and_owner(disk: Path) -> None:
    files = {"/etc/hostname": ("node1\n", 0o644), "/root/.ssh/authorized_keys": ("ssh-ed25519 AAAA\n", 0o600)}
    seed._inject(disk, disk.parent, files)
    assert tools.run_tool(["debugfs", "-R", "cat /etc/hostname", str(disk)]) == "node1\n"
    assert "Mode:  0600" in tools.run_tool(["debugfs", "-R", "stat /root/.ssh/authorized_keys", str(disk)])
    assert "Mode:  0700" in tools.run_tool(["debugfs", "-R", "stat /root/.ssh", str(disk)])
    assert not (disk.parent / "seed").exists(), "private keys do not stay behind"
    checked = subprocess.run([tools.find_tool("e2fsck") or "e2fsck", "-fn", str(disk)], capture_output=True, check=False, timeout=60)
    assert checked.returncode == 0, checked.stdout


@needs_e2fsprogs
def test_files_go_into_a_partition_too(tmp_path: Path, disk: Path) -> None:
    """debugfs finds the file system behind the offset, and leaves what is before it alone."""
    whole = tmp_path / "whole.img"
    whole.write_bytes(b"GRUB" * 2**18 + disk.read_bytes())
    seed._inject(whole, tmp_path, {"/etc/hostname": ("node1\n", 0o644)}, 2**20)
    assert tools.run_tool(["debugfs", "-R", "cat /etc/hostname", f"{whole}?offset={2**20}"]) == "node1\n"
    assert whole.read_bytes()[: 2**20] == b"GRUB" * 2**18


@needs_e2fsprogs
def test_a_write_that_did_not_happen_is_noticed(disk: Path) -> None:
    with pytest.raises(LabError, match="could not write /nowhere/file"):
        seed._inject(disk, disk.parent, {"/nowhere/file": ("x", 0o644)})


def test_a_key_is_made_once(tmp_path: Path) -> None:
    if tools.find_tool("ssh-keygen") is None:
        pytest.skip("needs openssh-client")
    first = seed.keypair(tmp_path / "ssh" / "key", "comment")
    assert first.startswith("ssh-ed25519 ")
    assert seed.keypair(tmp_path / "ssh" / "key", "comment") == first
