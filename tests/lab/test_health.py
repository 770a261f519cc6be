# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's health as `check HOST` and `bundle HOST` see it over ssh: quiet, then with what a real kernel logs and a real disk lacks.

The kernel really kills for lack of memory, and the disk is really full. Messages of hardware that a lab has not are printed by a stand-in
of a kernel module in the drivers' words; the kernel gives them facility, time and order. What root itself writes to /dev/kmsg is a
program's word, and is judged by nobody.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab_images import LOGGED as IMAGE
from lab_machine import RUN_SECONDS, Machine
from railwright import lab

RECIPE = IMAGE
HARDWARE = lab.Hardware()
Found = dict[str, str]  # status by check, of what does not pass
Ask = Callable[..., dict[str, Any]]
LOGGED = {
    "NVRM: Xid (PCI:0000:00:01): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.": ("gpu.xid", "fail"),
    "NVRM: Xid (PCI:0000:00:02): 48, pid=4711, name=python3, An uncorrectable double bit error (DBE)": ("gpu.xid", "fail"),
    "NVRM: Xid (PCI:0000:00:03): 94, pid=4711, name=python3, Contained: SM (0x1). RST: No, D-RST: No": ("gpu.xid", "warn"),
    "mce: [Hardware Error]: CPU 0: Machine Check Exception: 5 Bank 7: be00000000800400": ("node.machine_check", "fail"),
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0": ("node.memory", "fail"),
    "INFO: task python3:4711 blocked for more than 120 seconds.": ("node.hung", "warn"),
    "nfs: server store1 not responding, still trying": ("node.nfs", "fail"),
    "blk_update_request: critical medium error, dev nvme0n1, sector 4711 op 0x0:(READ) flags 0x0": ("node.disk", "warn"),
}
LOOKS = 50
STATUSES = "import json, sys; print(sorted((v['check'], v['subject'], v['status']) for v in json.load(sys.stdin)['verdicts']))"


@pytest.fixture(scope="module")
def ask(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """A verb about the machine, by what ssh's configuration says of its name; a wrapper names the file, as OpenSSH's own is at home."""
    directory = tmp_path_factory.mktemp("ssh")
    argv = lab.ssh_argv(machine.node, None, state_dir=machine.state_dir)
    options = "".join(f"  {value.replace('=', ' ', 1)}\n" for flag, value in pairwise(argv) if flag == "-o")
    key, port = argv[argv.index("-i") + 1], argv[argv.index("-p") + 1]
    (directory / "config").write_text(f"Host gpu1\n  HostName 127.0.0.1\n  User root\n  Port {port}\n  IdentityFile {key}\n{options}")
    (directory / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {directory}/config "$@"\n')
    (directory / "ssh").chmod(0o755)
    environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}", "SSH_AUTH_SOCK": ""}

    def asked(verb: str, *arguments: str) -> dict[str, Any]:
        command = [str(Path(sys.executable).with_name("railwright")), verb, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=RUN_SECONDS, check=False)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout) if done.stdout.startswith("{") else {}

    return asked


def not_passed(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(item["check"], item["status"]) for item in document["verdicts"] if item["status"] in ("fail", "warn")}


@pytest.fixture(scope="module")
def quiet(machine: Machine, ask: Ask) -> set[tuple[str, str]]:
    """What is so on a machine without faults, with a Soft-RoCE device and the locked memory that it needs."""
    machine.sh("mkdir -p /etc/systemd/system.conf.d; printf '[Manager]\\nDefaultLimitMEMLOCK=infinity\\n' > "
               "/etc/systemd/system.conf.d/memlock.conf; systemctl daemon-reexec")
    machine.sh("modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth1; ip link set eth1 up")
    return not_passed(ask("check", "gpu1", "-f", "json"))


def test_a_quiet_machine_has_no_fault(quiet: set[tuple[str, str]]) -> None:
    assert [check for check, status in quiet if status == "fail"] == []


def test_fifty_looks_say_the_same(machine: Machine, quiet: set[tuple[str, str]], tmp_path: Path) -> None:
    """By the one file, on the machine itself."""
    file = tmp_path / "check.pyz"
    subprocess.run([str(Path(sys.executable).with_name("railwright")), "check", "--emit", str(file)], check=True)
    to = lab.ssh_argv(machine.node, ["sh", "-c", "cat > /root/check.pyz"], state_dir=machine.state_dir)
    subprocess.run(to, input=file.read_bytes(), timeout=300, check=True)
    look = f'for look in $(seq {LOOKS}); do python3 /root/check.pyz --json | python3 -c "{STATUSES}"; done | sort | uniq -c'
    (line,) = machine.sh(look, timeout=RUN_SECONDS).splitlines()
    assert line.split()[0] == str(LOOKS)


def test_the_bundle_gives_the_verdicts_of_the_machine(ask: Ask, quiet: set[tuple[str, str]], tmp_path: Path) -> None:
    ask("bundle", "gpu1", "-o", str(tmp_path / "gpu1.tar.gz"))
    with tarfile.open(tmp_path / "gpu1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")

    def rows(document: dict[str, Any]) -> list[tuple[str, ...]]:
        return sorted((item["check"], item["subject"], item["status"]) for item in document["verdicts"])

    assert rows(ask("check", "--sysroot", str(tmp_path / "gpu1"), "-f", "json")) == rows(ask("check", "gpu1", "-f", "json"))


def test_a_full_disk_is_named(machine: Machine, ask: Ask, quiet: set[tuple[str, str]]) -> None:
    machine.sh("mount -t tmpfs -o size=1M tmpfs /tmp; dd if=/dev/zero of=/tmp/fill bs=64k 2>/dev/null || true")
    try:
        assert not_passed(ask("check", "gpu1", "-f", "json")) - quiet == {("node.disk", "warn")}, "anybody can fill /tmp"
    finally:
        machine.sh("umount /tmp")


def test_what_the_kernel_logs_is_named(machine: Machine, ask: Ask, quiet: set[tuple[str, str]]) -> None:
    """All at once. A process that the kernel really kills at the limit of its own cgroup is a note."""
    machine.sh("systemd-run --wait --quiet -p MemoryMax=24M -p MemorySwapMax=0 python3 -c 'bytearray(200 << 20)' || true")
    for line in LOGGED:
        machine.sh(f'printf "<3>%s\\n" "{line}" > /dev/kmsg')
    assert not_passed(ask("check", "gpu1", "-f", "json")) - quiet == set(), "a program wrote them"
    for line in LOGGED:
        machine.run("sh", "-euc", 'modprobe lab_log; printf %s "$1" > /sys/module/lab_log/parameters/line', "sh", line)
    assert not_passed(ask("check", "gpu1", "-f", "json")) - quiet == set(LOGGED.values())
