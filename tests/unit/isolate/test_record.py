# SPDX-License-Identifier: GPL-3.0-or-later
"""A search's document: what its rounds measured, in the form that documents.py bounds, through the journal and back."""

from __future__ import annotations

import json

import pytest
from tests.lib.searches import searched_document
from tests.lib.simulated_fabric import Fault, Noise
from tests.lib.small_fleets import fleet_of

from railwright.documents import search_document
from railwright.isolate.journal import Done
from railwright.isolate.model import TOOLS, Ask, Result, Round, Trial, make_fleet
from railwright.isolate.solve import Outcome, isolate_document

QUIET = Noise(outliers=0, launches=0)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_document_of_a_search_passes_its_own_form(tool: str) -> None:
    document = searched_document(fleet_of(24, tool, per_leaf=6), [Fault("rail", 0.1, "node17", "rail2"), Fault("hang", 0, "node3")], QUIET)
    assert json.loads(json.dumps(document)) == document
    bounded = search_document(document)
    assert bounded is not None
    assert bounded.pop("drained") == []
    assert bounded == document
    assert {row["kind"] for row in document["findings"]} == {"rail", "hang"}
    assert document["leaves"]["leaf1"] == [[f"node{node}", f"rail{rail}"] for node in range(6, 12) for rail in range(4)]
    assert all(380 < document["likes"][f"rail{rail}"] < 400 for rail in range(4) if tool == "perftest")


def test_a_question_has_the_median_of_its_samples() -> None:
    fleet = make_fleet(["a", "b"], ["r0", "r1"], {}, "perftest")
    trial = Trial(("a", "b"), (Ask(("r0",), "forth"), Ask(("r1",), "back")), 3)
    hung = Done(Round(2, (trial,)), (Result((), "hang"),), 60.0)
    rounds = [Done(Round(1, (trial,)), (Result(((100.0, 390.0, 392.0), ())),), 4.5), hung]
    document = isolate_document(fleet, rounds, Outcome((), 2, 2, 64.5, 2.15, "8 rounds were not enough"))
    first, second = document["rounds"]
    assert first == {"number": 1, "seconds": 4.5, "trials": [{"nodes": ["a", "b"], "failure": "", "figures": [
        {"rails": ["r0"], "way": "forth", "gbps": 390.0}, {"rails": ["r1"], "way": "back", "gbps": None}]}]}  # fmt: skip
    [trial_] = second["trials"]
    assert (trial_["failure"], [one["gbps"] for one in trial_["figures"]]) == ("hang", [None] * 2)
    assert (document["stopped"], document["seconds"], document["likes"]) == ("8 rounds were not enough", 64.5, {"r0": 390.0})
