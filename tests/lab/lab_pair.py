# SPDX-License-Identifier: GPL-3.0-or-later
"""Two machines on which jobs run: Open MPI by apply, ssh by the mesh's role, an MPI program compiled there; `bench` and what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from agreed import agreed
from launching import PLACE, Launching, Plan, strays
from railwright import lab

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SOURCES = Path(__file__).with_name("bench")
NODES = ("node1", "node2")
USER = "mpi"
DIRECTORY = "/opt/nccl-tests"
RUN_SECONDS = 1500
COMMAND_SECONDS = 300


class Bench(NamedTuple):
    """One run of bench, and what ran on the nodes after it and not before it."""

    code: int
    document: dict[str, Any]
    err: str
    strays: dict[str, list[str]]


class Pair:
    """``on(node, argv, stdin)`` runs a command as root, which must succeed; ``limit``: seconds in which a job has begun, and some more."""

    program = f"{PLACE}/ranks"

    def __init__(self, on: Callable[..., str], inventory: Path, records: Path, *, interface: str, limit: int) -> None:
        self.on, self.inventory, self.records = on, inventory, records
        self.interface, self.limit = interface, limit

    def railwright(self, verb: str, *arguments: str) -> tuple[int, Any, str]:
        argv = (str(BIN / "railwright"), verb, "-i", str(self.inventory), "--format", "json", *agreed((verb, *arguments)), *arguments)
        done = self.call(argv, {"XDG_STATE_HOME": str(self.records)})
        assert done.stdout, f"{argv}: exit {done.returncode}, nothing on stdout: {done.stderr[-3000:]}"
        return done.returncode, json.loads(done.stdout), done.stderr

    def mesh(self) -> None:
        settings = {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev"), "ANSIBLE_PIPELINING": "true"}
        done = self.call((str(BIN / "ansible-playbook"), "-i", str(self.inventory), str(SOURCES / "ssh_mesh.yml")), settings)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]

    @staticmethod
    def call(argv: Sequence[str], settings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **settings}
        return subprocess.run(argv, capture_output=True, text=True, timeout=RUN_SECONDS, check=False, cwd=ROOT, env=env)

    def launching(self) -> Launching:
        """The program is compiled once and brought to both, as a job user's is."""
        made = Launching(self.on, Plan("openmpi4", "mpirun", {node: node for node in NODES}, USER, interface=self.interface))
        for node in NODES:
            made.bring(node, f"{PLACE}/ranks.c", (SOURCES / "ranks.c").read_bytes())
            self.on(node, ("mpicc", "-O1", "-Wall", "-Werror", "-o", self.program, f"{PLACE}/ranks.c"))
        return made

    def stand_in(self) -> None:
        """nccl-tests cannot be built without CUDA: something that says its options as it does."""
        text = (ROOT / "tests/lib/stand_in_perf.py").read_text(encoding="utf-8")
        for node in NODES:
            self.on(node, ("install", "-D", "-m", "755", "/dev/stdin", f"{DIRECTORY}/all_reduce_perf"), text)

    def bench(self, nodes: Sequence[str]) -> Bench:
        with strays(self.on, nodes) as left:
            code, document, err = self.railwright("bench")
        return Bench(code, document, err, left)

    def hostname(self, node: str) -> str:
        return self.on(node, ("hostname",)).strip()

    def stranger(self, node: str) -> str:
        """A process of the job user that is no part of a run; its number."""
        script = "exec setsid sleep 3601 >/dev/null 2>&1 & echo $!"
        return self.on(node, ("runuser", "-u", USER, "--", "sh", "-c", script)).strip()

    def ranks(self) -> dict[str, list[str]]:
        """What is left of the programs and their helpers, by their command lines."""
        listed = {node: self.on(node, ("ps", "-e", "-ww", "-o", "args=")).splitlines() for node in NODES}
        return {node: [line for line in lines if line.startswith((self.program, "sleep 3600"))] for node, lines in listed.items()}


def on_machines(state_dir: Path) -> Callable[..., str]:
    """Commands on the lab's machines, by ssh."""

    def on(node: str, argv: Sequence[str], stdin: str = "") -> str:
        command = lab.ssh_argv(node, list(argv), state_dir=state_dir)
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{node}: {argv[:6]}: exit {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return done.stdout

    return on


def write_site(inventory: Path) -> None:
    """As an operator would. The machines' management interfaces cannot reach each other: mesh and MPI use the rails."""
    file = inventory / "hosts.yml"
    hosts = yaml.safe_load(file.read_text(encoding="utf-8"))
    for entry in hosts["all"]["children"]["rdma"]["hosts"].values():
        entry["ssh_mesh_addresses"] = [entry["rdma_rails"][0]["address"].partition("/")[0]]
    file.write_text(yaml.safe_dump(hosts), encoding="utf-8")
    site = {
        "rdma_fabric": "roce", "rdma_stack": "soft_roce", "rdma_mtu": 9000, "rdma_consent": ["link", "restart"], "mpi_install": "openmpi",
        "ssh_mesh_user": USER, "rdma_bootstrap_interface": "eth1", "nccl_tests_install": "prebuilt", "nccl_tests_path": DIRECTORY,
    }  # fmt: skip
    (inventory / "group_vars/all/site.yml").write_text(yaml.safe_dump(site), encoding="utf-8")
