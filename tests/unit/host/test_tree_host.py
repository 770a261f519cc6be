# SPDX-License-Identifier: GPL-3.0-or-later
"""A captured tree answers only from itself: no command, no way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost, recording_name


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "node"
    (root / "sys/class/infiniband").mkdir(parents=True)
    (root / "sys/devices/pci0/mlx5_0").mkdir(parents=True)
    (root / "sys/devices/pci0/mlx5_0/fw_ver").write_text("28.41.1000\n")
    (root / "sys/class/infiniband/mlx5_0").symlink_to("../../devices/pci0/mlx5_0")
    (tmp_path / "secret").write_text("outside\n")
    return root


def test_links_inside_are_followed(tree: Path) -> None:
    assert TreeHost(str(tree)).line("/sys/class/infiniband/mlx5_0/fw_ver") == "28.41.1000"


@pytest.mark.parametrize("target", ["../../secret", "/../secret", "../../../../../../secret"])
def test_links_cannot_leave(tree: Path, target: str) -> None:
    (tree / "etc").mkdir()
    (tree / "etc/evil").symlink_to(target)
    (tree / "etc/dir").symlink_to(str(tree.parent))
    host = TreeHost(str(tree))
    assert host.read("/etc/evil") is None
    assert host.read("/etc/dir/secret") is None
    assert host.read("/../secret") is None


def test_an_absolute_link_starts_at_the_trees_root(tree: Path) -> None:
    (tree / "etc").mkdir()
    (tree / "etc/fw").symlink_to("/sys/devices/pci0/mlx5_0/fw_ver")
    assert TreeHost(str(tree)).line("/etc/fw") == "28.41.1000"


def test_loops_and_missing_pieces_read_as_nothing(tree: Path) -> None:
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    host = TreeHost(str(tree))
    assert host.read("/a") is None
    assert host.listdir("/a") == []
    assert host.readlink("/nothing/here") is None
    assert not host.exists("/nothing")
    assert host.read("/sys/class/infiniband") is None


def test_commands_come_from_recordings_only(tree: Path) -> None:
    host = TreeHost(str(tree))
    assert host.run(["touch", str(tree / "made")]).rc == 127
    assert not (tree / "made").exists()
    (tree / "cmd").mkdir()
    (tree / "cmd" / recording_name(["ip", "-j", "addr"])).write_text("[]")
    assert host.run(["/usr/sbin/ip", "-j", "addr"]).out == "[]"
    assert host.run(["ip", "-j", "link"]).rc == 127
