# SPDX-License-Identifier: GPL-3.0-or-later
"""Reaching a node: the ssh command line, waiting for it to answer, putting its clock right."""

from __future__ import annotations

import shlex
import socket
import time

from railwright.lab import inventory, machine, tools
from railwright.lab.errors import LabError
from railwright.lab.image import Progress
from railwright.lab.state import LabState, Node

# Two cold machines on two emulated cores took 28 s alone, and six minutes where the host gave most of its processors to others: this
# only ends what hangs.
BOOT_SECONDS = 900.0


def argv(state: LabState, node: Node, command: list[str] | None = None) -> list[str]:
    """An ssh command line; with a command it never prompts and carries every argument through as it is."""
    line = ["ssh", "-i", str(state.paths.ssh_key), "-p", str(node.ssh_port)]
    for option in inventory.ssh_options(state):
        line += ["-o", option]
    if command is None:
        return [*line, "root@127.0.0.1"]
    return [*line, "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "root@127.0.0.1", "--", shlex.join(command)]


def answers(node: Node, seconds: float = 3.0) -> bool:
    """True when the node's sshd speaks. QEMU accepts the connection for a dead guest too, so the banner decides."""
    try:
        with socket.create_connection(("127.0.0.1", node.ssh_port), timeout=seconds) as connection:
            connection.settimeout(seconds)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def run(state: LabState, node: Node, command: list[str], *, timeout: float = 120) -> str:
    """Run a command in a node and return its output."""
    try:
        return tools.run(argv(state, node, command), timeout=timeout)
    except LabError as exc:
        raise LabError(f"{node.name}: {exc}") from exc


def wait(state: LabState, nodes: list[Node], progress: Progress, seconds: float = BOOT_SECONDS) -> None:
    """Wait until every node's sshd answers; a machine that ended meanwhile is an error at once."""
    begin = time.monotonic()
    waiting = list(nodes)
    while waiting:
        for node in list(waiting):
            if answers(node):
                waiting.remove(node)
                progress(f"  {node.name} answers on 127.0.0.1:{node.ssh_port} after {time.monotonic() - begin:.0f} s")
            elif machine.pid(state, node) is None:
                raise LabError(f"{node.name} stopped while booting; its console: {_console(state, node)}")
        if waiting and time.monotonic() - begin > seconds:
            name = waiting[0].name
            raise LabError(f"{name} does not answer after {seconds:.0f} s; its console: {_console(state, waiting[0])}")
        if waiting:
            time.sleep(0.5)


def settle(state: LabState, node: Node) -> None:
    """Wait for the end of the boot: a snapshot in the middle of one would restore into its unfinished half."""
    try:
        run(state, node, ["systemctl", "is-system-running", "--wait"], timeout=BOOT_SECONDS)
    except LabError:
        # "degraded" exits 1 too; name the units instead of guessing.
        failed = run(state, node, ["systemctl", "list-units", "--failed", "--no-legend", "--plain"]).strip()
        if failed:
            raise LabError(f"{node.name} booted with failed units: {tools.tail(failed)}") from None


def set_clock(state: LabState, node: Node) -> None:
    """A restored guest still has the time of its snapshot, and TLS, apt and make all mind."""
    run(state, node, ["date", "-u", "-s", f"@{time.time():.0f}"])


def _console(state: LabState, node: Node) -> str:
    file = state.paths.node(node.name) / "console.log"
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return f"{tools.tail(text, 3)} (whole console: {file})"
