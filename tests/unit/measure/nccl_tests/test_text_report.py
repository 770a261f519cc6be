# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests' text in all the shapes that people send: the rows are what was printed, and only a whole run is complete."""

import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.text_report import TYPES, parse
from nccl_tables import STYLES, header, left, table

LOG = "node1:4711:4712 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"
ERDMA = (  # the eRDMA document's own table, its lines as the terminal had them
    "# out-of-place in-place\n# size count type redop time algbw busbw error time algbw busbw error\n"
    "# (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)\niZwz966sgqhb98hdprvmdwZ:5587:5587 [0] NCCL INFO Launch mode Parallel\n"
    "0 0 float sum 50.50 0.00 0.00 N/A\n0 0 float sum 51.45 0.00 0.00 N/A\n4 1 float sum 95.84 0.00 0.00 N/A\n"
    "536870912 134217728 float sum 54083 9.93 18.61 N/A\n")


def values(busbw: float = 2.5, wrong: int | None = 0) -> dict[str, Any]:
    return {"time_us": 11.25, "algbw": 1.5, "busbw": busbw, "wrong": wrong}


def a_row(size: int = 1024, *, wrong: int | None = 0, second: bool = True, root: int | None = -1) -> dict[str, Any]:
    return {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": root,
            "out_of_place": values(wrong=wrong), "in_place": values(3.0, wrong) if second else None}


@pytest.mark.parametrize("version", STYLES)
def test_each_version(version: str) -> None:
    rows = [a_row(size, root=-1 if STYLES[version][0] else None) for size in (8, 16, 1 << 33)]
    found = parse(table(version, rows))
    assert found == {"rows": rows, "avg_busbw": 123.456, "out_of_bounds": 0, "complete": True}


def test_wrong_values_are_counted_and_the_run_is_still_complete() -> None:
    found = parse(table("2.17", [a_row(wrong=7)], bounds=14))
    assert found["rows"][0]["in_place"]["wrong"] == 7
    assert (found["out_of_bounds"], found["complete"]) == (14, True)


def test_not_checked_is_null_and_never_zero() -> None:
    row = a_row(wrong=None)
    assert parse(table("2.17", [row]))["rows"] == [row]


def test_alltoall_checks_one_half_only() -> None:
    row = a_row()
    row["in_place"]["wrong"] = None
    assert parse(table("2.17", [row]))["rows"] == [row]


def test_a_difference_of_old_versions_is_no_count() -> None:
    row = a_row(root=None)
    text = table("2.0", [row]).replace("      0\n", "  4e-07\n")
    assert "4e-07" in text
    assert parse(text)["rows"][0]["in_place"]["wrong"] is None


@pytest.mark.parametrize("fold", ["\n", " "], ids=["lines", "one-line"])
def test_the_erdma_documents_table(fold: str) -> None:
    found = parse(ERDMA.replace("\n", fold))
    assert [row["size"] for row in found["rows"]] == [0, 0, 4, 536870912]
    last = found["rows"][-1]
    assert last["out_of_place"] == {"time_us": 54083.0, "algbw": 9.93, "busbw": 18.61, "wrong": None}
    assert (last["in_place"], last["root"]) == (None, None)
    assert (found["complete"], found["avg_busbw"], found["out_of_bounds"]) == (False, None, None)


@pytest.mark.parametrize("host", ["node1", "172-16-0-1", "n"])
@pytest.mark.parametrize("glue", ["", "\n"], ids=["same-line", "next-line"])
def test_nccls_log_between_the_halves_of_a_row(host: str, glue: str) -> None:
    row = a_row()
    begin = left("2.17", row)
    text = table("2.17", [row]).replace(begin, begin + glue + LOG.replace("node1", host) + "\n")
    assert parse(text) == {"rows": [row], "avg_busbw": 123.456, "out_of_bounds": 0, "complete": True}


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>: ", "[1,0]<stdout>:", "0: "])
def test_launchers_name_the_rank_on_every_line(prefix: str) -> None:
    text = "".join(prefix + line + "\n" for line in table("2.17", [a_row(), a_row(2048)]).splitlines())
    assert [row["size"] for row in parse(text)["rows"]] == [1024, 2048]
    assert parse(text)["complete"] is True


def test_output_of_other_ranks_in_between() -> None:
    lines = table("2.17", [a_row(), a_row(2048)]).splitlines()
    mixed = "".join(f"{line}\nnode2: some words 12 13\n{LOG}\n" for line in lines)
    assert [row["size"] for row in parse(mixed)["rows"]] == [1024, 2048]


def test_columns_that_a_version_adds_are_passed_over() -> None:
    """-I 1 of 2.19: i_min, i_max, i_p99 and i_cv% after each half; -S puts a date at the end."""
    text = header("2.19").replace("#wrong", "#wrong  i_min  i_max  i_p99  i_cv%")
    row = "1024 256 float sum -1 11.25 1.5 2.5 0 10.0 12.0 11.9 3.1 11.25 1.5 3.0 0 10.0 12.0 11.9 3.1 2026-11-20 10:11:12\n"
    found = parse(text + row + row + "# Out of bounds values : 0 OK\n# Avg bus bandwidth : 1\n")
    assert found["rows"] == [a_row(), a_row()]
    assert found["complete"] is True


@pytest.mark.parametrize("text", [
    "", "\n", "USAGE: all_reduce_perf \n\t[-t,--nthreads <num threads>] \n\t[-g,--ngpus <gpus per thread>] \n", header("2.17"),
    header("2.17") + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0 \n",
    "all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file\n",
], ids=["empty", "blank", "help", "no-rows", "footer-without-rows", "no-library"])
def test_no_run_is_complete_without_rows(text: str) -> None:
    assert parse(text)["complete"] is False
    assert parse(text)["rows"] == []


def test_cut_off_at_any_word_is_never_complete() -> None:
    text = table("2.17", [a_row(), a_row(2048)]).rstrip("\n#")
    end = text.rindex("Avg bus bandwidth")
    for position in range(end):
        assert parse(text[:position])["complete"] is False, text[:position][-60:]


@pytest.mark.parametrize("line", [
    "node1: Test NCCL failure common.cu:1023 'unhandled cuda error / '", "node1: Test CUDA failure common.cu:1 'out of memory'",
    " .. node1 pid 3812: Test failure common.cu:1023", "node1: Test timeout (60s) common.cu:5",
])
def test_a_failure_makes_it_incomplete(line: str) -> None:
    text = table("2.17", [a_row()])
    assert parse(line + "\n" + text)["complete"] is False


def test_bandwidth_that_is_no_number() -> None:
    found = parse(table("2.17", [a_row()], average="-nan").replace("1.5", "inf"))
    assert found["avg_busbw"] is None
    assert found["rows"][0]["out_of_place"]["algbw"] is None


def test_two_runs_in_one_file_need_two_footers() -> None:
    whole = table("2.17", [a_row()])
    assert parse(whole + whole)["complete"] is True
    assert len(parse(whole + whole)["rows"]) == 2
    assert parse(whole + header("2.17"))["complete"] is False


NUMBER = st.floats(min_value=0, max_value=99999, allow_nan=False).map(lambda number: float(f"{number:.2f}"))
HALF = st.fixed_dictionaries({"time_us": NUMBER, "algbw": NUMBER, "busbw": NUMBER, "wrong": st.none() | st.integers(0, 999)})


@st.composite
def run(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    """A version, and rows that it could print: with root or without, with one half or two."""
    version = draw(st.sampled_from(sorted(STYLES)))
    root = st.integers(-1, 7) if STYLES[version][0] else st.none()
    row = st.fixed_dictionaries({
        "size": st.integers(0, 1 << 40), "count": st.integers(0, 1 << 40), "type": st.sampled_from(sorted(TYPES)),
        "redop": st.sampled_from(["sum", "prod", "max", "avg"]), "root": root, "out_of_place": HALF})
    rows = draw(st.lists(row, min_size=1, max_size=8))
    second = draw(st.booleans())
    return version, [dict(item, in_place=draw(HALF) if second else None) for item in rows]


@given(run())
@settings(max_examples=150, deadline=None)
def test_what_is_printed_is_what_is_read(example: tuple[str, list[dict[str, Any]]]) -> None:
    version, rows = example
    found = parse(table(version, rows))
    assert (found["rows"], found["complete"]) == (rows, True)


@given(st.text())
@settings(max_examples=150, deadline=None)
def test_any_text_is_answered(text: str) -> None:
    assert set(parse(text)) == {"rows", "avg_busbw", "out_of_bounds", "complete"}


def test_damaged_output_is_answered() -> None:
    """Deterministic fuzz: bytes of a real table are cut, doubled and swapped."""
    dice = random.Random(20261120)
    whole = table("2.17", [a_row(), a_row(2048, wrong=None)]) + LOG + "\n"
    for _ in range(1500):
        text = list(whole)
        for _ in range(dice.randrange(1, 12)):
            at = dice.randrange(len(text))
            text[at] = dice.choice(["", text[at] * 2, "\n", " ", "9", "N/A", "-", "\x00", "é"])
        found = parse("".join(text))
        assert isinstance(found["complete"], bool)


@pytest.mark.parametrize("line", ["x" * 2_000_000, "NCCL version " + "7" * 2_000_000, '["' * 500_000])
def test_a_line_of_megabytes_takes_no_minutes(line: str) -> None:
    started = time.monotonic()
    assert parse(line + "\n")["rows"] == []
    assert time.monotonic() - started < 20  # tried from each of its letters: hours
