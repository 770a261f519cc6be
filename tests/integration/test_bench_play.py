# SPDX-License-Identifier: GPL-3.0-or-later
"""The play of nccl-tests over a real ansible-playbook on this machine: local connection, launcher local, all steps real.

Only the program and, where a test needs GPUs, libcuda are stand-ins: a shell script that prints a table in the form of nccl-tests'
source, and a library of a few functions that a C compiler makes here. Nothing was recorded on a GPU.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nccl_tables import table

ROOT = Path(__file__).resolve().parents[2]
GIB = 1 << 30
HALF = {"time_us": 5000.0, "algbw": 214.75, "busbw": 214.75, "wrong": 0}
ROW = {"size": GIB, "count": GIB // 4, "type": "float", "redop": "sum", "root": -1, "out_of_place": HALF, "in_place": HALF}
HELP = 'case "$1" in -h) echo "[-b,--minbytes <min size in bytes>]"; exit 0;; esac'
CUDA = """
#include <stddef.h>
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strcpy(name, "NVIDIA H200"); return 0; }
int cuDeviceGetPCIBusId(char *name, int length, int device) { strcpy(name, device ? "0000:2b:00.0" : "0000:1b:00.0"); return 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = 150754820096UL; return 0; }
"""
PLAY = """
- hosts: rdma
  gather_facts: false
  tasks:
    - name: Run and keep the result
      block:
        - ansible.builtin.include_role: {name: railwright.rdma.nccl_tests, tasks_from: run.yml}
      always:
        - ansible.builtin.copy: {content: "{{ __nccl_tests_judge | to_json }}", dest: "{{ result_file }}", mode: "0600"}
          run_once: true
"""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the play becomes root, as on a node"),
    pytest.mark.xdist_group("bench"),  # a node has one run at a time, and this machine is the node
]


class Site:
    """An inventory of one node that is this machine, and the stand-ins."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.libraries: list[str] = []
        self.node = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable,
                     "rdma_rails": [{"name": "rail0", "match": {"mac": "52:54:00:aa:bb:01"}, "address": "10.10.0.1/24"}]}
        (directory / "table.txt").write_text(table("2.19", [ROW]))
        (directory / "play.yml").write_text(PLAY)

    def program(self, *body: str) -> None:
        path = self.directory / "all_reduce_perf"
        path.write_text("\n".join(("#!/bin/sh", HELP, *body)) + "\n")
        path.chmod(0o755)

    def gpus(self) -> None:
        compiler = shutil.which("cc")
        assert compiler is not None, "a C compiler makes the stand-in for libcuda: tools/need compiler"
        (self.directory / "cuda.c").write_text(CUDA)
        target = self.directory / "libcuda.so.1"
        subprocess.run((compiler, "-shared", "-fPIC", "-o", target, self.directory / "cuda.c"), check=True)
        self.libraries = [str(self.directory)]

    def run(self, **keys: Any) -> tuple[int, str, dict[str, Any]]:
        """(exit status, output, the judgement)."""
        # The stand-ins are in a directory of root's, who runs these tests: so here root is the job user.
        own = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_job_user_root": "accept",
               "__nccl_tests_directory": str(self.directory), "__nccl_tests_library_path": self.libraries,
               "result_file": str(self.directory / "result.json"), "nccl_tests_environment": {"SITE": str(self.directory)}, **keys}
        inventory = {"all": {"vars": own, "children": {"rdma": {"hosts": {"n1": self.node}}}}}
        (self.directory / "hosts.yml").write_text(json.dumps(inventory))
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.directory), "LANG": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH":
            str(ROOT / ".dev"), "VAULT_TOKEN": "hunter2",
        }
        argv = (str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.yml", "play.yml")
        done = subprocess.run(argv, cwd=self.directory, env=environment, capture_output=True, text=True, timeout=180, check=False)
        result = self.directory / "result.json"
        return done.returncode, done.stdout + done.stderr, json.loads(result.read_text()) if result.exists() else {}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def statuses(judged: dict[str, Any]) -> dict[str, str]:
    return {item["check"]: item["status"] for item in judged["verdicts"]}


def clean(site: Site) -> bool:
    """Whether no process of this machine has anything to do with the site: its directory is in environments and command lines."""
    own = str(site.directory).encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found.append(entry.name.isdigit() and own in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes())
        except OSError:
            continue
    return not any(found)


def test_without_a_gpu_it_ends_with_one_clear_line(site: Site) -> None:
    site.program(f"cat {site.directory}/table.txt")
    code, output, judged = site.run()
    assert code != 0
    assert "no CUDA device on n1: " in output
    assert statuses(judged) == {"nccl.devices": "fail"}
    assert judged["bench"]["runs"] == []
    assert clean(site)


def test_a_standin_program_from_look_to_bench_document(site: Site) -> None:
    site.gpus()
    site.program("env", f"cat {site.directory}/table.txt")
    code, output, judged = site.run(nccl_tests_min_busbw={"all_reduce": 200})
    assert code == 0, output
    assert {check: status for check, status in statuses(judged).items() if status != "pass"} == {
        "cluster.outlier": "skipped", "nccl.straggler": "skipped", "nccl.transport": "unknown"}  # two ranks, no plugin, no line of NCCL's
    bench = judged["bench"]
    (run,) = bench["runs"]
    assert (bench["launcher"], bench["hosts"], bench["ranks"], bench["gpus"]) == ("local", ["n1"], 2, {"n1": ["NVIDIA H200"] * 2})
    assert (run["rc"], run["complete"], run["judged_busbw"], run["floor"]) == (0, True, 214.75, 200.0)
    assert bench["versions"]["n1"]["nccl_tests"] == "2.19.6"
    assert bench["versions"]["n1"]["cuda"] == "13.0"
    assert run["environment"]["NCCL_DEBUG"] == "INFO"
    assert "hunter2" not in json.dumps(judged) + output
    assert not list(Path("/run/railwright/bench").iterdir())
    assert clean(site)


def test_a_threshold_that_is_too_high(site: Site) -> None:
    site.gpus()
    site.program(f"cat {site.directory}/table.txt")
    code, output, judged = site.run(nccl_tests_min_busbw={"all_reduce": 300})
    assert code != 0
    assert statuses(judged)["nccl.busbw"] == "fail"
    assert "214.8 GB/s busbw at 1 GiB, below 300.0; ceiling 370.8 by NVLink (18 links a GPU)" in output


def test_a_threshold_that_nothing_can_reach(site: Site) -> None:
    site.gpus()
    site.program(f"touch {site.directory}/started")
    code, output, _judged = site.run(nccl_tests_min_busbw={"all_reduce": 1000})
    assert code != 0
    assert "all_reduce: 1000 GB/s is more than these nodes can reach: 370.8 GB/s" in output
    assert not (site.directory / "started").exists()


def test_a_standin_that_is_killed_half_way_with_a_stray(site: Site) -> None:
    site.gpus()
    site.program("(trap '' TERM HUP; exec setsid sleep 100) &", f"head -n 14 {site.directory}/table.txt", "sleep 0.2", "kill -9 $$")
    code, output, judged = site.run(nccl_tests_collectives=["all_reduce"])
    assert code != 0
    assert statuses(judged)["nccl.complete"] == "fail"
    assert "exit 137: killed by SIGKILL" in output
    assert statuses(judged)["nccl.leftovers"] == "warn"
    assert clean(site)


def test_a_standin_that_does_not_end(site: Site) -> None:
    site.gpus()
    site.program("exec sleep 100")
    begun = time.monotonic()
    code, output, judged = site.run(nccl_tests_timeout_s=10)
    assert code != 0
    assert "exit 124: its time was over" in output
    assert time.monotonic() - begun < 60
    assert statuses(judged)["nccl.complete"] == "fail"
    assert clean(site)


@pytest.mark.parametrize("play", ["nccl_tests", "ddp_benchmark", "ssh_mesh"])
def test_nothing_runs_as_root_unless_a_key_accepts_it(site: Site, play: str) -> None:
    """The playbooks themselves, over a plain ansible-playbook, whose login is root: one line, and nothing is started or written."""
    site.gpus()
    site.program(f"touch {site.directory}/ran")
    (site.directory / "play.yml").write_text(f"- import_playbook: railwright.rdma.{play}\n")
    code, output, _judged = site.run(rdma_job_user_root="refuse", ddp_benchmark_python=str(site.directory / "all_reduce_perf"))
    assert code != 0
    said = [line for line in output.split("\n") if line.startswith("fatal")]
    assert len(said) == 1, output
    assert "rdma_job_user is not set, and Ansible logs in as root" in said[0]
    assert not (site.directory / "ran").exists()
    assert not Path("/etc/ssh/railwright_mesh_known_hosts").exists()
