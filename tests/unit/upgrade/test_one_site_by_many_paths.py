# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory is the same site by whatever path it is reached, and the last upgrade of it is known within one second too."""

from pathlib import Path

import pytest

from railwright.drift import read_history, write_history
from railwright.runs import site_path
from railwright.upgrade.journal import Busy, create, holder, locked, newest


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mycluster").mkdir()
    (tmp_path / "link").symlink_to("mycluster")
    return tmp_path / "mycluster"


PATHS = ["link", "./mycluster/../link", "mycluster/."]


@pytest.mark.parametrize("path", PATHS)
def test_it_is_locked_by_every_path(site: Path, path: str) -> None:
    with locked(site, "RUN"):
        assert "run RUN" in (holder(Path(path)) or "")
        with pytest.raises(Busy), locked(Path(path), "OTHER"):
            pass


@pytest.mark.parametrize("path", PATHS)
def test_its_upgrade_and_its_history_are_found_by_every_path(site: Path, path: str) -> None:
    create("20260101T000000Z-upgrade-00000000", {"inventory": site_path(site), "nodes": []}).close()
    assert newest(Path(path)) is not None
    write_history(site, {"n1": {"key": "2026-01-01"}})
    assert read_history(Path(path)) == {"n1": {"key": "2026-01-01"}}


def test_of_one_second_the_last_upgrade_is_the_newest(site: Path) -> None:
    times = iter((1.0, 2.0, 1.5))
    for random in ("ffffffff", "00000000", "77777777"):
        create(f"20260101T000000Z-upgrade-{random}", {"inventory": str(site), "nodes": []}, lambda: next(times)).close()
    create("20251231T235959Z-upgrade-ffffffff", {"inventory": str(site), "nodes": []}, lambda: 9.0).close()
    create("20260102T000000Z-upgrade-ffffffff", {"inventory": "/other", "nodes": []}).close()
    found = newest(site)
    assert found is not None
    assert found.parent.name == "20260101T000000Z-upgrade-00000000"
