# SPDX-License-Identifier: GPL-3.0-or-later
"""What an agent remembers: whole records only, bounded, in the order of writing, and no clock that jumps changes what is recent."""

import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.agent import history
from ansible_collections.railwright.rdma.plugins.module_utils.agent.history import DAY, History, Moment
from rooted import RootedHost

NOW = Moment(1_800_000_000.0, 5000.0, "boot-1")


@pytest.fixture
def kept(tmp_path: Path) -> History:
    return History(RootedHost(tmp_path), "/agent")


def kinds(kept: History, moment: Moment = NOW) -> list[str]:
    return [record["kind"] for record in kept.records(moment)]


def last_file(tmp_path: Path) -> Path:
    return max((tmp_path / "agent").iterdir())


def test_a_record_comes_back_as_it_was(kept: History) -> None:
    assert kept.append(NOW, "down", part="port a", n=2) is None
    assert list(kept.records(NOW)) == [{"t": NOW.t, "up": NOW.up, "boot": "boot-1", "kind": "down", "part": "port a", "n": 2}]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_write_loses_one_record(kept: History, tmp_path: Path, cut: int) -> None:
    for kind in ("one", "two"):
        kept.append(NOW, kind)
    path = last_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    kept.append(NOW, "three")
    assert kinds(kept) in (["one", "three"], ["one", "two", "three"])  # whole but for its line's end, it counts


@pytest.mark.parametrize("place", [0, 5, 12, 30])
def test_a_flipped_byte_loses_one_record(kept: History, tmp_path: Path, place: int) -> None:
    for kind in ("one", "two"):
        kept.append(NOW, kind)
    path = last_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[place] ^= 0x01
    path.write_bytes(bytes(data))
    assert kinds(kept) == ["two"]


def test_it_never_grows_beyond_its_files(kept: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "SEGMENT", 4096)
    monkeypatch.setattr(history, "SEGMENTS", 3)
    for number in range(400):
        kept.append(NOW, f"n{number}", text="x" * 80)
    sizes = [path.stat().st_size for path in (tmp_path / "agent").iterdir()]
    assert len(sizes) == 3
    assert sum(sizes) <= 3 * 4096
    assert kinds(kept)[-1] == "n399"


def test_thirty_days_of_eight_rails_and_gpus_fit(kept: History, tmp_path: Path) -> None:
    """An hour's record with every counter of every part, and a hundred events a day."""
    counters = {f"counter_{name}": 10**9 for name in range(18)}
    grown = {f"port 0123:4567:89ab:cdef/{number} cable MT2345VS0{number}": counters for number in range(8)}
    grown |= {f"gpu 16530230{number}": {f"counter_{name}": 10**6 for name in range(7)} for number in range(8)}
    kept.append(NOW, "hour", grown=grown)
    hour = last_file(tmp_path).stat().st_size
    kept.append(NOW, "kernel", event="xid", device="0000:27:00.0", number=63, text="x" * 200, at=1.0, n=1)
    event = last_file(tmp_path).stat().st_size - hour
    assert 30 * (24 * hour + 100 * event) < 18 * history.SEGMENT < 20e6


def test_what_is_too_long_is_left_out_and_said(kept: History) -> None:
    assert "bytes" in (kept.append(NOW, "hour", text="x" * history.LINE) or "")
    assert kept.lost == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts a small file system")
def test_a_full_disk_is_said_and_nothing_is_raised(kept: History, tmp_path: Path) -> None:
    place = tmp_path / "agent"
    place.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", place), check=True)
    try:
        (place / "fill").write_bytes(bytes(8192))
        assert "No space" in (kept.append(NOW, "down") or "")
        (place / "fill").unlink()
        assert kept.append(NOW, "again") is None
        assert kinds(kept) == ["again"]
    finally:
        subprocess.run(("umount", place), check=True)


@pytest.mark.parametrize("jump", [-400 * DAY, -3600.0, 0.0, 400 * DAY])
def test_within_a_boot_no_calendar_counts(jump: float) -> None:
    record = {"t": NOW.t, "up": 4000.0, "boot": "boot-1"}
    assert NOW._replace(t=NOW.t + jump).since(record) == 1000.0


def test_of_an_earlier_boot_all_of_this_one_is_past() -> None:
    record = {"t": NOW.t + DAY, "up": 10.0, "boot": "boot-0"}  # the calendar was set back since
    assert NOW.since(record) == NOW.up


def test_lines_of_somebody_else_are_passed_over(kept: History, tmp_path: Path) -> None:
    kept.append(NOW, "one")
    for line in (b"", b"\xff\xfe", b"00000000 {}", b"x" * 100_000, b"e3b0c442 [1, 2]"):
        with last_file(tmp_path).open("ab") as stream:
            stream.write(line + b"\n")
    assert kinds(kept) == ["one"]


def test_a_link_is_not_followed(kept: History, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "000001.log").symlink_to(tmp_path / "victim")
    assert kept.append(NOW, "one") is not None
    assert not (tmp_path / "victim").exists()
