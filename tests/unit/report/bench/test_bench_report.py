# SPDX-License-Identifier: GPL-3.0-or-later
"""report.md, report.json and the plots of a stored benchmark; records of before are read as ever."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench_documents import document, one_run, stored_run, training
from railwright.cli.main import run as railwright
from railwright.documents import bench_document, ddp_document
from railwright.report.bench import SIZES
from railwright.report.cases import cases_of
from railwright.report.files import write_report
from railwright.report.markdown import as_markdown
from railwright.runs import load_run, save_run

ID = "20260103T000000Z-bench"


def markdown(**more: Any) -> str:
    one = stored_run(ID, document(one_run(**more)))
    return as_markdown(one, cases_of(one))


def test_a_record_holds_both_documents(tmp_path: Path) -> None:
    one = stored_run(ID, bench_document(document()))
    one.ddp = ddp_document(training())
    save_run(one)
    assert load_run(ID) == one
    assert json.loads((tmp_path / "railwright" / "runs" / ID / "run.json").read_text())["ddp"]["step_ms"]["p95"] == 60.75


def test_a_record_of_before_is_readable(tmp_path: Path) -> None:
    directory = save_run(stored_run(ID, None))
    data = json.loads((directory / "run.json").read_text())
    del data["bench"], data["ddp"]
    (directory / "run.json").write_text(json.dumps(data))
    assert (load_run(ID).bench, load_run(ID).ddp) == (None, None)


def test_the_report_names_the_pictures_that_lie_beside_it(tmp_path: Path) -> None:
    one = stored_run(ID, document(one_run(), one_run("alltoall")))
    written = write_report(one, tmp_path / "out")
    names = sorted(path.name for path in written.plots)
    assert names == ["busbw-all_reduce.png", "busbw-all_reduce.svg", "busbw-alltoall.png", "busbw-alltoall.svg"]
    text = written.forms["markdown"].read_text()
    assert [name for name in re.findall(r"!\[[^]]*\]\(([^)]*)\)", text) if (tmp_path / "out" / name).is_file()] == [
        "busbw-all_reduce.svg", "busbw-alltoall.svg"]
    assert json.loads(written.forms["json"].read_text())["bench"] == one.bench


def test_markdown_says_what_was_judged_and_how() -> None:
    one = stored_run(ID, document())
    one.ddp = training()
    text = as_markdown(one, cases_of(one)).replace("\\", "")
    assert "| all_reduce | 2 | 342.90 | 340.00 | 0.85 of 8 NICs x 400 Gb/s | - | yes | 12.2 | NET/IB/GDRDMA 32 |" in text
    assert "### all_reduce: 4 ranks on 2 nodes, openmpi4" in text
    assert "| 4 GiB | float | 10.50 | 345.50 | 0 | 10.50 | 344.25 | 0 |" in text
    assert "rank 0: n1 mlx5_0:1\n- rank 10: n2 mlx5_1:1" in text
    assert "| n1, n2 | 2 × NVIDIA H200 | 580.95.05 | 13.0 | 2.30.7 | openmpi 4.1.4 | 2.19.6 |" in text
    assert "| n1 | 0000:1b:00.0 | mlx5_0 | 1 | PIX | yes |" in text
    assert "| 5120.5 | 50.00 | 51.25 | 53.50 | 60.75 |" in text


def test_a_run_that_broke_off_shows_its_last_words() -> None:
    text = markdown(complete=False, rc=137, tail=["n1: Test NCCL failure"], rows=[])
    assert "NOT complete, exit status 137" in text
    assert "- output: n1: Test NCCL failure" in text
    assert "n1: Test NCCL failure" not in markdown(tail=["n1: Test NCCL failure"])


def test_values_that_nobody_compared_are_not_said_to_be_right() -> None:
    rows = document()["runs"][0]["rows"]
    for one in rows:
        one["out_of_place"]["wrong"] = one["in_place"]["wrong"] = None
    assert markdown(rows=rows).count("unchecked") == 8


@pytest.mark.parametrize("text", [
    "<script>x</script>", "a|b\n| c |", "![x](http://example.invalid)", "# heading\n## more", "@everybody", "\x1b[2J"])
def test_hostile_words_of_a_node_stay_words(text: str) -> None:
    def whole(word: str) -> str:
        run = one_run(node=word, floor_source=word, complete=False, tail=[word], argv=[word], environment={"NCCL_X": word})
        run["rows"][0]["type"] = word
        run["transport"] = {"networks": [word], "connections": {word: 1}, "hcas": {word: [word]}}
        versions = {word: {word: word}}
        one = stored_run(ID, document(run, hosts=[word], gpus={word: [word]}, versions=versions, purpose=word, launcher=word))
        one.ddp = training() | {"backend": word, "versions": versions}
        return as_markdown(one, cases_of(one))

    document_, harmless = whole(text), whole("x")
    assert document_.count("\n") == harmless.count("\n")
    assert not re.search(r"(?<!\\)[<>`\x00-\x09\x1b]", document_)
    assert "@" not in document_
    assert len(re.findall(r"(?<!\\)\]\(", document_)) == len(re.findall(r"(?<!\\)\]\(", harmless))


def test_report_lists_the_plots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_run(stored_run(ID, document()))
    assert railwright(["report", "-o", str(tmp_path / "o"), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["plots"] == [str(tmp_path / "o" / f"busbw-all_reduce.{form}") for form in ("svg", "png")]
    assert all(Path(path).is_file() for path in found["plots"])


def test_what_has_no_floor_says_why_it_is_not_judged() -> None:
    text = markdown(floor=None, floor_source="what a ring gets through NVIDIA L40S is not known").replace("\\", "")
    assert "- busbw: 342.90 GB/s on the largest sizes; not judged: what a ring gets through NVIDIA L40S is not known" in text
    assert "| all_reduce | 2 | 342.90 | - | - | - | yes |" in text


def test_nodes_that_differ_have_a_row_each() -> None:
    both = document()
    both["versions"]["n2"] = both["versions"]["n2"] | {"driver": "570.1"}
    text = as_markdown(stored_run(ID, both), []).replace("\\", "")
    assert "| n1 | 2 × NVIDIA H200 | 580.95.05 |" in text
    assert "| n2 | 2 × NVIDIA H200 | 570.1 |" in text


def test_a_node_that_runs_by_itself_has_its_own_number_of_ranks() -> None:
    text = as_markdown(stored_run(ID, document(one_run(node="n1"), launcher="local")), []).replace("\\", "")
    assert "### all_reduce: 2 ranks on n1, local" in text


def test_where_nothing_could_be_run_there_is_no_empty_table() -> None:
    bare = document(gpus={"n1": []}, versions={"n1": {}}, topology={}) | {"runs": []}
    text = as_markdown(stored_run(ID, bare), [])
    assert "Judged busbw" not in text
    assert "| nodes |" not in text


def test_headings_fold_between_words_at_80_columns() -> None:
    """Eight columns leave seven letters each; a longer word is broken in two."""
    assert max(len(word) for title in SIZES for word in title.split()) <= 7
