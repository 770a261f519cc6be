# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes on this machine, each an address of 127.0.0.0/16 behind a real sshd of our own, with host keys that ssh checks.

Nothing of the machine's own ssh is used or changed: configurations, keys and known_hosts are in a private directory, and sshd listens on
loopback addresses only. What a node needs changed of the machine (no Python, a user with sudo) is changed in a mount namespace of its
sshd, over directories in memory: it ends with the sshd, which ends with us.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

LISTEN = 16  # addresses of one sshd: MAX_LISTEN_SOCKS of OpenSSH
WAIT_SECONDS = 20.0
PRIVILEGE_SEPARATION = Path("/run/sshd")  # Debian's; its unit makes it, and we do not start the unit
WITH_US = ("setpriv", "--pdeathsig", "TERM")  # no sshd outlives a test that is killed
HOME = "home-of-root"  # of the nodes, below the directory of the world
# A writable copy of each directory in memory; $ROOM is the world's own directory, which holds nothing else than that here.
OVERLAY = """mount -t tmpfs tmpfs "$ROOM"
for place in {places}; do
    name=$(echo "$place" | tr / _)
    mkdir -p "$ROOM/$name/upper" "$ROOM/$name/work"
    mount -t overlay overlay -o "lowerdir=$place,upperdir=$ROOM/$name/upper,workdir=$ROOM/$name/work" "$place"
done
"""


class NoSshd(RuntimeError):
    """sshd is missing or does not start."""


def address(number: int) -> str:
    """No node has an address that ends in 0 or 255."""
    return f"127.0.{(number - 1) // 250}.{(number - 1) % 250 + 1}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((address(1), 0))
        return int(probe.getsockname()[1])


class World:
    """Its sshds run until the block ends. They all listen on one port, for which a node is its address alone."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.known_hosts = directory / "known_hosts"
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if found is None:
            raise NoSshd("there is no sshd; install it with: tools/need bench")
        self.program = found
        if os.geteuid() == 0:
            PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        (self.directory / HOME).mkdir(mode=0o700)
        for name in ("host", "client"):
            self.key(name)
        shutil.copy(self.directory / "client.pub", self.directory / "authorized_keys")
        self.known_hosts.touch()
        return self

    def __exit__(self, *_exc: object) -> None:
        for process in self._started:
            process.terminate()
        for process in self._started:
            process.wait()

    def key(self, name: str, passphrase: str = "") -> Path:
        """A new key pair; the private one's path."""
        path = self.directory / name
        subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f", str(path)), check=True)
        return path

    def know(self, hosts: Iterable[str], key: str = "host") -> None:
        """That the hosts have this key."""
        kind, text = (self.directory / f"{key}.pub").read_text(encoding="ascii").split()[:2]
        with self.known_hosts.open("a", encoding="ascii") as stream:
            stream.writelines(f"[{host}]:{self.port} {kind} {text}\n" for host in hosts)

    def serve(
        self, hosts: Sequence[str], *lines: str, key: str = "host", places: Sequence[str] = (), setup: str = "", known: bool = True
    ) -> None:
        """Begin one sshd for at most ``LISTEN`` hosts; ``lines`` of its configuration come first, where the first one counts.

        ``places``: directories that it and its sessions have a private copy of, in which the shell script ``setup`` runs first.
        """
        name = f"sshd_{hosts[0]}"
        config = self.directory / name
        config.write_text("\n".join((*lines, sshd_config(self.directory, hosts, self.port, key))), encoding="ascii")
        argv = [self.program, "-D", "-e", "-f", str(config)]
        if places:
            room = self.directory / f"{name}.room"
            room.mkdir()
            script = f"set -eu\nROOM={shlex.quote(str(room))}\n" + OVERLAY.format(places=shlex.join(places)) + setup
            argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"{script}\nexec {shlex.join(argv)}"]
        with (self.directory / f"{name}.log").open("wb") as log:
            self._started.append(subprocess.Popen((*WITH_US, *argv), stdin=subprocess.DEVNULL, stderr=log))
        if known:
            self.know(hosts, key)

    def run(self, host: str, command: str, stdin: str = "") -> str:
        """What a command of root prints on a node."""
        options = ("-F", "none", "-i", str(self.directory / "client"), "-o", f"UserKnownHostsFile={self.known_hosts}")
        argv = ("ssh", *options, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-p", str(self.port), f"root@{host}", command)
        return subprocess.run(argv, input=stdin, check=True, capture_output=True, text=True, timeout=60).stdout

    def wait(self, hosts: Iterable[str]) -> None:
        """Until each of them takes connections."""
        for host in hosts:
            self._wait(host)

    def _wait(self, host: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                with socket.create_connection((host, self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.1)
        said = " ".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(self.directory.glob("sshd_*.log")))
        raise NoSshd(f"nothing answers on {host}:{self.port}: {' '.join(said.split())[-400:]}")


def sshd_config(directory: Path, hosts: Sequence[str], port: int, key: str = "host") -> str:
    """As Debian ships it in what costs time; StrictModes would refuse a directory below a /tmp that others may write to.

    Root has an empty home: this machine's own may set up a PATH in seconds, and behind a lock that one cut connection leaves for ever.
    """
    lines = [f"Port {port}", *(f"ListenAddress {host}" for host in hosts)]
    lines += [f"HostKey {directory}/{key}", f"AuthorizedKeysFile {directory}/authorized_keys", f"PidFile {directory}/sshd_{hosts[0]}.pid"]
    lines += ["StrictModes no", "UsePAM no", "PasswordAuthentication no", "KbdInteractiveAuthentication no"]
    lines += ["PermitRootLogin prohibit-password", "MaxStartups 300", "UseDNS no", "Subsystem sftp internal-sftp", "LogLevel ERROR"]
    lines += ["Match User root", f"    SetEnv HOME={directory}/{HOME}"]
    return "\n".join(lines) + "\n"

