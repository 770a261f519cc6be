# SPDX-License-Identifier: GPL-3.0-or-later
"""A job user: what root reads that this user chooses. Real processes of nobody, and a real directory of a run.

docs/security.md has a row for each choice; what has its test elsewhere is named there.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import pty
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.timed import in_time

from ansible_collections.railwright.rdma.plugins.module_utils.entry import bench
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp import node as ddp
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import collect as collect_module
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import job, processes, run_directory
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.text_report import parse
from ansible_collections.railwright.rdma.plugins.module_utils.observe import package_locks, ranks
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.observe.processes import FIELDS, holders, processes_of
from ansible_collections.railwright.rdma.plugins.module_utils.observe.ranks import Process, Wanted, choose_workers, observe_ranks
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests import toolchain
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh import node as mesh
from ansible_collections.railwright.rdma.plugins.module_utils.types import as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import form, forms
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import NAMESPACE, passed
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.floors import Floor
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.judge import judge_run
from counted_host import CountedHost
from profile_trees import Tree
from railwright.documents import progress_text
from railwright.hangs import judged
from railwright.writing import json_text

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be tricked by another user")
NOBODY = 65534
PYTHON = "/usr/bin/python3"
SECONDS = 30.0
READY = "import os, sys, time\n%s\nos.write(1, b'ready\\n')\ntime.sleep(600)\n"
ENTRY = {"process_group": ("0", "default"), "collective_seq_id": 7, "profiling_name": "nccl:x", "state": "started", "is_p2p": False}
SEPARATORS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that nobody reaches; pytest's is root's alone."""
    path = Path(tempfile.mkdtemp(dir="/tmp", prefix="railwright-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def theirs(place: Path) -> Path:
    """A directory of the user's own."""
    path = place / "theirs"
    path.mkdir()
    os.chown(path, NOBODY, NOBODY)
    return path


@contextmanager
def process(
    code: str = "", environment: Mapping[str, str | bytes] | None = None, argv: Sequence[str | bytes] = (), *, raised: bool = False
) -> Iterator[int]:
    """A process of nobody that has run the code as a script called hostile-job, and sleeps. ``argv``: after that name.

    ``raised``: of a program with root's set-user-ID bit.
    """
    code += "\nos.setresgid(65534, 0, 0); os.setresuid(65534, 0, 0)" if raised else ""
    who: dict[str, Any] = {} if raised else {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="railwright-test-") as room:
        Path(room).chmod(0o755)
        script = Path(room, "hostile-job")
        script.write_text(READY % code, encoding="utf-8")
        command: list[str | bytes] = [PYTHON, "-I", "-S", str(script), *argv]
        with subprocess.Popen(command, env=dict(environment or {}), stdout=subprocess.PIPE, **who) as child:
            try:
                assert child.stdout is not None
                assert child.stdout.readline() == b"ready\n"
                yield child.pid
            finally:
                child.kill()


def named(name: str | bytes) -> str:
    """Code that gives the process this name."""
    return f"open('/proc/self/comm', 'wb').write({os.fsencode(name)!r})"


def seen(wanted: Wanted) -> list[dict[str, Any]]:
    """What the controller gets: the answer passes the gate."""
    answer = {"ranks": observe_ranks(Host(), wanted, 1, lambda _seconds: None)}
    return list(form.fitted({"ranks": forms.SEEN_RANKS}, read_json(json.dumps(answer)))["ranks"]["ranks"])


def by_name(name: str = "hostile-job") -> Wanted:
    return Wanted(None, None, (), name)


# Variables.


@pytest.mark.parametrize("rank", ["9" * 5000, "²", "-1", "1e9", "nan", "0x10", "１", "", " 1", "1\n2", "9" * 18])
def test_a_rank_that_is_no_number(rank: str) -> None:
    """And the largest number that is one makes no list of as many ranks."""
    with process(environment={"RANK": rank, "WORLD_SIZE": rank}) as pid:
        [row] = [row for row in seen(by_name()) if row["pid"] == pid]
    assert row["rank"] is None or (rank == "9" * 18 and row["rank"] == int(rank))
    nodes = {"node1": {"ranks": [row], "counters": [], "xids": []}}
    assert len(judged(nodes, {"node2": "away"}, {}, 1).message) < 1000


def test_variables_of_any_length() -> None:
    """Each went into the answer as it was, once a rank: 32 MiB are the whole answer, and the gate lets no longer one pass."""
    values = dict.fromkeys(("SLURM_STEP_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_ID"), "n" * 100000)
    with process(environment={"RANK": "0", **values}) as pid:
        [row] = [row for row in seen(by_name()) if row["pid"] == pid]
    assert len(json.dumps(row)) < 20_000


def test_the_job_of_somebody_else() -> None:
    """The scheduler says whose it is, not the process: tests/unit/observe/test_ranks.py, here with a real one."""
    with process(environment={"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0"}) as pid:
        assert [row["pid"] for row in seen(Wanted("4711", NOBODY, (), None))] == [pid]
        assert seen(Wanted("4711", NOBODY - 1, (), None)) == []


LEADS = ("link", "directory", "fifo", "zero", "own")


@pytest.mark.parametrize("raised", [False, True], ids=["own", "raised"])
@pytest.mark.parametrize("leads", LEADS)
def test_where_a_dump_is_said_to_be(leads: str, raised: bool, place: Path, theirs: Path) -> None:
    """Only the user's own file is read. A program with a set-user-ID bit (su, which waits for a password) keeps the variables of the user
    who started it, and its process is root's: the file was read with root's rights then."""
    secret = place / "secret"
    secret.mkdir(mode=0o700)
    dump = pickle.dumps({"entries": [ENTRY]})
    for path in (secret / "dump3", theirs / "own3"):
        path.write_bytes(dump)
        os.utime(path, (time.time() + 60,) * 2)
    (secret / "dump3").chmod(0o600)
    (theirs / "link3").symlink_to(secret / "dump3")
    (theirs / "directory").symlink_to(secret)
    os.mkfifo(theirs / "fifo3")
    (theirs / "zero3").symlink_to("/dev/zero")
    prefix = f"{theirs}/directory/dump" if leads == "directory" else f"{theirs}/{leads}"
    variables = {"RANK": "3", "WORLD_SIZE": "4", "TORCH_FR_DUMP_TEMP_FILE": prefix}
    with process("", variables, raised=raised) as pid:
        assert (os.lstat(f"/proc/{pid}").st_uid == 0) is raised
        begun = time.monotonic()
        [row] = [row for row in seen(by_name()) if row["pid"] == pid]
    assert (row["recorded"] is not None) is (leads == "own" and not raised)
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_a_home_that_is_another_users(variable: str, place: Path) -> None:
    cache = place / ("cache" if variable == "XDG_CACHE_HOME" else ".cache")
    (cache / "torch").mkdir(parents=True, mode=0o700)
    (cache / "torch/comm_lib_trace_rank_3").write_bytes(pickle.dumps({"entries": [ENTRY]}))
    (cache / "torch").chmod(0o700)
    value = str(cache if variable == "XDG_CACHE_HOME" else place)
    with process("", {"RANK": "3", "WORLD_SIZE": "4", variable: value}, raised=True) as pid:
        [row] = [row for row in seen(by_name()) if row["pid"] == pid]
    assert row["recorded"] is None


# Names of processes, and the processes themselves.

NAMES = [b"x) R 1 1 1 1", b") S 0 0", b"a\n1 D nv_x slu", b"((((", b"))))", b"slurmd", b"\xff\xfe", b"\x1b[2J", b"1 (x) Z",
         "\u202ex\u2028y".encode()]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_name(name: bytes) -> None:
    """State, parent and start stay the kernel's, and no line of ps begins in a name."""
    name = name[:15]
    with process(named(name), {"RANK": "0"}) as pid:
        host = Host()
        start = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
        assert processes.start_time(host, pid) == start
        [found] = [item for item in ranks.job_processes(host, by_name()) if item.pid == pid]
        assert (found.parent, found.start, found.name.encode("utf-8", "replace")[:4]) == (
            os.getpid(), int(start), name.decode("utf-8", "replace").encode()[:4])
        assert seen(by_name())[0]["states"] == "SSSSSS"
        text = host.run(("ps", "-eo", FIELDS)).out
        rows = [row for row in processes_of(text) if row.pid == pid]
        assert [row.state for row in rows] == ["S"]
        assert not [row for row in processes_of(text) if row.pid == 1 and row.state == "D"]
        assert all(row.name.isprintable() for row in rows)


def test_arguments_are_arguments() -> None:
    """Line feeds, our own markers, and 100,000 words."""
    words = ["\n", f"{processes.MARKER}=r1", "railwright-probe {}", *["x"] * 100_000]
    with process(argv=words) as pid:
        assert pid in [row["pid"] for row in seen(by_name())]
        assert processes.marked(Host(), "r1", NOBODY) == []


def test_the_environment_of_a_stranger_is_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """On kernels where userfaultfd(2) is anybody's, whoever reads a process's environment waits for its user."""
    read: list[str] = []

    class Watched(Host):
        def read_bytes(self, path: str, limit: int = 1 << 22) -> bytes | None:
            read.append(path)
            return super().read_bytes(path, limit)

    with process(environment={processes.MARKER: "r1"}) as pid:
        assert processes.marked(Watched(), "r1", NOBODY - 1) == []
        assert f"/proc/{pid}/environ" not in read
        assert [item.pid for item in processes.marked(Watched(), "r1", NOBODY)] == [pid]


def test_as_many_processes_as_a_user_can_start() -> None:
    """Each of them a rank of its own, and each waiting for a child."""
    many = [Process(pid, 1 if pid % 2 else pid - 1, 1, "x", {"RANK": str(pid // 2)}) for pid in range(1000, 41000)]

    class Waiting(Host):
        def line(self, path: str) -> str | None:
            return "do_wait"

    begun = time.process_time()
    workers, _numbering = choose_workers(Waiting(), many)
    assert len(workers) == ranks.MOST
    assert time.process_time() - begun < 5, "one look through all of them for each took minutes"


def test_processes_that_come_and_go_while_they_are_read() -> None:
    """Some end, some become another program, some are zombies."""
    churn = """
os.close(os.open('/dev/null', os.O_RDONLY))
if not os.fork():
    os.setsid()
    end = time.monotonic() + 60
    while time.monotonic() < end and os.getppid() != 1:
        child = os.fork()
        if not child:
            open('/proc/self/comm', 'wb').write(b'x) Z 1')
            os.execv('/bin/true', ['hostile-job']) if time.time_ns() % 2 else os._exit(0)
        if time.time_ns() % 3:
            os.waitpid(child, 0)
    os._exit(0)
"""
    with process(churn, {"RANK": "0", processes.MARKER: "r2"}):
        for _turn in range(5):
            assert all(set(row["states"]) <= set("RSDTtZXxI") for row in seen(by_name()))
            assert all(item.pid > 1 for item in processes.marked(Host(), "r2", NOBODY))
    processes.stop_marked(Host(), "r2", NOBODY)


def test_a_device_that_only_seems_to_be_held(theirs: Path) -> None:
    """A file in a namespace of the user's own has any path; the name is shown as text, and nothing else comes of it than a refusal."""
    code = f"""
import ctypes
libc = ctypes.CDLL(None)
assert libc.unshare(0x10020000) == 0  # a user's and a mount's namespace
for name, text in (("setgroups", "deny"), ("uid_map", "0 65534 1"), ("gid_map", "0 65534 1")):
    open("/proc/self/" + name, "w").write(text)
assert libc.mount(b'x', b'/dev', b'tmpfs', 0, None) == 0
held = open('/dev/nvidia0', 'w')
{named(b"a" + b"(1)" + os.linesep.encode())}
"""
    try:
        with process(code) as pid:
            found = holders(Host(), lambda path: path.startswith("/dev/nvidia"))
    except AssertionError:
        pytest.skip("no user namespaces for everybody here")
    assert [line for line in found if line.endswith(f" ({pid})")]
    assert all(line.isprintable() for line in found)


def test_a_lock_of_another_file_with_the_same_number(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc/locks has a lock's inode and no path: in a file system of one's own any number can be had. apply then waited for
    rdma_stack_lock_wait_s and refused, as for dpkg's own lock. Only root's processes can have that open."""
    file = theirs / "lock"
    file.touch()
    os.chown(file, NOBODY, NOBODY)
    monkeypatch.setitem(package_locks.RECORD_LOCKS, "apt", (str(file),))  # of the same number
    with process(f"import fcntl; f = open({str(file)!r}, 'w'); fcntl.lockf(f, fcntl.LOCK_EX)"):
        assert package_locks.lock_holder(Host(), "apt") is None
    with file.open("w") as stream, subprocess.Popen(("sleep", "60"), pass_fds=(stream.fileno(),)) as other:
        fcntl.lockf(stream, fcntl.LOCK_EX)
        assert package_locks.lock_holder(Host(), "apt") is not None, "root's own lock counts"
        other.kill()


# The directory of a run.


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(run_directory, "ROOT", str(place / "railwright"))
    monkeypatch.setattr(run_directory, "BASE", str(place / "railwright/bench"))
    monkeypatch.setattr(job, "GRACE_S", 0.1)
    name = f"job-{os.getpid()}"
    run_directory.prepare(Host(), name, "nobody", "n1 slots=2\n")
    yield name
    processes.stop_marked(Host(), name, NOBODY)


def launch(run: str, *argv: str) -> dict[str, Any]:
    return job.begin(Host(), job.Launch(run, "nobody", "all_reduce", argv, {}, 60))


def finished(run: str) -> dict[str, Any]:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = job.poll(Host(), run, "nobody", "all_reduce", 0.2)
        if found["ended"]:
            return found
    raise AssertionError("the job does not end")


def collected(run: str) -> dict[str, Any]:
    """What a controller gets of it, by the gate."""
    watch = {"ports": [], "lossless": [], "why_not": ""}
    run_directory.keep_counters(Host(), run, [])
    answer = bench.results(Host(), {"run": run, "user": "nobody", "node": "n1", "names": ["all_reduce"], "watch": watch})
    text = json.dumps(answer)
    assert len(text) < 1 << 24
    return dict(passed(NAMESPACE + "rdma_bench", "nccl_tests.collect", read_json(text)))


def test_names_in_the_directory_of_a_run(run: str) -> None:
    """300 directories, which stay; names that are no UTF-8 and that a terminal obeys. Each was a warning, and one half of a surrogate
    pair made the whole answer one that no controller reads."""
    directory = Path(run_directory.directory_of(run))
    with Host().acting_as("nobody", NOBODY, NOBODY):
        for number in range(300):
            (directory / f"{number:05}{'x' * 200}").mkdir()
        for name in (b"\xff", b"\x1b[2J", b"a\nb", "\u202e".encode()):
            (directory / os.fsdecode(name)).mkdir()
    found = collected(run)
    assert len(found["warnings"]) < 10
    assert "not removed" in str(found["warnings"])
    assert all(line.isprintable() for line in found["warnings"])
    shutil.rmtree(directory)


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "tty", "huge", "self"])
def test_files_in_the_directory_of_a_run(kind: str, run: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of each file that root reads there."""
    monkeypatch.setattr(collect_module, "FILE_LIMIT", 1 << 20)  # 16 MiB of each take ten seconds
    directory = Path(run_directory.directory_of(run))
    secret = place / "secret"
    secret.write_text('{"results": [], "end_time": "1", "args": "root-only"} root-only NCCL WARN root-only\n')
    secret.chmod(0o600)
    launch(run, "true")
    finished(run)
    controller, terminal = pty.openpty()
    os.chown(os.ttyname(terminal), NOBODY, NOBODY)
    names = ["all_reduce.log", "all_reduce.json", "all_reduce.log.status", "all_reduce.log.started", "nccl.all_reduce.n1.1.log",
             "nccl_topo.xml", "nccl_graph.xml", "ended", "n1-pid1.log", "probe.py", "hosts"]
    with Host().acting_as("nobody", NOBODY, NOBODY):
        for name in names:
            path = directory / name
            path.unlink(missing_ok=True)
            if kind == "fifo":
                os.mkfifo(path)
            elif kind == "directory":
                path.mkdir()
            elif kind == "huge":
                with path.open("w") as stream:
                    stream.truncate(1 << 40)
            else:
                path.symlink_to({"link": str(secret), "tty": os.ttyname(terminal), "self": "/proc/self/environ"}[kind])
    begun = time.monotonic()
    found = collected(run)
    assert "root-only" not in str(found)
    assert found["jobs"][0]["rc"] is None
    assert time.monotonic() - begun < 60
    os.close(controller)
    os.close(terminal)
    shutil.rmtree(directory, ignore_errors=True)


def test_a_terminal_of_the_users_does_not_become_ours(theirs: Path) -> None:
    """Who leads a session and opens one gets its signals from then on: its user then ends root's inspection with a key."""
    controller, terminal = pty.openpty()
    os.chown(os.ttyname(terminal), NOBODY, NOBODY)
    (theirs / "x").symlink_to(os.ttyname(terminal))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        with Host().acting_as("nobody", NOBODY, NOBODY):
            Host().read(str(theirs / "x"))
        try:
            os.close(os.open("/dev/tty", os.O_RDONLY))
            os.write(writing, b"ours")
        except OSError:
            os.write(writing, b"none")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 4) == b"none"
    for fd in (controller, terminal, reading, writing):
        os.close(fd)


def test_a_pipe_in_the_place_of_the_next_jobs_log(run: str) -> None:
    """A pipe that nobody reads kept whoever opens it for writing, for the hours that the controller waits."""
    path = Path(run_directory.directory_of(run), "all_reduce.log")
    with Host().acting_as("nobody", NOBODY, NOBODY):
        os.mkfifo(path)
    with in_time(30), suppress(OSError):  # one line, by entry/bench.py
        launch(run, "true")


def test_a_pipe_in_the_place_of_a_program(theirs: Path) -> None:
    """Its checksum was waited for, five minutes long."""
    with Host().acting_as("nobody", NOBODY, NOBODY):
        os.mkfifo(theirs / "all_reduce_perf", 0o755)
        shutil.copy("/bin/true", theirs / "broadcast_perf")
    with in_time(60):
        assert set(toolchain.state(Host(), str(theirs))["programs"]) == {"broadcast_perf"}


def test_a_login_of_the_mesh_has_none_of_roots_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh reads the user's own configuration, whose programs it starts."""
    shown: list[str] = []

    class Shown(Host):
        def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None, limit: int = 1 << 24) -> Result:
            shown.append(super().run([*argv[: argv.index("ssh")], "/usr/bin/env"]).out)
            return Result(0, "", "")

    monkeypatch.setenv("PROXY", "http://operator:hunter2@proxy")
    assert mesh.login(Shown(), mesh.account("nobody"), "n2") is None
    assert "HOME=/nonexistent" in shown[0]
    assert "hunter2" not in shown[0]


# What programs print, and leave in files.

TABLE = """#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    40.11   26.14   49.02  1e+99    39.50   26.55   49.78  1e+99
# Out of bounds values : 999999999999999999 FAILED
# Out of bounds values : 999999999999999999 FAILED
# Avg bus bandwidth    : 1e308 \n"""
PRINTED = {
    "forged": TABLE * 100, "controls": "\x1b[2J\x1b]0;x\x07\x08\x00" * 10_000 + SEPARATORS, "no line end": "x" * (100 << 20),
    "lines": "x\n" * (1 << 20), "answers": 'railwright-probe {"host": "n2", "rank": 0, "devices": [], "error": "x"}\n' * 1000,
    "markers": '{"changed": false, "rc": 0}\nBECOME-SUCCESS-x\n\x1e{"failed": true}\n' * 100,
}


@pytest.mark.parametrize("kind", PRINTED)
def test_what_a_program_prints(kind: str, run: str, theirs: Path) -> None:
    (theirs / "text").write_text(PRINTED[kind])
    launch(run, "cat", str(theirs / "text"))
    begun = time.monotonic()
    found = finished(run)
    assert progress_text({"progress": found["progress"]}) is not None
    answer = collected(run)
    assert time.monotonic() - begun < 60
    row = answer["jobs"][0]
    shown = [*found["tail"], *row["tail"]]
    assert all(line.isprintable() and len(line) <= 300 for line in shown)
    assert len(row["text"]) <= 256 * 1024
    assert found["too_much"] is (kind == "no line end")
    verdicts = as_dicts(judge_run(parse(row["text"]), "", "all_reduce", Floor(None, "x", None, "")))
    assert read_json(json_text({"verdicts": verdicts})), "a number of 100 digits made the record of the whole run one that nobody reads"


FORGED = ["[]", "{}", "null", '{"rank": 0, "at": 1e308, "message": "x"}', '{"rank": 1e308, "at": "1", "message": ["x"]}', "[" * 10_000,
          '{"rank": 0, "own_ms": [1e308, -1, "nan"], "wait_ms": {"a": 1}, "torch": {"a": []}}', '{"step": 1e300, "steps": -1}',
          '{"rank": %s}' % ("9" * 5000), '{"rank": "\\ud800"}', "\x00" * 100, '{"a": 1}' + " " * 70_000]


@pytest.mark.parametrize("text", FORGED, ids=range(len(FORGED)))
def test_what_the_ranks_of_a_training_leave(text: str, run: str) -> None:
    share = ddp.Share(run, "nobody", PYTHON, 1, 0, 2, 0, "127.0.0.1", 29500, None, {}, "gloo", 1, 1, 1, 60, False, False)
    directory = Path(run_directory.directory_of(run))
    with Host().acting_as("nobody", NOBODY, NOBODY):
        for name in ("rank-0.json", "rank-1.json", "failed-0.json", "failed-1.json", "result.json", "progress.json", "torchrun.log"):
            (directory / name).write_text(text)
    found = dict(ddp.collect(Host(), share), way=ddp.way(Host(), share))
    with suppress(form.Misfit):  # this node's answer is refused, in one line
        form.fitted(forms.COLLECTED, read_json(json.dumps(found)))
    assert isinstance(progress_text({"progress": ddp.progress(Host(), share, 1.0)}), str)


@pytest.mark.parametrize("text", ['[1, "1", -1e308]', "[18446744073709551615, {}, 1]", "[2, [], 1e999]", "[[[",
    '{"a": 1}', '["1", "1", "1"]'])
def test_when_a_job_is_said_to_have_begun(text: str, run: str) -> None:
    """The record of its start lies in the user's directory: it ends as an error in one line, or as times that can be shown."""
    launch(run, "true")
    finished(run)
    with Host().acting_as("nobody", NOBODY, NOBODY):
        Path(run_directory.directory_of(run), "all_reduce.log.started").write_text(text)
    try:
        found = job.poll(Host(), run, "nobody", "all_reduce", 0.1)
    except bench.RailwrightError:
        return
    found = form.fitted({"progress": forms.OBJECT}, read_json(json.dumps(found)))
    assert len(progress_text(found)) < 100


# Places that are anybody's.


def test_nothing_below_tmp_and_shm_is_read(tmp_path: Path) -> None:
    """An inspection asks whether /tmp can be written; no name in it, nor in /dev/shm, is anything to it."""
    host = CountedHost(str(Tree("ib8", tmp_path).root))
    observe_facts(host, observe_identity(host))
    names = [name for _kind, name in host.asked]
    assert len(names) > 500
    assert not [name for name in names if name.startswith(("/tmp/", "/var/tmp/", "/dev/shm"))]
