# SPDX-License-Identifier: GPL-3.0-or-later
"""The serial console of a lab machine, as somebody sits at it: what it shows, what is typed; and shim's MokManager, which has no other."""

from __future__ import annotations

import re
import socket
import time
from typing import Self

from lab_machine import BOOT_SECONDS, Machine
from railwright import lab
from railwright.lab.machine import console_path

DOWN, ENTER = "\x1b[B", "\r"
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What MokManager shows, and the keys that answer it. The first entry of each menu is the one that changes nothing.
_ENROL = (
    ("Press any key to perform MOK management", ENTER),
    ("Enroll MOK", DOWN + ENTER),
    ("View key 0", DOWN + ENTER),
    ("Enroll the key(s)?", DOWN + ENTER),
    ("Password:", "{password}" + ENTER),
    ("Reboot", ENTER),
)
# It draws its screen piece by piece, and takes keys only when it is done.
_DRAWN_SECONDS = 3.0


class Console:
    """`with Console(machine) as console`; text that came before somebody connected is in console.log alone."""

    def __init__(self, machine: Machine) -> None:
        state = lab.current(machine.state_dir)
        assert state is not None, "the machine is not up"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(console_path(state, state.node(machine.node))))
        self._shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()

    def wait(self, text: str, seconds: float = BOOT_SECONDS) -> None:
        """Until the text is shown; what was shown before it is over."""
        deadline = time.monotonic() + seconds
        while text not in self._shown:
            assert time.monotonic() < deadline, f"the console does not show {text!r} but {self._shown[-1500:]!r}"
            self.read(1)
        self._shown = self._shown.split(text, 1)[1]

    def type(self, keys: str) -> None:
        """Key by key: firmware takes an escape sequence that comes in one piece, and drops what comes faster than it polls."""
        for key in re.findall(r"\x1b\[.|.", keys, re.DOTALL):
            self._socket.sendall(key.encode())
            self.read(0.5)

    def read(self, seconds: float) -> None:
        """For so long. Whoever is connected has to: QEMU drops what finds no room, and each byte takes the room of hundreds."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                return
            assert data, "the machine is gone"
            self._shown = _COLOURS.sub("", self._shown + data.decode("utf-8", "replace"))


def enrol(machine: Machine, password: str) -> None:
    """Reboot, and do at the console what an operator does for a key that waits to be enrolled, until it is all up again."""
    before = machine.boot_id()
    machine.run("mokutil", "--timeout", "120")  # its ten seconds are short where two cores do all else too
    with Console(machine) as console:
        machine.run("systemd-run", "--on-active=1", "systemctl", "reboot")
        for shown, keys in _ENROL:
            console.wait(shown)
            console.read(_DRAWN_SECONDS if keys != ENTER else 0.5)
            console.type(keys.format(password=password))
    machine.back(before)
