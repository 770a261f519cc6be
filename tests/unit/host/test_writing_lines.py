# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that are appended, and files that are replaced without following a link."""

import os
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host


def test_each_line_is_its_own_whatever_a_power_cut_left(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "records"
    host = Host()
    host.append(str(file), "one")
    with file.open("a") as stream:
        stream.write("torn")
    host.append(str(file), "two")
    assert file.read_text() == "one\ntorn\ntwo\n"


def test_a_link_is_not_appended_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic"):
        Host().append(str(tmp_path / "link"), "one")
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("follow", [True, False])
def test_a_link_is_followed_or_replaced(tmp_path: Path, *, follow: bool) -> None:
    """Whoever may write to a directory of metrics must not lead root's write to another file."""
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("kept")
    link.symlink_to(victim)
    Host().write(str(link), "new", follow=follow)
    assert (victim.read_text(), link.is_symlink()) == (("new", True) if follow else ("kept", False))
    assert link.read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"victim", "link"}


@pytest.mark.parametrize("how", ["link", "second name", "pipe"])
@pytest.mark.parametrize("writer", ["append", "lock", "spawn"])
def test_nothing_is_written_into_a_file_that_somebody_planted(tmp_path: Path, writer: str, how: str) -> None:
    victim, trap, host = tmp_path / "victim", tmp_path / "trap", Host()
    victim.write_text("kept")
    os.mkfifo(trap) if how == "pipe" else trap.symlink_to(victim) if how == "link" else trap.hardlink_to(victim)
    call = {"append": lambda: host.append(str(trap), "one"), "lock": lambda: host.lock(str(trap)),
            "spawn": lambda: host.spawn(["true"], str(trap))}[writer]  # fmt: skip
    with pytest.raises(OSError, match=r"trap"):
        call()
    assert victim.read_text() == "kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a file of another user")
def test_a_file_of_another_user_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("kept")
    os.chown(file, 65534, 65534)
    with pytest.raises(OSError, match="not a regular file of this user"):
        Host().spawn(["true"], str(file))
    assert file.read_text() == "kept"
