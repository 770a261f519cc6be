# SPDX-License-Identifier: GPL-3.0-or-later
"""`railwright bench` from its options to its exit code. The run itself is a stand-in: events as ansible-runner hands them over."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench_documents import document, event, one_run, stats, training
from railwright.cli.main import run as railwright
from railwright.documents import bench_document
from railwright.events import Collector, RunOutcome
from railwright.runs import load_run, stored

SITE = {"rdma_fabric": "roce", "rdma_mtu": 9000}
VALIDATE = "railwright.rdma.rdma_cluster"
JUDGE, TRAINING, LOOK = "railwright.rdma.rdma_bench", "railwright.rdma.rdma_bench", "railwright.rdma.rdma_bench"


def verdict(status: str, check: str = "nccl.busbw", node: str = "", **more: Any) -> dict[str, Any]:
    base = {"check": check, "node": node, "hca": None, "port": None, "subject": "all_reduce", "status": status, "expected": 340.0,
            "found": 342.9, "message": "342.9 GB/s busbw at 1 GiB to 4 GiB"}
    return base | more


class Call(NamedTuple):
    playbook: str
    variables: dict[str, Any]


class Runner:
    """Stands in for run_playbook: answers each playbook with its events and remembers what it was asked for."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.events: dict[str, list[dict[str, Any]]] = {
            "nccl_tests": [event("runner_on_ok", "n1", {"bench": document(), "verdicts": [verdict("pass")]}, JUDGE), stats("n1", "n2")],
            "validate": [event("runner_on_ok", "n1", {"verdicts": [verdict("pass", "port.state", "n1")]}, VALIDATE), stats("n1", "n2")],
            "ddp_benchmark": [event("runner_on_ok", "n1", {"ddp": training(), "verdicts": []}, TRAINING), stats("n1", "n2")],
        }

    def validate(self, _session: Any, extra: Mapping[str, Any], _transport: Any) -> RunOutcome:
        self.calls.append(Call("validate", dict(extra)))
        collector = Collector()
        for item in self.events["validate"]:
            collector.handle(item)
        return collector.finish()

    def __call__(self, playbook: str, inventory: Path, limit: str | None, variables: Mapping[str, Any], *rest: Any) -> RunOutcome:
        self.calls.append(Call(playbook, dict(variables)))
        collector = Collector()
        for item in self.events[playbook]:
            collector.handle(item)
        return collector.finish()


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Runner:
    one = Runner()
    monkeypatch.setattr("railwright.run.run_playbook", one)
    monkeypatch.setattr("railwright.cli.bench.judged_by_validate", one.validate)
    return one


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Bench = Callable[..., Ran]


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], runner: Runner) -> Bench:
    """``railwright bench -i`` an inventory of two nodes with these site variables."""
    def call(*words: str, site: Mapping[str, Any] | None = None, hosts: Mapping[str, Any] | None = None, racks: bool = False) -> Ran:
        rails = {name: [{"name": "rail0", "match": {"mac": f"52:54:00:aa:bb:0{name[1]}"}, "address": f"10.10.0.{name[1]}/24"}]
                 for name in ("n1", "n2")}
        members = {name: {"rdma_rails": own} | dict((hosts or {}).get(name, {})) for name, own in rails.items()}
        path = tmp_path / "hosts.yml"
        leaves = {f"rack{name[1]}": {"hosts": {name: {}}} for name in members} if racks else {}
        path.write_text(json.dumps({"all": {"vars": SITE | dict(site or {}), "children": {"rdma": {"hosts": members}, **leaves}}}))
        capsys.readouterr()
        code = railwright(["bench", "-i", str(path), *words])
        return Ran(code, *capsys.readouterr())
    return call


def test_text_has_the_table_the_judgement_the_transport_and_the_report(bench: Bench, runner: Runner) -> None:
    ran = bench()
    assert ran.code == 0
    for line in ("all_reduce: 4 ranks on 2 nodes, openmpi4",
                 "busbw: 342.90 GB/s on the largest sizes; floor 340.00 (0.85 of 8 NICs x 400 Gb/s)",
                 "342.9 GB/s\n",
                 "transport: NET/IB/GDRDMA 32", "HCAs: rank 0: n1 mlx5_0:1; rank 10: n2 mlx5_1:1", "1 pass"):
        assert line in ran.out
    assert [line.split() for line in ran.out.splitlines() if line.strip().startswith("4 GiB")] == [
        ["4", "GiB", "float", "10.50", "345.50", "0", "10.50", "344.25", "0"]]
    [identity] = stored()
    report = Path(ran.out.splitlines()[-1].removeprefix("report: "))
    assert report.is_file()
    assert report.parent.name == identity
    assert (report.parent / "busbw-all_reduce.svg").is_file()
    assert load_run(identity).bench == bench_document(document())
    assert [call.playbook for call in runner.calls] == ["nccl_tests"]


def test_who_stops_it_is_told_that_the_nodes_need_a_while(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: Any) -> RunOutcome:
        raise KeyboardInterrupt

    monkeypatch.setattr("railwright.run.run_playbook", interrupted)
    ran = bench("--format", "json")
    assert (ran.code, ran.out) == (130, "")
    assert ran.err.splitlines() == [
        "what was started on the nodes ends by itself within three minutes; until then they refuse another run", "railwright: stopped"]
    assert stored() == []


def test_json_is_one_document(bench: Bench) -> None:
    ran = bench("--format", "json", "--ddp")
    assert ran.code == 0
    assert set(ran.json) == {"nodes", "verdicts", "bench", "ddp", "traffic", "summary"}
    assert ran.json["bench"]["runs"][0]["judged_busbw"] == 342.9
    assert ran.json["ddp"]["samples_per_s"] == 5120.5
    assert ran.json["summary"]["exit_code"] == 0
    assert set(ran.json["nodes"]) == {"n1", "n2"}


def test_options_are_extra_variables_and_a_floor_adds_to_the_inventorys(bench: Bench, runner: Runner) -> None:
    ran = bench("--purpose", "acceptance", "--collective", "all_reduce", "--collective", "alltoall", "--launcher", "slurm",
                "--group", "all", "--min-busbw", "alltoall=12.5",
                site={"nccl_tests_min_busbw": {"all_reduce": 340}, "nccl_tests_purpose": "soak"})
    assert ran.code == 0
    variables = runner.calls[1].variables
    del variables["rdma_run_id"]
    assert variables == {
        "nccl_tests_purpose": "acceptance", "nccl_tests_collectives": ["all_reduce", "alltoall"], "nccl_tests_launcher": "slurm",
        "nccl_tests_min_busbw": {"all_reduce": 340, "alltoall": 12.5}, "nccl_tests_groups": ["all"]}


def test_without_options_the_inventory_holds(bench: Bench, runner: Runner) -> None:
    bench()
    assert set(runner.calls[0].variables) == {"rdma_run_id"}


@pytest.mark.parametrize(("words", "message"), [
    (["--purpose", "fast"], "--purpose: nccl_tests_purpose: fast: is not a value"),
    (["--collective", "all_reduc"], "--collective: nccl_tests_collectives[0]: all_reduc: "),
    (["--group", "racks"], "--group: nccl_tests_groups[0]: racks: is not a value"),
    (["--group", "leaf"], "--group: nccl_tests_groups[0]: leaf: cannot be had: rdma_leaves names no group of the inventory"),
    (["--group", "rail"], "--group: nccl_tests_groups[0]: rail: cannot be had: rdma_rails has fewer than two rails"),
    (["--launcher", "ssh"], "--launcher: nccl_tests_launcher: ssh: is not a value"),
    (["--min-busbw", "all_reduce=-1"], "--min-busbw: nccl_tests_min_busbw"),
    (["--min-busbw", "allreduce=1"], "--min-busbw: nccl_tests_min_busbw"),
    (["--min-busbw", "340"], "--min-busbw 340: is no floor; allowed: NAME=GBPS"),
    (["--min-busbw", "all_reduce=fast"], "is no floor"),
    (["--min-busbw", "all_reduce=nan"], "is no floor"),
    (["--no-nccl-tests"], "allowed: together with --ddp"),
])
def test_bad_options_are_64_and_no_node_is_contacted(bench: Bench, runner: Runner, words: list[str], message: str) -> None:
    ran = bench(*words)
    assert ran.code == 64
    assert message in ran.err
    assert runner.calls == []
    assert stored() == []


@pytest.mark.parametrize(("words", "site", "message"), [
    (("--group", "leaf"), {}, "--group: leaf: cannot be had: rack1 has one node in this run; allowed: "),
    (("--group", "across", "--limit", "n1"), {}, "--group: across: cannot be had: one node alone"),
    ((), {"nccl_tests_groups": ["all", "leaf"]}, "hosts.yml:1: nccl_tests_groups: leaf: cannot be had: rack1 has one node in this run"),
])
def test_a_group_that_this_run_cannot_have_is_64(
    bench: Bench, runner: Runner, words: tuple[str, ...], site: Mapping[str, Any], message: str
) -> None:
    """--limit may leave a leaf alone: what the inventory names is right for all nodes."""
    ran = bench(*words, site={"rdma_leaves": ["rack1", "rack2"], **site}, racks=True)
    assert (ran.code, runner.calls) == (64, [])
    assert message in ran.err
    assert bench("--group", "across", site={"rdma_leaves": ["rack1", "rack2"]}, racks=True).code == 0


def test_runs_by_topology_are_a_table_and_what_was_not_run_a_line(bench: Bench, runner: Runner) -> None:
    rack = one_run(group="leaf", label="within rack1", nodes=["n1", "n2"], ranks=4, floor=80.0, ceiling=100.0, judged_busbw=91.25)
    broken = rack | {"label": "within rack2", "complete": False, "judged_busbw": None, "tail": ["NCCL WARN it broke"]}
    whole = document(rack, broken, one_run(group="all", label="", nodes=["n1", "n2"], ranks=4), left_out=["rail: there are not two rails"])
    runner.events["nccl_tests"][0] = event("runner_on_ok", "n1", {"bench": whole, "verdicts": [verdict("pass")]}, JUDGE)
    ran = bench()
    shown = [line.split() for line in ran.out.splitlines()]
    assert ["all_reduce", "within", "rack1", "2", "91.25", "80.00", "100.00", "complete"] in shown
    assert "not run: rail: there are not two rails" in ran.out
    assert "NCCL WARN it broke" in ran.out
    assert "all_reduce within rack1: 4 ranks" not in ran.out, "the report has its sizes"
    report = Path(ran.out.splitlines()[-1].removeprefix("report: "))
    text = report.read_text().replace("\\", "")
    assert "| all_reduce within rack1 | 2 | 91.25 | 80.00 | 0.85 of 8 NICs x 400 Gb/s | 100.00 | yes |" in text
    assert "### all_reduce within rack1: 4 ranks on 2 nodes, openmpi4" in text
    assert "- nodes: n1, n2\n- command: mpirun" in text
    assert "- not run: rail: there are not two rails" in text
    assert (report.parent / "busbw-all_reduce_leaf.svg").is_file()
    assert (report.parent / "busbw-all_reduce.svg").is_file()


def test_a_sound_option_stands_in_for_what_the_inventory_has_wrong(bench: Bench) -> None:
    """Only what is in force is judged, and what the inventory says wrong is the inventory's."""
    assert bench("--purpose", "quick", site={"nccl_tests_purpose": "fast"}).code == 0
    ran = bench("--purpose", "quick", site={"nccl_tests_launcher": "ssh"})
    assert ran.code == 64
    assert "hosts.yml" in ran.err.splitlines()[0]


def test_floors_that_differ_between_nodes_cannot_be_added_to(bench: Bench, runner: Runner) -> None:
    ran = bench("--min-busbw", "alltoall=1", hosts={"n1": {"nccl_tests_min_busbw": {"all_reduce": 1}}})
    assert (ran.code, runner.calls) == (64, [])
    assert "--min-busbw: nccl_tests_min_busbw differs between the nodes" in ran.err


def test_a_failed_verdict_is_1_and_no_failed_node(bench: Bench, runner: Runner) -> None:
    bad = verdict("fail", expected=400.0, message="342.9 GB/s busbw, below 400.0")
    runner.events["nccl_tests"] = [
        event("runner_on_ok", "n1", {"bench": document(), "verdicts": [bad]}, JUDGE),
        *(event("runner_on_failed", name, {"msg": "below 400.0"}, "ansible.builtin.assert", "Pass only") for name in ("n1", "n2")),
        {"event": "playbook_on_stats", "event_data": {"failures": {"n1": 1, "n2": 1}, "processed": {"n1": 1, "n2": 1}}}]
    ran = bench("--format", "json")
    assert ran.code == 1
    assert {name: node["status"] for name, node in ran.json["nodes"].items()} == {"n1": "ok", "n2": "ok"}
    assert ran.json["verdicts"][0]["status"] == "fail"


@pytest.mark.parametrize(("status", "code"), [("pass", 0), ("skipped", 0), ("unknown", 0), ("fail", 1), ("wonderful", 1)])
def test_the_exit_code_is_the_verdicts(bench: Bench, runner: Runner, status: str, code: int) -> None:
    runner.events["nccl_tests"][0] = event("runner_on_ok", "n1", {"bench": document(), "verdicts": [verdict(status)]}, JUDGE)
    assert bench().code == code


def test_a_node_that_cannot_take_part_is_said_in_one_line(bench: Bench, runner: Runner) -> None:
    runner.events["nccl_tests"] = [
        event("runner_on_failed", "n2", {"msg": "no CUDA device on n2"}, LOOK, "Look"),
        {"event": "playbook_on_stats", "event_data": {"failures": {"n2": 1}, "processed": {"n1": 1, "n2": 1}}}]
    ran = bench("--ddp")
    assert ran.code == 1
    assert [line for line in ran.out.splitlines() if line.startswith("n2")] == ["n2 failed no CUDA device on n2 (task: Look)"]
    assert "the run ended" not in ran.out
    assert [call.playbook for call in runner.calls] == ["nccl_tests"], "no training on nodes that cannot run nccl-tests"
    assert "training benchmark is not run" in ran.err


def test_an_unreachable_node_is_3(bench: Bench, runner: Runner) -> None:
    lost = stats("n1", "n2")
    lost["event_data"]["dark"] = {"n2": 1}
    runner.events["nccl_tests"] = [event("runner_on_unreachable", "n2", {"msg": "timed out", "unreachable": True}, LOOK), lost]
    assert bench().code == 3


def test_a_run_without_a_result_is_no_pass(bench: Bench, runner: Runner) -> None:
    runner.events["nccl_tests"] = [
        event("runner_on_ok", "n1", {"changed": False}, LOOK), event("runner_on_ok", "n2", {}, LOOK), stats("n1", "n2")]
    ran = bench()
    assert ran.code == 1
    assert "the run ended without a result" in ran.out


def test_the_training_benchmark_alone(bench: Bench, runner: Runner) -> None:
    ran = bench("--ddp", "--no-nccl-tests")
    assert ran.code == 0
    assert [call.playbook for call in runner.calls] == ["ddp_benchmark"]
    assert "4 ranks on 2 nodes, nccl, 100 steps, 64 samples a rank and step" in ran.out
    assert "5120.5" in ran.out


def test_both_keep_the_verdicts_of_both(bench: Bench, runner: Runner) -> None:
    runner.events["ddp_benchmark"][0] = event(
        "runner_on_ok", "n1", {"ddp": training(), "verdicts": [verdict("fail", "ddp.values")]}, TRAINING)
    ran = bench("--ddp", "--format", "json")
    assert ran.code == 1
    assert [(item["check"], item["status"]) for item in ran.json["verdicts"]] == [("ddp.values", "fail"), ("nccl.busbw", "pass")]


def test_a_run_that_broke_off_shows_its_last_words(bench: Bench, runner: Runner) -> None:
    broken = one_run(complete=False, rc=137, tail=["n1:12:12 [0] NCCL WARN \x1b[2Jgone"])
    runner.events["nccl_tests"][0] = event(
        "runner_on_ok", "n1", {"bench": document(broken), "verdicts": [verdict("fail", "nccl.complete")]}, JUDGE)
    ran = bench()
    assert ran.code == 1
    assert "NOT complete, exit status 137" in ran.out
    assert "NCCL WARN \\u001b[2Jgone" in ran.out


def test_acceptance_validates_first_and_is_one_document(bench: Bench, runner: Runner) -> None:
    ran = bench("--purpose", "acceptance", "--format", "json")
    assert [call.playbook for call in runner.calls] == ["validate", "nccl_tests"]
    assert [item["check"] for item in ran.json["verdicts"]] == ["nccl.busbw", "port.state"]
    assert load_run(stored()[0]).bench is not None
    assert {item["check"] for item in load_run(stored()[0]).verdicts} == {"port.state", "nccl.busbw"}


def test_acceptance_goes_no_further_than_validate_where_a_node_is_away(bench: Bench, runner: Runner) -> None:
    away = event("runner_on_unreachable", "n2", {"unreachable": True, "msg": "no route to host"}, VALIDATE)
    end = stats("n1", "n2")
    end["event_data"]["dark"] = {"n2": 1}
    runner.events["validate"] = [away, end]
    ran = bench("--purpose", "acceptance")
    assert (ran.code, [call.playbook for call in runner.calls]) == (3, ["validate"])
    assert "nothing is measured on GPUs: validate did not get to its end on every node" in ran.err
