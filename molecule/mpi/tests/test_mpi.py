# SPDX-License-Identifier: GPL-3.0-or-later
"""A real MPI program over both nodes, by the command lines and steps of nccl-tests: ranks, sums, variables, an end without strays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from command_lines import PLANTED
from launching import Launching, Outcome, strays

INSTALLS = ("openmpi", "mpich")
KINDS = {"openmpi": "openmpi4", "mpich": "mpich"}
DAEMON = {"openmpi": "orted", "mpich": "hydra_pmi_proxy"}
PACKAGES = {"openmpi": ("openmpi-bin", "libopenmpi-dev"), "mpich": ("mpich", "libmpich-dev")}
VALUES = {"PLAIN": "1", "COMMAS": "=mlx5_0:1,mlx5_1:1", "SPACES": " two  words ", "EQUALS": "a=b=c", "SEMICOLON": "a;b", "EMPTY": "",
          "QUOTES": "it's \"$HOME\" \\ `x` %h"}
LINE = re.compile(r"^rank (\d+) of (\d+) on (\S+) sum (\d+) largest (\d+) wrong (\d+)((?: \w+=\w*)*)$", re.MULTILINE)


class Rank(NamedTuple):
    """What one rank said."""

    rank: int
    ranks: int
    host: str
    sum: int
    largest: int
    wrong: int
    values: dict[str, str]


def said(text: str) -> list[Rank]:
    found = []
    for match in LINE.findall(text):
        words = dict(word.split("=", 1) for word in match[6].split())
        values = {name: bytes.fromhex(digits).decode() for name, digits in words.items() if digits != "unset"}
        found.append(Rank(int(match[0]), int(match[1]), match[2], int(match[3]), int(match[4]), int(match[5]), values))
    return sorted(found)


@pytest.fixture(params=INSTALLS)
def install(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def program(install: str) -> str:
    return f"/var/lib/railwright-test/ranks-{install}"


@pytest.fixture
def launching(story: dict[str, Any], install: str) -> Iterator[Launching]:
    """What a failed test leaves must not be the next one's."""
    made: Launching = story[install].launching
    yield made
    made.stop()
    made.remove()


def answers(run: Any, node: str) -> list[dict[str, Any]]:
    return [item["answer"] for item in run.of("rdma_state", node)]


def ended(launching: Launching, program: str, total: int) -> Outcome:
    """MPICH 4.0.2 over UCX 1.13 (Debian 12) does not come out of MPI_Finalize in two to five of a hundred runs: docs/bench.md.

    Tried again then, three times at most, and only when every rank has said all that it has to say: any other end counts.
    """
    for attempt in range(3):
        launching.begin(f"sums-{attempt}", (program, *VALUES), VALUES, seconds=30 if launching.plan.kind == "mpich" else 120)
        outcome = launching.wait()
        if launching.plan.kind != "mpich" or outcome.rc != 124 or len(said(outcome.text)) != total:
            break
        launching.stop()
        launching.remove()
    return outcome


@pytest.mark.parametrize("node", ["node1", "node2"])
def test_the_plan_says_what_comes_and_nothing_changes_in_check_mode(runs: Any, node: str) -> None:
    assert [run.kind for run in runs[:3]] == ["check", "apply", "apply"]
    for run in runs[:2]:
        planned = [(change["what"], change["before"]) for change in answers(run, node)[0]["plan"]]
        assert planned == [(f"package {name}", None) for name in PACKAGES["openmpi"]], "the run before it changed nothing"


@pytest.mark.parametrize("node", ["node1", "node2"])
def test_a_second_apply_changes_nothing(runs: Any, story: dict[str, Any], node: str) -> None:
    found = answers(runs[2], node)
    assert found
    assert [(item["plan"], item["changed"]) for item in found] == [([], False)] * len(found)
    assert [change["what"] for change in story["mpich"].run[node].plan] == [f"package {name}" for name in PACKAGES["mpich"]]
    assert (story["mpich"].again[node].changed, story["mpich"].again[node].failed) == ([], [])


@pytest.mark.parametrize("node", ["node1", "node2"])
def test_what_the_inventory_installs_is_found_first_and_the_other_stays(story: dict[str, Any], node: str) -> None:
    assert [row["kind"] for row in story["openmpi"].found[node]] == ["openmpi4"]
    assert [row["kind"] for row in story["mpich"].found[node]] == ["mpich", "openmpi4"]
    for install in INSTALLS:
        assert re.match(r"[0-9]+\.[0-9]+\.[0-9]+", story[install].found[node][0]["version"])
        assert story[install].launching.plan.kind == KINDS[install]


def test_ranks_hosts_sums_and_values(launching: Launching, program: str, on: Callable[..., str]) -> None:
    """Open MPI has three ranks a node, whatever the number of cores."""
    each, total = launching.plan.per_node, 2 * launching.plan.per_node
    names = {node: on(node, ("hostname",)).strip() for node in launching.plan.nodes}
    outcome = ended(launching, program, total)
    assert outcome.rc == 0, outcome.text
    ranks = said(outcome.text)
    assert [(item.rank, item.ranks, item.host) for item in ranks] == [
        (place, total, names["node1" if place < each else "node2"]) for place in range(total)], outcome.text
    assert {(item.sum, item.largest, item.wrong) for item in ranks} == {(total * (total + 1) // 2, total, 0)}
    assert [item.values for item in ranks] == [VALUES] * total
    assert launching.stop() == {"node1": 0, "node2": 0}


def test_stop_ends_ranks_and_daemons_on_every_node(launching: Launching, install: str, program: str, on: Callable[..., str]) -> None:
    with strays(on, ("node1", "node2")) as left:
        launching.begin("stays-1", (program,), {"STAY": "1", "HF_TOKEN": PLANTED})
        launching.says(" wrong 0", 2 * launching.plan.per_node)
        launching.assert_kept(program)
        marked = launching.marked()
        for node in ("node1", "node2"):
            assert sum(line.startswith(program) for line in marked[node]) == launching.plan.per_node, marked
            assert on(node, ("pgrep", "-c", "-x", DAEMON[install][:15])).strip() == "1"
            daemons = [line for line in marked[node] if DAEMON[install] in line.partition(" ")[0]]
            assert len(daemons) == (1 if install == "openmpi" else 0), "Hydra's proxies have no marker, and end with their ranks"
        assert sum(launching.stop().values()) > 0, "some end by themselves when the others go"
        assert launching.marked() == {"node1": [], "node2": []}
        assert launching.wait().rc != 0, "None: what would have kept it was ended too"
    assert left == {"node1": [], "node2": []}


def test_the_time_limit_ends_it_on_every_node(launching: Launching, program: str, on: Callable[..., str]) -> None:
    with strays(on, ("node1", "node2")) as left:
        launching.begin("limit-1", (program,), {"STAY": "1"}, seconds=6)
        assert launching.wait().rc == 124
        launching.stop()
    assert left == {"node1": [], "node2": []}


def test_a_launcher_that_is_killed_leaves_nothing_after_stop(launching: Launching, program: str, on: Callable[..., str]) -> None:
    with strays(on, ("node1", "node2")) as left:
        launching.begin("killed-1", (program,), {"STAY": "1"})
        launching.says(" wrong 0", 2 * launching.plan.per_node)
        on("node1", ("pkill", "-KILL", "-u", "mpi", "-f", f"^{launching.plan.path} "))
        assert launching.wait().rc not in (0, None)
        launching.stop()
    assert left == {"node1": [], "node2": []}


def test_a_node_that_cannot_be_reached_is_named_and_never_asked_about(launching: Launching, install: str, program: str) -> None:
    """Open MPI ends at once. Hydra waits for its proxy until the time limit; of a real run that is the probe's, before anything else."""
    plan = launching.plan
    try:
        launching.plan = plan._replace(nodes={"node1": "node1", "node2": "node9"})
        launching.begin("unknown-1", (program,), seconds=12 if install == "mpich" else 60)
        outcome = launching.wait()
    finally:
        launching.plan = plan
    assert "node9" in outcome.text
    assert outcome.rc not in (0, None)
    assert (outcome.rc == 124) == (install == "mpich"), outcome.text
    assert said(outcome.text) == []
