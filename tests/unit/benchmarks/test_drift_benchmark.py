# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make bench` counts and writes: the whole process tree of a command, and a document of a fixed form. No limit is put on a time."""

import argparse
import os
import sys
from pathlib import Path

import pytest
from tests.bench.drift import Failed, answers, clean, document, items
from tests.bench.meter import Cost, measure

import repo
from ssh_world import address, sshd_config

# A child that leaves its parent at once, as ssh does for ControlPersist, and works after that until it is told to end.
LEAVES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    while time.process_time() < 0.1:
        pass
    open(sys.argv[1], "w").close()
    time.sleep(60)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
os._exit(7)
"""
FINDINGS = [
    {"kind": "setting", "what": "package rdma-core", "expected": "present", "found": "absent"},
    {"kind": "setting", "what": "file /etc/nccl.conf (NCCL_IB_HCA)", "expected": "NCCL_IB_HCA=mlx5_0\n", "found": None},
    {"kind": "setting", "what": "file /etc/old.conf", "expected": None, "found": "x"},
    {"kind": "setting", "what": "sysctl vm.swappiness", "expected": 10, "found": "60"},
    {"kind": "setting", "what": "MTU of rail0 (eth0)", "expected": 9000, "found": 1500},
    {"kind": "state", "what": "package of something", "expected": "present", "found": "absent"},
]


def test_who_stays_behind_is_counted_and_ended(tmp_path: Path) -> None:
    cost = measure([sys.executable, "-c", LEAVES, str(tmp_path / "worked")], os.environ, tmp_path)
    assert cost.status == 7
    assert cost.cpu_s >= 0.1
    assert cost.wall_s < 60


def test_memory_is_that_of_all_processes_at_one_moment(tmp_path: Path) -> None:
    child = "held = b'x' * (64 << 20); import time; time.sleep(2)"
    two = f"import subprocess, sys; [x.wait() for x in [subprocess.Popen([sys.executable, '-c', {child!r}]) for _ in range(2)]]"
    assert 128 <= measure([sys.executable, "-c", two], os.environ, tmp_path).rss_mb <= 256


def test_an_ordinary_playbook_holds_what_drift_found_different() -> None:
    assert items(FINDINGS) == {
        "bench_packages": ["rdma-core"],
        "bench_files": [{"path": "/etc/nccl.conf", "text": "NCCL_IB_HCA=mlx5_0\n"}],
        "bench_sysctls": [{"key": "vm.swappiness", "value": "10"}],
    }
    (play,) = repo.read_yaml("tests/bench/check.yml")
    assert {name for name in items(FINDINGS) if name in str(play)} == set(items(FINDINGS))


def test_the_document() -> None:
    options = argparse.Namespace(nodes=100, rounds=3, pipelining=False)
    found = document(options, 40, {"ping": 20.0, "drift": 25.0, "play": 22.0, "check": 300.0}, {"node001": FINDINGS})
    assert (found["nodes"], found["ping_cpu_s"], found["drift_cpu_s"], found["check_cpu_s"]) == (100, 20.0, 25.0, 300.0)
    assert (found["drift_over_ping"], found["play_over_ping"], found["check_over_drift"]) == (1.25, 1.1, 12.0)
    assert found["checked"] == {"packages": 1, "files": 1, "sysctls": 1}


@pytest.mark.parametrize("said", ["", '{\n  "nodes": {}, "summary": {"ok": 2}}'])
def test_a_drift_without_all_nodes_is_no_figure(said: str) -> None:
    with pytest.raises(Failed):
        answers(Cost(1.0, 1.0, 2, said), 3)


def test_settings_of_the_operator_do_not_count(tmp_path: Path) -> None:
    found = clean({"ANSIBLE_PIPELINING": "1", "PATH": "/usr/bin", "HOME": "/root"}, tmp_path, pipelining=False)
    assert "ANSIBLE_PIPELINING" not in found
    assert found["HOME"] == "/root"
    assert clean({}, tmp_path, pipelining=True)["ANSIBLE_PIPELINING"] == "True"


def test_sshd_listens_on_loopback_only(tmp_path: Path) -> None:
    hosts = [address(number) for number in (1, 250, 251, 1000)]
    assert hosts == ["127.0.0.1", "127.0.0.250", "127.0.1.1", "127.0.3.250"]
    listened = [line for line in sshd_config(tmp_path, hosts, 2222).splitlines() if line.startswith("ListenAddress")]
    assert listened == [f"ListenAddress {host}" for host in hosts]
    assert all(line.split()[1].startswith("127.") for line in listened)
