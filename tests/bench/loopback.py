# SPDX-License-Identifier: GPL-3.0-or-later
"""Up to 254 nodes on this machine: one address of 127.0.0.0/24 each, behind a real sshd of our own with host keys that ssh checks.

Nothing of the machine's own ssh is used or changed: configuration, keys and known_hosts are in a private directory, and sshd listens on
loopback addresses only and lets in one key.
"""

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LISTEN = 16  # addresses of one sshd: MAX_LISTEN_SOCKS of OpenSSH
RAILS = 8  # of a node, as on machines with eight GPUs
WAIT_SECONDS = 20.0
PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
SYSTEM_PYTHON = "/usr/bin/python3"  # looking for one costs every leg another round trip, and finds the wrong one below pyenv
# What sites of this kind often tune. A node with eight rails has 24 sysctls of its rails alone; here is one interface and so three of
# them, for which these stand. No kernel or distribution has these very values by itself.
SYSCTLS = {
    "net.core.rmem_max": 268435456, "net.core.wmem_max": 268435456, "net.core.rmem_default": 1048576, "net.core.wmem_default": 1048576,
    "net.core.optmem_max": 1048576, "net.core.netdev_max_backlog": 250000, "net.core.netdev_budget": 600, "net.core.somaxconn": 8192,
    "net.ipv4.tcp_rmem": "4096 131072 268435456", "net.ipv4.tcp_wmem": "4096 131072 268435456", "net.ipv4.tcp_mtu_probing": 1,
    "net.ipv4.tcp_max_syn_backlog": 16384, "vm.swappiness": 10, "vm.max_map_count": 1048576, "fs.aio-max-nr": 1048576,
    "fs.inotify.max_user_instances": 8192,
}
PRIVILEGE_SEPARATION = Path("/run/sshd")  # Debian's; its unit makes it, and we do not start the unit


class NoSshd(RuntimeError):
    """sshd is missing or does not start."""


def address(number: int) -> str:
    return f"127.0.0.{number}"


@contextmanager
def nodes(count: int, directory: Path) -> Iterator[Path]:
    """An inventory of ``count`` nodes that answer while the block runs."""
    if not 1 <= count <= 254:
        raise ValueError(f"{count} nodes; allowed: 1 to 254")
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        raise NoSshd("there is no sshd; install it with: tools/need bench")
    port = free_port()
    keys(directory, count, port)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for first in range(1, count + 1, LISTEN):
            config = directory / f"sshd_{first}"
            config.write_text(sshd_config(directory, range(first, min(first + LISTEN, count + 1)), port), encoding="ascii")
            with (directory / f"sshd_{first}.log").open("wb") as log:
                started.append(subprocess.Popen([program, "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stderr=log))
        for number in range(1, count + 1):
            answer(address(number), port, directory)
        yield inventory(directory, count, port)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((address(1), 0))
        return int(probe.getsockname()[1])


def keys(directory: Path, count: int, port: int) -> None:
    """One host key and one client key, made for this run, and the known_hosts that names every address."""
    if os.geteuid() == 0:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f", str(directory / name)], check=True)
    shutil.copy(directory / "client.pub", directory / "authorized_keys")
    key = (directory / "host.pub").read_text(encoding="ascii").split()[:2]
    lines = [" ".join((f"[{address(number)}]:{port}", *key)) for number in range(1, count + 1)]
    (directory / "known_hosts").write_text("\n".join(lines) + "\n", encoding="ascii")


def sshd_config(directory: Path, numbers: range, port: int) -> str:
    """As Debian ships it in what costs time; StrictModes would refuse a directory below a /tmp that others may write to."""
    lines = [f"Port {port}", *(f"ListenAddress {address(number)}" for number in numbers)]
    lines += [f"HostKey {directory}/host", f"AuthorizedKeysFile {directory}/authorized_keys", f"PidFile {directory}/sshd_{numbers[0]}.pid"]
    lines += ["StrictModes no", "UsePAM no", "PasswordAuthentication no", "KbdInteractiveAuthentication no"]
    lines += ["PermitRootLogin prohibit-password", "MaxStartups 300", "UseDNS no", "Subsystem sftp internal-sftp", "LogLevel ERROR"]
    return "\n".join(lines) + "\n"


def answer(host: str, port: int, directory: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((host, port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    said = " ".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(directory.glob("sshd_*.log")))
    raise NoSshd(f"nothing answers on {host}:{port}: {' '.join(said.split())[-400:]}")


def inventory(directory: Path, count: int, port: int) -> Path:
    """A RoCE site with eight rails a node; the first one is this machine's own interface, where it has one.

    No become: the login user is the one that the benchmark runs as. Everything else that Ansible has a default for is left at it.
    """
    options = f"-F none -o UserKnownHostsFile={directory}/known_hosts -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
    common = {
        "rdma_fabric": "roce", "rdma_mtu": 9000,
        "host_tuning_sysctls": {key: str(value) for key, value in SYSCTLS.items()}, "ansible_port": port,
        "ansible_user": pwd.getpwuid(os.geteuid()).pw_name, "ansible_become": False,
        "ansible_ssh_private_key_file": str(directory / "client"), "ansible_ssh_common_args": options,
        "ansible_remote_tmp": str(directory / "remote"),
        "ansible_python_interpreter": SYSTEM_PYTHON if Path(SYSTEM_PYTHON).exists() else sys.executable,
    }
    hosts = {f"node{number:03d}": {"ansible_host": address(number), "rdma_rails": rails(number)} for number in range(1, count + 1)}
    site = directory / "site"
    (site / "group_vars" / "all").mkdir(parents=True)
    write(site / "hosts.yml", {"all": {"children": {"rdma": {"hosts": hosts}}}})
    write(site / "group_vars" / "all" / "site.yml", common)
    return site


def rails(number: int) -> list[dict[str, Any]]:
    """Only one can be there on a machine without RDMA. Addresses: RFC 2544's range for benchmarks."""
    own = own_pci()
    first = {"pci": own} if own else {"mac": f"02:00:00:{number:02x}:00:00"}
    matches = [first, *({"mac": f"02:00:00:{number:02x}:00:{rail:02x}"} for rail in range(1, RAILS))]
    return [{"name": f"rail{rail}", "match": match, "address": f"198.18.{rail}.{number}/24"} for rail, match in enumerate(matches)]


def own_pci() -> str | None:
    """Of the first Ethernet interface on PCI; below a virtual machine's lies a virtio device."""
    for interface in sorted(Path("/sys/class/net").iterdir()):
        places = [part for part in (interface / "device").resolve().parts if PCI.fullmatch(part)]
        if places and (interface / "type").read_text(encoding="ascii").strip() == "1":
            return places[-1]
    return None


def write(path: Path, data: Any) -> None:
    """JSON is YAML."""
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
