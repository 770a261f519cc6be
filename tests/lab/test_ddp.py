# SPDX-License-Identifier: GPL-3.0-or-later
"""The training benchmark between two containers: Debian's torch with gloo, torchrun, the job user, the whole role as a user runs it.

Real are torch, torchrun, the processes, their end and every figure; not shown is CUDA with NCCL. Containers and not virtual machines:
torch needs nothing of a kernel. A third node has no torch.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import Cluster, Node
from harness import Container

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "lab" / "test_ddp"
USER = "train"
RUN_SECONDS = 600
TORCH = ["python3-torch"]
NODES = (*({"name": name, "user": USER, "packages": TORCH} for name in ("node1", "node2")), {"name": "node3", "user": USER})
SITE = {"rdma_fabric": "roce", "rdma_mtu": 9000, "ddp_benchmark_backend": "gloo", "ddp_benchmark_user": USER}
# A node that damages data: what it adds to a sum is off by one in the last value.
DAMAGE = """
import torch.distributed
whole = torch.distributed.all_reduce
def damaged(tensor, *arguments, **options):
    done = whole(tensor, *arguments, **options)
    if tensor.numel() > 1:
        tensor.view(-1)[-1] += 1
    return done
torch.distributed.all_reduce = damaged
"""


class TrainingNodes(Cluster):
    """Nodes of this file, with what molecule's cluster makes of an entry: ssh, sudo, inventory, checked host keys."""

    def __init__(self, source: Path) -> None:
        super().__init__("default")
        self.scenario, self.source, self.directory = "ddp", source, BUILD
        self.nodes = [Node(place, dict(entry)) for place, entry in enumerate(NODES)]
        self.prefix = self.prefix.replace("-default", "-lab-ddp")
        self.inventory, self.key, self.known_hosts = BUILD / "inventory", BUILD / "id_ed25519", BUILD / "known_hosts"


@dataclass(frozen=True)
class Run:
    """One run of `railwright bench`."""

    code: int
    document: dict[str, Any]
    seconds: float

    def verdict(self, check: str) -> dict[str, Any]:
        (found,) = [item for item in self.document["verdicts"] if item["check"] == check]
        return dict(found)


class Site:
    """The inventory, railwright over it, and an inspection of the nodes."""

    def __init__(self, nodes: TrainingNodes) -> None:
        self.nodes = nodes

    def node(self, name: str) -> Container:
        return self.nodes.container(name)

    def say(self, values: dict[str, Any], node2: dict[str, Any] | None = None) -> None:
        """What the inventory says from now on."""
        for place, content in (("group_vars/all/site.yml", {**SITE, **values}), ("host_vars/node2.yml", node2 or {})):
            path = self.nodes.inventory / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(content), encoding="utf-8")

    def start(self, limit: str = "node1,node2") -> subprocess.Popen[str]:
        argv = [str(Path(sys.executable).with_name("railwright")), "bench", "-i", str(self.nodes.inventory), "--limit", limit, "--ddp",
                "--no-nccl-tests", "--format", "json"]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=BUILD)

    def end(self, process: subprocess.Popen[str], begun: float) -> Run:
        try:
            out, err = process.communicate(timeout=RUN_SECONDS)
        finally:
            process.kill()
        assert out, f"exit {process.returncode}, nothing on stdout: {err[-3000:]}"
        run = Run(process.returncode, json.loads(out), time.monotonic() - begun)
        print(f"{run.seconds:.0f} s, exit {run.code}: {json.dumps(run.document)[:3000]}")
        return run

    def bench(self, limit: str = "node1,node2") -> Run:
        begun = time.monotonic()
        return self.end(self.start(limit), begun)

    def ranks(self, name: str) -> list[str]:
        """Process ids of the ranks on a node: the script's own processes, not torchrun that has its name in its arguments too."""
        listed = self.node(name).run("pgrep", "-u", USER, "-f", "^[^ ]*python3[^ ]* -u .*ddp_benchmark.py", check=False).stdout
        return listed.split()

    def left(self, name: str) -> list[str]:
        """What a run left on a node: marked processes, files of its directory, torchrun's own in /tmp."""
        script = ("import glob, os\n"
                  "for path in glob.glob('/proc/[0-9]*/environ'):\n"
                  "    try:\n"
                  "        text = open(path, 'rb').read()\n"
                  "    except OSError:\n"
                  "        continue\n"
                  "    if b'RAILWRIGHT_BENCH=' in text:\n"
                  "        print(path, open(path.replace('environ', 'cmdline')).read().replace(chr(0), ' '))\n"
                  "print('\\n'.join(glob.glob('/run/railwright/bench/*') + glob.glob('/tmp/torchelastic*')))\n")
        return self.node(name).run("python3", "-", stdin=script).stdout.split()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    source = tmp_path_factory.mktemp("site")
    (source / "group_vars" / "all").mkdir(parents=True)
    nodes = TrainingNodes(source)
    shutil.rmtree(BUILD, ignore_errors=True)
    nodes.up()
    try:
        yield Site(nodes)
    finally:
        nodes.down()


@pytest.fixture
def clean(site: Site) -> Iterator[Site]:
    """Whatever a test does: afterwards nothing of it is left on any node."""
    yield site
    assert {name: site.left(name) for name in ("node1", "node2", "node3")} == {"node1": [], "node2": [], "node3": []}


def wait(holds: Callable[[], Any], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.3)


def test_two_nodes_train_together(clean: Site) -> None:
    clean.say({"ddp_benchmark_steps": 40, "ddp_benchmark_processes": 2, "ddp_benchmark_min_samples_per_s": 1})
    run = clean.bench()
    assert run.code == 0, run.document
    assert {item["check"]: item["status"] for item in run.document["verdicts"]} == {
        "ddp.complete": "pass", "ddp.values": "pass", "ddp.throughput": "pass", "ddp.versions": "pass", "ddp.straggler": "pass"}
    ddp = run.document["ddp"]
    assert (ddp["hosts"], ddp["world_size"], ddp["backend"], ddp["steps"], ddp["batch"]) == (["node1", "node2"], 4, "gloo", 40, 64)
    steps = [ddp["step_ms"][name] for name in ("p50", "p75", "p90", "p95")]
    assert steps[0] > 0 and steps == sorted(steps)
    # Half of the steps are faster than the median, none takes no time: the mean, and with it the throughput, is bound by the percentiles.
    assert 4 * 64 / ddp["samples_per_s"] > steps[0] / 1000 / 2
    installed = clean.node("node1").out("python3", "-c", "import torch; print(torch.__version__)").strip()
    assert {name: said["torch"] for name, said in ddp["versions"].items()} == {"node1": installed, "node2": installed}


def test_a_threshold_that_is_not_reached_fails(clean: Site) -> None:
    clean.say({"ddp_benchmark_steps": 10, "ddp_benchmark_min_samples_per_s": 1e9})
    run = clean.bench()
    assert run.code == 1
    assert run.verdict("ddp.complete")["status"] == "pass"
    assert run.verdict("ddp.throughput")["status"] == "fail"


def test_a_rank_that_is_killed_ends_the_job_everywhere(clean: Site) -> None:
    clean.say({"ddp_benchmark_steps": 1000000})
    begun = time.monotonic()
    process = clean.start()
    wait(lambda: clean.ranks("node1") and clean.ranks("node2"), 120, "ranks on both nodes")
    progress = "grep -qE '\"step\": [1-9]' /run/railwright/bench/*/progress.json"
    wait(lambda: clean.node("node1").run("sh", "-c", progress, check=False).returncode == 0, 120, "steps")
    clean.node("node2").run("kill", "-9", *clean.ranks("node2"))
    killed = time.monotonic()
    run = clean.end(process, begun)
    print(f"ended {time.monotonic() - killed:.0f} s after the kill")
    assert run.code == 1
    verdict = run.verdict("ddp.complete")
    assert verdict["status"] == "fail"
    assert verdict["message"] == "rank 1 on node2 was ended by signal 9 (SIGKILL)"
    assert run.verdict("ddp.throughput")["status"] == "skipped"
    assert run.document["ddp"]["samples_per_s"] is None


def test_damaged_data_is_noticed(clean: Site) -> None:
    broken = clean.node("node2")
    broken.write("/opt/broken/sitecustomize.py", DAMAGE)
    broken.write("/opt/broken/python3", '#!/bin/sh\nPYTHONPATH=/opt/broken exec /usr/bin/python3 "$@"\n', "0755")
    clean.say({"ddp_benchmark_steps": 10}, {"ddp_benchmark_python": "/opt/broken/python3"})
    run = clean.bench()
    assert run.code == 1
    verdict = run.verdict("ddp.values")
    assert verdict["status"] == "fail"
    where = "rank 1 on node2: WrongValueError: all_reduce of 1000003 torch.int64 on rank 1"
    assert verdict["message"] == f"{where}: 1 of 1000003 values are wrong, the first at 1000002: {3 * 19 + 1}, not {3 * 19}"


def test_a_rank_that_comes_late_is_named(clean: Site) -> None:
    slow = clean.node("node2")
    slow.write("/opt/slow/sitecustomize.py", "from torch import nn\nimport time\nforward = nn.MSELoss.forward\n"
               "nn.MSELoss.forward = lambda *arguments: (time.sleep(0.1), forward(*arguments))[1]\n")
    slow.write("/opt/slow/python3", '#!/bin/sh\nPYTHONPATH=/opt/slow exec /usr/bin/python3 "$@"\n', "0755")
    clean.say({"ddp_benchmark_steps": 10}, {"ddp_benchmark_python": "/opt/slow/python3"})
    run = clean.bench()
    assert run.code == 0, "a warning"
    found = run.verdict("ddp.straggler")
    assert (found["status"], found["node"]) == ("warn", "node2")
    assert found["message"].startswith("rank 1 on node2 (process 0) comes late to ")
    assert [row["rank"] for row in run.document["ddp"]["late"]] == [1]


def test_a_time_limit_ends_it(clean: Site) -> None:
    clean.say({"ddp_benchmark_steps": 1000000, "ddp_benchmark_timeout_s": 30})
    run = clean.bench()
    assert run.code == 1
    assert "did not end within 30 s (ddp_benchmark_timeout_s)" in run.verdict("ddp.complete")["message"]


def message_of(run: Run) -> str:
    """The one thing that is said about the nodes that failed."""
    told = [str(host.get("message") or "") for host in hosts_of(run) if host.get("status") == "failed"]
    (found,) = [text for text in told if text]
    return found


def hosts_of(run: Run) -> list[dict[str, Any]]:
    nodes = run.document["nodes"]
    return list(nodes.values()) if isinstance(nodes, dict) else list(nodes)


def test_a_node_without_torch_is_one_line(clean: Site) -> None:
    clean.say({})
    run = clean.bench("node1,node3")
    assert run.code == 1
    said = message_of(run)
    assert said == "ddp_benchmark: ddp_benchmark_python python3 on node3 has no torch: ModuleNotFoundError: No module named 'torch'"
    assert run.document["ddp"] is None


def test_without_cuda_nccl_is_refused(clean: Site) -> None:
    clean.say({"ddp_benchmark_backend": "nccl"})
    run = clean.bench("node1")
    assert run.code == 1
    assert "was built without nccl" in message_of(run)


def test_a_port_that_is_taken_is_named(clean: Site) -> None:
    clean.say({"ddp_benchmark_port": 29600})
    listener = "import socket, time\nserver = socket.create_server(('0.0.0.0', 29600))\ntime.sleep(60)\n"
    clean.node("node1").run("systemd-run", "--unit=listener", "python3", "-c", listener)
    try:
        wait(lambda: "29600" in clean.node("node1").out("ss", "-ltn"), 10, "the listener")
        run = clean.bench()
    finally:
        clean.node("node1").run("systemctl", "stop", "listener", check=False)
    assert run.code == 1
    assert message_of(run) == "ddp_benchmark: TCP port 29600 on node1 is taken; set ddp_benchmark_port to a free one; nothing was started"
