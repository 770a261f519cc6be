# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of the inspector's files. Lines have the form that the plugin of NCCL 2.28.9 writes, with a field of 2.30 more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import inspector
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.inspector import (
    LINES,
    RANKS,
    WATCHED,
    Spent,
    inspector_problems,
    read_line,
    time_spent,
    variables,
)
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import fitted
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.forms import SPENT
from inspector_lines import GIB, coll, entry

ROW = {"collective": "all_reduce", "comm": "0x9f27a1b2c3", "rank": 1, "bytes": GIB, "times": [[7, 2105]]}


def read(directory: Path, **files: str) -> list[dict[str, Any]]:
    """``files``: host, then text; each as a process of its own."""
    for at, (host, text) in enumerate(files.items()):
        (directory / f"{host}-pid{100 + at}.log").write_text(text, encoding="utf-8")
    return time_spent(Host(), str(directory), sorted(path.name for path in directory.iterdir()))


def test_a_line_of_the_documented_format() -> None:
    assert read_line(entry(1, 7, 2105)) == Spent("all_reduce", "0x9f27a1b2c3", 1, GIB, 7, 2105)
    verbose = entry(1, 7, 2105, event_trace_ts={"kernel_events": [{"channel_id": at} for at in range(64)]})
    assert read_line(verbose) == read_line(entry(1, 7, 2105))


@pytest.mark.parametrize("text", [
    "", "{}", "[]", "null", entry(1, 7, 2105)[:-1], entry(1, 7, 2105) + "x", '{"header":1,"coll_perf":[]}', "[" * 100_000,
    entry(1, 7, 2105, coll="Broadcast"), entry(1, 7, 2105, coll=["AllReduce"]), entry(1, 7, 2105, coll_timing_source="kernel_cpu"),
    entry(-1, 7, 2105), entry(1, 7, -5), entry(1, 7, 1 << 60), entry(1, 7, 2105, size=1 << 60), entry(1 << 40, 7, 5), entry(1.5, 7, 5),
    entry(1, True, 5), entry(1, 7, 2105, comm="0xZZ"), entry(1, 7, 2105, comm="0x1\n"), entry(1, 7, 2105, comm=5),
    coll("p2p_perf", 1, 7, 5), entry(1, None, 5),
])
def test_what_is_no_line_about_a_judged_collective(text: str) -> None:
    assert read_line(text) is None


def test_the_largest_size_of_each_rank_and_a_torn_last_line(tmp_path: Path) -> None:
    small = "".join(entry(1, at, 90, size=GIB // 2) + "\n" for at in range(7))
    found = read(tmp_path, n1=small + entry(1, 7, 2105) + "\n" + entry(1, 8, 2105)[:150])
    assert found == [ROW]
    assert fitted([SPENT], found) == found, "the gate takes it"


def test_only_the_last_calls_are_kept_and_other_files_are_let_be(tmp_path: Path) -> None:
    (tmp_path / "nccl.all_reduce.n1.7.log").write_text(entry(5, 1, 1), encoding="utf-8")
    (tmp_path / "all_reduce.json").write_text(entry(5, 1, 1), encoding="utf-8")
    found = read(tmp_path, n1="\n".join(entry(1, at, 1000 + at) for at in range(200)))
    assert [row["rank"] for row in found] == [1]
    assert found[0]["times"] == [[at, 1000 + at] for at in range(200 - WATCHED, 200)]


def test_ranks_of_one_process_and_of_two_communicators(tmp_path: Path) -> None:
    lines = [entry(rank, 3, 10 + rank) for rank in (0, 1)] + [entry(0, 3, 5, comm="0x1"), entry(0, 4, 6, coll="AllGather")]
    found = read(tmp_path, n1="\n".join(lines))
    assert [(row["collective"], row["comm"], row["rank"]) for row in found] == [
        ("all_gather", "0x9f27a1b2c3", 0), ("all_reduce", "0x1", 0), ("all_reduce", "0x9f27a1b2c3", 0), ("all_reduce", "0x9f27a1b2c3", 1)]


def test_hostile_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(read(tmp_path, n1="\n".join(entry(rank, 1, 1) for rank in range(LINES + 10)))) == RANKS
    monkeypatch.setattr(inspector, "FILE_LIMIT", 1000)
    assert read(tmp_path, n1="\n".join(entry(1, at, 5) for at in range(9))) == [], "what may lack its largest messages is not judged"
    monkeypatch.setattr(inspector, "ROOM", 3 * len(entry(1, 1, 1)) - 100)
    files = {f"n{at}": entry(at, 1, 1) for at in range(1, 4)}
    assert len(read(tmp_path, **files)) == 2, "all files together"


def test_a_library_that_the_user_cannot_read_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_bytes(b"\x7fELF\x02\x01")
    (tmp_path / "text.so").write_text("GROUP ( libm.so.6 )")
    host = TreeHost(str(tmp_path))
    assert inspector_problems(host, None, "mpi") == inspector_problems(host, "/lib.so", "mpi") == []
    for path in ("/text.so", "/none.so"):
        assert inspector_problems(host, path, "mpi") == [f"nccl_tests_inspector: {path} is no library that mpi can read"]


def test_variables_of_the_plugin() -> None:
    assert variables(None, "/run/x") == {}
    found = variables("/opt/lib.so", "/run/x")
    assert [found["NCCL_" + name] for name in ("PROFILER_PLUGIN", "INSPECTOR_ENABLE", "INSPECTOR_DUMP_DIR")] == [
        "/opt/lib.so", "1", "/run/x"]
    assert int(found["NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"]) > 0, "0 and -1 write nothing, by release"
