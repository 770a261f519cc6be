# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare, probe, start, poll, stop and collect on this machine: real processes, and stand-ins (shell scripts) for nccl-tests' programs.

What the stand-ins print has the form of nccl-tests' source (tests/lib/nccl_tables.py); nothing here was recorded on a GPU.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import job, processes, run_directory
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.collect import collect, fitting
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.dumps import nccl_settings
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.job import Launch, begin, poll, run_probe, stop
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.readiness import (
    Wanted,
    ask_cuda,
    net_plugins,
    networks,
    program,
)
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.text_report import parse
from ansible_collections.railwright.rdma.plugins.module_utils.observe.mpi import Mpi
from inspector_lines import entry
from nccl_tables import table

HOST = Host()
USER = pwd.getpwuid(os.geteuid()).pw_name
OURS = os.geteuid()
GIB = 1 << 30
HALF = {"time_us": 5000.0, "algbw": 214.75, "busbw": 214.75, "wrong": 0}
ROWS = [{"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": -1, "out_of_place": HALF, "in_place": HALF}
        for size in (GIB // 2, GIB)]
TEXT = table("2.19", ROWS)
HEAD = TEXT[:TEXT.index(f"{GIB:>12}")]  # up to the row of 512 MiB


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(run_directory, "ROOT", str(tmp_path / "railwright"))
    monkeypatch.setattr(run_directory, "BASE", str(tmp_path / "railwright" / "bench"))
    monkeypatch.setattr(processes, "TERM_S", 0.5)
    monkeypatch.setattr(job, "GRACE_S", 1.5)
    name = f"job-{os.getpid()}"
    run_directory.prepare(HOST, name, USER, "n1 slots=2\n")
    yield name
    processes.stop_marked(HOST, name, OURS)


def standin(tmp_path: Path, *body: str, name: str = "all_reduce_perf") -> str:
    (tmp_path / "head.txt").write_text(HEAD)
    (tmp_path / "table.txt").write_text(TEXT)
    path = tmp_path / name
    path.write_text("#!/bin/sh\n" + "\n".join(body) + "\n")
    path.chmod(0o755)
    return str(path)


def launch(run: str, *argv: str, seconds: int = 30, name: str = "all_reduce") -> Launch:
    return Launch(run, USER, name, argv, {"NCCL_DEBUG": "INFO"}, seconds)


def ended(run: str, name: str = "all_reduce", seconds: float = 15.0) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = poll(HOST, run, USER, name, wait=0.2)
        if found["ended"]:
            return found
    raise AssertionError("it did not end")


def settled(run: str, count: int, seconds: float = 120.0) -> bool:
    """A process shows its environment a moment after it was started."""
    deadline = time.monotonic() + seconds
    while len(processes.marked(HOST, run, OURS)) != count and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(processes.marked(HOST, run, OURS)) == count


def collected(run: str, name: str = "all_reduce") -> dict[str, Any]:
    found = collect(HOST, run, USER, [name])
    assert not Path(run_directory.directory_of(run)).exists()
    return dict(found["jobs"][0])


def test_a_standin_runs_from_start_to_result(tmp_path: Path, run: str) -> None:
    rest = f"tail -n +$(($(wc -l < {tmp_path}/head.txt) + 1)) {tmp_path}/table.txt"
    path = standin(tmp_path, f"cat {tmp_path}/head.txt", "sleep 0.5", rest)
    begin(HOST, launch(run, path))
    first = poll(HOST, run, USER, "all_reduce", wait=0.3)
    assert (first["ended"], first["status"]) == (False, None)
    assert (first["progress"]["collective"], first["progress"]["size"], first["progress"]["busbw"]) == ("all_reduce", GIB // 2, 214.75)
    last = ended(run)
    assert (last["status"], last["progress"]["rows"], last["progress"]["size"]) == (0, 2, GIB)
    found = collected(run)
    assert (found["rc"], found["started"]) == (0, True)
    assert 0.5 <= found["seconds"] < 10
    assert parse(found["text"])["complete"]


def test_a_standin_that_is_killed_half_way(tmp_path: Path, run: str) -> None:
    path = standin(tmp_path, f"cat {tmp_path}/head.txt", "exec sleep 60")
    begin(HOST, launch(run, path))
    victim = next(pid for pid in children(run) if Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    os.kill(victim, signal.SIGKILL)
    assert ended(run)["status"] == 137
    found = collected(run)
    assert (found["rc"], len(parse(found["text"])["rows"]), parse(found["text"])["complete"]) == (137, 1, False)


def aged(run: str, seconds: float) -> None:
    """Nobody has asked for the run for so long."""
    record = Path(run_directory.record_of(run))
    record.write_text(f"{time.monotonic() - seconds:.0f} {record.read_text().split()[1]}\n")


def children(run: str, wanted: int = 3) -> list[int]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [item.pid for item in processes.marked(HOST, run, OURS)]
        if len(found) >= wanted and any(Path(f"/proc/{pid}/comm").read_text() == "sleep\n" for pid in found):
            return found
        time.sleep(0.05)
    raise AssertionError("the stand-in did not start")


def test_a_standin_that_does_not_end_in_time(tmp_path: Path, run: str) -> None:
    begin(HOST, launch(run, standin(tmp_path, "sleep 60"), seconds=1))
    assert ended(run)["status"] == 124


def test_a_keeper_that_is_killed_too_ends_the_job_without_a_status(tmp_path: Path, run: str) -> None:
    begin(HOST, launch(run, standin(tmp_path, "exec sleep 60")))
    for pid in children(run):
        os.kill(pid, signal.SIGKILL)
    assert ended(run)["status"] is None


def test_strays_of_a_standin_are_ended_with_it(tmp_path: Path, run: str) -> None:
    """One in a session of its own that ignores TERM: what a job leaves holds GPUs."""
    path = standin(tmp_path, "(trap '' TERM; exec setsid sleep 60) &", "sleep 0.3", "exit 3")
    begin(HOST, launch(run, path))
    assert ended(run)["status"] == 3
    assert settled(run, 1), "the keeper ends a moment after it has written the status"
    assert stop(HOST, run, USER, None)["ended"] == 1
    assert processes.marked(HOST, run, OURS) == []
    assert stop(HOST, run, USER, None)["ended"] == 0
    assert collect(HOST, run, USER, [])["ended"] == 1, "there is an end after every job, and one verdict on all"


def test_what_ends_by_itself_a_moment_later_is_no_leftover(tmp_path: Path, run: str) -> None:
    begin(HOST, launch(run, standin(tmp_path, "(exec setsid sleep 0.7) &", "exit 0")))
    assert ended(run)["status"] == 0
    assert stop(HOST, run, USER, None)["ended"] == 0


def test_a_standin_that_writes_without_end_is_ended(tmp_path: Path, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "OUTPUT_LIMIT", 100_000)
    begin(HOST, launch(run, standin(tmp_path, "exec yes")))
    found = ended(run)
    assert found["too_much"]
    assert processes.marked(HOST, run, OURS) == []


def test_secrets_of_the_controller_and_of_the_json_file_do_not_leak(
    tmp_path: Path, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_TOKEN", "hunter2")
    directory = run_directory.directory_of(run)
    document = {"env": ["TOKEN=hunter3"], "args": ["--password=hunter4"], "results": [], "version": "2.19.6"}
    (tmp_path / "out.json").write_text(json.dumps(document))
    path = standin(tmp_path, "env", f"cp {tmp_path}/out.json {directory}/all_reduce.json")
    begin(HOST, launch(run, path))
    assert ended(run)["status"] == 0
    found = collected(run)
    assert json.loads(found["json"]) == {"results": [], "version": "2.19.6"}
    assert "NCCL_DEBUG=INFO" in found["text"]
    assert "hunter" not in json.dumps(found)


def test_logs_are_reduced_to_what_is_judged(tmp_path: Path, run: str) -> None:
    directory = run_directory.directory_of(run)
    lines = ["n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA", "n1:1:2 [0] NCCL INFO threadThresholds 8/8/64",
             "n1:1:2 [0] NCCL INFO Using network IB", "\x1b[31mn1:1:2 [0] x.cc:1 NCCL WARN bad\x07"]
    path = standin(tmp_path, *(f"printf '%s\\n' '{line}' >> {directory}/nccl.all_reduce.n1.7.log" for line in lines),
                   f"echo other >> {directory}/nccl.all_gather.n1.8.log")
    begin(HOST, launch(run, path))
    ended(run)
    assert collected(run)["log"].splitlines() == [lines[0], lines[2], "n1:1:2 [0] x.cc:1 NCCL WARN bad"]


def test_logs_of_many_ranks_do_not_fill_our_memory(tmp_path: Path, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job user writes them, as many and as large as it likes."""
    monkeypatch.setattr("ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.collect.FILE_LIMIT", 1000)
    (tmp_path / "log").write_text("NCCL WARN bad\n" * 50)
    directory = run_directory.directory_of(run)
    begin(HOST, launch(run, standin(tmp_path, f"for rank in 1 2 3 4; do cp {tmp_path}/log {directory}/nccl.all_reduce.n1.$rank.log; done")))
    ended(run)
    assert 900 < len(collected(run)["log"]) <= 1000
    assert not Path(directory).exists()


def test_the_inspectors_files_are_read_and_go_with_the_run(tmp_path: Path, run: str) -> None:
    directory = run_directory.directory_of(run)
    (tmp_path / "lines").write_text("".join(entry(0, at, 5000) + "\n" for at in range(3)) + entry(0, 0, 7, coll="AllGather"))
    begin(HOST, launch(run, standin(tmp_path, f"cp {tmp_path}/lines {directory}/n1-pid$$.log")))
    ended(run)
    found = collect(HOST, run, USER, ["all_reduce"])
    assert [(row["collective"], row["times"]) for row in found["spent"]] == [("all_reduce", [[0, 5000], [1, 5000], [2, 5000]])]
    assert found["left"] == []
    assert not Path(directory).exists()


def test_too_many_lines_leave_one_of_each_connection() -> None:
    lines = [f"n1:1:2 [0] NCCL INFO Channel {channel:02d}/0 : {rank}[0] -> 8[0] [send] via NET/IB/0" for rank in range(8)
             for channel in range(32)]
    kept = fitting(lines, 2000).splitlines()
    assert len(kept) == 8
    assert fitting(lines, 1 << 20).count("\n") == 256
    assert len(fitting(["x" * 50 + str(number) for number in range(100)], 200)) <= 200


def test_the_probe_answers_for_every_place(run: str) -> None:
    """Two in place of the ranks, started by a shell in place of a launcher."""
    script = f"{run_directory.directory_of(run)}/probe.py"
    found = run_probe(HOST, launch(run, "sh", "-c", f"echo noise; python3 -I {script} & python3 -I {script}; wait", name="probe"))
    assert (found["status"], len(found["answers"])) == (0, 2)
    assert found["reason"] == "noise"


def test_a_launcher_that_fails_says_its_last_line(run: str) -> None:
    found = run_probe(HOST, launch(run, "sh", "-c", "echo 'Host key verification failed.' >&2; exit 255", name="probe"))
    assert (found["status"], found["answers"], found["reason"]) == (255, [], "Host key verification failed.")


def test_the_directory_is_the_users_alone_and_holds_the_probe(run: str) -> None:
    directory = Path(run_directory.directory_of(run))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert (directory / "hosts").read_text() == "n1 slots=2\n"
    assert "cuInit" in (directory / "probe.py").read_text()


def test_another_run_that_is_at_work_is_not_disturbed(tmp_path: Path, run: str) -> None:
    begin(HOST, launch(run, standin(tmp_path, "sleep 60")))
    with pytest.raises(RailwrightError, match=f"another run is on this node: {run}"):
        run_directory.prepare(HOST, "second", USER, "")
    stop(HOST, run, USER, None)
    with pytest.raises(RailwrightError, match="try again in five minutes"):
        run_directory.prepare(HOST, "second", USER, "")  # it may be between two jobs
    aged(run, 300)
    run_directory.prepare(HOST, "second", USER, "")
    assert not Path(run_directory.directory_of(run)).exists(), "what a dead run left is taken away"
    assert not Path(run_directory.record_of(run)).exists()


def test_what_a_forsaken_run_left_in_a_session_of_its_own_is_ended(tmp_path: Path, run: str) -> None:
    """Its job ended with the lease, and this process did not: without an end every later run would be refused because of it."""
    begin(HOST, launch(run, standin(tmp_path, "setsid sleep 60 &", "sleep 0.2")))
    ended(run)
    aged(run, 200)
    with pytest.raises(RailwrightError, match="another run is on this node"):
        run_directory.prepare(HOST, "second", USER, "")
    assert processes.marked(HOST, run, OURS), "its controller may be slow"
    aged(run, 300)
    run_directory.prepare(HOST, "second", USER, "")
    assert not processes.marked(HOST, run, OURS)


def test_ranks_that_another_node_started_are_nobodys_to_end(run: str) -> None:
    started = processes.start(HOST, ["sleep", "60"], USER, {}, run_directory.directory_of(run) + "/x", 60, run)
    assert settled(run, 3), "keeper, timeout, sleep"
    aged(run, 3000)
    with pytest.raises(RailwrightError, match="another run is on this node"):
        run_directory.prepare(HOST, "second", USER, "")
    assert processes.alive(HOST, started)
    aged(run, 8 * 86400)
    run_directory.prepare(HOST, "second", USER, "")
    assert not processes.alive(HOST, started), "no job may take so long"


def test_a_node_that_started_a_job_is_not_forsaken_in_the_next(tmp_path: Path, run: str) -> None:
    """The jobs of a run begin on different nodes: where the last one began nobody asks while the next one's ranks are at work there."""
    begin(HOST, launch(run, standin(tmp_path, "true")))
    ended(run)
    stop(HOST, run, USER, None)
    ranks = processes.start(HOST, ["sleep", "60"], USER, {}, run_directory.directory_of(run) + "/x", 60, run)
    assert settled(run, 3), "keeper, timeout, sleep"
    aged(run, 3000)
    with pytest.raises(RailwrightError, match="another run is on this node"):
        run_directory.prepare(HOST, "second", USER, "")
    assert processes.alive(HOST, ranks)


def test_a_job_brings_its_host_file(tmp_path: Path, run: str) -> None:
    hosts = Path(run_directory.directory_of(run)) / run_directory.HOSTS
    begin(HOST, launch(run, standin(tmp_path, "true")))
    assert hosts.read_text() == "n1 slots=2\n", "that of the run where it has none"
    ended(run)
    begin(HOST, launch(run, standin(tmp_path, "true"), name="all_reduce_leaf")._replace(hosts="n3 slots=8\n"))
    assert hosts.read_text() == "n3 slots=8\n"
    ended(run, "all_reduce_leaf")


def test_what_the_user_dates_into_the_future_holds_nobody_up(tmp_path: Path, run: str) -> None:
    begin(HOST, launch(run, standin(tmp_path, "setsid sleep 60 &", "sleep 0.2")))
    ended(run)
    for path in (run_directory.directory_of(run) + "/all_reduce.log.lease", run_directory.directory_of(run)):
        os.utime(path, (time.time() + 86400,) * 2)
    aged(run, 300)
    run_directory.prepare(HOST, "second", USER, "")
    assert not processes.marked(HOST, run, OURS)


def test_a_run_directory_that_the_user_keeps_touching_blocks_nobody(run: str) -> None:
    aged(run, 300)
    os.utime(run_directory.directory_of(run))
    run_directory.prepare(HOST, "second", USER, "")
    assert not Path(run_directory.directory_of(run)).exists()


def test_an_ended_run_does_not_count_though_directory_and_process_stay(run: str) -> None:
    (Path(run_directory.directory_of(run)) / "of the job's own").mkdir()
    stop(HOST, run, USER, None)
    assert collect(HOST, run, USER, [])["left"] == ["of the job's own"]
    started = processes.start(HOST, ["sleep", "60"], USER, {}, run_directory.directory_of(run) + "/x", 60, run)
    assert settled(run, 3)
    run_directory.prepare(HOST, "second", USER, "")
    assert not processes.alive(HOST, started)


@pytest.mark.parametrize("text", ["", "99999999999 1\n", "x 1\n", "1 1", "1 2\n", "nan 1\n"])
def test_a_record_that_is_none_or_of_the_future_is_no_run(run: str, text: str) -> None:
    assert run_directory.recorded(HOST, run) is not None
    Path(run_directory.record_of(run)).write_text(text)
    assert run_directory.recorded(HOST, run) is None


@pytest.mark.parametrize("name", ["../x", "", "a/b", "all-reduce;x"])
def test_names_that_are_no_names(run: str, name: str) -> None:
    with pytest.raises(RailwrightError, match="no name of"):
        begin(HOST, launch(run, "true", name=name))
    with pytest.raises(RailwrightError, match="no name of"):
        run_directory.directory_of(name)


def test_a_job_that_was_not_started_here(run: str) -> None:
    with pytest.raises(RailwrightError, match="was not started here"):
        poll(HOST, run, USER, "all_gather")


HELP = 'case "$1" in -h) echo "[-b,--minbytes <min size in bytes>]";'


def wanted(tmp_path: Path, *libraries: str) -> Wanted:
    return Wanted(USER, str(tmp_path), libraries, ("all_reduce",), None, {})


def test_a_standin_program_that_starts(tmp_path: Path) -> None:
    standin(tmp_path, HELP + 'echo "[-J,--output_file <file>]"; echo "$LD_LIBRARY_PATH" > "$0.path";; esac')
    found = program(HOST, wanted(tmp_path, "/a", "/b"), "all_reduce")
    assert (found["problem"], found["json"], len(found["sha256"])) == (None, True, 64)
    assert (tmp_path / "all_reduce_perf.path").read_text() == "/a:/b\n"
    standin(tmp_path, HELP + ";; esac")
    assert program(HOST, wanted(tmp_path), "all_reduce")["json"] is False


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (["echo 'x: error while loading shared libraries: libnccl.so.2: cannot open shared object file' >&2; exit 127"],
         "does not start (exit 127): x: error while loading shared libraries: libnccl.so.2"),
        (["exit 0"], "does not start (exit 0): no word"),
    ],
)
def test_a_standin_program_that_does_not_start(tmp_path: Path, body: list[str], words: str) -> None:
    standin(tmp_path, *body)
    assert words in program(HOST, wanted(tmp_path), "all_reduce")["problem"]


def test_the_look_starts_programs_in_the_environment_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible's may hold the site's secrets, and a library path with which the inspection would find what no job does."""
    monkeypatch.setenv("SITE_SECRET", "x")
    standin(tmp_path, f"env > {tmp_path}/seen", "echo --minbytes")
    assert program(HOST, wanted(tmp_path), "all_reduce")["problem"] is None
    names = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert {"PATH", "HOME", "LANG"} <= names
    assert names <= {"PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_"}


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    assert program(HOST, wanted(tmp_path), "all_reduce")["problem"] == f"not in {tmp_path}"


def test_libcuda_is_asked_in_a_child() -> None:
    found = ask_cuda(HOST, wanted(Path("/nowhere")))
    assert found.host
    assert found.devices or found.error


def test_networks_of_an_interface() -> None:
    assert networks(["192.0.2.11/24", "2001:db8::1/64", "nonsense"]) == ["192.0.2.0/24"]


CACHE = "\tlibnccl-net.so (libc6,x86-64) => /usr/local/lib/libnccl-net.so\n"


def captured(root: Path, files: dict[str, str]) -> TreeHost:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return TreeHost(str(root))


def test_nccl_conf_of_the_job_user_counts_too(tmp_path: Path) -> None:
    host = captured(tmp_path, {"home/mpi/.nccl.conf": "NCCL_NET=IBext_v9\n", "etc/nccl.conf": "NCCL_NET=IB\nNCCL_ALGO=Ring\n"})
    found = nccl_settings(host, {"NCCL_DEBUG": "INFO"}, "/home/mpi", files_only=True)
    assert {name: item.path for name, item in found.items()} == {"NCCL_NET": "IBext_v9", "NCCL_ALGO": "Ring"}


@pytest.mark.parametrize(
    ("setting", "files", "found"),
    [
        (None, {}, []),
        (None, {"opt/nccl/lib/libnccl-net.so": ""}, ["/opt/nccl/lib/libnccl-net.so"]),
        (None, {"opt/mpi/lib/libnccl-net.so": ""}, ["/opt/mpi/lib/libnccl-net.so"]),
        (None, {"usr/lib64/libnccl-net.so": ""}, ["/usr/lib64/libnccl-net.so"]),
        (None, {"usr/local/lib/libnccl-net.so": "", "cmd/ldconfig_-p": CACHE}, ["/usr/local/lib/libnccl-net.so"]),
        (None, {"opt/other/libnccl-net.so": ""}, []),  # the loader does not look there
        ("none", {"opt/nccl/lib/libnccl-net.so": ""}, []),
        ("NONE", {"opt/nccl/lib/libnccl-net.so": ""}, []),
        ("", {"opt/nccl/lib/libnccl-net.so": ""}, ["/opt/nccl/lib/libnccl-net.so"]),
        ("ofi,/opt/x/libnccl-net.so", {}, ["ofi", "/opt/x/libnccl-net.so"]),
    ],
)
def test_the_plugins_that_nccl_tries_first(setting: str | None, files: dict[str, str], found: list[str], tmp_path: Path) -> None:
    mpi = [Mpi("openmpi4", "4.1.6", "/opt/mpi", "/opt/mpi/bin/mpirun")]
    assert net_plugins(captured(tmp_path, files), setting, ["/opt/nccl/lib"], mpi) == found
