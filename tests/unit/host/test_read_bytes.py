# SPDX-License-Identifier: GPL-3.0-or-later
"""``Host.read_bytes``: files of bytes (PCI configuration space, EFI variables), bounded, None when unreadable."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host import host
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, TreeHost


def test_bytes_come_back_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"\xb3\x15\xff\x00\n ")
    assert TreeHost(str(tmp_path)).read_bytes("/config") == b"\xb3\x15\xff\x00\n "
    assert Host().read_bytes(str(tmp_path / "config")) == b"\xb3\x15\xff\x00\n "


def test_limit_counts_bytes(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(bytes(range(256)) * 600)
    host = TreeHost(str(tmp_path))
    assert host.read_bytes("/config", 64) == bytes(range(64))
    assert len(host.read_bytes("/config", 100000) or b"") == 100000


@pytest.mark.parametrize("path", ["/absent", "/directory", "/loop", "/nul\0byte"])
def test_unreadable_is_none(tmp_path: Path, path: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    assert TreeHost(str(tmp_path)).read_bytes(path) is None


def test_text_replaces_what_is_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "vpd").write_bytes(b"MT\xff28908")
    assert TreeHost(str(tmp_path)).read("/vpd") == "MT\ufffd28908"


def test_a_directory_full_of_names_does_not_fill_our_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job user's own directory, which root looks into and takes away."""
    names = ["a", "b", "c"]
    for name in names:
        (tmp_path / name).touch()
    assert Host().listdir(str(tmp_path)) == names
    monkeypatch.setattr(host, "NAMES_LIMIT", 2)
    found = Host().listdir(str(tmp_path))
    assert len(found) == 2
    assert found == sorted(found)
    assert TreeHost(str(tmp_path)).listdir("/absent") == []
