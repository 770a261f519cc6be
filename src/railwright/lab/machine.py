# SPDX-License-Identifier: GPL-3.0-or-later
"""One QEMU process: its command line, its pid, its life."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from railwright.lab import accel, net, tapexec, tools
from railwright.lab.errors import LabError
from railwright.lab.image import Image
from railwright.lab.monitor import Monitor
from railwright.lab.paths import LabPaths
from railwright.lab.recipe import KERNEL_ARGS
from railwright.lab.state import Hardware, LabState, Node

MEMORY_MB = 1024
DIRECT_ARGS = f"root=/dev/vda rw {KERNEL_ARGS}"
POWER_OFF_SECONDS = 60.0
SNAPSHOT_SECONDS = 300.0


def argv(state: LabState, node: Node, image: Image, loadvm: str | None = None) -> list[str]:
    """The whole command line. No -no-reboot: a reboot in the guest must come back."""
    directory = state.paths.node(node.name)
    forward = f"hostfwd=tcp:127.0.0.1:{node.ssh_port}-:22"
    command = [
        tools.tool("qemu-system-x86_64"), "-name", f"railwright-{node.name}", *processor(state), *chipset(state.hardware),
        "-m", str(MEMORY_MB), "-nodefaults", "-display", "none", "-daemonize", "-pidfile", str(pid_file(state, node)),
        *_kernel(state, image),
        "-chardev", f"file,id=console,append=on,path={net.escape(directory / 'console.log')}", "-serial", "chardev:console",
        "-qmp", f"unix:{net.escape(monitor_path(state, node))},server=on,wait=off",
        # The disk is disposable: a crash of the controller may cost it, and nothing waits for fsync.
        "-drive", f"file={net.escape(directory / 'disk.qcow2')},if=virtio,format=qcow2,cache=unsafe,discard=unmap",
        # The management NIC comes first, so that it is eth0.
        "-netdev", f"user,id=management,ipv6=off,{forward}",
        *net.nic_argv(state.hardware, "management", node.mac, 0),
        *net.rail_argv(state, node),
        "-device", "virtio-rng-pci",
    ]  # fmt: skip
    return [*command, "-loadvm", loadvm] if loadvm else command


def _kernel(state: LabState, image: Image) -> list[str]:
    if state.offset:
        return []  # GRUB's choice.
    return ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", DIRECT_ARGS]


def processor(state: LabState) -> list[str]:
    """Accelerator and CPU model."""
    argv = list(accel.ARGV[state.accel])
    return [*argv[:-1], f"{argv[-1]},-hypervisor"] if state.hardware.bare_metal else argv


def chipset(hardware: Hardware) -> list[str]:
    """Board, IOMMU and DMI texts. The IOMMU has to be there before the devices behind it."""
    argv = ["-machine", "q35"] if hardware.pcie else []
    if hardware.iommu:
        argv += ["-device", "intel-iommu"]
    if hardware.bare_metal:
        for number, text in ((0, "vendor"), (1, "manufacturer"), (3, "manufacturer")):
            argv += ["-smbios", f"type={number},{text}=railwright lab"]
    return argv


def pid_file(state: LabState, node: Node) -> Path:
    return state.paths.node(node.name) / "qemu.pid"


def monitor_path(state: LabState, node: Node) -> Path:
    return Path(state.socket_dir) / f"{node.name}.qmp"


def is_ours(pid: int, marker: str, proc: Path = Path("/proc")) -> bool:
    """True only for a QEMU that was started with our pid file: a recycled pid belongs to somebody else."""
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return Path(os.fsdecode(words[0])).name.startswith("qemu-system") and os.fsencode(marker) in words


def pid(state: LabState, node: Node) -> int | None:
    """The pid of the running machine, or None."""
    file = pid_file(state, node)
    try:
        number = int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return number if is_ours(number, str(file)) else None


def start(state: LabState, node: Node, image: Image, loadvm: str | None = None) -> None:
    """Start the machine; returns when QEMU has taken its ports and sockets, not when the guest is up."""
    if pid(state, node) is not None:
        return
    net.ensure_bridges(state)
    command = argv(state, node, image, loadvm)
    if net.uses_bridge(state):
        taps = ",".join(net.tap_name(node, number) for number in range(len(node.rails)))
        wrapper = [sys.executable, tapexec.__file__, net.namespace(state.paths), str(net.FIRST_TAP_FD), taps]
        command = [*wrapper, *command]
    try:
        tools.run(command, timeout=SNAPSHOT_SECONDS)
    except LabError as exc:
        raise LabError(f"{node.name} did not start: {exc}") from exc
    if pid(state, node) is None:
        raise LabError(f"{node.name} ended at once; see {state.paths.node(node.name) / 'console.log'}")


def ask_power_off(state: LabState, node: Node) -> None:
    """Press the power button; a guest that does not listen is dealt with by stop()."""
    try:
        with Monitor(monitor_path(state, node)) as monitor:
            monitor.execute("system_powerdown")
    except LabError:
        pass  # Not booted far enough, or gone already.


def stop(state: LabState, node: Node, *, grace: float = POWER_OFF_SECONDS) -> None:
    """Wait for a guest that was asked to power off, then quit QEMU, then signal it. Idempotent."""
    number = pid(state, node)
    if number is None:
        return
    if wait_until(lambda: pid(state, node) is None, grace):
        return
    try:
        with Monitor(monitor_path(state, node)) as monitor:
            monitor.execute("quit")
    except LabError:
        pass  # quit closes the socket under us; a dead monitor is what the signals are for.
    for sign in (None, signal.SIGTERM, signal.SIGKILL):
        if sign is not None and is_ours(number, str(pid_file(state, node))):
            os.kill(number, sign)
        if wait_until(lambda: pid(state, node) is None, 10):
            return
    raise LabError(f"{node.name} (pid {number}) does not end")


def end_strays(paths: LabPaths) -> None:
    """End machines of this lab that its state does not name (an interrupted run, a damaged state.json)."""
    for file in paths.nodes.glob("*/qemu.pid"):
        try:
            number = int(file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
        if is_ours(number, str(file)):
            os.kill(number, signal.SIGTERM)
            wait_until(partial(_is_gone, number, str(file)), 10)


def _is_gone(number: int, marker: str) -> bool:
    return not is_ours(number, marker)


def save(state: LabState, node: Node, name: str) -> None:
    """savevm on a running machine."""
    with Monitor(monitor_path(state, node)) as monitor:
        problem = monitor.human(f"savevm {name}", timeout=SNAPSHOT_SECONDS)
    if problem:
        raise LabError(f"snapshot {name} of {node.name} failed: {problem}")


def snapshots(state: LabState, node: Node) -> set[str]:
    """The names of the snapshots in a node's disk; reads a disk that is in use too."""
    disk = state.paths.node(node.name) / "disk.qcow2"
    if not disk.exists():
        return set()
    listed = tools.run(["qemu-img", "snapshot", "-U", "-l", str(disk)])
    rows = [line.split() for line in listed.splitlines()]
    return {row[1] for row in rows if len(row) > 2 and row[0].isdigit()}


def wait_until(condition: Callable[[], bool], seconds: float, step: float = 0.2) -> bool:
    """Poll; True as soon as the condition holds, else False when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(step)
    return True
