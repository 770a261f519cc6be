# SPDX-License-Identifier: GPL-3.0-or-later
"""A search in the report: findings with their measurements, rounds, the matrix of pairs, cases; of records that say anything at all."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from tests.lib.searches import run_of, searched_document
from tests.lib.simulated_fabric import Fault, Noise
from tests.lib.small_fleets import fleet_of
from tests.unit.report.test_report import HOSTILE

from railwright.isolate.model import TOOLS
from railwright.report import isolate as search
from railwright.report.cases import as_junit, cases_of
from railwright.report.files import write_report
from railwright.report.markdown import as_markdown
from railwright.report.plot import BANDS, Heat, heats, png, svg
from railwright.runs import load_run, save_run

SVG = "{http://www.w3.org/2000/svg}"
QUIET = Noise(outliers=0, launches=0)
FAULTS = [Fault("rail", 0.1, "node17", "rail2"), Fault("node", 0.7, "node5"), Fault("hang", 0, "node9")]


@pytest.fixture(scope="module", params=TOOLS)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    return searched_document(fleet_of(32, request.param, per_leaf=8), FAULTS, QUIET)


def small(*figures: tuple[str, str, float | None], failure: str = "", tool: str = "perftest", **more: Any) -> dict[str, Any]:
    """One trial of a and b; ``figures``: rail ('' of all), way, Gb/s."""
    asked = [{"rails": [rail] if rail else ["r0", "r1"], "way": way, "gbps": gbps} for rail, way, gbps in figures]
    trial = {"nodes": ["b", "a"], "failure": failure, "figures": asked}
    return {
        "tool": tool, "nodes": ["a", "b", "c"], "rails": ["r0", "r1"], "leaves": {}, "likes": {"": 780.0, "r0": 390.0, "r1": 390.0},
        "rounds": [{"number": 1, "seconds": 12.34, "trials": [trial]}], "findings": [], "stopped": "", "seconds": 12.3,
        "node_minutes": 0.4, **more,
    }  # fmt: skip


def document(given: dict[str, Any]) -> dict[str, Any]:
    passed = search.document_of(run_of(given))
    assert passed is not None
    return passed


@pytest.mark.parametrize(("figures", "failure", "share", "said"), [
    ([("r0", "forth", 390.0), ("r1", "back", 39.0)], "", 0.1, "r1 back, 39 of 390 Gb/s"),
    ([("", "both", 741.0)], "", 0.95, "all rails, 741 of 780 Gb/s"),
    ([("r0", "both", 195.0), ("r0", "forth", 100.0), ("r0", "back", 200.0)], "", 0.5, "r0, 195 of 390 Gb/s"),
    ([("r0", "both", 390.0), ("r0", "forth", 50.0), ("r0", "back", 200.0)], "", 0.25, "r0 forth, 50 of 200 Gb/s"),
    ([("r0", "forth", None), ("r1", "forth", 390.0)], "", 1.0, "r1 forth, 390 of 390 Gb/s"),
    ([("r0", "forth", None), ("r1", "forth", 390.0)], "hang", 0.0, "r0 forth, hung"),
    ([("r0", "forth", None)], "hang", 0.0, "all rails, hung"),
    ([("r0", "forth", None)], "launch", None, ""), ([("other", "forth", 5.0)], "", None, "")])
def test_the_worst_figure_of_a_pair(figures: list[Any], failure: str, share: float | None, said: str) -> None:
    matrix = search.pairs(document(small(*figures, failure=failure)))
    if share is None:
        assert matrix == {}
    else:
        [(ends, worst)] = matrix.items()
        assert (ends, round(worst.share, 3), str(worst)) == (("a", "b"), share, said)


def test_a_pair_has_the_lowest_of_its_trials() -> None:
    given = small(("r0", "forth", 390.0))
    later = deepcopy(given["rounds"][0]) | {"number": 2}
    later["trials"][0] |= {"nodes": ["a", "b"]}
    later["trials"][0]["figures"][0]["gbps"] = 195.0
    given["rounds"] = [*given["rounds"], later, given["rounds"][0]]
    assert [(worst.share, worst.round) for worst in search.pairs(document(given)).values()] == [(0.5, 2)]


def test_pairs_that_hung_are_shown_as_such() -> None:
    given = small(("", "both", None), failure="hang", tool="nccl")
    given["rounds"][0]["trials"].append({**given["rounds"][0]["trials"][0], "nodes": ["c", "d"]})
    assert search.round_rows(document(given)) == [("1", "2", "12.3", "2 hang", "no figure")]
    assert [worst.share for worst in search.pairs(document(given)).values()] == [0.0, 0.0]


def test_findings_have_their_measurements(found: dict[str, Any]) -> None:
    passed = document(found)
    rows = search.evidence_rows(passed)
    assert len(rows) == sum(len(row["evidence"]) for row in found["findings"]) > 8
    assert {row[5] for row in rows} == {"slow"}
    text = as_markdown(run_of(found), cases_of(run_of(found)))
    picture = "![share of its like, of every pair](isolate-pairs.svg)"
    parts = ["## Slow parts", "### Findings", "### Measurements behind the findings", "### Rounds", "### Pairs", picture]
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert f"{len(found['rounds'])} rounds in " in text


def test_rounds_are_a_list(found: dict[str, Any]) -> None:
    rows = search.round_rows(document(found))
    assert [row[0] for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
    assert rows[0][1] == "16"
    assert any(row[3] == "1 hang" for row in rows)
    assert sum("node17" in row[4] and " Gb/s" in row[4] for row in rows) >= 3


def test_the_slowest_pairs_come_first(found: dict[str, Any]) -> None:
    rows = search.pair_rows(document(found))
    shares = [float(row[1].rstrip("%")) for row in rows]
    assert shares == sorted(shares) and len(rows) == search.SHOWN
    assert all("node9" in row[0].split() for row in rows if row[2].endswith("hung"))


def test_a_search_of_one_round_without_a_finding() -> None:
    given = searched_document(fleet_of(24), (), QUIET)
    text = as_markdown(run_of(given), cases_of(run_of(given)))
    assert "perftest, 24 nodes, 4 rails: 1 rounds in " in text and "findings: 0" in text and "### Measurements" not in text
    assert {case.result for case in cases_of(run_of(given))} == {"passed"}


def test_cases(found: dict[str, Any]) -> None:
    cases = {(case.node, case.name): case for case in cases_of(run_of(found)) if case.group == "isolate"}
    assert cases["node17", "rail rail2"].result == "failed"
    assert " of 39" in cases["node17", "rail rail2"].message
    assert cases["node5", "node node5"].result == cases["node9", "hang node9"].result == "failed"
    assert {case.result for (node, _name), case in cases.items() if node not in ("node5", "node9", "node17")} == {"passed"}
    assert len(cases) == 32
    root = ET.fromstring(as_junit(run_of(found), cases_of(run_of(found))))
    assert (root.get("failures"), root.get("skipped")) == ("3", "0")


def test_what_was_not_measured_has_not_passed() -> None:
    blame = {"kind": "unclear", "text": "a or b", "nodes": ["a", "b"]}
    given = small(("r0", "forth", 39.0), findings=[blame], stopped="no time")
    cases = [case for case in cases_of(run_of(given)) if case.group == "isolate"]
    assert [(case.node, case.name, case.result) for case in cases] == [
        ("cluster", "unclear a and b", "unknown"), ("c", "as fast as its like", "unknown"), ("cluster", "the search", "unknown")]
    named = [{"kind": "leaf", "text": "leaf l", "nodes": ["a", "b"], "leaf": "l", "share": 0.5}]
    [case] = [case for case in cases_of(run_of(small(findings=named))) if case.result == "failed"]
    assert (case.node, case.name, case.message) == ("cluster", "leaf l", "leaf l")


def heat_of(given: dict[str, Any]) -> Heat:
    [heat] = heats(run_of(given))
    return heat


def squares(heat: Heat) -> dict[str, list[tuple[float, float]]]:
    """Band -> the middles of its cells, in the picture's coordinates."""
    found: dict[str, list[tuple[float, float]]] = {}
    for group in ET.fromstring(svg(heat)).iter(SVG + "g"):
        if str(group.get("id")).startswith("band"):
            drawn = [re.findall(r"-?\d+\.?\d*", str(path.get("d")))[:8] for path in group.iter(SVG + "path")]
            corners = [list(map(float, one)) for one in drawn if len(one) == 8]
            found[str(group.get("id"))] = [(sum(one[::2]) / 4, sum(one[1::2]) / 4) for one in corners]
    return found


def test_each_pair_is_drawn_in_its_band_at_both_places() -> None:
    given = small(("r0", "forth", 39.0))
    for partner, gbps in (("c", 380.0), ("d", 340.0), ("e", 250.0)):
        trial = {"nodes": ["a", partner], "failure": "", "figures": [{"rails": ["r0"], "way": "forth", "gbps": gbps}]}
        given["rounds"][0]["trials"].append(trial)
    given["rounds"][0]["trials"].append({"nodes": ["d", "e"], "failure": "hang", "figures": []})
    heat = heat_of(given)
    assert heat.groups == (("", ("a", "b", "c", "d", "e")),)
    drawn = squares(heat)
    assert [len(drawn[f"band{rank}"]) for rank in range(len(BANDS))] == [2] * 5
    (ba, ab), (_ca, ac), (_da, ad) = drawn["band3"], drawn["band0"], drawn["band1"]
    assert ab[1] == ac[1] == ad[1], "a is one row"
    assert ad[0] - ac[0] == pytest.approx(ac[0] - ab[0], abs=0.01) and ba[1] - ab[1] == pytest.approx(ac[0] - ab[0], abs=0.01)


def test_nodes_are_grouped_by_leaf_and_only_measured_ones_are_there() -> None:
    given = small(("r0", "forth", 390.0))
    given |= {"leaves": {"leaf10": [["a", "r0"], ["a", "r1"]], "leaf9": [["b", "r0"], ["c", "r0"]]}}
    assert heat_of(given).groups == (("leaf9", ("b",)), ("leaf10", ("a",)))


def test_a_large_fleet_has_its_leaves_and_the_nodes_found_on_the_axes() -> None:
    faults = [Fault("rail", 0.1, "node170", "rail2"), Fault("leaf", 0.6, leaf="leaf3")]
    given = searched_document(fleet_of(256, per_leaf=16), faults, QUIET)
    texts = [text.text for text in ET.fromstring(svg(heat_of(given))).iter(SVG + "text")]
    assert {"node170", "leaf0", "leaf15", "node, by leaf", "nodes that findings name"} <= set(texts)
    assert "node48" not in texts, "the leaf is named, not its nodes"
    assert "below 0.5" in texts


def test_the_bands_differ_by_lightness_alone() -> None:
    """A grey print, and every kind of colour blindness, keep lightness."""
    weights = ((0.299, 1), (0.587, 3), (0.114, 5))
    grey = [sum(weight * int(colour[at : at + 2], 16) for weight, at in weights) for _low, _name, colour in BANDS]
    assert all(one - other > 20 for one, other in pairwise([255.0, *grey]))


def test_the_same_search_gives_the_same_picture(found: dict[str, Any]) -> None:
    assert svg(heat_of(found)) == svg(heat_of(found))
    assert png(heat_of(found))[:8] == b"\x89PNG\r\n\x1a\n"


def test_all_forms_and_both_pictures_are_written(found: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    save_run(run_of(found))
    written = write_report(load_run(), tmp_path / "out")
    assert [path.name for path in written.plots] == ["isolate-pairs.svg", "isolate-pairs.png"]
    assert json.loads(written.forms["json"].read_text())["isolate"] == found


ODD: list[Any] = [
    None, [], "x", {}, {"nodes": "a", "rails": None}, {"nodes": ["a"], "rails": []},
    {"nodes": ["a"], "rails": ["r"], "leaves": {"l": [["a"]]}},
    small(findings=[{"kind": "node", "text": "t"}]), small(findings=[{"kind": 7, "text": None}, "x"]), small(rounds=[{"number": "1"}]),
    small(rounds=[{"number": 1, "trials": [{"nodes": ["a"]}, {"nodes": ["a", "a"]}, {"nodes": ["a", 7]}, {}]}]),
    small(("r0", "forth", 39.0), likes={"r0": "fast"}),
    small(("r0", "forth", 1e308), likes={"r0": 5e-324}), small(("r0", "sideways", -4.0)),
    small(rounds=None, likes=None, tool=None, stopped=None),
]


@pytest.mark.parametrize("given", ODD)
def test_a_record_that_says_anything_at_all(given: Any) -> None:
    run = run_of(None)
    run.isolate = given
    for heat in heats(run):
        assert svg(heat).startswith(b"<?xml")
    ET.fromstring(as_junit(run, cases_of(run)))
    as_markdown(run, cases_of(run))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_is_more_than_text(text: str) -> None:
    given = json.loads(json.dumps(small(("r0", "forth", 39.0))).replace('"a"', json.dumps(text)))
    evidence = [{"round": 1, "partner": text, "figure": 1.0, "like": 2.0}]
    given["findings"] = [{"kind": text, "text": text, "nodes": [text], "evidence": evidence}]
    given |= {"stopped": text, "leaves": {text: [[text, "r0"]]}, "drained": [{"node": text, "state": text, "text": text}]}
    run = run_of(given)
    for heat in heats(run):
        ET.fromstring(svg(heat))
    ET.fromstring(as_junit(run, cases_of(run)))
    lines = as_markdown(run, cases_of(run)).splitlines()
    assert "# heading" not in lines
    assert not [line for line in lines if "<script" in line or "\x1b" in line]
