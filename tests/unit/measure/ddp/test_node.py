# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that cannot take part says so in one line; what lies in a run's directory is read for what it is.

Programs are real and run on this machine; torch itself is a stand-in of five lines, which knows nothing but the names that the
probe asks for. The real one is in tests/lab/test_ddp.py.
"""

from __future__ import annotations

import getpass
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry.bench import STEPS
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp import node
from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp.launch import Share, command, torchrun_environment
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests import processes, run_directory
from command_lines import PLANTED

TORCH = """
__version__ = "2.11.0"
class version: cuda = {cuda!r}
class cuda:
    is_available = staticmethod(lambda: {devices} > 0)
    device_count = staticmethod(lambda: {devices})
"""
DISTRIBUTED = "is_available = lambda: {there}\nis_nccl_available = lambda: {nccl}\n"
ME = getpass.getuser()


@pytest.fixture
def python(tmp_path: Path) -> Any:
    """A Python with a torch of this kind."""

    def make(*, devices: int = 2, nccl: bool = True, there: bool = True, first: str = "") -> str:
        package = tmp_path / "site" / "torch" / "distributed"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").write_text(first + TORCH.format(cuda="13.0", devices=devices), encoding="utf-8")
        (package / "__init__.py").write_text(DISTRIBUTED.format(there=there, nccl=nccl), encoding="utf-8")
        wrapper = tmp_path / "python"
        wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/site exec {sys.executable} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)
        return str(wrapper)

    return make


def ask(path: str, backend: str = "nccl", count: int | None = None) -> int:
    wanted = node.Wanted("node1", path, backend, count, ME, 29500)
    said = node.ask_torch(Host(), node.account(ME), node._python(Host(), wanted), wanted)
    return node._processes(wanted, said)


def refusal(path: str, backend: str = "nccl", count: int | None = None) -> str:
    with pytest.raises(RailwrightError) as caught:
        ask(path, backend, count)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_process_for_each_device_or_as_many_as_asked_for(python: Any) -> None:
    path = python(devices=4)
    assert [ask(path), ask(path, count=2), ask(path, "gloo"), ask(path, "gloo", 3)] == [4, 2, 1, 3]


def test_no_torch() -> None:
    said = "has no torch: ModuleNotFoundError: No module named 'torch'"
    assert refusal(sys.executable) == f"ddp_benchmark_python {sys.executable} on node1 {said}"


def test_a_torch_that_cannot_be_loaded_says_why(python: Any) -> None:
    path = python(first="raise ImportError('libcudart.so.13: cannot open shared object file')\n")
    assert refusal(path).endswith("has no torch: ImportError: libcudart.so.13: cannot open shared object file")


def test_no_such_python() -> None:
    expected = "there is no such program on node1; allowed: the name or the path of a Python that has torch"
    assert refusal("/opt/none/python3") == f"ddp_benchmark_python: /opt/none/python3: {expected}"
    assert refusal("python9.99") == f"ddp_benchmark_python: python9.99: {expected}"


def test_no_cuda_device(python: Any) -> None:
    path = python(devices=0, first="import warnings\nwarnings.warn('The NVIDIA driver on your system is too old')\n")
    assert refusal(path).startswith("no CUDA device on node1 that torch 2.11.0 can use (")
    assert ask(path, "gloo") == 1


def test_more_processes_than_devices(python: Any) -> None:
    path = python(devices=1)
    assert refusal(path, count=2) == "ddp_benchmark_processes: 2: node1 has 1 CUDA device; allowed: a process for each at most"


@pytest.mark.parametrize(("nccl", "there", "what"), [(False, True, "nccl"), (False, False, "torch.distributed")])
def test_a_torch_built_without_it(python: Any, nccl: bool, there: bool, what: str) -> None:
    path = python(nccl=nccl, there=there)
    said = f"torch 2.11.0 was built without {what}; ddp_benchmark_backend asks for it"
    assert refusal(path) == f"ddp_benchmark_python {path} on node1: {said}"


def test_no_such_user() -> None:
    with pytest.raises(RailwrightError, match="ddp_benchmark_user: nobody-here: this node has no such user"):
        node.account("nobody-here")


def share(**more: Any) -> Share:
    values = {"run": "ddp-test", "user": ME, "python": sys.executable, "nodes": 1, "node_rank": 0, "processes": 2, "first_rank": 4,
              "master": "127.0.0.1", "port": 29500, "interface": None, "environment": {}, "backend": "gloo", "steps": 10, "warmup": 1,
              "batch": 1, "timeout_s": 30, "old_torch": False, "repeatable": False}
    return Share(**{**values, **more})


def test_a_variable_of_the_ranks_is_in_no_command_line() -> None:
    planted = share(environment={"WANDB_API_KEY": PLANTED})
    assert torchrun_environment(planted, "/run")["WANDB_API_KEY"] == PLANTED
    assert not [word for word in command(planted, "/run") if PLANTED in word]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_directory, "ROOT", str(tmp_path))
    monkeypatch.setattr(run_directory, "BASE", str(tmp_path / "bench"))
    return tmp_path / "bench" / "ddp-test"


def test_what_the_ranks_left_is_collected_and_taken_away(directory: Path) -> None:
    (directory / "ranks" / "none_x").mkdir(parents=True)
    (directory / "rank-4.json").write_text('{"rank": 4}', encoding="utf-8")
    (directory / "rank-5.json").write_text("not json", encoding="utf-8")
    (directory / "rank-6.json").write_text('{"rank": 6}', encoding="utf-8")  # another node's number
    (directory / "failed-5.json").write_text('{"rank": 5, "at": 1, "message": "x"}', encoding="utf-8")
    (directory / "result.json").write_text("[1]", encoding="utf-8")
    (directory / "torchrun.log").write_text("a\x1b[31mb\n", encoding="utf-8")
    found = node.collect(Host(), share())
    failure = {"rank": 5, "at": 1.0, "message": "x", "kind": "error"}
    assert found == {"rc": None, "ranks": [{"rank": 4}], "failures": [failure], "result": None, "log": "ab\n"}
    node.remove(Host(), share().run)
    assert not directory.exists()


def test_the_last_part_of_a_long_log_counts(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "torchrun.log").write_text("x" * 5_000_000 + "\nthe end\n", encoding="utf-8")
    assert node.collect(Host(), share())["log"].endswith("\nthe end\n")


@pytest.fixture
def torchrun(tmp_path: Path, directory: Path) -> Any:
    """A Python whose torchrun is these lines."""

    def make(text: str) -> str:
        package = tmp_path / "site" / "torch" / "distributed"
        package.mkdir(parents=True)
        for name, content in (("../__init__.py", ""), ("__init__.py", ""), ("run.py", text)):
            (package / name).write_text(content, encoding="utf-8")
        wrapper = tmp_path / "python"
        wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/site exec {sys.executable} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)
        return str(wrapper)

    return make


def test_a_job_is_started_polled_and_gone(directory: Path, torchrun: Any) -> None:
    """The real keeper and a real process; torchrun is a stand-in of a few lines that ends with 3."""
    own = share(python=torchrun("import sys, time\nprint('No luck')\ntime.sleep(1)\nsys.exit(3)\n"))
    old = directory.with_name("ddp-old")
    (old / "ranks").mkdir(parents=True)  # left by one whose controller died, a while ago
    os.utime(old, (1.0, 1.0))
    process = node.start(Host(), own, {"ddp_benchmark.py": "x = 1\n"})
    try:
        assert not old.exists()
        first = node.poll(Host(), own, process, 0.0)
        assert (first["done"], first["over"], first["exit"]) == (False, True, None)
        assert (directory / "ddp_benchmark.py").read_text(encoding="utf-8") == "x = 1\n"
        begun = time.monotonic()
        last = node.poll(Host(), own, process, 600.0)
        assert (last["done"], last["over"], last["exit"]) == (True, True, 3)
        assert time.monotonic() - begun < node.WAIT_S, "the end is noticed at once"
    finally:
        node.stop(Host(), own)
    assert node.collect(Host(), own)["log"] == "No luck\n"
    assert processes.marked(Host(), own.run, os.geteuid()) == []
    node.remove(Host(), own.run)
    assert not directory.exists()


@pytest.mark.parametrize(("said", "left"), [
    ("failed (exitcode: -9) local_rank: 1 (pid: 12) of binary: python3", ""),
    ("", '{"rank": 5, "at": 1, "message": "x"}'),
])
def test_a_rank_that_failed_is_the_end_though_torchrun_still_waits(
    said: str, left: str, directory: Path, torchrun: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node, "WAIT_S", 0.5)
    own = share(python=torchrun(f"import time\nprint({said!r}, flush=True)\ntime.sleep(60)\n"))
    process = node.start(Host(), own, {})
    try:
        if left:
            (directory / "failed-5.json").write_text(left, encoding="utf-8")
        wanted = time.monotonic() + 60
        found = node.poll(Host(), own, process, 600.0)
        while not found["done"] and time.monotonic() < wanted:
            found = node.poll(Host(), own, process, 600.0)
        assert (found["done"], found["over"], found["exit"]) == (True, True, None)
    finally:
        assert node.stop(Host(), own) > 0
    node.remove(Host(), own.run)


def test_a_job_that_goes_well_is_waited_for(directory: Path, torchrun: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "WAIT_S", 0.5)
    own = share(python=torchrun("import time\ntime.sleep(60)\n"))
    process = node.start(Host(), own, {})
    try:
        (directory / "progress.json").write_text('{"phase": "steps", "step": 3, "steps": 10}', encoding="utf-8")
        found = node.poll(Host(), own, process, 600.0)
        assert (found["done"], found["over"], found["exit"]) == (False, False, None)
        assert (found["progress"]["step"], found["progress"]["steps"]) == (3, 10)
    finally:
        node.stop(Host(), own)
    node.remove(Host(), own.run)


def test_nccls_log_is_read_and_reduced(directory: Path) -> None:
    assert node.way(Host(), share()) == "", "nothing was started"
    directory.mkdir(parents=True)
    (directory / "nccl.ddp.n1.7.log").write_text("n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\nnoise\n")
    (directory / "nccl.other.n1.7.log").write_text("n1:1:2 [0] NCCL INFO Using network Socket\n")
    assert node.way(Host(), share()) == "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0\n"


def test_nccls_log_is_collected_before_it_is_taken_away(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_directory, "judge_counters", lambda *_asked: {"counters": [], "traffic": []})
    directory.mkdir(parents=True)
    (directory / "nccl.ddp.n1.7.log").write_text("n1:1:2 [0] NCCL INFO Using network IB\n")
    found = STEPS["ddp"]["collect"](Host(), {"share": share()._asdict(), "node": "n1", "watch": {}})
    assert found["collected"]["way"] == "n1:1:2 [0] NCCL INFO Using network IB\n"
    assert not directory.exists()
