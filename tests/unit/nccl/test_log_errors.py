# SPDX-License-Identifier: GPL-3.0-or-later
"""``nccl.error`` of ``railwright nccl log``: what a job died of, by recorded logs and by the format strings of NCCL.

The logs of an H200 are recordings (tests/fixtures/README.md says of what). Lines of InfiniBand and RoCE are written here by the format
strings of NCCL's tags (transport/net_ib.cc, misc/ibvwrap.cc): the machine of the recordings has no HCA.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nccl_logs
from nccl_tables import table
from railwright.cli.main import run as railwright
from railwright.exitcodes import ExitCode
from railwright.nccl.errors import KEPT
from railwright.nccl.line_table import KINDS
from railwright.nccl.line_table import table as line_table
from railwright.nccl.log import exit_code, judge_files, judge_log
from railwright.nccl.log_files import LONGEST, lines_of_files
from repo import ROOT

REAL = ROOT / "tests" / "fixtures" / "nccl_logs"
CLOSED = "the peer's process ended while this rank still used the connection"
MEMORY = "the program needs more GPU memory than is free"
NO_MEMORY = "out of memory: the GPU has no memory left"
ENDED = "no error; the job ended"
NOT_SEEN = "end not seen: "
SILENT = "rank 1 on gpu-a02 reported no error while others did"
BEHIND = "rank 1 on gpu-a02 called 100 collectives, others up to 101"
RECORDED = [
    ("2.28.9_good", "pass", ENDED), ("2.28.9_ib_disable", "pass", ENDED), ("2.28.9_not_destroyed", "pass", "no error, 1 benign"),
    ("2.28.9_killed", "fail", f"{SILENT}; gpu-a01 rank 0: {CLOSED}; 2 more listed; next: railwright check gpu-a02"),
    ("2.28.9_killed_warn_only", "fail", f"gpu-a01, peer 192.0.2.2: {CLOSED}"),
    ("2.28.9_sigterm", "fail", f"{SILENT}; gpu-a01 rank 0: {CLOSED}"),
    ("2.28.9_hard_exit", "fail", f"rank 0 on gpu-a01 reported no error while others did; gpu-a02 rank 1: {CLOSED}"),
    ("2.28.9_slept", "fail", f"{BEHIND}; gpu-a01 rank 0: a rank did not join the collective in time; 1 more listed"),
    ("2.28.9_torch_oom", "fail", f"gpu-a02 rank 1: {MEMORY}; next: "), ("2.28.9_nccl_oom", "fail", f"gpu-a02 rank 1: {NO_MEMORY}; next: "),
    ("2.28.9_exception", "fail", "gpu-a02 rank 1: an exception of the program ended this rank"),
    ("2.28.9_illegal_access", "fail", "gpu-a02 rank 1: illegal memory access"),
    ("2.28.9_device_assert", "fail", "gpu-a02 rank 1: a kernel's"),
    ("2.28.9_sizes_differ", "fail", "gpu-a01 rank 0, peer 192.0.2.2: two ranks call a collective with different sizes"),
    ("2.28.9_wrong_interface", "fail", "gpu-a01: no interface fits NCCL_SOCKET_IFNAME on this node"),
    ("2.28.9_no_hca", "fail", "gpu-a01: the network that NCCL_NET or NCCL_NET_PLUGIN asks for cannot be used on this node"),
    ("2.28.9_wrong_algorithm", "fail", "gpu-a02 rank 1: a variable of NCCL has an invalid value; next: railwright nccl lint --env"),
    ("2.28.9_same_gpu", "fail", "gpu-a01 rank 1: two ranks use one GPU"), ("2.28.9_peer_absent", "fail", "not all ranks started"),
    ("2.28.9_and_2.32.3", "fail", "gpu-a01 rank 0: two ranks load different releases of NCCL"),
    ("2.28.9_tests_p2p", "pass", ENDED), ("2.28.9_tests_cut", "unknown", NOT_SEEN),
    ("2.28.9_tests_too_large", "fail", f"gpu-a01 rank 0: {NO_MEMORY}"),
    ("2.32.3_good", "unknown", NOT_SEEN), ("2.32.3_not_destroyed", "unknown", NOT_SEEN), ("2.32.3_tests_cut", "unknown", NOT_SEEN),
    ("2.32.3_tests_p2p", "pass", "no error, 1 benign"), ("2.32.3_tests_too_large", "pass", "no error, 1 benign"),
    ("2.32.3_killed", "fail", SILENT), ("2.32.3_slept", "fail", BEHIND),
    ("2.32.3_torch_oom", "fail", f"gpu-a02 rank 1: {MEMORY}"), ("2.32.3_nccl_oom", "fail", f"gpu-a02 rank 1: {NO_MEMORY}"),
    ("2.32.3_illegal_access", "fail", "gpu-a02 rank 1: illegal"),
    ("2.32.3_sizes_differ", "fail", "gpu-a01 rank 0, peer 192.0.2.2: two ranks call"),
    ("2.32.3_wrong_interface", "fail", "gpu-a01: no interface"), ("2.32.3_no_hca", "fail", "gpu-a01: the network"),
    ("2.32.3_wrong_algorithm", "fail", "gpu-a01 rank 0: a variable"), ("2.32.3_same_gpu", "fail", "gpu-a01 rank 1: two ranks use one GPU"),
    ("2.32.3_torchrun_killed", "fail", "gpu-a01: killed (SIGKILL)"), ("2.32.3_torchrun_oom", "fail", f"gpu-a01 rank 1: {MEMORY}"),
]
HEALTHY = "".join(line + "\n" for line in nccl_logs.job("2.27.7").splitlines() if "Destroy" not in line)
WHOLE = nccl_logs.job("2.27.7")
WARN = "[2026-11-29 03:00:00] n1:100:300 [0] transport/net_ib.cc:1 NCCL WARN "
RETRY = "retry exceeded"
PEER = "NET/IB: Got completion from peer 192.0.2.1<4711> with status="
WATCHDOG = ("[rank3]:[E1129 03:00:00.000000001 ProcessGroupNCCL.cpp:1] [Rank 3] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1000) ran for 1001 milliseconds")
GID = "vendor err 129 (Send) localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_3"


def error(text: str) -> dict[str, Any]:
    return next(item for item in judge_log(text, gdr=False)["verdicts"] if item["check"] == "nccl.error")


def test_every_recording_is_in_the_table() -> None:
    assert {f"h200_nccl_{name}.txt" for name, _status, _words in RECORDED} == {path.name for path in REAL.glob("h200_*.txt")}


@pytest.mark.parametrize(("name", "status", "words"), RECORDED)
def test_a_recorded_log_names_its_cause(name: str, status: str, words: str) -> None:
    found = judge_files(lines_of_files([REAL / f"h200_nccl_{name}.txt"]), gdr=False)
    verdict = found["verdicts"][2]
    assert (verdict["check"], verdict["status"]) == ("nccl.error", status)
    assert verdict["message"].startswith(words), verdict["message"]
    assert not [item["text"] for item in found["errors"] if item["kind"] == "unknown"], "every line of a recording has its row"
    assert exit_code(found) is ExitCode.FAILED or status != "fail"


@pytest.mark.parametrize(("line", "means", "more"), [
    (f"{PEER}12 opcode=0 len=0 {GID}", f"{RETRY}: the peer is gone, or packets are lost (PFC/ECN, GID index, MTU, cable)",
     {"peer": "192.0.2.1", "hca": "mlx5_3", "status": "12", "rank": 0, "node": "n1"}),
    (f"{PEER}IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_RDMA_WRITE(1) reqSize=0 vendor_err=129 hca mlx5_3", RETRY, {"status": "12"}),
    ("NET/IB : Got completion from peer 192.0.2.1<4711> with error 12, opcode 32715, len 0, vendor err 129", RETRY, {"status": "12"}),
    (f"{PEER}4 opcode=0 len=0 vendor err 81 (Recv)", "local protection error", {"status": "4"}),
    (f"{PEER}10 opcode=0 len=0 vendor err 136 (Send)", "remote access error", {"status": "10"}),
    (f"{PEER}11 opcode=0 len=0 vendor err 137 (Send)", "remote operation error", {"status": "11"}),
    (f"{PEER}21 opcode=0 len=0 vendor err 0 (Send)", "an error completion of the HCA", {"status": "21"}),
    ("NET/IB : mlx5_5:1 Got non-fatal async event: port error(10)", "a port of the HCA lost its link", {"hca": "mlx5_5"}),
    ("NET/IB : Got async event : port error", "a port of the HCA lost its link", {}),
    ("NET/IB : mlx5_0:1 async fatal event on QP (0x7f): local work queue catastrophic error", "the HCA reported a", {"hca": "mlx5_0"}),
    ("Call to ibv_modify_qp failed with 101 Network is unreachable, on dev mlx5_2:1, curr state INIT, next state RTR",
     "network is unreachable", {"status": "101", "hca": "mlx5_2"}),
    ("Call to ibv_modify_qp failed with error Connection timed out errno 110", "timed out: the peer's address", {"status": "110"}),
    ("Call to ibv_modify_qp failed with error Connection timed out", "timed out: the peer's address on this rail", {}),
    ("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12", "cannot allocate memory: locked", {"status": "12"}),
    ("Call to ibv_reg_mr failed with error Bad address", "bad address: GPU memory cannot be registered", {}),
    ("Call to ibv_reg_mr failed", "memory cannot be registered with the HCA", {}),
    ("Call to ibv_create_qp failed", "the RDMA driver refused a call", {}),
    ("Cuda failure 802 'system not yet initialized'", "system not yet initialized: the Fabric Manager does not run", {"status": "802"}),
    ("Cuda failure 'system not yet initialized'", "system not yet initialized: the Fabric Manager does not run", {}),
    ("Error: failed to extend /dev/shm/nccl-abc to 33030528 bytes, error: No space left on device (28)", "/dev/shm is full", {}),
    ("Mismatched NCCL version detected : rank 1 version 22809 rank 0 version 23203", "two ranks load different releases", {}),
    ("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 801 'x'.", "multicast over NVLink", {}),
])
def test_a_line_of_nccl_by_its_format_string_is_a_cause(line: str, means: str, more: dict[str, Any]) -> None:
    found = judge_log(f"{HEALTHY}{WARN}{line}\n", gdr=False)
    verdict, (item,) = found["verdicts"][2], found["errors"]
    assert (verdict["status"], exit_code(found)) == ("fail", ExitCode.FAILED)
    assert means in verdict["message"]
    assert item["means"].startswith(means)
    assert {name: item[name] for name in more} == more
    assert item["next"], "every cause has a next step"


@pytest.mark.parametrize(("line", "means"), [
    ("NVRM: Xid (PCI:0000:1b:00): 79, pid=1, name=python3, GPU has fallen off the bus.", "Xid 79"),
    ("Nov 29 03:00:00 gpu017 kernel: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.", "gpu017: Xid 79"),
    ("Nov 29 03:00:00 gpu017 kernel: Out of memory: Killed process 77 (python3) total-vm:1kB", "gpu017: host memory ran out"),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0.", "host memory ran out"),
    ("srun: error: gpu017: task 3: Out Of Memory", "gpu017 rank 3: the process of this rank ended by a signal"),
    ("srun: error: gpu017: tasks 3-7: Exited with exit code 1", "gpu017 rank 3: the process of this rank ended with an error"),
    ("slurmstepd: error: *** JOB 4711 ON gpu017 CANCELLED AT 2026-11-29T03:00:00 DUE TO TIME LIMIT ***", "gpu017: the scheduler ended"),
    ("slurmstepd: error: *** STEP 4711.0 ON gpu017 CANCELLED AT 2026-11-29T03:00:00 ***", "gpu017: the job was cancelled"),
    ("mpirun noticed that process rank 3 with PID 99 on node gpu017 exited on signal 9 (Killed).", "gpu017 rank 3: killed (SIGKILL)"),
    ("[rank3]: ncclInternalError: Internal check failed.", "rank 3: NCCL returned an error to the program"),
    (WATCHDOG, "rank 3: a rank did not join"),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 GiB.", MEMORY),
])
def test_a_line_of_kernel_scheduler_or_torch_is_a_cause(line: str, means: str) -> None:
    found = error(f"step 1 loss 2.0\n{line}\n")
    assert found["status"] == "fail"
    assert means in found["message"], found["message"]


@pytest.mark.parametrize("line", [
    "NET/IB : mlx5_0:1 GID table changed", "NET/IB : mlx5_0:1 Got non-fatal async event: port active(9)", "NCCL_BUFFSIZE DEPRECATED",
    'Missing "iommu=pt" from kernel command line', "RMA/Socket : rma_socket requires GDRCopy", "Cuda failure 'driver shutting down'"])
def test_what_healthy_jobs_write_is_benign(line: str) -> None:
    found = judge_log(f"{WARN}{line}\n{WHOLE}", gdr=False)
    assert [item["kind"] for item in found["errors"]] == ["benign"]
    assert (found["verdicts"][2]["status"], exit_code(found)) == ("pass", ExitCode.OK)


def test_the_warnings_at_the_end_of_a_finished_test_are_benign() -> None:
    """The texts of deepseek-ai/DeepEP issue 41: the test went well, and its proxies complain while they close."""
    lines = ["proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable",
             "proxy.cc:1497 NCCL WARN [Service thread] Could not receive type from localRank 0, res=3, closed=0",
             "proxy.cc:1521 NCCL WARN [Proxy Service 0] Failed to execute operation Close from rank 0, retcode 3"]
    text = "".join(f"n1:100:300 [0] {line}\n" for line in lines)
    found = judge_log(WHOLE + text, gdr=False)
    assert {item["kind"] for item in found["errors"]} == {"benign"}
    assert exit_code(found) is ExitCode.OK
    assert error(HEALTHY + text)["message"].startswith(NOT_SEEN)
    assert error(f"{HEALTHY}n1:100:300 [0] {lines[0]}\n")["status"] == "unknown", "without a rank that closes, the cause is elsewhere"


def test_a_flushed_completion_is_a_consequence() -> None:
    flushed, gone = f"{WARN}{PEER}5 opcode=0 len=0 vendor err 249 (Recv)\n", f"{WARN}{PEER}12 opcode=0 len=0 {GID}\n"
    alone = judge_log(HEALTHY + flushed, gdr=False)
    assert alone["errors"][0]["kind"] == "consequence"
    assert alone["verdicts"][2]["status"] == "unknown", "exit 1 needs a cause"
    assert "the cause is not in this log: add the logs of the other ranks" in alone["verdicts"][2]["message"]
    assert exit_code(alone) is ExitCode.UNJUDGED
    both = judge_log(HEALTHY + flushed + gone, gdr=False)
    assert "retry exceeded" in both["verdicts"][2]["message"]


def test_the_earliest_cause_goes_before_consequences() -> None:
    text = HEALTHY + "".join(
        f"[2026-11-29 03:00:{second:02d}] n{node}:{pid}:300 [0] transport/net_ib.cc:1 NCCL WARN {line}\n" for second, node, pid, line in (
            (40, 1, 100, f"{PEER}12 opcode=0 len=0 {GID}"), (30, 2, 103, "NET/IB : mlx5_1:1 Got non-fatal async event: port error(10)"),
            (35, 2, 102, "Call to ibv_create_qp failed")))
    found = judge_log(text, gdr=False)
    assert [item["time"] for item in found["errors"]] == ["11-29 03:00:30", "11-29 03:00:35", "11-29 03:00:40"]
    assert found["verdicts"][2]["message"] == (
        "n2 rank 3, mlx5_1: a port of the HCA lost its link while the job ran; 1 more listed; next: railwright check n2")


def test_the_peer_of_an_address_is_named_where_one_host_announced_it() -> None:
    text = HEALTHY.replace("eth0:192.0.2.1<0>", "eth0:192.0.2.9<0>").replace(
        "n2:102:202 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.9<0>", "n2:102:202 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.1<0>")
    (item,) = judge_log(f"{text}{WARN}{PEER}12 opcode=0 len=0 {GID}\n", gdr=False)["errors"]
    assert (item["peer"], item["peer_node"]) == ("192.0.2.1", "n2")


def test_an_unlisted_line_is_unknown_with_its_text() -> None:
    found = judge_log(f"{HEALTHY}{WARN}The flux capacitor of comm 0x7f is at 87 of 88\n", gdr=False)
    verdict = found["verdicts"][2]
    assert (verdict["status"], exit_code(found)) == ("unknown", ExitCode.UNJUDGED)
    assert verdict["message"] == "n1 rank 0: this release does not know the line: The flux capacitor of comm 0x7f is at 87 of 88"


def test_a_cause_in_a_job_that_ended_well_only_warns() -> None:
    found = judge_log(f"{WARN}NET/IB : mlx5_5:1 Got non-fatal async event: port error(10)\n{WHOLE}", gdr=False)
    assert (found["verdicts"][2]["status"], exit_code(found)) == ("warn", ExitCode.OK)
    assert "the job ended well all the same" in found["verdicts"][2]["message"]


def test_a_caught_exception_is_no_cause() -> None:
    """Only torch's hook, for exceptions that nobody caught, puts the rank before a line."""
    text = 'Traceback (most recent call last):\n  File "/opt/job/train.py", line 7\nValueError: bad sample\n'
    assert error(HEALTHY + text)["status"] == "unknown"
    assert error(WHOLE + text)["status"] == "unknown"
    uncaught = "".join(f"[rank1]: {line}\n" for line in text.splitlines())
    assert error(HEALTHY + uncaught)["status"] == "fail"
    assert not judge_log(f"{WHOLE}step 3 ValueError: no traceback\n", gdr=False)["errors"]


HALF = {"time_us": 50.0, "algbw": 10.0, "busbw": 10.0, "wrong": 0}
OLD = ("#                                             out-of-place                    in-place\n"
       "#       size         count    type   time   algbw   busbw     error     time   algbw   busbw     error\n"
       "     1048576        262144   float  50.00   10.00   10.00     0e+00    50.00   10.00   10.00     0e+00\n"
       " Out of bounds values : 0 OK\n Avg bus bandwidth    : 10.0 \n")


@pytest.mark.parametrize("text", [OLD, OLD + WHOLE, table("2.19", [{"size": 1024, "count": 256, "type": "float", "redop": "sum", "root": -1,
                                                                    "out_of_place": HALF, "in_place": HALF}])])
def test_a_complete_table_of_any_age_is_an_end(text: str) -> None:
    found = judge_log(text, gdr=False)
    assert (found["complete"], found["ended"], found["verdicts"][2]["status"], exit_code(found)) == (True, True, "pass", ExitCode.OK)


@pytest.mark.parametrize("name", ["h200_nccl_2.28.9_tests_p2p", "h200_nccl_2.32.3_tests_p2p", "two_h100_nccl_2.28.9_shm"])
def test_a_recorded_run_on_one_host_is_complete_and_passes(name: str) -> None:
    found = judge_files(lines_of_files([REAL / f"{name}.txt"]), gdr=False)
    assert (found["complete"], exit_code(found)) == (True, ExitCode.OK)


def test_a_table_without_its_end_is_no_pass_and_no_failure() -> None:
    found = judge_log(OLD[:OLD.index(" Out of")] + HEALTHY, gdr=False)
    assert (found["failures"], exit_code(found)) == (["the run is not complete"], ExitCode.UNJUDGED)


def test_every_row_has_a_kind_a_source_and_a_next_step() -> None:
    found = line_table()
    for row, _pattern in found.nccl + found.text:
        assert row.source, row.name
        assert row.by in {*found.values, "xids"} if row.by else row.kind in KINDS, row.name
        assert row.by or row.next or row.kind in ("benign", "consequence"), row.name
    for name, values in found.values.items():
        assert values[-1].value == "", f"{name} ends with the row for every other value"
        assert all(item.kind in KINDS and (item.next or item.kind in ("benign", "consequence")) for item in values), name


@pytest.mark.parametrize("line", [
    f"{WARN}\x1b[2J\x1b]0;x\x07NET/IB : a\u202eb", f"{WARN}{PEER}12" + "9" * 4000, f"$(reboot):1:1 [0] x.cc:1 NCCL WARN {PEER}12 opcode=0",
    f"{WARN}NET/IB: Got completion from peer `reboot`<1> with status=12 opcode=0", f"{WARN}Cuda failure 2 '{'A' * 100000}'",
    "[rank99999999999999999999]: Traceback (most recent call last):\n[rank99999999999999999999]: E" + "x" * 100000 + "Error: y",
    "Last error:\n" + "x" * 100000, f"{WARN}Got completion from peer " + "[" * 100000, "NVRM: Xid (PCI:0000:1b:00): 9999, \u2028x"])
def test_hostile_values_are_bounded_and_printable(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.log"
    path.write_text(f"{HEALTHY}{line}\n", encoding="utf-8")
    assert railwright(["nccl", "log", str(path)]) != 0
    out = capsys.readouterr().out
    assert "\x1b[2J" not in out
    assert "\u202e" not in out
    railwright(["nccl", "log", str(path), "--format", "json"])
    for item in json.loads(capsys.readouterr().out)["errors"]:
        assert all(not isinstance(value, str) or (value.isprintable() and len(value) <= 400) for value in item.values())
        assert item["node"] is None or re.fullmatch(r"\w[\w.-]{0,62}", item["node"])
        assert "`" not in (item["next"] or "")


def test_many_different_lines_are_counted_and_not_kept() -> None:
    text = "".join(f"{WARN}{chr(97 + number // 26)}{chr(97 + number % 26)} is odd\n" for number in range(KEPT + 50))
    found = judge_log(HEALTHY + text, gdr=False)
    assert len(found["errors"]) <= KEPT
    assert found["errors_left_out"] >= 50


def test_lines_across_chunks_and_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railwright.nccl.log_files.CHUNK", 7)
    path = tmp_path / "x.log"
    path.write_bytes("one\r\ntwo ü\nthr".encode() + b"\xff\xc3")
    assert [line for lines in lines_of_files([path]) for line in lines if line] == ["one", "two ü", "thr\ufffd\ufffd"]
    monkeypatch.setattr("railwright.nccl.log_files.CHUNK", 1024 * 1024)
    path.write_text("x" * 3_000_000, encoding="utf-8")
    assert [len(line) for lines in lines_of_files([path]) for line in lines] == [LONGEST]


def test_it_says_the_cause_to_people(write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]) -> None:
    path = write("train.log", f"{HEALTHY}{WARN}{PEER}12 opcode=0 len=0 {GID}\n")
    assert railwright(["nccl", "log", path]) == 1
    out = capsys.readouterr().out
    assert "lead        11-29 03:00:00 n1 rank 0 mlx5_3 peer 192.0.2.1: NET/IB: Got completion from peer" in out
    assert "retry exceeded: the peer is gone" in out
    assert "next: the log of the peer, then railwright check n1" in out
