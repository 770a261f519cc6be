# SPDX-License-Identifier: GPL-3.0-or-later
"""Four machines with two rails, each link at one rate, and what slows some of them: at the switch's port, on the node, between two nodes.

Emulated machines share two cores, so what a rail carries is set by shapers, and not by who computes: RATE at every port of the lab's
switches, SLOW where a fault is.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from lab_images import FABRIC
from lab_machine import Machine
from railwright import lab
from railwright.lab.net import namespace
from railwright.lab.state import LabPaths

ROOT = Path(__file__).resolve().parents[2]
COUNT, RAILS = 4, 2
SITE = {
    "rdma_fabric": "roce",
    "rdma_stack": "soft_roce",
    "rdma_mtu": 9000,
    "rdma_qos_profile": "none",
    "rdma_consent": ["link", "restart"],
    "rdma_confirm_timeout_s": 900,
    "validate_perftest_message_bytes": 4096,
    "validate_perftest_qps": 1,
}
RATE, SLOW = "8mbit", "1500kbit"
SHAPER = ("tbf", "burst", "16k", "limit", "4mb", "rate")
ARGUMENTS = ("--at-once", "2", "--minutes", "60", "--rounds", "12")
SECONDS = 1800
BEGUN = re.compile(r"round ([0-9]+): [0-9]+ pairs of ")


class Search(NamedTuple):
    code: int
    document: dict[str, Any]
    err: str

    @property
    def found(self) -> list[tuple[str, tuple[str, ...], str, str]]:
        findings = self.document["isolate"]["findings"]
        return sorted((item["kind"], tuple(sorted(item["nodes"])), item["rail"], item["way"]) for item in findings)


def _nothing(_round: int) -> None: ...


class Fabric:
    """The machines and the ports of their switches."""

    def __init__(self, state_dir: Path, records: Path) -> None:
        self.machines = [Machine(state_dir, f"node{number + 1}") for number in range(COUNT)]
        self._state = LabPaths.of(state_dir)
        self._namespace, self.inventory = namespace(self._state), state_dir / "inventory"
        self._env, self._out = {**os.environ, "XDG_STATE_HOME": str(records)}, records / "stdout"

    def ports(self) -> Iterator[tuple[int, int]]:
        yield from ((node, rail) for node in range(COUNT) for rail in range(RAILS))

    def quiet(self) -> None:
        """Every port at its rate, and nothing on the nodes."""
        for node, rail in self.ports():
            self.port(node, rail, RATE)
            self.machines[node].sh(f"tc qdisc del dev eth{rail + 1} root 2>/dev/null || true")

    def port(self, node: int, rail: int, rate: str) -> None:
        """What the switch sends to a node."""
        self._tc(node, rail, *SHAPER, rate)

    def path(self, node: int, other: int, rail: int) -> None:
        """What the switch sends to a node from one other alone."""
        dev = f"n{node + 1}r{rail}"
        self._tc(node, rail, "htb", "default", "1")
        source = f"10.77.{rail}.{11 + other}/32"
        for number, rate in ((1, RATE), (2, SLOW)):
            self._run("tc", "class", "add", "dev", dev, "classid", f"1:{number}", "htb", "rate", rate)
            self._run("tc", "qdisc", "add", "dev", dev, "parent", f"1:{number}", "pfifo", "limit", "1000")
        self._run("tc", "filter", "add", "dev", dev, "protocol", "ip", "u32", "match", "ip", "src", source, "flowid", "1:2")

    def leaves(self, node: int, rail: int, rate: str) -> None:
        """What a node sends."""
        self.machines[node].sh(f"tc qdisc replace dev eth{rail + 1} root {' '.join(SHAPER)} {rate}")

    def _tc(self, node: int, rail: int, *qdisc: str) -> None:
        subprocess.run(("ip", "netns", "exec", self._namespace, "tc", "qdisc", "del", "dev", f"n{node + 1}r{rail}", "root"),
                       check=False, capture_output=True)  # fmt: skip
        handle = ("handle", "1:") if qdisc[0] == "htb" else ()
        self._run("tc", "qdisc", "add", "dev", f"n{node + 1}r{rail}", "root", *handle, *qdisc)

    def _run(self, *argv: str) -> None:
        done = subprocess.run(("ip", "netns", "exec", self._namespace, *argv), check=False, capture_output=True, text=True)
        assert done.returncode == 0, (argv, done.stderr)

    def search(self, each_round: Callable[[int], None] = _nothing, *, killed_in: int = 0, samples: int = 1) -> Search:
        """``each_round`` is called with the number of each round when it begins. Killed in a round, the search is resumed."""
        ended = self._search(each_round, killed_in, (*ARGUMENTS, "--samples", str(samples)))
        return ended or self._search(each_round, 0, ("--resume", "--at-once", "2")) or pytest.fail("it was not killed")

    def _search(self, each_round: Callable[[int], None], killed_in: int, arguments: Sequence[str]) -> Search | None:
        argv = (str(Path(sys.executable).with_name("railwright")), "isolate", "-i", str(self.inventory), "--format", "json", *arguments)
        with self._out.open("w+") as out:
            said = []
            with subprocess.Popen(argv, stdout=out, stderr=subprocess.PIPE, text=True, env=self._env, cwd=ROOT) as process:
                assert process.stderr is not None
                for line in process.stderr:
                    said.append(line)
                    begun = BEGUN.match(line)
                    if begun:
                        each_round(int(begun[1]))
                    if begun and int(begun[1]) == killed_in:
                        time.sleep(15)
                        process.kill()
                        return None
            out.seek(0)
            text = out.read()
        assert text, f"exit {process.returncode}, nothing on stdout: {''.join(said)[-3000:]}"
        return Search(process.returncode, json.loads(text), "".join(said))

    @contextmanager
    def stopped(self, node: int) -> Iterator[Callable[[bool], None]]:
        """The machine as a whole does nothing while it is told True; it goes on at the end."""
        process = int((self._state.node(f"node{node + 1}") / "qemu.pid").read_text(encoding="utf-8"))

        def tell(stop: bool) -> None:
            os.kill(process, signal.SIGSTOP if stop else signal.SIGCONT)

        try:
            yield tell
        finally:
            tell(False)

    def strays(self) -> list[str]:
        """Programs of perftest that still run, and what was recorded of them."""
        script = "pgrep -a ib_write_bw || true; ls /run/railwright 2>/dev/null | grep -v confirm || true"
        return [f"{machine.node}: {line}" for machine in self.machines for line in machine.sh(script).splitlines()]


@contextmanager
def fabric(name: str, records: Path) -> Iterator[Fabric]:
    """Provisioned machines."""
    state_dir = ROOT / "build" / "lab" / name
    lab.down(state_dir=state_dir)
    lab.up(COUNT, state_dir=state_dir, progress=lambda line: print(line, flush=True), recipe=FABRIC, rails=RAILS)
    try:
        made = Fabric(state_dir, records)
        (made.inventory / "group_vars/all/site.yml").write_text(yaml.safe_dump(SITE), encoding="utf-8")
        run = made.machines[0].railwright("apply", timeout=SECONDS)
        assert run.code == 0, (run.document, run.err)
        made.quiet()
        yield made
    finally:
        lab.down(state_dir=state_dir)
