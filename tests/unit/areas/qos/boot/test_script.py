# SPDX-License-Identifier: GPL-3.0-or-later
"""The script itself, run by real shells in a mount namespace in which /etc and /sys are directories of the test.

A file stands for a kernel attribute and /dev/full for one that refuses; ``sleep`` and ``modprobe`` are replaced where a
test says so. What the kernel makes of a directory in configfs is for the lab.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.qos.boot import SCRIPT_TEXT, settings_text

from .conftest import NIC

NAMESPACE = ("unshare", "--map-root-user", "--mount")
MOUNT = """set -e
mount --bind "$1/etc" /etc
mount --bind "$1/sys" /sys
for tool in "$1"/bin/*; do # in the place of the machine's own, or in the last place where one is looked for
    [ -e "$tool" ] || continue
    place=$(command -v "${tool##*/}") || { place=/usr/local/bin; tool=$1/bin; }
    mount --bind "$tool" "$place"
done
shift
exec "$@"
"""
CONFIG = "/sys/kernel/config/rdma_cm"
FORCED = "/sys/class/infiniband/mlx5_0/tc/1/traffic_class"
MAC = "b8:ce:f6:00:30:01"
SECONDS = 30


def has_namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True, timeout=SECONDS).returncode == 0


pytestmark = pytest.mark.skipif(not has_namespaces(), reason="this machine gives no mount namespace")


class Machine:
    """/etc and /sys of the script's world."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "etc/railwright/roce-qos").mkdir(parents=True)
        (root / "bin").mkdir()
        (root / "roce-qos").write_text(SCRIPT_TEXT)
        self.attribute("/sys/class/net/eth1/address", MAC + "\n")

    def attribute(self, path: str, text: str = "") -> Path:
        full = self.root / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        return full

    def settings(self, *lines: Sequence[str]) -> None:
        (self.root / "etc/railwright/roce-qos/eth1").write_text("# by a test\n\n" + "".join("\t".join(line) + "\n" for line in lines))

    def tool(self, name: str, text: str) -> None:
        (self.root / "bin" / name).write_text("#!/bin/sh\n" + text)
        (self.root / "bin" / name).chmod(0o755)

    def argv(self, shell: str = "sh", netdev: str = "eth1") -> list[str]:
        return [*NAMESPACE, "sh", "-c", MOUNT, "sh", str(self.root), shell, str(self.root / "roce-qos"), netdev]

    def run(self, shell: str = "sh", netdev: str = "eth1") -> tuple[int, str]:
        done = subprocess.run(self.argv(shell, netdev), check=False, capture_output=True, text=True, timeout=SECONDS)
        assert done.stdout == ""
        return done.returncode, done.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("shell", [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)])
def test_every_line_is_carried_out_and_no_word_is_evaluated(machine: Machine, shell: str) -> None:
    tos, mode = machine.attribute("/sys/a/tos", "0\n"), machine.attribute("/sys/a/default_roce_mode", "x\n")
    strange = "a b;$(touch evil)`id`*'\"\\n"
    (machine.root / "sys/kernel/config").mkdir(parents=True)
    machine.settings(
        ("mac", MAC), ("run", "touch", f"{machine.root}/{strange}"), ("value", "/sys/a/tos", "106"),
        ("value", "/sys/a/default_roce_mode", "RoCE v2"), ("mkdir", "/sys/kernel/config/thing"))
    assert machine.run(shell) == (0, "")
    assert (tos.read_text(), mode.read_text()) == ("106", "RoCE v2")  # no newline: as the plan's own effects write
    assert (machine.root / "sys/kernel/config/thing").is_dir()
    assert {path.name for path in machine.root.iterdir()} == {"etc", "sys", "bin", "roce-qos", strange}


def test_the_area_and_the_script_speak_one_language(machine: Machine) -> None:
    """The file that an apply writes, whole: only its first command cannot work here."""
    enable = machine.attribute("/sys/class/net/eth1/ecn/roce_np/enable/3", "0\n")
    mode = machine.attribute(f"{CONFIG}/mlx5_0/ports/1/default_roce_mode", "IB/RoCE v1\n")
    (machine.root / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    (machine.root / "etc/railwright/roce-qos/eth1").write_text(settings_text(NIC))
    code, said = machine.run()
    assert code == 1
    assert said.startswith("eth1: line 5 failed: run dcb pfc set dev eth1 prio-pfc all:off 3:on: ")
    assert said.count("line") == 1
    assert (enable.read_text(), mode.read_text()) == ("1", "RoCE v2")


def test_a_failing_line_is_reported_with_its_error_and_the_rest_runs(machine: Machine) -> None:
    last = machine.attribute("/sys/a/last", "0\n")
    (machine.root / "sys/full").symlink_to("/dev/full")
    machine.settings(
        ("value", "/sys/full", "106"), ("run", "ls", "/nonexistent"), ("run", "no-such-tool", "x"), ("value", "/sys/a/last", "1"))
    code, said = machine.run()
    assert code == 1
    lines = said.splitlines()
    assert lines[0] == "eth1: line 3 failed: value /sys/full 106: tee: /sys/full: No space left on device"
    assert lines[1].startswith("eth1: line 4 failed: run ls /nonexistent: ")
    assert lines[1].endswith("ls: cannot access '/nonexistent': No such file or directory")
    assert lines[2:] == ["eth1: line 5 failed: run no-such-tool x: no program no-such-tool on this node"]
    assert last.read_text() == "1"


@pytest.mark.parametrize(
    "line",
    [
        ("run", "eval", "touch /sys/evil"), ("run", "say", "x"), ("run", "-x"), ("run", ""), ("run",), ("value", "/etc/evil", "1"),
        ("value", "/sys/../etc/evil", "1"), ("value", "/sys/a", "1", "2"), ("value", "/sys"), ("mkdir", "/etc/evil"),
        ("mkdir", "/sys/evil"), ("mkdir", "/sys/kernel/config/../../evil"), ("rm", "/sys/a"), ("",),
    ],
)
def test_what_is_no_setting_is_refused(machine: Machine, line: tuple[str, ...]) -> None:
    kept = machine.attribute("/sys/a", "0\n")
    machine.attribute("/etc/evil", "0\n")
    (machine.root / "sys/kernel/config").mkdir(parents=True)
    machine.settings(line, ("run", "ls"))
    code, said = machine.run()
    if line == ("",):
        assert (code, said) == (0, "")  # an empty line
    else:
        assert code == 1
        assert said.startswith("eth1: line 3 failed: ")
    assert kept.read_text() == "0\n"
    assert (machine.root / "etc/evil").read_text() == "0\n"
    assert not list(machine.root.rglob("sys/**/evil"))


def test_the_settings_of_another_interface_are_not_carried_out(machine: Machine) -> None:
    machine.tool("sleep", "")
    kept = machine.attribute("/sys/a/tos", "0\n")
    machine.settings(("mac", "b8:ce:f6:00:30:99"), ("value", "/sys/a/tos", "106"))
    code, said = machine.run()
    assert (code, kept.read_text()) == (1, "0\n")
    assert said.startswith(f"eth1: is {MAC}, and the settings are for b8:ce:f6:00:30:99: interfaces have changed their names. ")


def test_a_bond_member_is_known_by_its_own_address(machine: Machine) -> None:
    machine.attribute("/sys/class/net/eth1/address", "b8:ce:f6:00:30:99\n")
    machine.attribute("/sys/class/net/eth1/bonding_slave/perm_hwaddr", MAC + "\n")
    machine.settings(("mac", MAC), ("run", "ls"))
    assert machine.run() == (0, "")


def test_a_late_rdma_device_is_waited_for_and_rdma_cm_is_loaded(machine: Machine) -> None:
    machine.tool("modprobe", f'echo "$@" >{machine.root}/loaded\nmkdir -p {CONFIG}\n')
    machine.settings(("mkdir", CONFIG + "/mlx5_0"))
    (machine.root / "sys/class/infiniband").mkdir(parents=True)
    timer = threading.Timer(0.5, (machine.root / "sys/class/infiniband/mlx5_0").mkdir)
    timer.start()
    assert machine.run() == (0, "")
    timer.join()
    assert (machine.root / "loaded").read_text() == "rdma_cm\n"
    assert (machine.root / CONFIG.lstrip("/") / "mlx5_0").is_dir()


def test_waiting_is_bounded_for_all_lines_together(machine: Machine) -> None:
    machine.tool("sleep", f'echo "$1" >>{machine.root}/slept\n')
    machine.settings(("mkdir", CONFIG + "/mlx5_0"), ("value", FORCED, "106"))
    code, said = machine.run()
    assert code == 1
    late = "is not there, 60 s after the start"
    assert said.splitlines() == [
        f"eth1: line 3 failed: mkdir {CONFIG}/mlx5_0: /sys/class/infiniband/mlx5_0 {late}",
        f"eth1: line 4 failed: value {FORCED} 106: {FORCED} {late}",
    ]
    assert (machine.root / "slept").read_text() == "1\n" * 60


def test_being_stopped_while_it_waits_is_no_failure(machine: Machine) -> None:
    """systemd stops all that the unit started at once, for an event that starts it anew."""
    machine.settings(("run", "touch", f"{machine.root}/began"), ("value", "/sys/late", "1"))
    with subprocess.Popen(machine.argv(), start_new_session=True) as process:
        deadline = time.monotonic() + SECONDS
        while not (machine.root / "began").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(SECONDS) == 0


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_what_is_no_interface_is_refused(machine: Machine, name: str) -> None:
    code, said = machine.run(netdev=name)
    assert (code, said) == (64, "usage: roce-qos NETDEV\n")


def test_an_interface_without_settings_is_told(machine: Machine) -> None:
    assert machine.run() == (1, "eth1: no settings: /etc/railwright/roce-qos/eth1 cannot be read\n")


def test_a_last_line_without_an_end_counts(machine: Machine) -> None:
    tos = machine.attribute("/sys/a/tos", "0\n")
    (machine.root / "etc/railwright/roce-qos/eth1").write_text("value\t/sys/a/tos\t106")
    assert machine.run() == (0, "")
    assert tos.read_text() == "106"
