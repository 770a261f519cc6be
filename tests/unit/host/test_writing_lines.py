# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that are appended, and files that are replaced without following a link."""

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
