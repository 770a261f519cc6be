# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine of a lab test: commands on it over ssh, railwright's verbs on it as a user runs them, its reboots, its site file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agreed import agreed
from railwright import lab
from railwright.lab import reach

ROOT = Path(__file__).resolve().parents[2]
NODE = "node1"
RUN_SECONDS = 1500
BOOT_SECONDS = 600


@dataclass(frozen=True)
class Outcome:
    """One run of a verb with --format json."""

    code: int
    document: Any
    seconds: float
    err: str

    @property
    def node(self) -> dict[str, Any]:
        """The one host's part of a plan or an apply."""
        (host,) = self.document["nodes"].values()
        return dict(host)

    def verdicts(self, *names: str) -> list[dict[str, Any]]:
        """The verdicts of these checks, by the start of their names."""
        return [verdict for verdict in self.document["verdicts"] if verdict["check"].startswith(names)]


def plain_playbook(machine: Machine, directory: Path, role: str) -> int:
    """The role by ansible-playbook, as somebody runs it who has the collection and no railwright; how many tasks changed the node."""
    book = directory / f"{role}.yml"
    play = [{"name": "One role", "hosts": "rdma", "gather_facts": False, "roles": [f"railwright.rdma.{role}"]}]
    book.write_text(yaml.safe_dump(play, sort_keys=False), encoding="utf-8")
    argv = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(machine.inventory), str(book)]
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev"), "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_SECONDS, check=False, env=env)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    (recap,) = re.findall(rf"^{machine.node} +: .* changed=([0-9]+) ", done.stdout, re.MULTILINE)
    return int(recap)


def values_of(vendor: dict[str, Any]) -> dict[str, Any]:
    """The inventory values among what the vendor fixture says."""
    return {key: value for key, value in vendor.items() if key.startswith("rdma_stack")}


class Machine:
    """One node of a lab with a state directory of its own; the verbs are for all of its nodes."""

    def __init__(self, state_dir: Path, node: str = NODE) -> None:
        self.state_dir, self.node = state_dir, node
        self.inventory = state_dir / "inventory"

    def run(self, *command: str, timeout: float = 300) -> str:
        """A command that must succeed; what it printed."""
        state = lab.current(self.state_dir)
        return reach.run_on_node(state, state.node(self.node), list(command), timeout=timeout)

    def sh(self, script: str, timeout: float = 300) -> str:
        return self.run("sh", "-euc", script, timeout=timeout)

    def fails(self, *command: str, timeout: float = 300) -> str:
        """A command that must fail; everything it printed."""
        argv = lab.ssh_argv(self.node, list(command), state_dir=self.state_dir)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode not in (0, 255), f"{command}: exit {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def railwright(self, verb: str, *arguments: str, timeout: float = RUN_SECONDS) -> Outcome:
        argv = [str(Path(sys.executable).with_name("railwright")), verb, "-i", str(self.inventory), "--format", "json",
                *agreed((verb, *arguments)), *arguments]  # fmt: skip
        started = time.monotonic()
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.stdout, f"{argv}: exit {done.returncode}, nothing on stdout: {done.stderr[-3000:]}"
        return Outcome(done.returncode, json.loads(done.stdout), time.monotonic() - started, done.stderr)

    def failing(self, *names: str) -> dict[str, list[str]]:
        """The messages of failing verdicts, by check. validate has more to say about a NIC without a wire; that is not asked here."""
        found: dict[str, list[str]] = {}
        run = self.railwright("validate")
        for item in run.verdicts(*names):
            if item["status"] == "fail":
                found.setdefault(item["check"], []).append(item["message"])
        assert run.verdicts(*names), "validate has to say something about them"
        return found

    def site(self, values: dict[str, Any]) -> None:
        """The whole of group_vars/all/site.yml."""
        (self.inventory / "group_vars/all/site.yml").write_text(yaml.safe_dump(values), encoding="utf-8")

    def rails(self, *rails: dict[str, Any]) -> None:
        """The node's rails, in place of those that `lab up` wrote."""
        file = self.inventory / "hosts.yml"
        hosts = yaml.safe_load(file.read_text(encoding="utf-8"))
        hosts["all"]["children"]["rdma"]["hosts"][self.node]["rdma_rails"] = list(rails)
        file.write_text(yaml.safe_dump(hosts), encoding="utf-8")

    def stand_in_hardware(self, *modules: str) -> None:
        """The stand-in GPU and HCA, now and at every boot, and these modules with them; nouveau must not take the GPU."""
        # After virtio_net, whose first NIC has to stay eth0: at boot modules-load comes before udev finds anything.
        options = "options lab_pcie driver_name=mlx5_core\nsoftdep lab_pcie pre: virtio_net\nblacklist nouveau\n"
        self.write("/etc/modprobe.d/lab.conf", options)
        self.write("/etc/modules-load.d/lab.conf", "".join(f"{name}\n" for name in ("lab_pcie", *modules)))
        # udev looks for changed configuration every few seconds only, and would load nouveau for the GPU that is about to appear.
        self.run("udevadm", "control", "--reload")
        self.run("modprobe", "lab_pcie")

    def bring_hca(self) -> None:
        """openibd makes the stand-in HCA, as the next boot would: a real one is there before its stack, by the kernel's own modules."""
        self.run("systemctl", "start", "openibd.service")

    def write(self, path: str, text: str) -> None:
        self.run("sh", "-euc", 'printf %s "$2" > "$1"', "sh", path, text)

    def boot_id(self) -> str:
        # A connection that was open when the guest went down is never told so.
        return self.run("cat", "/proc/sys/kernel/random/boot_id", timeout=30).strip()

    def reboot(self) -> None:
        """Reboot in the guest and wait until it is all up."""
        before = self.boot_id()
        # The connection dies with the node: its exit status says nothing.
        argv = lab.ssh_argv(self.node, ["systemctl", "reboot"], state_dir=self.state_dir)
        subprocess.run(argv, capture_output=True, timeout=60, check=False)
        self.back(before)

    def back(self, before: str) -> None:
        """Until it is all up again after the boot of this id."""
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline:
            try:
                if self.boot_id() != before:
                    break
            except lab.LabError:
                time.sleep(2)
        else:
            raise AssertionError(f"{self.node} did not come back within {BOOT_SECONDS} s")
        self.settled()

    def settled(self) -> None:
        """All units have ended their start, well or not: which have failed is for a test to say."""
        argv = lab.ssh_argv(self.node, ["systemctl", "is-system-running", "--wait"], state_dir=self.state_dir)
        subprocess.run(argv, capture_output=True, timeout=BOOT_SECONDS, check=False)
