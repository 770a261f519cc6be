# SPDX-License-Identifier: GPL-3.0-or-later
"""What is promised to be on the disk is there with its name: a new directory in its parent, a file in its directory, a removal too."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply import journal
from ansible_collections.railwright.rdma.plugins.module_utils.host import write
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Snapshot
from rooted import RootedHost


class Disk:
    """Names that were made or taken away, and are not on the disk before their directory is synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pending: set[str] = set()
        self.seen: set[str] = set()
        for name in ("mkdir", "link", "symlink", "rename", "unlink"):
            monkeypatch.setattr(write.os, name, self.noted(getattr(os, name), -1 if name in ("mkdir", "unlink") else 1))
        real = os.fsync

        def fsync(descriptor: int) -> None:
            directory = str(Path(f"/proc/self/fd/{descriptor}").readlink())
            self.pending = {path for path in self.pending if str(Path(path).parent) != directory}
            real(descriptor)

        monkeypatch.setattr(write.os, "fsync", fsync)

    def noted(self, real: Callable[..., None], place: int) -> Callable[..., None]:
        def call(*arguments: str, **more: int) -> None:
            real(*arguments, **more)
            path = arguments[0] if place < 0 else arguments[place]
            if not Path(path).name.startswith(write.PREFIX):
                self.pending.add(path)
                self.seen.add(Path(path).name)

        return call


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_the_first_restore_point_of_a_node(tmp_path: Path, disk: Disk) -> None:
    journal.Journal(RootedHost(tmp_path), "r1").save()
    assert disk.seen == {"var", "lib", "railwright", "restore", "r1", "journal.json"}
    assert disk.pending == set()


def test_every_way_of_making_and_taking_away(tmp_path: Path, disk: Disk) -> None:
    host = RootedHost(tmp_path)
    host.create("/lease/a/file", "x")
    host.make_directory("/one", 0o700)
    host.write("/etc/file", "x")
    host.remove("/etc/file")
    host.remove("/etc/file")
    host.restore("/etc/link", Snapshot(None, 0o644, (0, 0), "nowhere"))
    host.write("/etc/link", "x")  # makes what it names
    host.restore("/etc/link", Snapshot(None, 0o644, (0, 0), "nowhere"))
    assert disk.seen == {"lease", "a", "file", "one", "etc", "link", "nowhere"}
    assert disk.pending == set()
    assert sorted(path.name for path in (tmp_path / "etc").iterdir()) == ["link"]


def test_a_directory_that_cannot_be_opened_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def closed(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECTORY:
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, mode)

    monkeypatch.setattr(write.os, "open", closed)
    RootedHost(tmp_path).write("/file", "x")
    assert (tmp_path / "file").read_text() == "x"
