# SPDX-License-Identifier: GPL-3.0-or-later
"""The launcher of nccl-tests without nodes: what it launches for which question, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import PURPOSES
from ansible_collections.railwright.rdma.plugins.plugin_utils import perftest_round
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests import plan_jobs
from railwright import job_user
from railwright.cli.isolate import launcher_of
from railwright.exitcodes import RunError
from railwright.isolate.launching import Site
from railwright.isolate.model import Ask, Result, Round, Trial
from railwright.isolate.nccl import Member, NcclLauncher, nccl_launcher

RAILS = ("rail0", "rail1")
WHOLE = Ask(RAILS, "both")
WAYS = (Ask(("rail1",), "forth"), Ask(("rail1",), "back"))
Answer = Callable[[str, dict[str, Any]], Any]


def member(name: str, *, gpus: int = 2, hca: str = "mlx5_1", **wishes: Any) -> Member:
    devices = [["NVIDIA H100", f"0000:{number:02x}:00.0", 80 << 30] for number in range(gpus)]
    seen = {
        "user": "job", "directory": "/opt/nccl-tests", "libraries": [], "interface": None, "cuda": {"devices": devices, "error": None},
        "hostname": f"{name}.example", "nccl_conf": [], "net_plugins": [], "mpi": [
            {"kind": "openmpi5", "prefix": "/opt/mpi", "mpirun": "/opt/mpi/bin/mpirun"}], "slurm": {"srun": "/usr/bin/srun"},
        "needs_job": False, "problems": [], "affinity": [{"gpu": "0000:01:00.0", "hca": "mlx5_1", "port": 1, "near": True}],
        "ports": [], "ends": {"rail0": "mlx5_0:1", "rail1": f"{hca}:1"},
    }  # fmt: skip
    own = {
        "nccl_tests_launcher": "mpi", "nccl_tests_slurm_host": None, "nccl_tests_slurm_options": ["--partition=gpu"], "fabric": "roce",
        "nccl_tests_network": "promised", "nccl_tests_algorithm": None, "nccl_tests_environment": {}, "nccl_tests_ranks": "gpu",
        "nccl_tests_purpose": PURPOSES[0].name, "lossless": [3], "why_not": None, "root": False, **wishes,
    }  # fmt: skip
    view = {"rails": [{"name": "rail0", "hca": "mlx5_0", "port": 1}, {"name": "rail1", "hca": hca, "port": 1}]}
    node: Any = SimpleNamespace(name=name)
    return Member(Site(node, view), plan_jobs.Node(name, own, seen))


class Launches(NcclLauncher):
    """Nodes that answer as they are told; ``asked``: every step, with each node's part."""

    def __init__(self, members: Mapping[str, Member], answer: Answer, **more: Any) -> None:
        how = nccl_launcher([each.plan for each in members.values()])
        assert not isinstance(how, str), how
        self.told: list[str] = []
        super().__init__(members, RAILS, how, "isolate-1", 8, self.told.append, **more)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answer = answer

    def _ask(self, mode: str, requests: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        self.asked.append((mode, dict(requests)))
        found = {node: self.answer(mode, {"node": node, **request}) for node, request in requests.items()}
        found = {node: {"counters": [], **answer} if answer is not None else None for node, answer in found.items()}
        self._away |= {node for node, answer in found.items() if answer is None}
        return {node: answer for node, answer in found.items() if answer is not None}


def said(figures: tuple[float, ...] = (), first: str = "n1", *, hung: bool = False, why: str = "") -> dict[str, Any]:
    return {"figures": list(figures), "first": first, "hung": hung, "why": why}


def answering(*answers: dict[str, Any]) -> Answer:
    return lambda mode, request: {"pairs": [list(answers) for _pair in request["pairs"]]} if mode == "pairs" else {}


def measured(*answers: dict[str, Any], asks: tuple[Ask, ...] = (WHOLE,), **wishes: Any) -> tuple[Result, Launches]:
    launches = Launches({name: member(name, **wishes) for name in ("n1", "n2")}, answering(*answers))
    (found,) = launches.run(Round(1, (Trial(("n1", "n2"), asks, 3),)))
    return found, launches


def items(launches: Launches) -> list[dict[str, Any]]:
    """What the first pair's node is told; its own environment in place of that of each node."""
    ((start, request),) = next(requests for mode, requests in launches.asked if mode == "pairs").items()
    return [{**item, "environment": item["environment"][start]} for item in request["pairs"][0]]


def test_all_rails_are_a_rank_for_each_gpu_in_groups_of_two() -> None:
    found, launches = measured(said((40.0, 41.0, 42.0)))
    assert found == Result(((640.0, 656.0, 672.0),))  # GB/s of a group, times 8 bits, times two groups
    (item,) = items(launches)
    words = " ".join(item["argv"])
    assert "/opt/mpi/bin/mpirun" in words
    assert "-np 4 --map-by ppr:2:node" in words
    assert "sendrecv_perf -b 268435456 -e 268566528 -i 65536 -n 10 -w 5 -c 0 -g 1 -a 3 -r 0" in words
    assert item["environment"]["NCCL_TESTS_SPLIT_MASK"] == "1"
    assert "NCCL_IB_HCA" not in item["environment"]
    assert item["environment"]["RAILWRIGHT_BENCH"] == "isolate-1"
    assert item["groups"] == 2


def test_six_gpus_are_split_by_the_newer_variable() -> None:
    _found, launches = measured(said((40.0,)), gpus=6)
    assert items(launches)[0]["environment"]["NCCL_TESTS_SPLIT"] == "MOD 6"


def test_one_rail_is_its_own_hca_and_the_nearest_gpu() -> None:
    found, launches = measured(said((40.0,)), asks=(Ask(("rail1",), "both"),))
    assert found.figures == ((320.0,),)
    (item,) = items(launches)
    assert item["environment"]["NCCL_IB_HCA"] == "=mlx5_1:1"
    assert item["environment"]["NCCL_TESTS_DEVICE"] == "1"
    assert "-np 2 --map-by ppr:1:node" in " ".join(item["argv"])


@pytest.mark.parametrize(("first", "figures"), [
    ("n1", ((80.0,), (160.0,))), ("n2.example", ((160.0,), (80.0,))), ("n9", ((), ())),
])  # fmt: skip
def test_a_way_is_where_rank_0_is(first: str, figures: tuple[tuple[float, ...], ...]) -> None:
    """Slurm numbers the ranks in its own order of the nodes."""
    found, launches = measured(said((10.0,), first), said((20.0,), first), asks=WAYS)
    assert found.figures == figures
    assert [" ".join(item["argv"])[-4:] for item in items(launches)] == ["-r 0", "-r 1"]
    assert all("/broadcast_perf" in " ".join(item["argv"]) for item in items(launches))


def test_names_of_an_hca_that_differ_are_not_measured() -> None:
    members = {"n1": member("n1"), "n2": member("n2", hca="mlx5_7")}
    launches = Launches(members, answering(said((40.0,))))
    (found,) = launches.run(Round(1, (Trial(("n1", "n2"), (WHOLE, Ask(("rail1",), "both")), 1),)))
    assert found == Result(((640.0,), ()))
    assert "mlx5_1:1 and mlx5_7:1" in launches.told[0]


def test_a_hang_is_no_failed_launch() -> None:
    assert measured(said(hung=True))[0] == Result(((0.0,),), "hang")
    assert measured(said(why="mpirun: no such host"))[0] == Result(((),), "launch")
    assert measured(said((40.0,)), said(hung=True), asks=(WHOLE, Ask(("rail1",), "both")))[0] == Result(((640.0,), (0.0,)))


def test_a_node_that_does_not_answer() -> None:
    launches = Launches({name: member(name) for name in ("n1", "n2", "n3", "n4")},
                        lambda mode, request: None if request["node"] == "n2" else answering(said((40.0,)))(mode, request))  # fmt: skip
    found = launches.run(Round(1, (Trial(("n1", "n2"), (WHOLE,), 1), Trial(("n3", "n4"), (WHOLE,), 1), Trial(("n5", "n6"), (WHOLE,), 1))))
    assert found == [Result((), "unreachable", "n2"), Result(((640.0,),)), Result((), "unreachable", "n5")]


def test_srun_of_all_pairs_is_called_where_the_inventory_says() -> None:
    wishes: dict[str, Any] = {"nccl_tests_launcher": "slurm", "nccl_tests_slurm_host": "n3"}
    launches = Launches({name: member(name, **wishes) for name in ("n1", "n2", "n3", "n4")},
                        lambda mode, request: {"pairs": [[said((40.0,))]] * len(request["pairs"])} if mode == "pairs" else {})  # fmt: skip
    found = launches.run(Round(1, tuple(Trial(pair, (WHOLE,), 1) for pair in (("n1", "n2"), ("n3", "n4")))))
    assert found == [Result(((640.0,),))] * 2
    ((start, request),) = next(requests for mode, requests in launches.asked if mode == "pairs").items()
    assert (start, len(request["pairs"]), request["cancel"]) == ("n3", 2, "railwright-isolate-1")
    names = {item["name"] for pair in request["pairs"] for item in pair}
    assert names == {"p0q0", "p1q0"}
    stopped = next(requests for mode, requests in launches.asked if mode == "stop")
    assert {node: part["cancel"] for node, part in stopped.items()} == {
        "n1": None, "n2": None, "n3": "railwright-isolate-1", "n4": None}  # fmt: skip


def test_each_round_leaves_nothing_and_a_resumed_one_clears_up_first() -> None:
    launches = Launches({name: member(name) for name in ("n1", "n2")}, answering(said((40.0,))), resumed=True)
    launches.run(Round(1, (Trial(("n1", "n2"), (WHOLE,), 1),)))
    assert [mode for mode, _requests in launches.asked] == ["stop", "collect", "prepare", "pairs", "stop", "collect"]
    assert [len(requests) for _mode, requests in launches.asked] == [2, 2, 2, 1, 2, 2]
    launches.stop()
    assert [len(requests) for _mode, requests in launches.asked[6:]] == [0, 0]


@pytest.mark.parametrize(("wishes", "why"), [
    ({"gpus": 0}, "no CUDA device on n2"), ({"gpus": 4}, "equally many GPUs"),
    ({"nccl_tests_launcher": "local"}, "nccl_tests_launcher"),
])  # fmt: skip
def test_why_nccl_tests_cannot_be_run(wishes: dict[str, Any], why: str) -> None:
    how = nccl_launcher([member("n1").plan, member("n2", **wishes).plan])
    assert isinstance(how, str)
    assert why in how


def test_local_is_no_launcher_of_pairs() -> None:
    assert "local runs each node by itself" in str(nccl_launcher([member(name, nccl_tests_launcher="local").plan for name in ("n1", "n2")]))


def chosen(monkeypatch: pytest.MonkeyPatch, tool: str, *, cards: int = 8, **wishes: Any) -> tuple[str, int]:
    """(the tool, how often the playbook ran). ``cards``: on the PCI bus of each node; ``wishes``: of ``member``."""
    members = {name: member(name, **wishes) for name in ("n1", "n2")}
    monkeypatch.setattr(plan_jobs, "wishes_of", lambda name: members[name].plan.wishes)
    monkeypatch.setattr(perftest_round, "lossless_of", lambda _name: {})
    runs = []

    def run(playbook: str, variables: dict[str, Any], only: list[str]) -> Any:
        assert only == ["n1", "n2"]
        runs.append((playbook, variables))
        hosts = {name: SimpleNamespace(status="ok", message="", readiness=each.plan.seen) for name, each in members.items()}
        return SimpleNamespace(hosts=hosts)

    session: Any = SimpleNamespace(run=run)
    judged: Any = SimpleNamespace(specs={name: name for name in members}, inventory=None)
    monkeypatch.setattr(job_user, "root_logins", lambda _inventory, _specs: [])
    sites = {name: Site(each.site.node, {**each.site.view, "facts": {"gpus": [{}] * cards}}) for name, each in members.items()}
    found, _launcher = launcher_of(session, judged, sites, tool, list(RAILS), "isolate-1", 8, resumed=False)
    assert all(item == ("nccl_tests_programs", {"nccl_tests_collectives": ["sendrecv", "broadcast"]}) for item in runs)
    return found, len(runs)


def test_auto_is_nccl_tests_where_they_can_be_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen(monkeypatch, "auto") == ("nccl", 1)
    assert chosen(monkeypatch, "auto", cards=0) == ("perftest", 0)
    assert chosen(monkeypatch, "perftest") == ("perftest", 0)
    assert capsys.readouterr().err == ""
    assert chosen(monkeypatch, "auto", gpus=0) == ("perftest", 1)
    assert "nccl-tests cannot be run, so perftest is: no CUDA device on n1" in capsys.readouterr().err


def test_nccl_that_cannot_be_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="--tool nccl: nccl_tests_launcher: local runs each node by itself"):
        chosen(monkeypatch, "nccl", nccl_tests_launcher="local")
