# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of perftest over a transport that plays the nodes: what is asked of whom, in which order, and what becomes of each answer."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from field_specs import build_spec
from railwright.inventory import _quiet
from railwright.isolate import journal
from railwright.isolate.launching import Site
from railwright.isolate.model import Ask, Options, Result, Round, Trial, make_fleet
from railwright.isolate.perftest import PerftestLauncher
from railwright.isolate.solve import Search
from railwright.scan import scan
from railwright.scan.dialogue import Command, Heard, Payload
from railwright.scan.faults import Unreachable
from railwright.scan.login import Login
from railwright.scan.scan import Node

NODES = ("n1", "n2", "n3", "n4")
RAILS = ("rail0", "rail1")
GOOD, SLOW = 392.0, 41.0
BOTH_WAYS = tuple(Ask((rail,), way) for rail in RAILS for way in ("forth", "back"))
Says = Callable[[str, dict[str, Any]], Any]


class Played:
    """``says(node, what it was asked)``: an answer, or an exception that is raised."""

    def __init__(self, says: Says) -> None:
        self.says, self.classical = says, set[str]()
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def hear(self, login: Login, command: Command, payload: Payload) -> Heard:
        given = json.loads(payload.call)["given"]
        self.asked.append((login.node, given))
        found = self.says(login.node, given)
        if isinstance(found, BaseException):
            raise found
        return Heard(json.dumps(found).encode(), no_python=False, before=b"", output=b"", errors=b"", status=0)

    async def close(self) -> None: ...


def answer(node: str, given: dict[str, Any]) -> dict[str, Any]:
    """As a node whose rails are all good."""
    del node
    if given["mode"] == "start":
        return {"verdicts": [], "open_ports": [test["tcp_port"] for test in given["tests"]]}
    if given["mode"] == "sample":
        return {"samples": [{"figure": GOOD, "why": "", "hung": False} for _test in given["tests"]]}
    return {"verdicts": [], "traffic": [], "ended": 0}


def wishes() -> Spec:
    spec, _findings = build_spec({"fabric": "roce", "mtu": 9000}, "one")
    assert spec is not None
    return spec


def rail(name: str, place: int, node: int) -> dict[str, Any]:
    return {"name": name, "label": name, "address": f"192.0.2.{node * 8 + place}", "mtu": 9000, "netdev": f"eth{place}",
            "hca": f"mlx5_{place}", "port": 1, "gid_index": 3, "gid_needed": True, "rdma_cm": False, "exchange": None}


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Says], tuple[PerftestLauncher, Played, list[str]]]]:
    spec = wishes()

    def make(says: Says) -> tuple[PerftestLauncher, Played, list[str]]:
        played, lines = Played(says), list[str]()
        monkeypatch.setattr(scan, "TRANSPORT", lambda _logins, _word: played)
        sites = {
            name: Site(Node(name, spec, {"ansible_ssh_common_args": "-F none"}, {}),
                       {"rails": [rail(one, place, number) for place, one in enumerate(RAILS)], "facts": {}})
            for number, name in enumerate(NODES)
        }  # fmt: skip
        return PerftestLauncher(sites, 16, lines.append), played, lines

    with _quiet():
        yield make


def test_one_way_at_a_time_between_barriers(launcher: Any) -> None:
    made, played, lines = launcher(answer)
    found = made.run(Round(1, (Trial(("n1", "n2"), BOTH_WAYS, 3), Trial(("n3", "n4"), BOTH_WAYS, 3))))
    assert found == [Result(((GOOD,) * 3,) * 4)] * 2
    modes = [given["mode"] for _node, given in played.asked]
    assert modes == ["start"] * 4 + ["sample"] * 4 + ["stop"] * 4
    assert {node for node, _given in played.asked[4:6]} == {"n1", "n3"}  # forth: the second node serves
    assert lines == []


def test_every_test_has_a_port_of_its_own_and_both_ends_agree(launcher: Any) -> None:
    made, played, _lines = launcher(answer)
    made.run(Round(1, (Trial(("n1", "n2"), BOTH_WAYS, 3),)))
    served = {node: given["tests"] for node, given in played.asked if given["mode"] == "start"}
    for node, given in played.asked:
        if given["mode"] == "sample":
            ports = [test["tcp_port"] for test in given["tests"]]
            assert len(set(ports)) == 6
            assert ports == [test["tcp_port"] for test in served[given["peer"]]] == given["open_ports"]
            assert {test["address"] for test in given["tests"]} == {test["address"] for test in served[given["peer"]]}
            assert node != given["peer"]


def test_a_node_that_does_not_answer_is_named_and_its_partner_is_stopped(launcher: Any) -> None:
    made, played, lines = launcher(lambda node, given: Unreachable("no route") if node == "n2" else answer(node, given))
    found = made.run(Round(1, (Trial(("n1", "n2"), BOTH_WAYS, 1), Trial(("n3", "n4"), BOTH_WAYS, 1))))
    assert found == [Result((), "unreachable", "n2"), Result(((GOOD,),) * 4)]
    assert lines == ["round 1: n2: no route"]
    assert {node for node, given in played.asked if given["mode"] == "stop"} == set(NODES)


def test_an_answer_of_another_length_is_no_answer(launcher: Any) -> None:
    def lies(node: str, given: dict[str, Any]) -> dict[str, Any]:
        return {"samples": []} if given["mode"] == "sample" else answer(node, given)

    made, _played, lines = launcher(lies)
    assert made.run(Round(1, (Trial(("n1", "n2"), BOTH_WAYS, 1),))) == [Result(((),) * 4, "launch")]
    assert lines[0] == "round 1: n1: its answer is not one to what it was asked"


def test_an_interrupt_stops_what_runs(launcher: Any) -> None:
    def interrupts(node: str, given: dict[str, Any]) -> Any:
        return KeyboardInterrupt() if given["mode"] == "sample" else answer(node, given)

    made, played, _lines = launcher(interrupts)
    with pytest.raises(KeyboardInterrupt):
        made.run(Round(1, (Trial(("n1", "n2"), BOTH_WAYS, 1),)))
    made.stop()
    assert sorted(node for node, given in played.asked if given["mode"] == "stop") == ["n1", "n2"]


def test_a_whole_search_names_the_slow_rail_and_counts_its_losses(launcher: Any, tmp_path: Path) -> None:
    """One bad direction: what leaves n3 by rail1."""
    lost = {"check": "traffic.lossless", "node": "n3", "hca": "mlx5_1", "port": 1, "subject": "rail1", "status": "warn",
            "expected": 0, "found": 7, "message": "7 retransmissions"}  # fmt: skip

    def slow(node: str, given: dict[str, Any]) -> dict[str, Any]:
        found = answer(node, given)
        for test, sample in zip(given.get("tests", ()), found.get("samples", ()), strict=False):
            sample["figure"] = SLOW if node == "n3" and test["hca"] == "mlx5_1" else GOOD
        return {**found, "verdicts": [lost]} if given["mode"] == "stop" and node == "n3" else found

    made, _played, lines = launcher(slow)
    fleet = make_fleet(NODES, RAILS, {}, "perftest")
    book = journal.create(tmp_path / "book", fleet, Options(samples=1))
    found = Search(fleet, made, book, Options(samples=1), lines.append).run()
    assert [(item.kind, item.nodes, item.rail, item.way) for item in found.findings] == [("direction", ("n3",), "rail1", "out")]
    assert "41 of 392 Gb/s" in found.findings[0].text
    assert made.grown.verdicts() == [lost]
