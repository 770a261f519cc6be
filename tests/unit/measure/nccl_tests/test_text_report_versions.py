# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests' text of 2.0 to 2.19 in every shape that its source can print: read as printed, and never complete when it was cut off."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.text_report import TYPES, parse
from nccl_printer import LEFT, SHAPES, Row, Run, columns, footer, header, left_of, line, number, text

INFO = "node1:4711:4712 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA\n"
WARN = "\n[2026-11-20 10:11:12] node1:4711:4712 [0] transport/net_ib/connect.cc:99 (ncclIbConnect) NCCL WARN NET/IB : a warning\n"
USAGE = ("USAGE: all_reduce_perf \n\t[-t,--nthreads <num threads>] \n\t[-g,--ngpus <gpus per thread>] \n"
         "\t[-b,--minbytes <min size in bytes>] \n\t[-e,--maxbytes <max size in bytes>] \n\t[-h,--help]\n")


def runs() -> list[Run]:
    """Each shape with each set of columns and each option that it has."""
    found = []
    for shape in SHAPES.values():
        for collective in LEFT if not shape.root else ("all_reduce",):
            for cpu_time in (False, True) if shape.first >= "2.14" and shape.root else (False,):
                found += [Run(shape, collective, cpu_time, stamps, iterations)
                          for stamps in ((False, True) if shape.stamp is not None else (False,))
                          for iterations in ((False, True) if shape.first == "2.19.2" else (False,))]
    return found


RUNS = runs()
IDS = [f"{run.shape.first}-{run.collective}{'-C' * run.cpu_time}{'-S' * run.stamps}{'-I' * run.iterations}" for run in RUNS]
VALUE = st.floats(min_value=0, max_value=990000, allow_nan=False)
HALF = st.fixed_dictionaries({"time_us": VALUE, "algbw": VALUE, "busbw": VALUE, "wrong": st.none() | st.integers(0, 9999)})
ROW = st.fixed_dictionaries({
    "size": st.integers(0, 1 << 42), "count": st.integers(0, 1 << 42), "type": st.sampled_from(sorted(TYPES)),
    "redop": st.sampled_from(["sum", "prod", "max", "min", "avg", "mulsum", None]), "root": st.integers(-1, 99), "out_of_place": HALF})


@st.composite
def a_run(draw: st.DrawFn) -> tuple[Run, list[Row]]:
    run = draw(st.sampled_from(RUNS))
    second = draw(st.booleans())
    return run, [dict(row, in_place=draw(HALF) if second else None) for row in draw(st.lists(ROW, min_size=1, max_size=6))]


def as_read(run: Run, row: Row) -> Row:
    """What the text says of a row: figures as they were rounded, columns that were printed, no count where a difference was."""
    def half(values: dict[str, Any] | None) -> dict[str, Any] | None:
        if values is None:
            return None
        capped, wrong = run.shape.capped, values["wrong"]
        return {"time_us": float(number(values["time_us"], 7, capped=capped, time=True)),
                **{name: float(number(values[name], 6, capped=capped, time=False)) for name in ("algbw", "busbw")},
                "wrong": wrong if not run.shape.difference or wrong is None else int(float(f"{wrong:5.0e}"))}
    named = {column: row[column] if column in columns(run) else None for column in ("redop", "root")}
    return {**row, **named, "out_of_place": half(row["out_of_place"]), "in_place": half(row["in_place"])}


@given(a_run())
@settings(max_examples=250, deadline=None)
def test_what_a_version_prints_is_what_is_read(example: tuple[Run, list[Row]]) -> None:
    run, rows = example
    assert parse(text(run, rows)) == {
        "rows": [as_read(run, row) for row in rows], "avg_busbw": 123.456, "out_of_bounds": 0, "complete": True}


def some_rows(run: Run, *, checked: bool = True, second: bool = True) -> list[Row]:
    def half(seed: int) -> dict[str, Any]:
        return {"time_us": 11.25 * seed, "algbw": 1.5 * seed, "busbw": 2.25 * seed, "wrong": 0 if checked else None}
    return [{"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": -1, "out_of_place": half(seed),
             "in_place": half(seed + 1) if second else None} for seed, size in enumerate((8, 1 << 20, 1 << 34), 1)]


@pytest.mark.parametrize("run", RUNS, ids=IDS)
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "not-checked"])
@pytest.mark.parametrize("second", [True, False], ids=["both", "one-half"])
def test_each_shape(run: Run, checked: bool, second: bool) -> None:
    rows = some_rows(run, checked=checked, second=second)
    found = parse(text(run, rows, bounds=3))
    assert found == {"rows": [as_read(run, row) for row in rows], "avg_busbw": 123.456, "out_of_bounds": 3, "complete": True}


@pytest.mark.parametrize("run", RUNS, ids=IDS)
def test_cut_off_at_any_byte_it_is_not_complete_and_has_no_other_rows(run: Run) -> None:
    whole = text(run, some_rows(run))
    rows = parse(whole)["rows"]
    end = whole.index("123.456") + len("123.456")
    for position in range(end + 1):
        found = parse(whole[:position])
        assert found["complete"] is False, whole[:position][-40:]
        assert found["rows"][:-1] == rows[:max(0, len(found["rows"]) - 1)], whole[:position][-40:]
        assert found["avg_busbw"] is None, whole[:position][-40:]


@pytest.mark.parametrize("run", RUNS, ids=IDS)
def test_nccls_log_wherever_a_line_or_a_half_ends(run: Run) -> None:
    rows = some_rows(run)
    parts = [header(run)]
    for row in rows:
        parts += [left_of(run, row), line(run, row)[len(left_of(run, row)):]]
    parts.append(footer(run, 0, "123.456"))
    for log in (INFO, WARN, INFO * 40):
        assert parse(log.join(parts)) == parse("".join(parts))
        assert parse("".join(parts))["complete"] is True


@pytest.mark.parametrize("host", ["minnode", "float16", "0a", "none", "172-16-0-1", "15"])
@pytest.mark.parametrize("run", RUNS[::5], ids=IDS[::5])
def test_a_host_whose_name_begins_like_a_column(run: Run, host: str) -> None:
    """On a line of its own always; stuck to a row's left part where it cannot be taken for a part of the root."""
    row = some_rows(run)[0]
    parts = [header(run), left_of(run, row), line(run, row)[len(left_of(run, row)):], footer(run, 0, "123.456")]
    log = INFO.replace("node1", host)
    for glue in ("\n", "") if not host[0].isdigit() else ("\n",):
        assert parse((glue + log).join(parts)) == parse("".join(parts)), glue


@pytest.mark.parametrize("prefix", [
    "[1,0]<stdout>:", "[1,0]<stdout>: ", "[prterun-node1-4711@1,0]<stdout>: ", "0: ", "[0] ", "12: ",
], ids=["openmpi4", "openmpi4-blank", "openmpi5", "srun", "hydra", "srun-wide"])
@pytest.mark.parametrize("run", RUNS[::5], ids=IDS[::5])
def test_every_line_with_its_rank_before_it(run: Run, prefix: str) -> None:
    whole = text(run, some_rows(run))
    assert parse("".join(prefix + item + "\n" for item in whole.splitlines())) == parse(whole)


@pytest.mark.parametrize("run", RUNS[::5], ids=IDS[::5])
def test_every_rank_prints_a_table_of_its_own(run: Run) -> None:
    """Built without MPI and started by mpirun: the lines of two tables mix."""
    whole = text(run, some_rows(run))
    streams = [whole.splitlines(keepends=True), whole.splitlines(keepends=True)]
    mixed: list[str] = []
    while any(streams):
        left = [stream for stream in streams if stream]
        mixed.append(left[len(mixed) * 7 % 5 % len(left)].pop(0))  # runs of one, two and three lines
    found = parse("".join(mixed))
    assert sorted(row["size"] for row in found["rows"]) == sorted([8, 1 << 20, 1 << 34] * 2)
    assert found["complete"] is True


@pytest.mark.parametrize("tail", [
    "node1: Test NCCL failure common.cu:1023 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '\n",
    " .. node1 pid 3812: Test failure common.cu:1023\n", "node1: Test CUDA failure common.cu:421 'out of memory'\n",
    "node1: Test timeout (60s) common.cu:515\n", "Invalid number of GPUs: 8 requested but only 2 were found.\n",
    "mpirun noticed that process rank 1 with PID 0 on node node2 exited on signal 9 (Killed).\n", "Segmentation fault (core dumped)\n",
])
@pytest.mark.parametrize("run", RUNS[::7], ids=IDS[::7])
def test_a_run_that_broke_off_after_its_rows(run: Run, tail: str) -> None:
    found = parse(header(run) + "".join(line(run, row) for row in some_rows(run)) + tail)
    assert (len(found["rows"]), found["complete"]) == (3, False)


def test_the_last_message_of_nccl_below_the_footer_is_no_failure() -> None:
    run = RUNS[-1]
    assert parse(text(run, some_rows(run)) + "# error: Failed to open libibverbs.so[.1]\n")["complete"] is True


def test_a_blank_cell_makes_the_row_damaged_and_not_another() -> None:
    """2.17.3 to 2.19.5 write one byte behind the cell before where rounding makes a number too wide; seen with 999.995 GB/s."""
    run = Run(SHAPES["2.17.7"])
    whole = text(run, some_rows(run))
    damaged = whole.replace(f"{'22.50':>7}", " " * 7, 1)
    assert damaged != whole
    found = parse(damaged)
    assert found["complete"] is False
    assert all(row["out_of_place"]["wrong"] in (0, None) for row in found["rows"])


@pytest.mark.parametrize("words", ["-h", "unknown option"])
def test_help_is_no_run(words: str) -> None:
    found = parse((f"invalid option '{words}'\n" if words != "-h" else "") + USAGE)
    assert found == {"rows": [], "avg_busbw": None, "out_of_bounds": None, "complete": False}
