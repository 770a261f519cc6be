# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that reads once: what it keeps, what it asks again, and that it changes nothing."""

from __future__ import annotations

import errno
import inspect
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host import inspected
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.host.inspected import CHANGES, InspectedHost
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Writer
from counted_host import CountedHost

# What reads, or touches nothing.
READS = {"path", "run", "user", "snapshot", "read_bytes", "read", "line", "listdir", "exists", "readlink", "status", "mode", "mtime",
         "size", "free_bytes", "filesystem", "which", "once", "exchange", "process", "login", "owner", "unlock", "obstacle", "sync_fault",
         "unheard", "may_open"}


@pytest.fixture
def node(tmp_path: Path) -> CountedHost:
    (tmp_path / "cmd").mkdir()
    (tmp_path / "cmd" / "uname_-m").write_text("x86_64\n")
    (tmp_path / "file").write_text("0123456789")
    (tmp_path / "link").symlink_to("file")
    return CountedHost(str(tmp_path))


def test_everything_is_asked_once(node: CountedHost) -> None:
    host = InspectedHost(node)
    for _again in range(3):
        assert host.read("/file") == "0123456789"
        assert host.read("/gone") is None
        assert host.listdir("/") == ["cmd", "file", "link"]
        assert host.readlink("/link") == "file"
        assert host.exists("/file")
        assert (host.mode("/file"), host.size("/file")) == (0o644, 10)
        assert host.which("uname") == "/usr/bin/uname"
        assert host.run(["uname", "-m"]).out == host.run(("uname", "-m")).out == "x86_64\n"
    assert node.twice() == []


def test_more_of_a_file_is_read_again_and_less_is_not(node: CountedHost) -> None:
    host = InspectedHost(node)
    assert [host.read("/file", limit) for limit in (4, 2, 4, 64, 3, 4096)] == ["0123", "01", "0123", "0123456789", "012", "0123456789"]
    assert node.asked["file", "/file"] == 2


def test_who_changes_a_listing_changes_nobody_elses(node: CountedHost) -> None:
    host = InspectedHost(node)
    host.listdir("/").clear()
    assert host.listdir("/") == ["cmd", "file", "link"]


def test_what_does_not_fit_is_asked_again(node: CountedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspected, "ROOM", 2 * inspected.OVERHEAD + 15)
    host = InspectedHost(node)
    for _again in range(2):
        assert (host.read("/file"), host.read("/link")) == ("0123456789", "0123456789")
    assert (node.asked["file", "/file"], node.asked["file", "/link"]) == (1, 2)


def test_what_is_large_is_not_kept(node: CountedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspected, "LARGEST", inspected.OVERHEAD + 5)
    host = InspectedHost(node)
    assert host.read("/file") == host.read("/file")
    assert node.asked["file", "/file"] == 2


def test_what_is_parsed_is_parsed_once(node: CountedHost) -> None:
    made: list[str] = []

    def make() -> int:
        made.append("again")
        return len(made)

    host = InspectedHost(node)
    assert [host.once("name", make) for _again in range(3)] == [1, 1, 1]
    assert [node.once("name", make) for _again in range(2)] == [2, 3]


def test_an_inspection_has_no_way_to_change_a_node() -> None:
    """A method that is neither named as reading nor refused is new, and somebody has to say which it is."""
    methods = {name for kind in (Host, Writer) for name, value in vars(kind).items()
               if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, staticmethod))}
    assert methods == READS | set(CHANGES)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_refused(name: str, node: CountedHost) -> None:
    with pytest.raises(OSError, match="changes nothing") as refused:
        getattr(InspectedHost(node), name)("/file", "")
    assert refused.value.errno == errno.EROFS
    assert node.read("/file") == "0123456789"
