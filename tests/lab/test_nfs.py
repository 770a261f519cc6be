# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl_tests_nfs on two machines: node1 exports, both mount by our unit, one of them builds; the server goes away, and comes back.

Real: the kernel's NFS server and client, the mount unit, the role's plays, make and g++, the loader. Stood in for: the GPUs (PCI functions,
captured), nvcc, libnccl.so.2 and the source, as in scenario nccl_tests_build. node1 is a client of its own server.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from lab_images import NFS
from lab_machine import Machine
from lab_pair import NODES
from launching import core
from railwright import lab

RECIPE, HARDWARE, RAILS = NFS, lab.Hardware(), 1
ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "molecule"
SERVER, EXPORT, PATH = "198.18.0.11", "/srv/export", "/shared/nccl-tests"
UNIT = "shared-nccl\\x2dtests.mount"
# So that a server that comes back takes up its work in seconds: it waits that long for clients of before.
QUICK = "[nfsd]\ngrace-time=10\nlease-time=10\n"
RUN_SECONDS = 900
# The node's own limit for an answer is 20 s, and a child that is asked to end gets 4 more; the rest is Python's start under emulation.
BOUND_SECONDS = 90
STEP = """import json, sys, time
sys.path.insert(0, sys.argv[1])
from module_utils.errors import RailwrightError
from module_utils.host.host import Host
from module_utils.prefix.nccl_tests.install import run_step
begun = time.monotonic()
try:
    said = json.dumps(run_step(Host(), sys.argv[2], json.loads(sys.argv[3]), dry=False))
except RailwrightError as error:
    said = str(error)
print(json.dumps([said, time.monotonic() - begun]))
"""


class Ran(NamedTuple):
    """One run of the role: of each node its failures; the nodes that changed."""

    failed: dict[str, list[Any]]
    changed: dict[str, list[str]]
    directory: str
    seconds: float


class World:
    def __init__(self, machines: tuple[Machine, ...], place: Path) -> None:
        self.machines, self.place = machines, place
        self.server, self.client = machines

    def prepare(self) -> None:
        """Addresses on the wire between them, the export, a toolchain and a GPU's PCI function on each."""
        toolchain = (SCENARIOS / "nccl_tests_build/toolchain.py").read_text(encoding="utf-8")
        gpu = (SCENARIOS / "gpu_stack/gpu_pci.py").read_text(encoding="utf-8")
        for number, machine in enumerate(self.machines):
            machine.run("ip", "address", "add", f"198.18.0.{11 + number}/24", "dev", "eth1")
            machine.run("ip", "link", "set", "eth1", "up")
            machine.run("python3", "-c", toolchain, *(["nvcc"] if number == 0 else []))
            machine.run("python3", "-c", gpu, "none", "0000:1b:00.0=0x030200:0x2330")
            machine.write("/var/lib/step.py", STEP)
        self.server.run("mkdir", "-p", EXPORT)
        self.server.write("/etc/nfs.conf.d/quick.conf", QUICK)
        self.server.write("/etc/exports", f"{EXPORT} 198.18.0.0/24(rw,no_root_squash,no_subtree_check)\n")
        self.server.run("systemctl", "restart", "nfs-server.service")
        source = self.place / "nccl-tests.tar.gz"
        with tarfile.open(source, "w:gz") as tar:
            for part in sorted((SCENARIOS / "nccl_tests_build/source").iterdir()):
                content = part.read_bytes()
                entry = tarfile.TarInfo(f"nccl-tests-2.19.6/{part.name}")
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        site = {
            "rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_stack": "soft_roce", "nccl_tests_launcher": "local", "nccl_tests_path": PATH,
            "nccl_tests_nfs": f"{SERVER}:{EXPORT}", "nccl_tests_archive": str(source), "rdma_job_user": "nobody",
            "rdma_artifact_pins": {"nccl-tests": hashlib.sha256(source.read_bytes()).hexdigest()},
        }  # fmt: skip
        (self.server.inventory / "group_vars/all/site.yml").write_text(yaml.safe_dump(site), encoding="utf-8")

    def role(self) -> Ran:
        """The beginning of role nccl_tests on both, by ansible-playbook."""
        outcome = self.place / "outcome.json"
        outcome.unlink(missing_ok=True)
        argv = (str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(self.server.inventory),
                str(SCENARIOS / "nccl_tests_build/converge.yml"))
        env = {
            **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev"), "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_CALLBACK_PLUGINS": str(SCENARIOS / "shared/callback"), "ANSIBLE_CALLBACKS_ENABLED": "railwright_outcome",
            "RAILWRIGHT_OUTCOME": str(outcome),
        }  # fmt: skip
        begun = time.monotonic()
        done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_SECONDS, check=False, cwd=ROOT, env=env)
        seconds = time.monotonic() - begun
        assert outcome.is_file(), (done.stdout + done.stderr)[-3000:]
        hosts = json.loads(outcome.read_text(encoding="utf-8"))
        assert not any(hosts[node]["unreachable"] for node in NODES), done.stdout[-3000:]
        told = self.place / f"outcome.json-{NODES[1]}"
        directory = json.loads(told.read_text(encoding="utf-8"))["directory"] if told.is_file() else ""
        print(f"the role took {seconds:.0f} s", flush=True)
        return Ran({node: hosts[node]["failed"] for node in NODES}, {node: hosts[node]["changed"] for node in NODES}, directory, seconds)

    def step(self, machine: Machine, step: str, directory: str) -> tuple[str, float]:
        """One step of the node's own code, as the module starts it: what it said, and how long it took there."""
        given = {"directory": directory, "programs": {}, "gpus": 1, "pending": False, "first": "all_reduce_perf", "library_path": []}
        argv = ("python3", "-I", "/var/lib/step.py", "/var/lib/core.zip", step, json.dumps(given))
        said, seconds = json.loads(machine.run(*argv, timeout=BOUND_SECONDS))
        print(f"{machine.node}: {step}: {seconds:.1f} s: {said}", flush=True)
        return said, seconds

    def bring_core(self) -> None:
        for machine in self.machines:
            argv = lab.ssh_argv(machine.node, ["tee", "/var/lib/core.zip"], state_dir=machine.state_dir)
            subprocess.run(argv, input=core(), stdout=subprocess.DEVNULL, check=True, timeout=120)

    def hangs(self, machine: Machine) -> list[str]:
        """Our processes that wait for the server."""
        listed = machine.run("ps", "-e", "-ww", "-o", "stat=,args=").splitlines()
        return [line for line in listed if line.startswith("D") and ("step.py" in line or "AnsiballZ" in line or PATH in line)]


@pytest.fixture(scope="module")
def world(machines: tuple[Machine, ...], tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(machines, tmp_path_factory.mktemp("nfs"))
    made.prepare()
    made.bring_core()
    return made


@pytest.fixture(scope="module")
def first(world: World) -> Ran:
    return world.role()


def test_both_machines_mount_it_by_our_unit(world: World, first: Ran) -> None:
    assert first.failed == {node: [] for node in NODES}
    for machine in world.machines:
        assert machine.run("findmnt", "-n", "-o", "SOURCE,FSTYPE", PATH).split() == [f"{SERVER}:{EXPORT}", "nfs4"]
        assert machine.run("systemctl", "is-active", UNIT).strip() == "active"
        assert machine.run("systemctl", "is-enabled", UNIT).strip() == "enabled"
        options = machine.run("findmnt", "-n", "-o", "OPTIONS", PATH).strip().split(",")
        assert {"nosuid", "nodev", "hard"} <= set(options)


def test_the_program_runs_from_the_mount_on_the_client(world: World, first: Ran) -> None:
    said = world.client.run("runuser", "-u", "nobody", "--", f"{first.directory}/all_reduce_perf").splitlines()
    assert (said[0], said[3]) == ("all_reduce", "nccl 23007")
    assert first.directory.startswith(f"{PATH}/2.19.6-")
    built = world.server.run("find", EXPORT, "-name", "*_perf").split()
    assert sorted(path.rpartition("/")[2] for path in built) == ["all_gather_perf", "all_reduce_perf"], "built once, on the server's disk"
    assert world.client.run("test", "!", "-e", "/usr/local/cuda/bin/nvcc") == "", "the client cannot have built it"


def test_a_second_run_changes_nothing(world: World, first: Ran) -> None:
    again = world.role()
    assert again.failed == {node: [] for node in NODES}
    assert again.changed == {node: [] for node in NODES}


def test_a_server_that_is_away_is_said_in_bounded_time(world: World, first: Ran) -> None:
    world.server.run("systemctl", "stop", "nfs-server.service")
    try:
        for step in ("state", "verify"):
            said, seconds = world.step(world.client, step, first.directory)
            assert said.startswith(f"{first.directory} does not answer in 20 s: the file server behind this mount is away")
            assert seconds < 20 + 10
        away = world.role()
        for node in NODES:
            ((_task, text),) = away.failed[node]
            assert "does not answer in 20 s" in text
        assert away.changed == {node: [] for node in NODES}
        assert world.hangs(world.client) == []
        # Who asked before knows nothing of the mount's own patience: it goes on for as long as the server is away.
        assert world.client.sh(f"timeout -s KILL 30 ls {first.directory} >&2 || echo $?").strip() == "137"
    finally:
        world.server.run("systemctl", "start", "nfs-server.service")


def test_a_mount_that_never_comes_ends_with_the_units_time(world: World, first: Ran) -> None:
    """The client is mounted anew while the server is away."""
    world.client.run("systemctl", "stop", UNIT)
    world.server.run("systemctl", "stop", "nfs-server.service")
    begun = time.monotonic()
    try:
        world.client.fails("systemctl", "start", UNIT, timeout=300)
    finally:
        world.server.run("systemctl", "start", "nfs-server.service")
    assert time.monotonic() - begun < 60 + 60


def test_with_the_server_back_all_is_as_before(world: World, first: Ran) -> None:
    back = world.role()
    assert back.failed == {node: [] for node in NODES}
    assert back.directory == first.directory
    assert world.step(world.client, "state", first.directory)[0].startswith('{"programs": {"all_gather_perf"')
    assert world.client.run("runuser", "-u", "nobody", "--", f"{first.directory}/all_reduce_perf").startswith("all_reduce\n")
    assert back.changed == {"node1": [], "node2": ["Mount it now and at boot"]}
