# SPDX-License-Identifier: GPL-3.0-or-later
"""ACLs and other extended attributes outlive a write and come back with a rollback; on this machine's own file system."""

from __future__ import annotations

import base64
import errno
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply import apply, journal
from ansible_collections.railwright.rdma.plugins.module_utils.apply.transaction import roll_back
from ansible_collections.railwright.rdma.plugins.module_utils.host import write
from ansible_collections.railwright.rdma.plugins.module_utils.rollback import apply as restore_apply
from ansible_collections.railwright.rdma.plugins.module_utils.types import Op, remove_file, write_file
from rooted import RootedHost, change

ACL, DEFAULT_ACL, NOTE = "system.posix_acl_access", "system.posix_acl_default", "user.note"
USER_OBJ, USER, GROUP_OBJ, MASK, OTHER = 1, 2, 4, 16, 32
NONE = 0xFFFFFFFF


def acl(user: int, *, other: int = 0) -> bytes:
    """What setfacl -m u:USER:r makes of a file with mode 0640 (acl(5), linux/posix_acl_xattr.h)."""
    rows = ((USER_OBJ, 6, NONE), (USER, 4, user), (GROUP_OBJ, 4, NONE), (MASK, 4, NONE), (OTHER, other, NONE))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


MINE = {ACL: acl(4711), NOTE: b"\x00\xff mine"}


def worn(path: Path) -> dict[str, bytes]:
    return {name: os.getxattr(path, name) for name in os.listxattr(path) if name in (ACL, NOTE)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "etc/file"
    path.parent.mkdir()
    path.write_text("old")
    path.chmod(0o640)
    for name, value in MINE.items():
        os.setxattr(path, name, value)
    return path


def applied(root: Path, op: Op) -> journal.Journal:
    log = journal.Journal(RootedHost(root), "r1")
    apply.carry_out(RootedHost(root), [change(op)], log)
    log.close(journal.APPLIED)
    return log


def entries(root: Path) -> list[dict[str, Any]]:
    return list(json.loads((root / "var/lib/railwright/restore/r1/journal.json").read_text())["entries"])


def test_a_file_that_is_replaced_keeps_them(tmp_path: Path, file: Path) -> None:
    RootedHost(tmp_path).write("/etc/file", "new", 0o640)
    assert (file.read_text(), worn(file), file.stat().st_mode & 0o777) == ("new", MINE, 0o640)


def test_a_mode_that_closes_a_file_closes_it_for_its_acl_too(tmp_path: Path, file: Path) -> None:
    RootedHost(tmp_path).write("/etc/file", "new", 0o600)
    assert file.stat().st_mode & 0o777 == 0o600, "the mask of the ACL is the group's part of the mode"


@pytest.mark.parametrize("op", [write_file("/etc/file", "new", 0o640), remove_file("/etc/file")])
def test_a_rollback_brings_them_back(tmp_path: Path, file: Path, op: Op) -> None:
    applied(tmp_path, op)
    if file.exists():
        os.setxattr(file, NOTE, b"another")
    assert roll_back(RootedHost(tmp_path), entries(tmp_path)) == []
    assert (file.read_text(), worn(file), file.stat().st_mode & 0o777) == ("old", MINE, 0o640)


def test_what_a_file_did_not_have_it_does_not_get(tmp_path: Path, file: Path) -> None:
    """A default ACL of the directory opens new files to somebody; the file that comes back was not one."""
    for name in MINE:
        os.removexattr(file, name)
    file.chmod(0o640)
    applied(tmp_path, remove_file("/etc/file"))
    os.setxattr(file.parent, DEFAULT_ACL, acl(4711))
    roll_back(RootedHost(tmp_path), entries(tmp_path))
    assert worn(file) == {}
    RootedHost(tmp_path).write("/etc/file", "new", 0o640)
    assert worn(file) == {}


def test_a_rollback_undoes_a_change_of_the_acl_alone(tmp_path: Path, file: Path) -> None:
    applied(tmp_path, write_file("/etc/file", "old", 0o640))
    os.setxattr(file, ACL, acl(4712))
    log = journal.Journal(RootedHost(tmp_path), "r2")
    restore_apply.undo(RootedHost(tmp_path), entries(tmp_path)[0], log)
    assert worn(file) == MINE
    assert len(log.entries) == 1
    restore_apply.undo(RootedHost(tmp_path), entries(tmp_path)[0], log)
    assert len(log.entries) == 1, "it is as it was: nothing happens"


def test_a_journal_of_a_version_that_did_not_look_leaves_them(tmp_path: Path, file: Path) -> None:
    applied(tmp_path, write_file("/etc/file", "old", 0o640))
    old = {key: value for key, value in entries(tmp_path)[0].items() if key != "attributes"}
    log = journal.Journal(RootedHost(tmp_path), "r2")
    restore_apply.undo(RootedHost(tmp_path), old, log)
    assert log.entries == []
    file.write_text("other")
    assert roll_back(RootedHost(tmp_path), [old]) == []
    assert (file.read_text(), worn(file)) == ("old", MINE)


def test_a_file_system_without_attributes_is_fine(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_file: Any) -> list[str]:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(write.os, "listxattr", none)
    applied(tmp_path, write_file("/etc/file", "new"))
    assert roll_back(RootedHost(tmp_path), entries(tmp_path)) == []
    assert file.read_text() == "old"


class Labels:
    """Attributes that a test cannot set for real: labels, capabilities and signatures of the kernel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, has: dict[str, bytes], refused: str = "") -> None:
        self.given: dict[str, bytes] = {}
        self.refused = refused
        monkeypatch.setattr(write.os, "listxattr", lambda file: [] if isinstance(file, int) and self.writing else list(has))
        monkeypatch.setattr(write.os, "getxattr", lambda _file, name: has[name])
        monkeypatch.setattr(write.os, "setxattr", self.give)
        self.writing = True

    def give(self, _file: int, name: str, value: bytes) -> None:
        if name.startswith(self.refused) and self.refused:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        self.given[name] = value


ALL = {name: name.encode() for name in ("security.selinux", "security.capability", "security.ima", "security.evm", "trusted.x", "user.x",
                                        "btrfs.compression", "system.nfs4_acl")}


def test_what_belongs_to_the_old_bytes_does_not_go_on_to_the_new(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = Labels(monkeypatch, ALL)
    RootedHost(tmp_path).write("/etc/file", "new")
    assert sorted(labels.given) == ["security.selinux", "trusted.x", "user.x"]
    labels.writing, labels.given = False, {}
    kept = RootedHost(tmp_path).snapshot("/etc/file")
    assert kept is not None
    labels.writing = True
    RootedHost(tmp_path).restore("/etc/file", kept)
    assert sorted(labels.given) == ["security.capability", "security.selinux", "trusted.x", "user.x"], "with its bytes it comes back"


@pytest.mark.parametrize(("refused", "ends"), [("security.", True), ("user.", False)])
def test_a_label_is_the_policys_and_the_rest_is_ours(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, refused: str, *, ends: bool
) -> None:
    Labels(monkeypatch, ALL, refused)
    if ends:
        RootedHost(tmp_path).write("/etc/file", "new")
        return
    with pytest.raises(PermissionError):
        RootedHost(tmp_path).write("/etc/file", "new")
    assert file.read_text() == "old"
    assert [path.name for path in file.parent.iterdir()] == ["file"]


def test_the_restore_point_is_json_and_holds_every_byte(tmp_path: Path, file: Path) -> None:
    applied(tmp_path, write_file("/etc/file", "new"))
    kept = entries(tmp_path)[0]["attributes"]
    assert {name: base64.b64decode(kept[name]) for name in MINE} == MINE
