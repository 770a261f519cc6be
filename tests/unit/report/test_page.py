# SPDX-License-Identifier: GPL-3.0-or-later
"""report.html as text: what is in it, how large it is, that no word of a node is more than text. In a browser: integration."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bench_documents import document, one_run, stored_run
from railwright.cli.main import run as railwright
from railwright.report.cases import cases_of
from railwright.report.files import write_report
from railwright.report.page import as_page
from railwright.runs import save_run
from report_pages import HOSTILE, drifted, five_kinds, run, validated, verdict

LARGEST = 2_000_000  # bytes


class Tags(HTMLParser):
    """Every tag with its attributes, and the text of the whole."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("kind", ["validate", "drift", "bench", "isolate", "apply"])
def test_no_word_of_a_node_is_more_than_text(kind: str, tmp_path: Path) -> None:
    written = write_report(five_kinds()[kind], tmp_path / "out", page_alone=True)
    page = Tags(written.forms["html"].read_text(encoding="utf-8"))
    assert list(written.forms) == ["html"] and written.plots == []
    assert [tag for tag, _own in page.tags if tag == "script"] == ["script"]
    outside = [value for tag, own in page.tags for name, value in own.items() if name in ("src", "href", "action")]
    assert all(str(value).startswith("data:image/") for value in outside), "it needs no network"
    assert not [name for _tag, own in page.tags for name in own if name.startswith("on")]
    assert {"bench": "NVIDIA", "isolate": "node17", "drift": "qos"}.get(kind, "onerror") in "".join(page.text)


@pytest.mark.parametrize(("count", "leaves"), [(8, 0), (200, 0), (2000, 10)])
def test_pages_stay_small_and_have_every_node(count: int, leaves: int) -> None:
    one = validated(count)
    text = as_page(one, cases_of(one), [])
    page = Tags(text)
    assert len(text.encode()) < LARGEST
    assert sum("data-node" in own for tag, own in page.tags if tag == "button") == count
    assert sum(tag == "details" for tag, _own in page.tags) == leaves
    assert "a quarter of its rate: reseat the cable" in "".join(page.text)
    assert len([1 for tag, own in page.tags if tag == "tr" and "data-result" in own]) == sum(
        case.result != "passed" for case in cases_of(one))


def test_the_headline_says_the_worst_first() -> None:
    one = validated(200)
    line = next(line for line in as_page(one, cases_of(one), []).split("\n") if 'class="verdict' in line)
    assert "2 without a result, " in line and ", of 200 nodes" in line and 'class="verdict error"' in line
    good = run("validate", {"gpu001": {"status": "ok"}})
    assert "all good, of 1 node<" in as_page(good, cases_of(good), [])


def test_a_node_without_a_result_hides_no_failure() -> None:
    bad = [verdict("gpu001", rail, ("port.rate", 400), "fail", 100) for rail in range(44)]
    one = run("validate", {"gpu001": {"status": "failed", "message": "no systemd", "task": "Inspect"}}, verdicts=bad)
    assert "1 without a result, of 1 node; results: 44 failed<" in as_page(one, cases_of(one), [])


def test_drift_has_its_history_the_newest_first() -> None:
    one = drifted()
    page = Tags(as_page(one, cases_of(one), []))
    text = " ".join(" ".join(page.text).split())
    assert "Drift by area over time Run limits network qos 2026-01-03T12:00:00+00:00 1 0 1 2026-01-02T12:00:00+00:00 0 0 1" in text


def test_the_heads_of_a_table_are_printable() -> None:
    one = drifted()
    one.nodes["gpu001"]["findings"][0]["area"] = "a\u202e\x1b[31m\x00b"
    save_run(one)
    page = as_page(one, cases_of(one), [])
    assert "Drift by area over time" in page
    assert not set("\u202e\x1b\x00") & set(page)


def test_the_verb_writes_the_page_of_one_inventory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for at, site in (("20260101T120000Z", "a"), ("20260102T120000Z", "b")):
        one = run("validate", {"gpu001": {"status": "ok"}}, at)
        one.inventory = str(tmp_path / site)
        save_run(one)
    assert railwright(["report", "--list", "--format", "json"]) == 0
    assert [row["id"][:8] for row in json.loads(capsys.readouterr().out)["runs"]] == ["20260102", "20260101"]
    assert railwright(["report", "--list", "-i", str(tmp_path / "a")]) == 0
    assert "20260102" not in capsys.readouterr().out
    assert railwright(["report", "-i", str(tmp_path / "a"), "--format", "html", "-o", str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    assert "20260101T120000Z-validate" in (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert railwright(["report", "-i", str(tmp_path / "c")]) == 64
    assert f"no run of {tmp_path / 'c'} is stored yet" in capsys.readouterr().err
    assert railwright(["report", "--run", "20260101T120000Z-validate-0000abcd", "--list"]) == 64
    assert "--run names one run" in capsys.readouterr().err


def test_the_words_of_a_hostile_node_are_all_there() -> None:
    one = run("validate", {"gpu001": {"status": "failed", "message": HOSTILE}})
    assert "document.title=1" in "".join(Tags(as_page(one, cases_of(one), [])).text)


def test_two_runs_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    """One fault healed, one new, one node more that does not answer; what is good in both is not said."""
    rails = [verdict("gpu001", rail, ("port.rate", 400)) for rail in range(4)]
    one = run("validate", {"gpu001": {"status": "ok"}}, "20260101T120000Z", verdicts=[rails[0] | {"status": "fail"}, *rails[1:]])
    other = run("validate", {"gpu001": {"status": "ok"}, "gpu002": {"status": "unreachable"}}, "20260102T120000Z",
                verdicts=[rails[0], rails[1] | {"status": "warn"}, *rails[2:]])  # fmt: skip
    ids = [save_run(each).name for each in (one, other)]
    assert railwright(["report", "--compare", *ids, "--format", "json"]) == 1
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert [(row["way"], row["node"], row["before"], row["after"]) for row in changes] == [
        ("worse", "gpu001", "passed", "warning"), ("worse", "gpu002", "not judged", "error"), ("better", "gpu001", "failed", "passed")]
    assert railwright(["report", "--compare", *ids[::-1], "--format", "json"]) == 1
    assert railwright(["report", "--compare", ids[0], ids[0]]) == 0
    assert "no result differs" in capsys.readouterr().out
    assert railwright(["report", "--compare", ids[0], save_run(drifted()).name]) == 64
    assert "validate and drift judge other things" in capsys.readouterr().err
    assert railwright(["report", "--compare", *ids, "--list"]) == 64


def test_busbw_of_two_benches_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    slow = document(one_run(judged_busbw=171.45))
    ids = [save_run(stored_run(f"2026010{day}T000000Z-bench", bench)).name for day, bench in ((1, document()), (2, slow))]
    assert railwright(["report", "--compare", *ids, "--format", "json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["busbw"]
    assert (row["before"], row["after"], row["percent"]) == (342.9, 171.45, -50.0)
    assert railwright(["report", "--compare", *ids]) == 0
    assert "-50.0 %" in capsys.readouterr().out
