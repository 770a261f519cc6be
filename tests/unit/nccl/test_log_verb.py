# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright nccl log``: what a log of any version proves, and that nothing passes of which the log says nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import nccl_logs
from nccl_tables import table
from railwright.cli.main import run as railwright
from railwright.nccl.log import judge_log, proves
from repo import ROOT

REAL = ROOT / "tests" / "fixtures" / "nccl_logs"
SCNET = yaml.safe_load((ROOT / "tests" / "fixtures" / "seeds" / "scnet.yml").read_text(encoding="utf-8"))
HALF = {"time_us": 50.0, "algbw": 10.0, "busbw": 10.0, "wrong": 0}
TABLE = table("2.19", [{"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": -1, "out_of_place": HALF, "in_place": HALF}])
VERSIONS = sorted(nccl_logs.STYLES)


def judged(text: str, *, gdr: bool = False) -> tuple[str, str, str]:
    """Statuses of the verdicts on ranks and way, and what the one on the way says; nccl.error is in test_log_errors.py."""
    ranks, way, error = judge_log(text, gdr=gdr)["verdicts"]
    assert (ranks["check"], way["check"], error["check"]) == ("nccl.ranks", "nccl.transport", "nccl.error")
    return ranks["status"], way["status"], way["message"]


@pytest.mark.parametrize("version", VERSIONS)
def test_by_the_format_strings_of_a_version(version: str) -> None:
    found = judge_log(nccl_logs.job(version), gdr=True)
    end = "unknown" if version in nccl_logs.WITHOUT_END else "pass"
    assert [item["status"] for item in found["verdicts"]] == ["pass", "pass", end], found["verdicts"]
    assert proves(found) is (end == "pass"), "without its end a log is none of a job that went well"
    assert (found["nccl"], found["ranks"], found["nodes"], found["failures"]) == ([f"{version}+cuda12.4"], 4, 2, [])
    assert found["transport"]["connections"] == {"NET/IB/GDRDMA": 4, nccl_logs.STYLES[version].way: 2}
    hca = "mlx5_0+mlx5_1:1" if version == "2.21.5" else "mlx5_0:1"
    assert found["transport"]["hcas"] == {rank: [f"n{rank // 2 + 1} {hca}"] for rank in range(4)}
    assert "all NET/IB/GDRDMA over RoCE" in found["verdicts"][1]["message"]


@pytest.mark.parametrize("version", VERSIONS)
def test_sockets_fail_where_hcas_are_there_and_where_not(version: str) -> None:
    hcas = "mlx5_0+mlx5_1:1, mlx5_2:1" if version == "2.21.5" else "mlx5_0:1, mlx5_1:1"
    words = f"NCCL went over Socket, and there is {hcas}; chosen by NCCL itself or NCCL_NET, which it does not write down"
    assert judged(nccl_logs.job(version, net="Socket", gdr=False))[1:] == ("fail", words)
    assert judged(nccl_logs.job(version, net="Socket", gdr=False, devices=False))[2].startswith(
        "NCCL went over Socket: it found no RDMA device")


@pytest.mark.parametrize("version", VERSIONS)
def test_host_memory_is_said_and_fails_where_asked_for(version: str) -> None:
    text = nccl_logs.job(version, gdr=False)
    ranks, way, words = judged(text)
    assert (ranks, way) == ("pass", "pass")
    assert "4 of them through host memory, without GPUDirect RDMA" in words
    assert judged(text, gdr=True)[1] == "fail"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("ranks", [(0,), (0, 1), (0, 1, 2), (1, 2, 3)])
def test_a_rank_that_is_missing_passes_nothing(version: str, ranks: tuple[int, ...]) -> None:
    found = judge_log(nccl_logs.job(version, ranks=ranks), gdr=False)
    assert [item["status"] for item in found["verdicts"]] == ["unknown", "unknown", "unknown"]
    assert found["verdicts"][0]["message"] == f"only {len(ranks)} of 4 ranks of a communicator are in the log"
    assert not proves(found)
    sockets = nccl_logs.job(version, ranks=ranks, net="Socket", gdr=False)
    assert judged(sockets)[1] == "fail", "what is there is wrong, whatever is missing"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_node_that_names_no_connection_passes_nothing(version: str) -> None:
    kept = [line for line in nccl_logs.job(version).splitlines() if not (line.startswith("n2:") and " via NET/" in line)]
    assert judged("\n".join(kept))[1:] == ("unknown", judged("\n".join(kept))[2])
    assert judged("\n".join(kept))[2].startswith("the logs of n2 name no network connection; of the others: 2 connections")


def test_the_lines_of_the_scnet_document() -> None:
    lines = [item["text"] for item in SCNET["items"] if item["id"] in ("122", "123", "124", "125")]
    found = judge_log("\n".join(lines), gdr=False)
    assert found["transport"]["connections"] == {"NET/IB": 1, "P2P": 1}
    ranks, way, _error = found["verdicts"]
    assert (ranks["status"], way["status"], way["found"]) == ("unknown", "pass", "NET/IB")
    assert "through host memory, without GPUDirect RDMA" in way["message"]
    assert not proves(found), "four lines do not say how many ranks there are"
    assert judged("\n".join(lines), gdr=True)[1] == "fail"
    assert judged("\n".join(lines[:3]))[1] == "unknown", "P2P/IPC and rings prove nothing"


def test_a_real_log_of_two_h100_over_sockets() -> None:
    found = judge_log((REAL / "two_h100_nccl_2.28.9_sockets.txt").read_text(encoding="utf-8"), gdr=False)
    assert (found["nccl"], found["ranks"], found["nodes"], found["complete"]) == (["2.28.9+cuda13.0"], 2, 2, True)
    assert [item["status"] for item in found["verdicts"]] == ["pass", "fail", "pass"]
    assert found["transport"]["connections"] == {"NET/Socket": 8}


def test_a_real_log_of_two_h100_in_one_node() -> None:
    found = judge_log((REAL / "two_h100_nccl_2.28.9_shm.txt").read_text(encoding="utf-8"), gdr=False)
    assert [item["status"] for item in found["verdicts"]] == ["pass", "warn", "pass"]
    assert "connections inside the node go through host memory (SHM), such as of ranks 0 and 1" in found["verdicts"][1]["message"]
    assert proves(found), "one node sends nothing between nodes"


@pytest.mark.parametrize(("end", "status", "words"), [
    ("good", "pass", "the job ended"), ("killed", "fail", "killed (SIGKILL)"), ("slept", "fail", "rank 1 on gpu1 called 10 collectives")])
def test_real_logs_of_two_h200_of_one_node(end: str, status: str, words: str) -> None:
    """One rank of two was killed, or slept beyond torch's watchdog."""
    found = judge_log((REAL / f"two_h200_nccl_2.28.9_{end}.txt").read_text(encoding="utf-8"), gdr=False)
    assert [(item["check"], item["status"]) for item in found["verdicts"]] == [
        ("nccl.ranks", "pass"), ("nccl.transport", "pass"), ("nccl.error", status)]
    assert words in found["verdicts"][2]["message"]


@pytest.mark.parametrize(("before", "tag"), [
    ("", ""), ("", "[2026-01-02 03:04:05] "), ("[1,0]<stdout>:", ""), ("0: ", ""), ("[rank0]:", ""), ("2026-01-02T03:04:05Z ", "")])
def test_what_launchers_and_clocks_put_before_a_line(before: str, tag: str) -> None:
    text = "".join(before + line + "\n" for line in nccl_logs.job("2.27.7", time=tag).splitlines())
    assert judged(text, gdr=True)[:2] == ("pass", "pass")
    assert judge_log(text, gdr=True)["transport"]["hcas"][0] == ["n1 mlx5_0:1"]


def test_a_line_that_sticks_to_a_row_is_of_its_host() -> None:
    stuck = "        1024           256     float     sum      -1" + nccl_logs.rank("2.27.7", 0)
    assert judge_log(stuck + nccl_logs.job("2.27.7", ranks=(1, 2, 3)), gdr=False)["nodes"] == 2


@pytest.mark.parametrize("name", ["IBext_v8", "AWS Libfabric", "UCX"])
def test_a_plugin_is_named(name: str) -> None:
    ranks, way, words = judged(nccl_logs.job("2.21.5", net=name))
    assert (ranks, way) == ("pass", "pass")
    assert words.endswith(f"chosen by a plugin, {name}")


def test_a_network_that_nobody_knows_is_unknown() -> None:
    assert judged(nccl_logs.job("2.21.5", net="Mystery"))[1] == "unknown"


def test_the_environment_that_turned_rdma_off_is_named() -> None:
    off = "n1:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    text = "".join(line + "\n" for line in nccl_logs.job("2.18.6", net="Socket", gdr=False).splitlines() if "NET/IB" not in line)
    assert judged(off + text)[2].startswith("NCCL went over Socket: NCCL_IB_DISABLE=1; chosen by")
    assert judged(off + text)[2].endswith("(NCCL_IB_DISABLE=1)")


def test_a_plugin_that_the_environment_names_is_told() -> None:
    for line in ("NET/Plugin: Plugin name set by env to libnccl-net-x.so", "Plugin name set by env to libnccl-net-x.so",
                 "NCCL_NET_PLUGIN set by environment to libnccl-net-x.so"):
        text = f"n1:1:2 [0] NCCL INFO {line}\nn1:1:2 [0] NCCL INFO TUNER/Plugin: Plugin name set by env to libother.so\n"
        assert judge_log(text, gdr=False)["chosen_by"].endswith("(NCCL_NET_PLUGIN=libnccl-net-x.so)")


def test_two_versions_of_nccl_in_one_job_fail() -> None:
    text = nccl_logs.job("2.21.5") + "n2:103:203 [1] NCCL INFO NCCL version 2.18.6+cuda12.4\n"
    assert judged(text)[0] == "fail"


def test_a_log_before_any_collective_proves_nothing() -> None:
    text = "\n".join(line for line in nccl_logs.job("2.30.7").splitlines() if " via " not in line)
    assert judged(text)[1:] == ("unknown", judged(text)[2])
    assert "names no network connection" in judged(text)[2]


@pytest.mark.parametrize("text", [
    "", "hello\n", "NCCL version 2.21.5+cuda12.4\n", "n1:1:2 [0] x.cc:1 NCCL WARN via NET/IB/0/GDRDMA\n", TABLE])
def test_without_info_lines_no_verdict_passes(text: str) -> None:
    found = judge_log(text, gdr=False)
    assert [item["status"] for item in found["verdicts"]] == ["unknown", "unknown", "pass" if text == TABLE else "unknown"]
    assert proves(found) is (text == TABLE), "a table is judged by itself, as ever"


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = railwright(["nccl", *arguments, "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_files_of_one_job_together(write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]) -> None:
    files = [write(f"nccl.{number}.log", nccl_logs.job("2.21.5", ranks=(number,))) for number in range(4)]
    assert said(["log", *files], capsys)[0] == 0
    assert said(["log", *files[:3]], capsys)[0] == 4
    code, found = said(["log", write("out.log", TABLE), *files], capsys)
    assert (code, len(found["rows"]), found["complete"]) == (0, 1, True)
    assert said(["log", write("cut.log", TABLE[:TABLE.index("# Out of")]), *files], capsys)[1]["failures"] == ["the run is not complete"]


def test_it_says_the_same_to_people(write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert railwright(["nccl", "log", write("x.log", nccl_logs.job("2.10.3", net="Socket", gdr=False))]) == 1
    out = capsys.readouterr().out
    assert "4 connections via NET/Socket" in out
    assert "nccl.transport" in out
    assert "time us" not in out, "a log without nccl-tests has no table"


def test_the_earlier_name_says_the_same(write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]) -> None:
    path = write("x.log", TABLE + nccl_logs.job("2.21.5"))
    assert said(["parse", path], capsys) == said(["log", path], capsys)


def test_input_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert railwright(["nccl", "log", str(tmp_path / "none.log")]) == 64
    assert railwright(["nccl", "log", str(tmp_path)]) == 64
    assert railwright(["nccl", "log"]) == 64


def test_files_that_are_too_large_together_are_refused(write: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railwright.nccl.log_files.TOGETHER", 1500)
    path = write("x.log", "x" * 1000)
    assert railwright(["nccl", "log", path]) == 4
    assert railwright(["nccl", "log", path, path]) == 64


EVIL = [
    b"\xff\xfe\x00NCCL INFO \x80 via NET/\n", b"n1:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[0] via \n",
    b"n1:1:2 [0] NCCL INFO Channel " + b"9" * 5000 + b" : 0[0] -> 1[0] [send] via NET/IB/0\n",
    b"n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 0 cudaDev 0 - Init COMPLETE\n",
    b"n1:1:2 [0] NCCL INFO comm 0x1 rank 999999999 nranks 999999999 cudaDev 0 - Init COMPLETE\n",
    b"n1:1:2 [0] NCCL INFO NET/IB : Using [0]={[0] a:1/IB, [1] \x1b[2Jb:1/IB [1]={{}\n",
    b"\x1b]0;t\x07n1:1:2 [0] NCCL INFO Using network \x1b[31mIB\n", "n1:1:2 [0] NCCL INFO Using network \u202eBI\n".encode(),
    b"n1:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to " + b"\x07" * 300 + b"\n",
]


@pytest.mark.parametrize("data", [*EVIL, b"".join(EVIL)])
def test_hostile_bytes_pass_nothing(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(data)
    assert railwright(["nccl", "log", str(path)]) in (1, 4)
    out = capsys.readouterr().out
    assert "\x1b[2J" not in out
    assert "\u202e" not in out
    code, found = said(["log", str(path)], capsys)
    assert code in (1, 4)
    assert all(item["status"] != "pass" for item in found["verdicts"] if item["check"] == "nccl.ranks")


@pytest.mark.parametrize("piece", ["a:1:", "-1n:1:2 [0] NCCL INFO ", "[0]={", "NCCL INFO Channel 00 : 0 1 via NET/ ", "n1.a-b", "[1] "])
def test_a_line_without_end_costs_no_time(piece: str) -> None:
    began = time.monotonic()
    judge_log(piece * (2_000_000 // len(piece)), gdr=False)
    assert time.monotonic() - began < 60


def test_a_rail_that_failed_over_is_no_pass() -> None:
    """The line as NVIDIA/nccl 2157 quotes it."""
    lost = ("[2026-05-04 19:55:27] n1:534134:535429 [1] transport/net_ib/p2p_resiliency.cc:325 NCCL WARN NET/IB: "
            "ncclIbResiliencyHandleDeviceFailure: Device 0 marked as failed. Initiating recovery? Yes (send comm=0x7f03e808)")  # fmt: skip
    text = nccl_logs.job("2.30.7")
    assert judged(text)[1] == "pass"
    ranks, way, words = judged(f"{text}{lost}\n")
    assert (ranks, way) == ("pass", "fail")
    assert words.startswith("NCCL lost device 0 of n1 while the job ran, and went on over another HCA")
    assert judged(f"{text}{lost.replace('marked as failed', 'was recovered')}\n")[1] == "pass"
