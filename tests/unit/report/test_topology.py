# SPDX-License-Identifier: GPL-3.0-or-later
"""The drawing of GPUs, rails and leaf switches: what is joined, what colour a rail has, what is drawn once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lib.searches import run_of, searched_document
from tests.lib.simulated_fabric import Fault, Noise
from tests.lib.small_fleets import fleet_of

from railwright.cli.options import Format
from railwright.cli.session import judged_inventory
from railwright.leaves import leaf_of_rails
from railwright.report.cases import cases_of
from railwright.report.page import as_page
from railwright.report.topology import CARDS, Drawing, drawing
from railwright.runs import Run
from report_pages import HOSTILE, RAILS, benched, run, validated, verdict


def drawn(one: Run) -> Drawing:
    results = dict.fromkeys(one.nodes, "passed")
    for item in one.verdicts:
        results[item["node"]] = "passed" if item["status"] == "pass" and results[item["node"]] == "passed" else "failed"
    found = drawing(one, results | {node: "error" for node, said in one.nodes.items() if said["status"] == "unreachable"})
    assert found is not None
    return found


def test_the_bad_rail_stands_out_and_its_line_leads_to_its_leaf() -> None:
    found = drawn(benched())
    assert [(card.nodes, card.result) for card in found.cards] == [(("n2",), "failed"), (("n1",), "passed")]
    (bad,) = [box for box in found.boxes if box.result == "failed"]
    assert bad.text == "rail2 mlx5_2/1" and bad.hover == "rail2 mlx5_2/1 of n2: failed"
    (line,) = [line for line in found.lines if line.result == "failed"]
    leaf = next(box for box in found.boxes if box.text == "leaf3")
    assert bad.y < line.y1 < bad.y + 20 and (line.x2, line.y2) == (leaf.x, leaf.y + 10)
    assert found.lines[-1] is line, "it lies above the others"


def test_a_gpu_is_joined_to_the_rail_that_it_is_near() -> None:
    found = drawn(benched())
    gpus = {box.y: box.text for box in found.boxes if box.text.startswith("GPU")}
    rails = {box.y: box.text for box in found.boxes if box.text.startswith("rail")}
    joined = {(gpus[line.y1 - 10], rails[line.y2 - 10]) for line in found.lines if line.y1 - 10 in gpus and line.x1 < 260}
    assert joined == {("GPU 0000:1b:00.0", "rail0 mlx5_0/1"), ("GPU 0000:3d:00.0", "rail1 mlx5_1/1"),
                      ("GPU 0000:9a:00.0", "rail2 mlx5_2/1"), ("GPU 0000:ba:00.0", "rail3 mlx5_3/1")}  # fmt: skip
    assert min(box.x for box in drawn(validated(8)).boxes) < 100, "without GPUs there is no column for them"


def test_nodes_that_are_alike_are_drawn_once() -> None:
    found = drawn(validated(8))
    assert found.cards[-1].title == "gpu004 and 4 like it" and sum(len(card.nodes) for card in found.cards) == 8
    other = validated(8)
    other.leaves["gpu008"]["rail0"] = "leaf9"
    assert drawn(other).cards[-1].nodes == ("gpu008",), "behind another leaf it is not alike"


def test_of_many_groups_the_worst_are_drawn() -> None:
    one = validated(2000)
    found = drawn(one)
    assert len(found.cards) == CARDS and found.left_out > 0
    assert {card.result for card in found.cards} <= {"error", "failed"}
    assert f"{found.left_out} more groups of nodes" in as_page(one, cases_of(one), [])


def test_a_node_without_an_answer_has_rails_without_one() -> None:
    one = validated(2)
    one.nodes["gpu003"] = {"status": "unreachable", "message": "no route to host"}
    one.leaves["gpu003"] = dict(one.leaves["gpu002"])
    card = drawn(one).cards[0]
    assert card.nodes == ("gpu003",)
    assert [box.result for box in drawn(one).boxes if card.y < box.y < card.y + card.height and box.x < 20] == ["error"] * RAILS


def test_rails_of_which_nothing_was_judged_are_not_drawn() -> None:
    one = run("apply", {"gpu001": {"status": "failed"}}, leaves={"gpu001": {"rail0": "leaf1"}})
    assert drawing(one, {"gpu001": "error"}) is None
    old = run("validate", {"gpu001": {"status": "ok"}}, verdicts=[verdict("gpu001", 0, ("port.rate", 400))])
    assert drawing(old, {"gpu001": "passed"}) is None, "records of older releases have no rails"


def test_a_search_says_itself_which_leaves_there_are() -> None:
    faults = [Fault("rail", 0.1, "node17", "rail2")]
    one = run_of(searched_document(fleet_of(32, "perftest", per_leaf=8), faults, Noise(outliers=0, launches=0)))
    found = drawing(one, dict.fromkeys(one.nodes, "passed") | {"node17": "failed"})
    assert found is not None and found.leaves and found.cards[0].nodes == ("node17",)
    assert [box.text for box in found.boxes if box.result == "failed"] == ["rail2"]
    assert sum(box.text.startswith("leaf") for box in found.boxes) == 4


def test_what_a_node_says_stays_short_text() -> None:
    one = run("validate", {"gpu001": {"status": "ok"}}, leaves={"gpu001": {"rail0": HOSTILE}}, verdicts=[
        verdict("gpu001", 0, ("port.rate", 400)) | {"hca": HOSTILE * 50}])
    page = as_page(one, cases_of(one), [])
    assert "<img" not in page and "\u202e" not in page
    assert all(len(box.text) <= 40 for box in drawn(one).boxes)


@pytest.mark.parametrize(("both", "more", "leaf"), [
    ("", "", "leaf-a"), ("rdma_leaf_per_rail: true", "", "leaf-a rail0"),
    ("", "rdma_cabling: {rail0: {switch: sw7, port: Ethernet4}}", "sw7"),
])  # fmt: skip
def test_a_plan_of_cables_wins_over_groups(both: str, more: str, leaf: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(f"""
all:
  children:
    rdma:
      vars: {{rdma_fabric: roce, rdma_mtu: 9000, rdma_leaves: [leaf-a, leaf-b]}}
      children: {{leaf-a: {{hosts: {{gpu001: {{{more}}}}}}}, leaf-b: {{hosts: {{gpu002: {{}}}}}}}}
""", encoding="utf-8")
    (tmp_path / "group_vars").mkdir()
    rails = "rdma_rails: [{name: rail0, match: {pci: '0000:18:00.0'}}]"
    (tmp_path / "group_vars/rdma.yml").write_text(f"{rails}\n{both}\n", encoding="utf-8")
    judged = judged_inventory(tmp_path, None, Format.TEXT)
    found = leaf_of_rails(judged.specs, judged.inventory.groups)
    assert found["gpu001"] == {"rail0": leaf} and set(found) == {"gpu001", "gpu002"}


def test_without_leaves_the_page_says_which_key_names_them() -> None:
    one = validated(2)
    for node in one.leaves:
        one.leaves[node] = dict.fromkeys(one.leaves[node], "")
    assert not drawn(one).leaves
    assert "rdma_leaves or rdma_cabling" in as_page(one, cases_of(one), [])
