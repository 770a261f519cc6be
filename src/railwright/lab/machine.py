# SPDX-License-Identifier: GPL-3.0-or-later
"""One QEMU process: its accelerator, its command line, its monitor, its pid, its life.

KVM or plain emulation: a /dev/kvm that exists may hang the guest without a word, so only a guest that speaks counts.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from railwright.lab import net, tapexec, tools
from railwright.lab.image import Image, Progress
from railwright.lab.recipe import KERNEL_ARGS
from railwright.lab.state import Hardware, LabPaths, LabState, Node, cache_root, write_atomic
from railwright.lab.tools import LabError

PROBE_SECONDS = 10.0
ARGV = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max,la57=off"],  # a fifth level of page tables is walked at emulation speed
}


def choose_accelerator(image: Image, progress: Progress, device: Path = Path("/dev/kvm")) -> str:
    """Return "kvm" or "tcg". The answer is kept until the next boot of the controller."""
    if not os.access(device, os.R_OK | os.W_OK):
        return "tcg"
    known = cache_root() / "accel.json"
    boot = _boot_id()
    try:
        answer = json.loads(known.read_text(encoding="utf-8"))
        if answer["boot"] == boot and answer["accel"] in ARGV:
            return str(answer["accel"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # Never asked, or not readable: ask.
    progress("probing /dev/kvm (up to 10 s)")
    machine = [tools.tool("qemu-system-x86_64"), *ARGV["kvm"], "-m", "256", "-nodefaults", "-display", "none", "-no-reboot"]
    probe = [*machine, "-kernel", str(image.kernel), "-append", "console=ttyS0 panic=-1", "-serial", "stdio"]
    accel = "kvm" if speaks(probe) else "tcg"
    progress(f"  using {'KVM' if accel == 'kvm' else 'plain emulation (TCG): correct, but slow'}")
    write_atomic(known, json.dumps({"boot": boot, "accel": accel}) + "\n")
    return accel


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def speaks(argv: list[str], seconds: float = PROBE_SECONDS) -> bool:
    """True when the command prints anything on its console within the time."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    console = process.stdout
    if console is None:  # Never with PIPE; said for the type checker.
        return False
    deadline = time.monotonic() + seconds
    try:
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([console], [], [], left)[0]:
                return False
            data = os.read(console.fileno(), 4096)
            if data.strip():
                return True
            if not data:
                return False  # It ended without a word.
        return False
    finally:
        process.kill()
        process.wait()
        console.close()


class Monitor:
    """`with Monitor(path) as m: m.execute("query-status")`."""

    def __init__(self, path: Path, timeout: float = 10) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        self._buffer = b""

    def __enter__(self) -> Self:
        try:
            self._socket.connect(str(self._path))
            self._read()  # The greeting.
            self.execute("qmp_capabilities")
        except OSError as exc:
            self._socket.close()
            raise LabError(f"the machine's monitor does not answer ({self._path}): {exc}") from exc
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()

    def execute(self, command: str, arguments: dict[str, Any] | None = None, timeout: float | None = None) -> Any:
        """Run one command and return its result; events that arrive meanwhile are dropped."""
        if timeout is not None:
            self._socket.settimeout(timeout)
        request: dict[str, Any] = {"execute": command}
        if arguments is not None:
            request["arguments"] = arguments
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            while True:
                answer = self._read()
                if "error" in answer:
                    raise LabError(f"QEMU refused {command}: {answer['error'].get('desc', answer['error'])}")
                if "return" in answer:
                    return answer["return"]
        except OSError as exc:
            raise LabError(f"the machine's monitor stopped answering during {command}: {exc}") from exc

    def human(self, line: str, timeout: float = 10) -> str:
        """Run a human-monitor command. savevm and loadvm are synchronous only there; any text they print is an error."""
        return str(self.execute("human-monitor-command", {"command-line": line}, timeout=timeout)).strip()

    def _read(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("connection closed")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = json.loads(line)
        return message if isinstance(message, dict) else {}


MEMORY_MB = 1024
# Where Debian and Ubuntu keep UEFI firmware for QEMU (package ovmf).
OVMF = Path("/usr/share/OVMF")
DIRECT_ARGS = f"root=/dev/vda rw {KERNEL_ARGS}"
POWER_OFF_SECONDS = 60.0
SNAPSHOT_SECONDS = 300.0


def argv(state: LabState, node: Node, image: Image, loadvm: str | None = None) -> list[str]:
    """The whole command line. No -no-reboot: a reboot in the guest must come back."""
    directory = state.paths.node(node.name)
    forward = f"hostfwd=tcp:127.0.0.1:{node.ssh_port}-:22"
    command = [
        tools.tool("qemu-system-x86_64"), "-name", f"railwright-{node.name}", *processor(state), *chipset(state.hardware),
        *firmware(state, node),
        "-m", str(MEMORY_MB), "-nodefaults", "-display", "none", "-daemonize", "-pidfile", str(pid_file(state, node)),
        *([] if state.offset else ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", DIRECT_ARGS]),  # GRUB's choice
        "-chardev", console_argument(state, node), "-serial", "chardev:console",
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


def processor(state: LabState) -> list[str]:
    argv = list(ARGV[state.accel])
    return [*argv[:-1], f"{argv[-1]},-hypervisor"] if state.hardware.bare_metal else argv


def chipset(hardware: Hardware) -> list[str]:
    """Board, IOMMU and DMI texts. The IOMMU has to be there before the devices behind it."""
    board = "q35,smm=on" if hardware.secure_boot else "q35"
    argv = ["-machine", board] if hardware.pcie or hardware.secure_boot else []
    if hardware.iommu:
        argv += ["-device", "intel-iommu"]
    if hardware.bare_metal:
        for number, text in ((0, "vendor"), (1, "manufacturer"), (3, "manufacturer")):
            argv += ["-smbios", f"type={number},{text}=railwright lab"]
    return argv


def firmware(state: LabState, node: Node) -> list[str]:
    """The flash that UEFI lies in and the one that it keeps its variables in: only System Management Mode may write to that one."""
    if not state.hardware.secure_boot:
        return []
    drives = (f"file={OVMF}/OVMF_CODE_4M.secboot.fd,format=raw,readonly=on", f"file={net.escape(variables(state, node))},format=qcow2")
    secure = ["-global", "driver=cfi.pflash01,property=secure,value=on"]
    return [*secure, *(word for unit, drive in enumerate(drives) for word in ("-drive", f"if=pflash,unit={unit},{drive}"))]


def variables(state: LabState, node: Node) -> Path:
    return state.paths.node(node.name) / "variables.qcow2"


def console_argument(state: LabState, node: Node) -> str:
    """The serial console: all that it says goes into console.log, and who connects to its socket can type."""
    log = net.escape(state.paths.node(node.name) / "console.log")
    return f"socket,id=console,server=on,wait=off,path={net.escape(console_path(state, node))},logfile={log},logappend=on"


def console_path(state: LabState, node: Node) -> Path:
    return Path(state.socket_dir) / f"{node.name}.tty"


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
    return _alive(pid_file(state, node))


def _alive(file: Path) -> int | None:
    """The pid in a pid file, where its process is a machine of ours."""
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
        tools.run_tool(command, timeout=SNAPSHOT_SECONDS)
    except LabError as exc:
        raise LabError(f"{node.name} did not start: {exc}") from exc
    if pid(state, node) is None:
        raise LabError(f"{node.name} ended at once; see {state.paths.node(node.name) / 'console.log'}")


def ask_power_off(state: LabState, node: Node) -> None:
    """Press the power button; a guest that does not listen is dealt with by stop()."""
    with suppress(LabError), Monitor(monitor_path(state, node)) as monitor:  # not booted far enough, or gone already
        monitor.execute("system_powerdown")


def stop(state: LabState, node: Node, *, grace: float = POWER_OFF_SECONDS) -> None:
    """Wait for a guest that was asked to power off, then quit QEMU, then signal it. Idempotent."""
    number = pid(state, node)
    if number is None:
        return
    if wait_until(lambda: pid(state, node) is None, grace):
        return
    # quit closes the socket under us; a dead monitor is what the signals are for.
    with suppress(LabError), Monitor(monitor_path(state, node)) as monitor:
        monitor.execute("quit")
    for sign in (None, signal.SIGTERM, signal.SIGKILL):
        if sign is not None and is_ours(number, str(pid_file(state, node))):
            os.kill(number, sign)
        if wait_until(lambda: pid(state, node) is None, 10):
            return
    raise LabError(f"{node.name} (pid {number}) does not end")


def end_strays(paths: LabPaths) -> None:
    """End machines of this lab that its state does not name (an interrupted run, a damaged state.json)."""
    for file in paths.nodes.glob("*/qemu.pid"):
        if (number := _alive(file)) is not None:
            os.kill(number, signal.SIGTERM)
            wait_until(partial(_is_gone, file), 10)


def _is_gone(file: Path) -> bool:
    return _alive(file) is None


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
    listed = tools.run_tool(["qemu-img", "snapshot", "-U", "-l", str(disk)])
    rows = [line.split() for line in lines_in(listed)]
    return {row[1] for row in rows if len(row) > 2 and row[0].isdigit()}


def wait_until(condition: Callable[[], bool], seconds: float, step: float = 0.2) -> bool:
    """Poll; True as soon as the condition holds, else False when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(step)
    return True
