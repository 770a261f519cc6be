# SPDX-License-Identifier: GPL-3.0-or-later
"""Open taps inside a network namespace, step back out, and become QEMU.

Run as a script: tapexec.py NAMESPACE FIRST_FD TAP[,TAP...] COMMAND... QEMU must stay in the host's namespace, because its
ssh port forwards listen there; only the tap descriptors come from the other side.
"""

import ctypes
import fcntl
import os
import struct
import sys
from pathlib import Path

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
CLONE_NEWNET = 0x40000000


def _enter(path: str) -> None:
    # os.setns is only in Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(path).open("rb") as handle:
        if libc.setns(handle.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {path}")


def main(argv: list[str]) -> None:
    """Never returns: the process is replaced by the command."""
    name, first, taps, *command = argv
    # Held open from before the switch: afterwards /proc/self names the new namespace.
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    _enter(f"/run/netns/{name}")
    for offset, tap in enumerate(taps.split(",")):
        handle = os.open("/dev/net/tun", os.O_RDWR)
        flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
        fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH22x", tap.encode(), flags))
        os.dup2(handle, int(first) + offset, inheritable=True)
    _enter(f"/proc/self/fd/{home}")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
