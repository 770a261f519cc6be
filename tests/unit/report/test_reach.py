# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reached whom, in the report: counts a rail, a matrix for each pair of nodes, and no way out of a cell."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.report.test_report import HOSTILE, run

from railwright.documents import reachability_document
from railwright.report.cases import cases_of
from railwright.report.markdown import as_markdown


def cell(rail: str, peer_rail: str, seen: str) -> dict[str, str]:
    return {"rail": rail, "peer_rail": peer_rail, "seen": seen}


def document(**more: Any) -> dict[str, Any]:
    rails = [{"rail": name, "asked": 6, "full": 2, "small": 1, "none": 3, "unknown": 0} for name in ("rail0", "rail1")]
    cells = [cell("rail0", "rail0", "none"), cell("rail0", "rail1", "heard"), cell("rail1", "rail1", "full")]
    return {"rails": rails, "pairs": [{"node": "n1", "peer": "n2", "cells": cells}], "pairs_left_out": 0, **more}


def section(**more: Any) -> list[str]:
    one = run(reachability=document(**more))
    return as_markdown(one, cases_of(one)).partition("## Rails between nodes\n\n")[2].partition("\n## ")[0].splitlines()


def test_the_matrix_has_a_row_for_each_rail_of_a_pair() -> None:
    lines = section()
    assert "| rail0 | 6 | 2 | 1 | 3 | 0 |" in lines
    assert "| From | To | Rail | its rail0 | its rail1 |" in lines
    assert lines[-2:] == ["| n1 | n2 | rail0 | no answer | heard (ARP, ND) |", "| n1 | n2 | rail1 |  | full MTU |"]


def test_pairs_that_are_left_out_are_counted() -> None:
    assert section(pairs_left_out=96)[-1] == "96 more pairs of nodes are not shown; those with a failure come first."


def test_a_run_without_pings_has_no_such_section() -> None:
    for empty in (None, {"rails": [], "pairs": [], "pairs_left_out": 0}):
        one = run(reachability=empty)
        assert "Rails between" not in as_markdown(one, cases_of(one))


def test_names_stay_in_their_cells_and_the_record_is_json() -> None:
    text = "\n".join(section(pairs=[{"node": HOSTILE[4], "peer": HOSTILE[1], "cells": [cell("rail0", "rail0", HOSTILE[1])]}]))
    assert "a\\|b\\|c" in text
    one = run(reachability=document())
    assert json.loads(json.dumps(one.as_dict()))["reachability"]["rails"][0]["asked"] == 6


def test_a_document_of_another_form_is_none_and_a_cut_one_is_shown() -> None:
    assert reachability_document({"rails": 7, "pairs": None}) == {"rails": [], "pairs": [], "pairs_left_out": None}
    assert reachability_document("noise") is None
    assert section(pairs=[{"node": "n1"}], pairs_left_out=None)[-1].startswith("| rail1 ")
