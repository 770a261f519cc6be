# SPDX-License-Identifier: GPL-3.0-or-later
"""The state directories: private whatever the umask is, and refused where another user could have put something in them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railwright.drift import history_path, write_history
from railwright.exitcodes import InputError
from railwright.journal import begin, directory
from railwright.lab.state import default_state_dir, locked
from railwright.runs import Run, load_run, runs_directory, save_run
from railwright.upgrade.journal import create, newest, upgrades_directory
from verb_said import said_by

RUN = "20260101T000000Z-plan"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path


@pytest.fixture
def strange(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make a path that of a user who is neither we nor root. Only root can give it away; for everybody else it is we who are another."""

    def give(path: Path) -> None:
        if os.getuid() == 0:
            os.lchown(path, 65534, -1)
        else:
            monkeypatch.setattr("railwright.ownership.os.geteuid", lambda: os.getuid() + 1)

    return give


@pytest.fixture(params=[0o000, 0o002, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def run() -> Run:
    return Run(RUN, "plan", "/inv", None, "2026-01-01T00:00:00+00:00", "0.1.0")


WRITERS = {
    "runs": lambda: save_run(run()),
    "drift": lambda: write_history(Path("site"), {}),
    "upgrades": lambda: create("r", {"nodes": []}).close(),
    "isolate": lambda: os.close(begin(directory("isolate") / "x.jsonl", {}, "search")),
    "lab": lambda: locked(default_state_dir() / "lock").__enter__(),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_directory_is_private_whatever_the_umask_is(home: Path, umask: int, name: str) -> None:
    WRITERS[name]()
    made = [home / ".local/state/railwright", home / ".local/state/railwright" / name]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o700, 0o700]


def place(home: Path, name: str = "") -> Path:
    path = home / ".local/state/railwright" / name
    path.mkdir(mode=0o700, parents=True)
    return path


READERS = {
    "runs": runs_directory,
    "drift": lambda: history_path(Path("site")),
    "upgrades": upgrades_directory,
    "isolate": lambda: directory("isolate"),
    "agent": lambda: directory("agent"),
    "lab": default_state_dir,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("part", ["", "own"])
def test_what_another_user_could_have_put_there_is_refused_in_one_line(
    home: Path, strange: Callable[[Path], None], name: str, part: str
) -> None:
    path = place(home, name)
    bad = path if part else path.parent
    for mode in (0o770, 0o702):
        bad.chmod(mode)
        with pytest.raises(InputError, match=rf"{bad} is writable by others \(owner .*, mode 0{mode:o}\); fix it: chmod go-w {bad}"):
            READERS[name]()
    bad.chmod(0o755)  # readable by others: as it was made before
    READERS[name]()
    strange(bad)
    with pytest.raises(InputError, match=rf"{bad} belongs to another user \(owner .*, mode 0755\).*XDG_STATE_HOME"):
        READERS[name]()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a link of another user")
def test_a_link_of_another_user_is_not_followed_and_one_of_our_own_is(home: Path, strange: Callable[[Path], None]) -> None:
    elsewhere = home / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    link = place(home) / "runs"
    link.symlink_to(elsewhere)
    save_run(run())
    assert (elsewhere / RUN / "run.json").is_file()
    strange(link)
    with pytest.raises(InputError, match=f"{link} is a link of another user .*remove it"):
        load_run()
    link.unlink()
    link.symlink_to(elsewhere)
    elsewhere.chmod(0o777)
    with pytest.raises(InputError, match=f"{link} is writable by others"):
        save_run(run())


def test_a_planted_run_and_a_planted_journal_are_not_read(home: Path, strange: Callable[[Path], None]) -> None:
    save_run(run())
    create("20260101T000000Z-apply", {"inventory": str(home), "nodes": [], "verb": "apply"}).close()
    for found in (runs_directory() / RUN, upgrades_directory() / "20260101T000000Z-apply"):
        found.chmod(0o777)
    with pytest.raises(InputError, match=f"{RUN} is writable by others"):
        load_run(RUN)
    with pytest.raises(InputError, match="20260101T000000Z-apply is writable by others"):
        newest(home, "apply")


def test_a_verb_says_it_before_a_node_is_contacted(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = place(home, "runs")
    path.chmod(0o777)
    hosts = {"n1": {"ansible_host": "127.0.0.1", "ansible_port": 1, "rdma_rails": []}}
    site = home / "site.yml"
    site.write_text(json.dumps({"all": {"vars": {"rdma_fabric": "roce", "rdma_mtu": 9000}, "children": {"rdma": {"hosts": hosts}}}}))
    ran = said_by(capfd, "plan", "-i", str(site))
    assert (ran.code, ran.err.count("\n"), f"chmod go-w {path}" in ran.err) == (64, 1, True), ran.err
    path.chmod(0o700)
    assert said_by(capfd, "plan", "-i", str(site)).code == 3
