# SPDX-License-Identifier: GPL-3.0-or-later
"""This machine as a node of its own: in namespaces, with its own syslog, /run and process 1, all of which leave with it.

As a program: process 1 of these namespaces. argv: a directory. Input: a list of {"argv", "env", "cwd"}; what each of them said and how it
ended goes to ``answers.json`` there, what came to /dev/log to ``syslog``.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

SYSLOG = "syslog"
DATAGRAM = 1 << 20
DEVICES = ("full", "null", "random", "tty", "urandom", "zero")
MOUNTED = ("pts", "shm")
LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"}


class Said(NamedTuple):
    code: int
    output: str


def run_there(directory: Path, commands: Sequence[dict[str, Any]]) -> list[Said]:
    """Run commands one after the other as on a node that systemd has started; needs root."""
    argv = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", sys.executable, str(Path(__file__).resolve()), str(directory))
    subprocess.run(argv, input=json.dumps(list(commands)), text=True, check=True, timeout=300)
    return [Said(*answer) for answer in json.loads((directory / "answers.json").read_text())]


def _mount(*argv: str) -> None:
    subprocess.run(("mount", *argv), check=True)


def _own_devices(directory: Path) -> None:
    """A /dev of our own, because that of the machine may have no place for a syslog."""
    old = directory / "dev"
    old.mkdir()
    _mount("--rbind", "/dev", str(old))
    _mount("-t", "tmpfs", "none", "/dev")
    for name in DEVICES:
        Path("/dev", name).touch()
        _mount("--bind", str(old / name), f"/dev/{name}")
    for name in MOUNTED:
        Path("/dev", name).mkdir()
        _mount("--rbind", str(old / name), f"/dev/{name}")
    for name, target in LINKS.items():
        Path("/dev", name).symlink_to(target)
    _mount("--make-rprivate", str(old))
    subprocess.run(("umount", "--recursive", "--lazy", str(old)), check=True)


def _own_run(directory: Path) -> None:
    """What is written to /run lies in the directory, for whoever looks for it there."""
    (directory / "run/systemd/system").mkdir(parents=True)
    _mount("--bind", str(directory / "run"), "/run")


def _keep(log: socket.socket, path: Path) -> None:
    with path.open("ab", buffering=0) as stream:
        while True:
            stream.write(log.recv(DATAGRAM) + b"\n")


def main(directory: Path) -> None:
    commands = json.load(sys.stdin)
    Path("/proc/self/comm").write_text("systemd")
    _own_devices(directory)
    _own_run(directory)
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    log.bind("/dev/log")
    threading.Thread(target=_keep, args=(log, directory / SYSLOG), daemon=True).start()
    answers = []
    for command in commands:
        done = subprocess.run(command["argv"], env=dict(os.environ, **command.get("env", {})), cwd=command["cwd"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        answers.append((done.returncode, done.stdout))
    (directory / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
