# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions about pairs on this machine: real processes, shell scripts in place of nccl-tests' programs, side by side, to their ends."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import job, pairs, processes, run_directory
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.job import Launch
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.pairs import Question, measure, read_table
from nccl_tables import table

USER = pwd.getpwuid(os.geteuid()).pw_name
HALF = {"time_us": 5000.0, "algbw": 40.5, "busbw": 40.5, "wrong": 0}
ROWS = [{"size": size, "count": size // 4, "type": "float", "redop": "none", "root": 0, "out_of_place": HALF, "in_place": HALF}
        for size in (1 << 28, (1 << 28) + 65536)]
TABLE = "".join(line for line in table("2.19", ROWS).splitlines(keepends=True) if "Rank" not in line)


def listed(*ranks: tuple[int, str]) -> str:
    """(group, host) of each rank."""
    return "".join(f"#  Rank {number:2} Group {group:2} Pid {number + 100:6} on {host:>10} device  0 [0000:1b:00] NVIDIA H100\n"
                   for number, (group, host) in enumerate(ranks))  # fmt: skip


PAIR = listed((0, "n1"), (0, "n2"))
FOUR = listed((0, "n1"), (1, "n1"), (0, "n2"), (1, "n2"))


@pytest.mark.parametrize(("text", "status", "groups", "figures", "hung", "why"), [
    (PAIR + TABLE, 0, 1, [40.5, 40.5], False, ""),
    (FOUR + TABLE, 0, 2, [40.5, 40.5], False, ""),
    (listed((0, "n1"), (0, "n1"), (0, "n2"), (0, "n2")) + TABLE, 0, 2, [], False, "in each of 2 groups"),
    (listed((0, "n1"), (0, "n1")) + TABLE, 0, 1, [], False, "one on either node"),
    (TABLE, 0, 1, [], False, "it listed 0 of 2 ranks"),
    (PAIR, 124, 1, [], True, "no result in time: every rank had started"),
    ("srun: job 7 queued and waiting for resources\n", 124, 1, [], False, "no result in time: it listed 0 of 2 ranks"),
    (PAIR + TABLE, 137, 1, [40.5, 40.5], False, ""),
    (PAIR + TABLE, 1, 1, [], False, "it failed: "),
    (PAIR, 0, 1, [], False, "no row in its output"),
], ids=range(10))  # fmt: skip
def test_what_a_table_says(text: str, status: int, groups: int, figures: list[float], *, hung: bool, why: str) -> None:
    found = read_table(text, status, groups)
    assert (found["figures"], found["hung"]) == (figures, hung)
    assert why in found["why"]
    assert bool(found["why"]) == bool(why)
    assert found["first"] == ("n1" if "Rank  0" in text else None)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(run_directory, "ROOT", str(tmp_path / "railwright"))
    monkeypatch.setattr(run_directory, "BASE", str(tmp_path / "railwright" / "bench"))
    monkeypatch.setattr(processes, "TERM_S", 0.5)
    monkeypatch.setattr(job, "GRACE_S", 0.2)
    monkeypatch.setattr(pairs, "STEP_S", 0.1)
    (tmp_path / "table").write_text(PAIR + TABLE)
    (tmp_path / "list").write_text(PAIR)
    name = f"pairs-{os.getpid()}"
    run_directory.prepare(Host(), name, USER, "")
    yield name
    processes.stop_marked(Host(), name, os.geteuid())


def question(run: str, name: str, *argv: str, seconds: int = 30) -> Question:
    return Question(Launch(run, USER, name, argv, {}, seconds), 1)


def test_pairs_run_side_by_side_and_their_questions_in_turn(run: str, tmp_path: Path) -> None:
    say = ("sh", "-c", f"sleep 2; date +%s.%N >> {tmp_path}/order; cat {tmp_path}/table")
    began = time.monotonic()
    found = measure(Host(), [[question(run, f"p{pair}q{place}", *say) for place in (0, 1)] for pair in (0, 1, 2)], None)
    assert [[answer["figures"] for answer in pair] for pair in found] == [[[40.5, 40.5]] * 2] * 3
    assert 4 <= time.monotonic() - began < 12  # six launches of two seconds


def test_a_pair_whose_first_question_hangs_is_asked_no_further(run: str, tmp_path: Path) -> None:
    hang = question(run, "p0q0", "sh", "-c", f"cat {tmp_path}/list; exec sleep 60", seconds=1)
    good = ("cat", str(tmp_path / "table"))
    found = measure(Host(), [[hang, question(run, "p0q1", *good)], [question(run, "p1q0", *good)]], None)
    assert [[answer["hung"] for answer in pair] for pair in found] == [[True], [False]]


def test_what_others_ended_is_not_begun_again(run: str) -> None:
    """So the search that goes on clears up after one that was cut off, whose part on the node still waits."""
    ask = [question(run, f"p0q{place}", "sleep", "60") for place in (0, 1)]
    began = job.begin

    def begin(host: Host, launch: Launch) -> dict[str, object]:
        found = began(host, launch)
        processes.stop_marked(host, run, os.geteuid())
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "begin", begin)
        (found,) = measure(Host(), [ask], None)
    assert len(found) == 1
    assert found[0]["why"]


def test_when_nobody_listens_everything_ends(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    monkeypatch.setattr(host, "unheard", lambda: True)
    assert measure(host, [[question(run, "p0q0", "sleep", "60")]], None) == [[]]
    assert processes.marked(host, run, os.geteuid()) == []
    assert not Path(run_directory.directory_of(run)).exists()


@pytest.mark.parametrize("closed", [True, False])
def test_a_closed_pipe_is_nobody(*, closed: bool) -> None:
    reader, writer = os.pipe()
    kept = os.dup(1)
    try:
        os.dup2(writer, 1)
        os.close(writer)
        if closed:
            os.close(reader)
        found = Host().unheard()
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        if not closed:
            os.close(reader)
    assert found is closed
