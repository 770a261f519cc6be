# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes whose ssh has a fault each: real sshds with odd configurations, and small servers that cut, flood or say nothing."""

from __future__ import annotations

import itertools
import json
import os
import pwd
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ssh_world import World, address, free_port

PYTHON = "/usr/bin/python3"
MEGABYTE = b"x" * 1023 + b"\n"
ME = pwd.getpwuid(os.geteuid()).pw_name
# A session that ends with its connection, before and in the middle of what its command prints.
CUT_AT_ONCE = "ForceCommand kill -9 $PPID"
CUT_HALF_WAY = 'ForceCommand parent=$PPID; sh -c "$SSH_ORIGINAL_COMMAND" | { dd bs=1 count=600 status=none; kill -9 $parent; }'
Serve = Callable[[socket.socket], None]


class Faults:
    """Makes nodes; ``hosts`` are their variables."""

    def __init__(self, world: World) -> None:
        self.world, self.hosts = world, dict[str, dict[str, Any]]()
        self._numbers = itertools.count(1)
        self._listeners: list[socket.socket] = []
        self._served: list[str] = []

    def node(self, name: str, *lines: str, options: str = "", checked: bool = True, **more: Any) -> str:
        """A node with an sshd of its own, which has these lines. ``options``: of ssh. ``checked``: its host key is known."""
        return self.known(name, self.sshd(*lines, checked=checked, key=more.pop("host_key", "host")), options, **more)

    def sshd(self, *lines: str, checked: bool = True, key: str = "host") -> str:
        """The address of a new one."""
        host = address(next(self._numbers))
        self.world.serve([host], *lines, known=checked, key=key)
        self._served.append(host)
        return host

    def known(self, name: str, host: str, options: str = "", **more: Any) -> str:
        extra = {"ansible_ssh_extra_args": options} if options else {}
        self.hosts[name] = {"ansible_host": host, **extra, **more}
        return host

    def wait(self) -> None:
        self.world.wait(self._served)

    def server(self, name: str, serve: Serve) -> None:
        """A node where each connection is handed to ``serve``, and closed after it."""
        host = address(next(self._numbers))
        listener = socket.create_server((host, self.world.port))
        self._listeners.append(listener)
        threading.Thread(target=accept, args=(listener, serve), daemon=True).start()
        self.world.know([host])
        self.known(name, host)

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()

    def inventory(self, directory: Path, **more: Any) -> Path:
        common = {
            "rdma_fabric": "roce", "rdma_mtu": 9000, "ansible_port": self.world.port, "ansible_python_interpreter": PYTHON,
            "ansible_user": ME, "ansible_become": False, "ansible_ssh_common_args": f"-F {self.world.directory / 'config'}",
            "ansible_timeout": 5,
        }
        path = directory / "hosts.yml"
        document = {"all": {"vars": {**common, **more}, "children": {"rdma": {"hosts": self.hosts}}}}
        path.write_text(json.dumps(document, indent=1), encoding="utf-8")
        return path


def accept(listener: socket.socket, serve: Serve) -> None:
    with suppress(OSError):  # closed
        while True:
            connection, _peer = listener.accept()
            threading.Thread(target=one, args=(connection, serve), daemon=True).start()


def one(connection: socket.socket, serve: Serve) -> None:
    with connection, suppress(OSError):
        serve(connection)
        connection.shutdown(socket.SHUT_RDWR)  # closing alone does nothing while another thread reads


def through(port: int, host: str, limit: int) -> Serve:
    """To a real sshd, until it has sent so many bytes."""

    def serve(connection: socket.socket) -> None:
        with socket.create_connection((host, port)) as upstream:
            threading.Thread(target=copied, args=(connection, upstream), daemon=True).start()
            copied(upstream, connection, limit)

    return serve


def copied(source: socket.socket, target: socket.socket, limit: int = 1 << 40) -> None:
    with suppress(OSError):
        while limit > 0 and (data := source.recv(min(limit, 65536))):
            target.sendall(data)
            limit -= len(data)


def flood(megabytes: int) -> Serve:
    """Lines before the version, as RFC 4253 allows them."""

    def serve(connection: socket.socket) -> None:
        for _number in range(megabytes):
            connection.sendall(MEGABYTE * 1024)
        connection.recv(1 << 16)

    return serve


def trickle(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"one moment please\r\n")
        time.sleep(1)


def mute(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


def certificate(world: World, authority: str, key: str, *options: str) -> None:
    """``key``-cert.pub, by the key of the authority."""
    command = ("ssh-keygen", "-q", "-s", str(world.directory / authority), "-I", "test", *options, str(world.directory / f"{key}.pub"))
    subprocess.run(command, check=True)


@contextmanager
def faults(directory: Path) -> Iterator[Faults]:
    """A world, in which the caller makes faults."""
    with World(directory) as world:
        # A file, for it is all that OpenSSH tells the ssh that it starts for a jump.
        lines = [f"IdentityFile {directory}/client", "IdentitiesOnly yes", "StrictHostKeyChecking yes"]
        lines += [f"UserKnownHostsFile {world.known_hosts}", "GlobalKnownHostsFile /dev/null"]
        (directory / "config").write_text("\n".join(["Host *", *lines, ""]), encoding="ascii")
        found = Faults(world)
        try:
            yield found
        finally:
            found.close()


def quick(found: Faults) -> None:
    """Faults that are known within seconds."""
    world, room = found.world, found.world.directory
    for name in ("other", "authority"):
        world.key(name)
    world.key("locked", "a passphrase")
    good = found.node("good")
    world.know([found.node("changed-key", checked=False)], "other")
    for strict in ("yes", "accept-new", "no"):
        own = room / f"known-{strict}"
        own.touch()
        found.node(f"unknown-key-{strict}", checked=False,
                   options=f"-o StrictHostKeyChecking={strict} -o UserKnownHostsFile={own}")
    found.node("agent-gone", f"AuthorizedKeysFile {room}/other.pub", options=f"-o IdentitiesOnly=no -o IdentityAgent={room}/no-agent")
    found.node("passphrase", f"AuthorizedKeysFile {room}/locked.pub", ansible_ssh_private_key_file=str(room / "locked"))
    found.node("not-allowed", "AllowUsers somebody-else")
    many = " ".join(f"-o IdentityFile={world.key(f'spare{number}')}" for number in range(4))
    found.node("too-many-keys", "MaxAuthTries 2", options=many, ansible_ssh_private_key_file=str(room / "other"))
    certificates(found)
    found.known("jump-down", good, f"-J {ME}@{address(250)}:{free_port()}")
    jumps(found, good)
    found.server("cut-before-banner", lambda _connection: None)
    for phase, limit in (("in-banner", 20), ("after-banner", 60), ("in-exchange", 1200)):
        found.server(f"cut-{phase}", through(world.port, good, limit))
    found.node("cut-after-login", CUT_AT_ONCE)
    found.node("cut-half-way", CUT_HALF_WAY)
    found.server("banner-10-mb", flood(10))
    found.server("banner-endless", flood(1 << 20))
    for name, profile in (("noisy", "100000"), ("deafening", "50000000")):
        found.node(name, f'ForceCommand head -c {profile} /dev/zero | tr "\\0" x; echo; sh -c "$SSH_ORIGINAL_COMMAND"')
    found.node("slow", 'ForceCommand sleep 3; sh -c "$SSH_ORIGINAL_COMMAND"')
    found.wait()


def certificates(found: Faults) -> None:
    """Of a user and of a host, one expired and one that holds."""
    world, room = found.world, found.world.directory
    long_ago, always = ("-V", "20200101:20200201"), ("-V", "always:forever")
    for name, valid in (("expired", long_ago), ("valid", always)):
        for kind in ("user", "node"):
            world.key(f"{kind}-{name}")
        certificate(world, "authority", f"user-{name}", "-n", ME, *valid)
        found.node(f"user-certificate-{name}", f"TrustedUserCAKeys {room}/authority.pub", "AuthorizedKeysFile none",
                   ansible_ssh_private_key_file=str(room / f"user-{name}"), options=f"-o CertificateFile={room}/user-{name}-cert.pub")
        line = f"HostCertificate {room}/node-{name}-cert.pub"
        host = found.node(f"host-certificate-{name}", line, checked=False, host_key=f"node-{name}")
        certificate(world, "authority", f"node-{name}", "-h", "-n", host, *valid)
        kind, key = (room / "authority.pub").read_text(encoding="ascii").split()[:2]
        with world.known_hosts.open("a", encoding="ascii") as stream:
            stream.write(f"@cert-authority [{host}]:{world.port} {kind} {key}\n")


def jumps(found: Faults, behind: str) -> None:
    """A jump host that forwards nothing, one that takes two logins at a time, and nodes of which one sshd takes two at a time."""
    world = found.world
    closed = found.sshd("AllowTcpForwarding no")
    found.known("jump-refuses", behind, f"-J {ME}@{closed}:{world.port}")
    narrow = found.sshd("MaxStartups 2:100:2")
    far, crowd = ([address(number) for number in range(first, first + 8)] for first in (221, 201))  # no two nodes have one address
    world.serve(far)
    for number, host in enumerate(far):
        found.known(f"narrow-{number}", host, f"-J {ME}@{narrow}:{world.port}")
    world.serve(crowd, "MaxStartups 2:100:2")
    for number, host in enumerate(crowd):
        found.known(f"crowd-{number}", host)


def patient(found: Faults) -> None:
    """Faults that are waited out."""
    found.node("good")
    found.server("mute", mute)
    found.server("banner-trickles", trickle)
    found.node("very-slow", 'ForceCommand sleep 70; sh -c "$SSH_ORIGINAL_COMMAND"')
    found.wait()
