# SPDX-License-Identifier: GPL-3.0-or-later
"""How a node is reached: the lab as an inventory like any other, the ssh command line, waiting for an answer, putting its clock right."""

import shlex
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from railwright.lab import machine, tools
from railwright.lab.image import Progress
from railwright.lab.state import LabState, Node, write_atomic
from railwright.lab.tools import LabError

SITE = Path(__file__).with_name("site.yml").read_text(encoding="utf-8")  # of the inventory: the operator's from then on

HOSTS_HEAD = """# Written by `railwright lab up`, again on every start: the ports may change.
all:
  children:
    rdma:
      hosts:
"""

HOST = """        {name}:
          ansible_host: 127.0.0.1
          ansible_port: {port}
          rdma_rails:
"""

RAIL = """            - name: {name}
              match: {{mac: "{mac}"}}
              address: {address}
"""

HOSTS_TAIL = """      vars:
        ansible_user: root
        ansible_python_interpreter: /usr/bin/python3
        # The lab made both keys itself, so host-key checking stays on.
        ansible_ssh_private_key_file: {key}
        ansible_ssh_common_args: {args}
"""


def ssh_options(state: LabState) -> list[str]:
    """What every connection to a node needs, as `-o` values."""
    known = str(state.paths.known_hosts)
    # ssh splits this option at spaces; quotes keep it whole, and are left out where nothing asks for them.
    known = f'"{known}"' if any(char.isspace() for char in known) else known
    return [
        f"UserKnownHostsFile={known}",
        "StrictHostKeyChecking=yes",
        # An agent with many keys would use up the server's patience before ours is offered.
        "IdentitiesOnly=yes",
    ]


def _yaml(text: str) -> str:
    """A double-quoted YAML scalar."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def hosts_yml(state: LabState) -> str:
    args = " ".join(f"-o {shlex.quote(option)}" for option in ssh_options(state))
    tail = HOSTS_TAIL.format(key=_yaml(str(state.paths.ssh_key)), args=_yaml(args))
    hosts = [HOST.format(name=node.name, port=node.ssh_port) + "".join(RAIL.format(**asdict(rail)) for rail in node.rails)
             for node in state.nodes]
    return HOSTS_HEAD + "".join(hosts) + tail


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def write(state: LabState, *, fresh: bool = False) -> str:
    """Write the inventory and return the hash of the site file as we wrote it.

    hosts.yml follows the machines. site.yml is the operator's: an edited one is kept, unless a fresh lab was asked for.
    """
    write_atomic(state.inventory / "hosts.yml", hosts_yml(state))
    site = state.inventory / "group_vars" / "all" / "site.yml"
    ours = digest(SITE)
    edited = site.exists() and digest(site.read_text(encoding="utf-8", errors="replace")) not in (ours, state.site_hash)
    if fresh or not edited:
        write_atomic(site, SITE)
    return ours


# Two cold machines on two emulated cores took 28 s alone, and six minutes where the host gave most of its processors to others: this
# only ends what hangs.
BOOT_SECONDS = 900.0
CLOCK_SECONDS = 5.0


def argv(state: LabState, node: Node, command: list[str] | None = None) -> list[str]:
    """An ssh command line; with a command it never prompts and carries every argument through as it is."""
    line = ["ssh", "-i", str(state.paths.ssh_key), "-p", str(node.ssh_port)]
    for option in ssh_options(state):
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


def run_on_node(state: LabState, node: Node, command: list[str], *, timeout: float = 120) -> str:
    try:
        return tools.run_tool(argv(state, node, command), timeout=timeout)
    except LabError as exc:
        raise LabError(f"{node.name}: {exc}") from exc


def wait(state: LabState, nodes: Sequence[Node], progress: Progress, seconds: float = BOOT_SECONDS) -> None:
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
        if not waiting:
            return
        if time.monotonic() - begin > seconds:
            raise LabError(f"{waiting[0].name} does not answer after {seconds:.0f} s; its console: {_console(state, waiting[0])}")
        time.sleep(0.5)


def settle(state: LabState, node: Node) -> None:
    """Wait for the end of the boot: a snapshot in the middle of one would restore into its unfinished half."""
    try:
        run_on_node(state, node, ["systemctl", "is-system-running", "--wait"], timeout=BOOT_SECONDS)
    except LabError:
        # "degraded" exits 1 too; name the units instead of guessing.
        failed = run_on_node(state, node, ["systemctl", "list-units", "--failed", "--no-legend", "--plain"]).strip()
        if failed:
            raise LabError(f"{node.name} booted with failed units: {tools.tail(failed)}") from None


def set_clock(state: LabState, node: Node) -> None:
    """A restored guest still has the time of its snapshot, and TLS, apt and make all mind."""
    run_on_node(state, node, ["date", "-u", "-s", f"@{time.time():.0f}"])


def clock_is_wrong(state: LabState, node: Node) -> bool:
    """Whether the guest's time is seconds away from ours, which its clock was set by when it booted."""
    before = time.time()
    said = run_on_node(state, node, ["date", "+%s"]).strip()
    try:
        return not before - CLOCK_SECONDS < int(said) < time.time() + CLOCK_SECONDS
    except ValueError:
        raise LabError(f"{node.name} tells the time as {tools.tail(said)!r}") from None


def _console(state: LabState, node: Node) -> str:
    file = state.paths.node(node.name) / "console.log"
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return f"{tools.tail(text, 3)} (whole console: {file})"
