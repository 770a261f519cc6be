# SPDX-License-Identifier: GPL-3.0-or-later
"""`railwright bench --purpose burn-in` from its options to its exit code, over playbooks that answer as each test says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench_documents import document, event, one_run, training
from railwright.cli import burn_in
from railwright.cli.main import run as railwright
from railwright.events import Collector, RunOutcome
from railwright.runs import load_run

SERIALS = {"n1": "1650", "n2": "1651"}
TORCH = {"ddp_benchmark_python": "/opt/torch/bin/python3"}


def gpu(node: str, **more: Any) -> dict[str, Any]:
    counters = ("hw_thermal_us", "sw_thermal_us", "hw_thermal", "sw_thermal", "uncorrected", "corrected")
    return {"index": 0, "uuid": f"GPU-{node}", "serial": SERIALS[node], "name": "H100", "celsius": 61, "margin_celsius": 26,
            **dict.fromkeys(counters, 0), **more}


def sums(alone: str = "a") -> list[dict[str, Any]]:
    return [{"rank": rank, "node": node, "gpu": 0, "device": "H100", "uuid": None, "together": "t", "alone": alone if rank else "a"}
            for rank, node in enumerate(SERIALS)]


class Site:
    """Two nodes; a round takes as long as ``minutes`` says. ``at``: what is other in a round, by its number."""

    def __init__(self) -> None:
        self.now, self.round, self.minutes = 0.0, 0, 20.0
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.slept: list[float] = []
        self.at: dict[int, Callable[[str, str, dict[str, Any]], Any]] = {}

    def __call__(self, playbook: str, _inventory: Any, _limit: Any, variables: Any, *_rest: Any) -> RunOutcome:
        self.calls.append((playbook, dict(variables)))
        if playbook == "nccl_tests":
            self.round += 1
            self.now += self.minutes * 60
        collector = Collector()
        for node in SERIALS:
            result: dict[str, Any] = {
                "nccl_tests": {"bench": document(), "verdicts": []},
                "ddp_benchmark": {"ddp": training() | {"world_size": 2, "checksums": sums()}, "verdicts": []},
                "part_health": {"health": {
                    "gpus": [gpu(node)], "nics": [{"hca": "mlx5_0", "serial": f"MT-{node}"}],
                    "diag": {"why": "dcgmi is not installed", "results": []} if variables.get("burn_in_diag") else None}},
            }[playbook]
            result = self.at.get(self.round, lambda _playbook, _node, usual: usual)(playbook, node, result)
            kind = "runner_on_unreachable" if result.get("unreachable") else "runner_on_ok"
            action = "railwright.rdma.rdma_measure" if playbook == "part_health" else "railwright.rdma.rdma_bench"
            collector.handle(event(kind, node, result, action))
        return collector.finish()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    one = Site()
    monkeypatch.setattr("railwright.run.run_playbook", one)
    monkeypatch.setattr(burn_in.time, "monotonic", lambda: one.now)
    monkeypatch.setattr(burn_in.time, "sleep", one.slept.append)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    hosts = {name: {"rdma_rails": [{"name": "rail0", "match": {"mac": f"52:54:00:aa:bb:0{name[1]}"}, "address": f"10.10.0.{name[1]}/24"}]}
             for name in SERIALS}
    variables = {"rdma_fabric": "roce", "rdma_mtu": 9000, **TORCH}
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"vars": variables, "children": {"rdma": {"hosts": hosts}}}}))
    return one


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*words: str, burns: bool = True) -> tuple[int, str, str]:
        capsys.readouterr()
        code = railwright(["bench", "-i", str(tmp_path / "hosts.yml"), *(["--purpose", "burn-in"] if burns else []), *words])
        return (code, *capsys.readouterr())
    return call


Bench = Callable[..., tuple[int, str, str]]


def journals(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "state/railwright/burn-in").glob("*"))


def test_rounds_until_the_time_is_spent(site: Site, bench: Bench, tmp_path: Path) -> None:
    code, out, err = bench("--hours", "1", "--format", "json")
    assert code == 0, out + err
    found = json.loads(out)["burn_in"]
    assert [(row["number"], row["seconds"], row["failed"]) for row in found["rounds"]] == [(at, 1200, False) for at in (1, 2, 3)]
    assert (found["hours"], found["spent_hours"], found["repeatable"], found["stopped"]) == (1, 1, "yes", "")
    assert found["rounds"][0]["figures"] == {"all_reduce GB/s": 342.9, "samples/s": 5120.5, "hottest GPU in C": 61}
    assert {part["serial"] for part in found["parts"]} == {"1650", "1651", "MT-n1", "MT-n2"}
    one_round = ["nccl_tests", "ddp_benchmark", "part_health"]
    assert [playbook for playbook, _variables in site.calls] == ["part_health", *one_round * 3]
    first = site.calls[1][1]
    assert (first["nccl_tests_purpose"], first["ddp_benchmark_repeatable"]) == ("soak", True)
    assert [variables["burn_in_diag"] for playbook, variables in site.calls if playbook == "part_health"] == [False, True, True, False]
    assert err.count("dcgmi is not installed") == 1, "said once"
    assert "dcgmi diag was left out of this round" in err
    assert not journals(tmp_path)


def hot(playbook: str, node: str, usual: dict[str, Any]) -> dict[str, Any]:
    if playbook == "part_health" and node == "n2":
        usual["health"]["gpus"] = [gpu(node, sw_thermal_us=2_000_000)]
    return usual


def test_a_hot_gpu_fails_by_serial_and_is_reported(site: Site, bench: Bench) -> None:
    site.at = {2: hot, 3: hot}
    code, out, _err = bench("--hours", "1")
    assert code == 1
    assert "1651" in out
    run = load_run()
    assert run.burn_in is not None
    assert [row["failed"] for row in run.burn_in["rounds"]] == [False, True, False], "in the third round it was not slowed again"
    assert run.burn_in["parts"][0] == {
        "serial": "1651", "what": "GPU", "node": "n2", "name": "GPU 0 (H100)", "failures": {"gpu.thermal": 1}, "warnings": {}}
    [verdict] = [item for item in run.verdicts if item["check"] == "gpu.thermal"]
    assert verdict["message"] == ("in 1 of 3 rounds, first in round 2: too hot: clocks were lowered by the driver for 2.000 s; "
                                  "61 C, 26 below the limit, when the round had ended")
    report = Path(out.splitlines()[-1].removeprefix("report: "))
    assert "| 1651 | GPU | n2 | GPU 0 (H100) | gpu.thermal 1 | - |" in report.read_text()
    cases = {case.get("name"): case.find("failure") is not None for case in ET.parse(report.with_name("report.xml")).iter("testcase")}
    assert (cases["round 1"], cases["round 2"], cases["GPU 1651"], cases["GPU 1650"]) == (False, True, True, False)
    assert json.loads(report.with_name("report.json").read_text())["burn_in"]["repeatable"] == "yes"


def test_a_part_keeps_its_count_on_another_node(site: Site, bench: Bench) -> None:
    def moved(playbook: str, node: str, usual: dict[str, Any]) -> dict[str, Any]:
        if playbook == "part_health":
            usual["health"]["gpus"] = [gpu("n2" if node == "n1" else "n1", uncorrected=site.round if node == "n1" else 0)]
        return usual

    site.at = {1: lambda playbook, node, usual: {"health": {**usual["health"], "gpus": [gpu(node, uncorrected=int(node == "n2"))]}}
               if playbook == "part_health" else usual, 2: moved, 3: moved}
    code, out, _err = bench("--hours", "1", "--format", "json")
    part = json.loads(out)["burn_in"]["parts"][0]
    assert (code, part["serial"], part["node"], part["failures"]["gpu.ecc"]) == (1, "1651", "n1", 2)


def test_other_bits_name_the_gpu(site: Site, bench: Bench) -> None:
    def other(playbook: str, _node: str, usual: dict[str, Any]) -> dict[str, Any]:
        return {"ddp": {**usual["ddp"], "checksums": sums("b")}, "verdicts": []} if playbook == "ddp_benchmark" else usual

    site.at = {2: other}
    code, out, _err = bench("--hours", "1", "--format", "json")
    found = json.loads(out)["burn_in"]
    assert (code, found["repeatable"], found["parts"][0]["serial"]) == (1, "no", "1651")
    assert found["parts"][0]["failures"] == {"ddp.repeatable": 1}


def test_a_late_rank_is_counted_by_serial(site: Site, bench: Bench) -> None:
    def late(playbook: str, _node: str, usual: dict[str, Any]) -> dict[str, Any]:
        if playbook == "ddp_benchmark":
            usual["ddp"]["late"] = [{**training()["late"][0], "rank": 1}]
        return usual

    site.at = {1: late}
    code, out, _err = bench("--hours", "0.5", "--format", "json")
    part = json.loads(out)["burn_in"]["parts"][0]
    assert (code, part["serial"], part["failures"], part["warnings"]) == (0, "1651", {}, {"ddp.straggler": 1})


def test_an_hca_is_counted_by_serial(site: Site, bench: Bench) -> None:
    bad = {"check": "port.errors", "node": "n1", "hca": "mlx5_0", "port": 1, "subject": "rail0", "status": "fail", "expected": 0,
           "found": 9, "message": "9 errors"}
    site.at = {2: lambda playbook, _node, usual: {**usual, "verdicts": [bad]} if playbook == "nccl_tests" else usual}
    code, out, _err = bench("--hours", "0.5", "--format", "json")
    found = json.loads(out)
    assert (code, found["burn_in"]["parts"][0]["serial"], found["burn_in"]["parts"][0]["failures"]) == (1, "MT-n1", {"port.errors": 1})
    [said] = [item["message"] for item in found["verdicts"] if item["check"] == "port.errors"]
    assert said == "in 1 of 2 rounds, first in round 2: 9 errors"


def test_a_node_that_stops_answering_is_3(site: Site, bench: Bench) -> None:
    def away(_playbook: str, node: str, usual: dict[str, Any]) -> dict[str, Any]:
        return {"unreachable": True, "msg": "no route"} if node == "n2" else usual

    site.at = {2: away}
    code, out, _err = bench("--hours", "1", "--format", "json")
    found = json.loads(out)
    assert code == 3
    assert [row["failed"] for row in found["burn_in"]["rounds"]] == [False, True, False], "the next round has all nodes again"
    assert found["nodes"]["n2"] == {"status": "unreachable", "message": "in round 2: no route", "task": ""}


def test_three_rounds_without_a_result_end_it(site: Site, bench: Bench) -> None:
    def nothing(playbook: str, _node: str, usual: dict[str, Any]) -> dict[str, Any]:
        return usual if playbook == "part_health" else {"verdicts": []}

    site.at = dict.fromkeys(range(2, 9), nothing)
    code, out, err = bench("--hours", "48", "--format", "json")
    found = json.loads(out)["burn_in"]
    assert (code, len(found["rounds"]), found["stopped"]) == (1, 4, "3 rounds in a row gave no result")
    assert "the training benchmark is not run" in err
    assert site.slept == [burn_in.PAUSE_S] * 2, "not after the last"


@pytest.mark.parametrize("torn", [b"", b'{"kind":"round","numb'])
def test_stopped_and_resumed(site: Site, bench: Bench, tmp_path: Path, torn: bytes) -> None:
    def stopped(_playbook: str, _node: str, _usual: dict[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    site.at = {2: stopped}
    code, _out, err = bench("--hours", "1", "--collective", "alltoall")
    assert code == 130
    assert f"1 whole rounds are kept: railwright bench -i {tmp_path}/hosts.yml --purpose burn-in --resume goes on" in err
    [book] = journals(tmp_path)
    book.write_bytes(book.read_bytes() + torn)
    site.at = {}
    code, out, _err = bench("--resume", "--format", "json")
    found = json.loads(out)["burn_in"]
    assert (code, [row["number"] for row in found["rounds"]], found["repeatable"]) == (0, [1, 2, 3], "yes")
    assert site.calls[-2][1]["nccl_tests_collectives"] == ["alltoall"], "with the options that it was begun with"
    assert not journals(tmp_path)
    assert bench("--resume")[0] == 64


def test_resumed_while_what_was_interrupted_still_runs(site: Site, bench: Bench) -> None:
    """Seen on two H100: the nodes refuse another run for minutes, and that is no fault of theirs."""
    def stopped(_playbook: str, _node: str, _usual: dict[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    def refused(playbook: str, _node: str, usual: dict[str, Any]) -> dict[str, Any]:
        began_nothing = {"bench": document() | {"runs": [one_run() | {"rows": []}]}, "verdicts": []}
        return usual if playbook == "part_health" else began_nothing if playbook == "nccl_tests" else {"verdicts": []}

    site.at = {2: stopped}
    assert bench("--hours", "1")[0] == 130
    site.at = dict.fromkeys((3, 4), refused)
    code, out, err = bench("--resume", "--format", "json")
    assert (code, [row["failed"] for row in json.loads(out)["burn_in"]["rounds"]]) == (0, [False] * 3)
    assert err.count("nothing was measured") == 2
    assert site.slept == [burn_in.PAUSE_S] * 2


def test_the_journal_of_another_inventory(site: Site, bench: Bench, tmp_path: Path) -> None:
    site.at = {1: lambda *_asked: pytest.fail("KeyboardInterrupt")}
    with pytest.raises(pytest.fail.Exception):
        bench()
    text = (tmp_path / "hosts.yml").read_text()
    (tmp_path / "hosts.yml").write_text(text.replace("rail0", "rail7"))
    code, _out, err = bench("--resume")
    assert code == 64
    assert "is the journal of another inventory (2 nodes, other names or rails)" in err.splitlines()[-1]


@pytest.mark.parametrize(("words", "burns", "said"), [
    (["--hours", "2"], False, "--hours and --resume are those of a burn-in: give --purpose burn-in too"),
    (["--resume"], False, "--hours and --resume are those of a burn-in"),
    (["--hours", "0.01"], True, "0.05"), (["--hours", "337"], True, "336"), (["--hours", "nan"], True, "--hours"),
    (["--resume"], True, "--resume: no burn-in of this inventory was interrupted; allowed: a new one, without --resume"),
    (["--resume", "--ddp", "--hours", "2"], True, "--resume goes on with the options that the burn-in was begun with; allowed beside it"),
    (["--save-baseline", "x.yml", "--approved-by", "me"], True, "--save-baseline does not go with a burn-in"),
])
def test_bad_input(site: Site, bench: Bench, words: list[str], burns: bool, said: str) -> None:
    code, _out, err = bench(*words, burns=burns)
    assert code == 64, err
    assert said in err
    assert not site.calls


@pytest.mark.parametrize(("line", "said"), [
    ("nonsense", ":2: is damaged"), ('{"kind":"round","number":7,"seconds":1}', "rounds are missing"), ('{"kind":"round"}', "is damaged")])
def test_a_damaged_journal(site: Site, bench: Bench, tmp_path: Path, line: str, said: str) -> None:
    site.at = {1: lambda *_asked: pytest.fail("stop")}
    with pytest.raises(pytest.fail.Exception):
        bench()
    [book] = journals(tmp_path)
    book.write_text(book.read_text() + line + "\n")
    code, _out, err = bench("--resume")
    assert (code, said in err.splitlines()[-1]) == (64, True), err


def test_without_torch_it_is_unknown(site: Site, bench: Bench, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yml"
    hosts.write_text(hosts.read_text().replace(f", {json.dumps(TORCH)[1:-1]}", ""))
    code, out, err = bench("--hours", "0.05", "--format", "json")
    found = json.loads(out)["burn_in"]
    assert (code, len(found["rounds"]), found["repeatable"]) == (0, 1, "unknown")
    assert err.count("unknown, and no pass: ddp.repeatable: the training benchmark was not run") == 1
    assert "ddp_benchmark" not in [playbook for playbook, _variables in site.calls]
