# SPDX-License-Identifier: GPL-3.0-or-later
"""A home's files are touched with its user's rights, so that no link in it leads root anywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host

NOBODY = 65534


def rights() -> tuple[int, int, list[int]]:
    return os.geteuid(), os.getegid(), sorted(os.getgroups())


def test_a_link_of_the_user_does_not_lead_root_anywhere(tmp_path: Path) -> None:
    """The user's .ssh is a link to a directory of the administrator: who is not root has no rights to lend, and keeps his own."""
    before = rights()
    target, home = tmp_path / "root", tmp_path / "home"
    target.mkdir(0o700)
    home.mkdir()
    (home / ".ssh").symlink_to(target)
    with Host().acting_as("nobody", NOBODY, NOBODY):
        inside = rights()
        if before[0] == 0:
            assert inside[:2] == (NOBODY, NOBODY)
            assert 0 not in inside[2]
            with pytest.raises(PermissionError):
                Host().write(f"{home}/.ssh/authorized_keys", "x", 0o600)
        else:
            assert inside == before
    assert rights() == before
    assert not (target / "authorized_keys").exists()


def test_rights_come_back_after_an_error() -> None:
    before = rights()
    with pytest.raises(OSError, match="boom"), Host().acting_as("nobody", NOBODY, NOBODY):
        raise OSError("boom")
    assert rights() == before


def test_a_directory_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    Host().make_directory(f"{tmp_path}/new", 0o700)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    (tmp_path / "new").chmod(0o755)
    Host().make_directory(f"{tmp_path}/new", 0o700)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o755
