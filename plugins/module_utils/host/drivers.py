# SPDX-License-Identifier: GPL-3.0-or-later
"""What drivers tell past files, without a process for each question: an interface's statistics (``ethtool -S``), a library of the node.

include/uapi/linux/ethtool.h: a command is a struct that an interface request (netdevice(7)) points to; these need no rights.
"""

import array
import ctypes
import fcntl
import socket
import struct
from typing import Any, Callable, Dict, Optional, Tuple

SIOCETHTOOL = 0x8946
GSTRINGS, GSTATS, GSSET_INFO, SS_STATS = 0x1B, 0x1D, 0x37, 1
STRING = 32  # bytes of a name
MOST = 16384  # statistics that an answer has room for: a driver may make more of them between two questions, and the kernel writes them all
SPARE = bytes(8 * MOST)


def library(name: str) -> Optional[Any]:
    """A shared library; None where the node has none of that name."""
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


class Statistics:
    """Of interfaces, by the names that ``wanted`` takes. A name that it makes of several of the driver's is their sum."""

    def __init__(self, wanted: Callable[[str], Optional[str]]) -> None:
        self._wanted = wanted
        self._places: Dict[str, Tuple[int, Dict[int, str]]] = {}

    def read(self, netdev: str) -> Optional[Dict[str, int]]:
        """None where the driver does not tell."""
        try:
            if netdev not in self._places:
                self._places[netdev] = self._names(netdev)
            many, places = self._places[netdev]
            answer = self._ask(netdev, struct.pack("=II", GSTATS, many) + SPARE)
        except (OSError, UnicodeError):
            return None
        if struct.unpack_from("=I", answer, 4)[0] != many:  # other queues, other names
            del self._places[netdev]
            return None
        found: Dict[str, int] = {}
        for place, name in places.items():
            found[name] = found.get(name, 0) + struct.unpack_from("=Q", answer, 8 + 8 * place)[0]
        return found

    def _names(self, netdev: str) -> Tuple[int, Dict[int, str]]:
        many = struct.unpack_from("=I", self._ask(netdev, struct.pack("=IIQI", GSSET_INFO, 0, 1 << SS_STATS, 0)), 16)[0]
        if many > MOST // 2:
            raise OSError("more statistics than there is room for")
        answer = self._ask(netdev, struct.pack("=III", GSTRINGS, SS_STATS, many) + SPARE * (STRING // 8))
        found: Dict[int, str] = {}
        for place in range(many):
            text = answer[12 + STRING * place:12 + STRING * (place + 1)].split(b"\0")[0].decode("ascii", "replace")
            name = self._wanted(text.strip())
            if name is not None:
                found[place] = name
        return many, found

    @staticmethod
    def _ask(netdev: str, command: bytes) -> bytes:
        room = array.array("B", command)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            fcntl.ioctl(asked.fileno(), SIOCETHTOOL, struct.pack("16sP16x", netdev.encode("ascii")[:15], room.buffer_info()[0]))
        return room.tobytes()
