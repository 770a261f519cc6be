# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen of a job's processes: a written /proc, looked at six times, in which something moves meanwhile or nothing does."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.host.kernel_ring import Record
from ansible_collections.railwright.rdma.plugins.module_utils.observe.kernel_log import Log
from ansible_collections.railwright.rdma.plugins.module_utils.observe.ranks import (
    Wanted,
    choose_workers,
    gpu_use,
    job_processes,
    last_collectives,
    observe_ranks,
    parse_sockets,
    recorded,
    xids,
)

MakeTree = Callable[[dict[str, str]], TreeHost]
JOB = Wanted("12", None, (), None)
SS = """0      0               10.89.0.12:38641          10.89.0.13:47142 uid:2000 ino:8587058 sk:3 cgroup:/a <->
\t ts sack bbr wscale:10,10 rto:204 bytes_sent:13920 bytes_acked:13920 bytes_received:13728 segs_out:52 app_limited
713    20              10.89.0.12:34338          10.89.0.11:35975 uid:2000 ino:8587298 sk:4 cgroup:/b <->
\t ts sack bbr wscale:10,10 rto:208 bytes_sent:588 bytes_acked:589 bytes_received:10
"""


def process(
    pid: int, env: dict[str, str], *, parent: int = 1, state: str = "S", wchan: str = "futex_do_wait", name: str = "python3", user: int = 0,
    ran: int = 0, switches: int = 5, start: int = 500,
) -> dict[str, str]:  # fmt: skip
    fields = [state, str(parent), *["0"] * 9, str(user), "0", *["0"] * 6, str(start), *["0"] * 30]
    stat = f"{pid} ({name}) {' '.join(fields)}\n"
    base = f"proc/{pid}"
    return {
        f"{base}/stat": stat, f"{base}/environ": "\0".join(f"{key}={value}" for key, value in env.items()) + "\0", f"{base}/wchan": wchan,
        f"{base}/status": f"Name:\t{name}\nvoluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t9\n",
        f"{base}/task/{pid}/stat": stat, f"{base}/task/{pid}/schedstat": f"{ran} 0 1\n",
        f"{base}/cmdline": f"/usr/bin/{name}\0/home/a/train.py\0",
    }


def step(rank: int, **more: str) -> dict[str, str]:
    slurm = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_JOB_NODELIST": "n[1-2]"}
    return {**slurm, "SLURM_PROCID": str(rank), "SECRET": "s", **more}


def pids(host: TreeHost, wanted: Wanted = JOB) -> list[int]:
    return sorted(each.pid for each in choose_workers(host, job_processes(host, wanted))[0])


def test_only_the_ranks_of_the_job(make_tree: MakeTree) -> None:
    batch = {key: value for key, value in step(0).items() if key != "SLURM_STEP_ID"}
    host = make_tree({**process(10, step(0)), **process(11, {**step(0), "SLURM_JOB_ID": "13"}), **process(12, batch, name="srun"),
                      **process(13, {"HOME": "/root"})})
    assert pids(host) == [10]


def test_anybody_can_write_a_job_into_his_environment(make_tree: MakeTree) -> None:
    host = make_tree(process(10, step(0)))
    assert pids(host, JOB._replace(uid=os.getuid() + 1)) == []
    assert pids(host, JOB._replace(uid=os.getuid())) == [10]


BY_NAME = Wanted(None, None, (), "train.py")
NO_RANKS = [
    ("tail", ["tail", "-f", "train.py"]), ("vim", ["vim", "/home/a/train.py"]), ("bash", ["bash", "-c", "python3 train.py"]),
    ("bash", ["-bash"]), ("sh", ["/bin/sh", "/home/a/train.py"]), ("mpirun", ["mpirun", "-np", "8", "python3", "train.py"]),
    ("srun", ["srun", "python3", "train.py"]), ("torchrun", ["/usr/bin/python3", "/usr/bin/torchrun", "--nproc-per-node=8", "train.py"]),
    ("python3", ["python3", "-m", "torch.distributed.run", "train.py"]), ("python3", ["python3", "-u", "/usr/bin/deepspeed", "train.py"]),
    ("python3", ["python3", "-c", "import os", "train.py"]), ("timeout", ["timeout", "60", "python3", "train.py"]),
    ("railwright", ["/usr/bin/python3", "/usr/bin/railwright", "diagnose", "--process", "train.py"]),
    ("grep", ["grep", "-r", "x", "train.py"]),
    ("python3", ["python3"]), ("python3", ["python3", "-m"]),
    ("sudo", ["sudo", "python3", "train.py"]), ("python3", ["python3", "other.py"]),
]  # fmt: skip
RANKS = [
    ("python3", ["python3", "train.py"]), ("python3", ["/usr/bin/python3.12", "-u", "/home/a/train.py", "--epochs", "9"]),
    ("python3", ["python3", "-W", "ignore", "-X", "dev", "train.py"]), ("python3", ["python3", "-um", "pkg.train"]),
    ("train.py", ["/usr/bin/python3", "./train.py"]), ("train.py", ["./train.py"]), ("train.py", []), ("train.py", ["train: rank 3"]),
    ("python3", ["python3", "-m", "cProfile", "-o", "out", "train.py"]), ("python3", ["python3", "/usr/bin/coverage", "run", "train.py"]),
]  # fmt: skip


def executing(pid: int, name: str, arguments: list[str], *, parent: int = 1) -> dict[str, str]:
    return {**process(pid, {}, name=name, parent=parent), f"proc/{pid}/cmdline": "".join(f"{word}\0" for word in arguments)}


@pytest.mark.parametrize(("name", "arguments"), NO_RANKS)
def test_a_name_among_the_arguments_of_another_program_is_no_rank(name: str, arguments: list[str], make_tree: MakeTree) -> None:
    host = make_tree({**executing(10, name, arguments), **executing(11, "python3", ["python3", "train.py"])})
    assert pids(host, BY_NAME) == [11]


@pytest.mark.parametrize(("name", "arguments"), RANKS)
def test_a_program_or_a_script_that_is_executed_is_a_rank(name: str, arguments: list[str], make_tree: MakeTree) -> None:
    assert pids(make_tree(executing(10, name, arguments)), BY_NAME) == [10]


def test_neither_the_inspection_nor_what_started_it_is_a_rank(make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local connection: railwright, its playbook and the module are all python3."""
    monkeypatch.setattr(TreeHost, "process", staticmethod(lambda: 32))
    family = {**executing(30, "python3", ["python3", "/usr/bin/railwright"]), **executing(31, "python3", ["python3", "x"], parent=30),
              **executing(32, "python3", ["python3", "y"], parent=31)}  # fmt: skip
    host = make_tree({**family, **executing(40, "python3", ["python3", "train.py"])})
    assert pids(host, BY_NAME._replace(process="python3")) == [40]


def test_below_its_shell(make_tree: MakeTree) -> None:
    host = make_tree({**process(10, step(0), wchan="do_wait", name="bash"), **process(11, step(0), parent=10),
                      **process(12, step(0), parent=11)})
    assert pids(host) == [11]


def test_torchrun_numbers_before_slurm(make_tree: MakeTree) -> None:
    workers = {key: text for rank in (0, 1) for key, text in process(20 + rank, step(0, RANK=str(rank), WORLD_SIZE="2"), parent=10).items()}
    host = make_tree({**process(10, step(0), name="torchrun"), **workers})
    assert pids(host) == [20, 21]
    assert [row["rank"] for row in observe_ranks(host, JOB, 1, lambda _seconds: None)["ranks"]] == [0, 1]


def test_by_name_and_by_pod(make_tree: MakeTree) -> None:
    pod = "0a1b2c3d-1111-2222-3333-444455556666"
    group = {"proc/10/cgroup": f"0::/kubepods.slice/kubepods-pod{pod.replace('-', '_')}.slice/x\n", "proc/11/cgroup": "0::/\n"}
    host = make_tree({**process(10, {}), **process(11, {}, name="bash"), **group})
    assert pids(host, Wanted(None, None, (), "python3")) == [10]
    assert pids(host, Wanted(None, None, (), "train.py")) == [10], "a shell is no rank"
    assert pids(host, Wanted(None, None, (pod,), None)) == [10]


def test_a_rank_that_did_nothing(make_tree: MakeTree) -> None:
    host = make_tree(process(10, step(1)))
    [row] = observe_ranks(host, JOB, 10, lambda _seconds: None)["ranks"]
    assert (row["rank"], row["size"], row["states"], row["waits"], row["switches"]) == (1, 2, "SSSSSS", ["futex_do_wait"], 0)
    assert row["began_on"] == "n[1-2]"
    assert row["moved"] is None, "neither its descriptors nor ss could be read: that is no zero"


def test_what_moves_meanwhile(make_tree: MakeTree, tmp_path: Path) -> None:
    turn = iter(range(1, 100))

    def told(number: int) -> dict[str, str]:
        sockets = SS.replace("bytes_acked:13920", f"bytes_acked:{13920 + number}")
        return {**process(10, step(1), state="R", wchan="0", user=number, ran=number * 10 ** 9, switches=number),
                "cmd/ss_-tinHe_state_established": sockets}

    def sleep(seconds: float) -> None:
        if seconds:
            make_tree(told(next(turn)))

    host = make_tree(told(0))
    (tmp_path / "node/proc/10/fd").mkdir()
    for number, inode in enumerate((8587058, 8587298, 1)):
        (tmp_path / f"node/proc/10/fd/{number}").symlink_to(f"socket:[{inode}]")
    [row] = observe_ranks(host, JOB, 10, sleep)["ranks"]
    assert (row["states"], row["switches"], row["moved"], row["unread"]) == ("RRRRRR", 5, 5, 713)
    assert len(row["busy"]) == 5
    assert "SECRET" not in str(row)


def test_one_that_ends_meanwhile(make_tree: MakeTree) -> None:
    host = make_tree(process(10, step(1)))
    [row] = observe_ranks(host, JOB, 10, lambda seconds: seconds and make_tree(process(10, step(1), start=501)) and None)["ranks"]
    assert row["states"] == "SXXXXX"


def test_sockets() -> None:
    assert parse_sockets(SS) == {8587058: (0, 27648), 8587298: (713, 599)}
    forged = SS.replace("cgroup:/a", "cgroup:/a\r9 0 a b ino:8587298 bytes_acked:7\x0c bytes_acked:9", 1)
    assert parse_sockets(forged) == parse_sockets(SS), "a cgroup's name is no line and no counter"
    assert set(parse_sockets("nonsense\n\tino:5 bytes_acked:7\nx y z ino:6\n").values()) == {(0, 0)}


def test_xids_since_the_job_began() -> None:
    lines = [Record(second, "NVRM: Xid (PCI:0000:3b:00): 79, pid=10, name=python3") for second in (4.5, 6.5)] + [Record(7.0, "usb 1-1: x")]
    assert xids(Log("kmsg", None, True, lines), 5) == ["NVRM: Xid (PCI:0000:3b:00): 79, pid=10, name=python3"]
    assert xids(Log("dmesg", None, True, lines), 5) == []


def dump(*entries: dict[str, Any]) -> bytes:
    return pickle.dumps({"version": "2.4", "entries": list(entries)})


def entry(seq: int, state: str, **more: Any) -> dict[str, Any]:
    return {"process_group": ("0", "default_pg"), "collective_seq_id": seq, "profiling_name": "nccl:all_reduce", "state": state, **more}


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("/nonexistent/evil",)


def test_the_last_collective_of_a_dump() -> None:
    found = last_collectives(dump(entry(6, "completed"), entry(7, "scheduled"), entry(9, "started", is_p2p=True)))
    assert found == [{"group": "0 default_pg", "seq": 7, "op": "nccl:all_reduce", "state": "scheduled"}]
    assert last_collectives(dump()) == []


@pytest.mark.parametrize("text", [
    pickle.dumps(Evil()), pickle.dumps({"entries": [Evil()]}), b"", b"\x80", b"{}", b"cos\nsystem\n(S'true'\ntR.", pickle.dumps([1]),
    pickle.dumps({"entries": 5}), b"\x82\x01.", b"I1\nQ.", b"]" * 100, b"(" * 10000 + b"t."])
def test_a_dump_is_data_or_nothing(text: bytes) -> None:
    assert last_collectives(text) is None


def test_a_dump_of_an_earlier_job_says_nothing(make_tree: MakeTree, tmp_path: Path) -> None:
    same = ["\t".join(["Uid:", *[str(os.getuid())] * 4]), "\t".join(["Gid:", *[str(os.getgid())] * 4])]
    host = make_tree({"proc/10/root/fr/rank_1": "", "proc/10/status": "\n".join(["Name:\tx", *same, ""])})
    (tmp_path / "node/proc/10/root/fr/rank_1").write_bytes(dump(entry(7, "started")))
    env = {"TORCH_FR_DUMP_TEMP_FILE": "/fr/rank_"}
    assert recorded(host, 10, 1, env, 0.0) is not None
    assert recorded(host, 10, 1, env, 4e9) is None
    assert recorded(host, 10, None, env, 0.0) is None
    assert recorded(host, 10, 1, {"TORCH_FR_DUMP_TEMP_FILE": "fr/rank_"}, 0.0) is None


def test_the_gpu_of_a_process_and_how_busy_it_is(make_tree: MakeTree) -> None:
    """Of two GPUs of one process the busier; what has another form says nothing."""
    assert gpu_use(make_tree({})) == {}
    asked = "cmd/nvidia-smi_--query-%s_--format=csv,noheader,nounits"
    tree = make_tree({
        asked % "gpu=uuid,utilization.gpu": "GPU-a, 100\nGPU-b, 0\nGPU-c, [N/A]\n",
        asked % "compute-apps=pid,gpu_uuid": "240, GPU-a\n241, GPU-b\n241, GPU-a\n242, GPU-c\n243, GPU-b\nx, GPU-a\n",
    })
    assert gpu_use(tree) == {240: 100, 241: 100, 243: 0}


# Small dumps of which an opcode asks for gigabytes: the memo by two opcodes, texts and bytes of each kind.
GREEDY = ["80047d72ffffff062e", "80024b0172ffffff3f2e", "80047d6affffff062e", "800558ffffff7f61", "80058dffffff7f000000002e",
          "800596ffffffff000000002e", "80058effffffff000000002e", "8005428fffff7f2e", "8005958fffff7f000000007d2e", "80028bffffff7f2e"]


def test_no_dump_takes_more_memory_than_it_has_bytes() -> None:
    """Measured in a process of its own: the most that it held (VmHWM; ru_maxrss of a child begins with what its parent held)."""
    program = (
        "import resource, sys\n"
        "from ansible_collections.railwright.rdma.plugins.module_utils.observe.ranks import last_collectives\n"
        "before = resource.getrlimit(resource.RLIMIT_AS)\n"
        "assert not any(last_collectives(bytes.fromhex(text)) for text in sys.argv[1:])\n"
        "assert resource.getrlimit(resource.RLIMIT_AS) == before\n"
        "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])\n")
    done = subprocess.run([sys.executable, "-c", program, *GREEDY], check=True, capture_output=True)
    assert int(done.stdout) < 64 * 1024, "kB"


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_each_form_of_a_dump_is_read(protocol: int) -> None:
    """PyTorch writes protocol 2. Of 300 texts the memo's numbers need more than one byte."""
    more = {f"name {at}": (at, -at, 2**40, 1.5, None, True, [], {}, (), (at,), [at, [at]]) for at in range(300)}
    text = pickle.dumps({"entries": [entry(7, "started", **more)]}, protocol)
    assert last_collectives(text) == [{"group": "0 default_pg", "seq": 7, "op": "nccl:all_reduce", "state": "started"}]
    assert [cut for cut in range(0, len(text), 7) if last_collectives(text[:cut]) is not None] == []
