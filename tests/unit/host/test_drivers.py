# SPDX-License-Identifier: GPL-3.0-or-later
"""Statistics of an interface by ioctl: a kernel that writes into our room, as ethtool.h says, stands in for a driver."""

import ctypes
import fcntl
import struct

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host import drivers
from ansible_collections.railwright.rdma.plugins.module_utils.observe.live_ports import _pause

NAMES = ("rx_packets", "rx_prio3_pause", "tx_prio3_pause", "rx_prio4_pause", "rx_prio3_pause_duration", "tx_global_pause")


class Kernel:
    """``names`` and ``values`` of an interface eth1; nobody else is there."""

    def __init__(self) -> None:
        self.names, self.values, self.asked = list(NAMES), list(range(10, 16)), 0

    def ioctl(self, _fd: int, number: int, request: bytes) -> None:
        assert number == 0x8946 and len(request) == 40
        name, address = struct.unpack("16sP16x", request)
        if name.rstrip(b"\0") != b"eth1":
            raise OSError(95, "Operation not supported")
        command = struct.unpack("=I", ctypes.string_at(address, 4))[0]
        if command == 0x37:
            assert struct.unpack("=Q", ctypes.string_at(address + 8, 8))[0] == 1 << 1
            ctypes.memmove(address + 16, struct.pack("=I", len(self.names)), 4)
        elif command == 0x1B:
            assert struct.unpack("=II", ctypes.string_at(address + 4, 8)) == (1, len(self.names))
            ctypes.memmove(address + 12, b"".join(each.encode().ljust(32, b"\0") for each in self.names), 32 * len(self.names))
        else:
            assert command == 0x1D
            self.asked += 1
            ctypes.memmove(address + 4, struct.pack("=I", len(self.names)), 4)
            ctypes.memmove(address + 8, struct.pack(f"={len(self.values)}Q", *self.values), 8 * len(self.values))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    found = Kernel()
    monkeypatch.setattr(fcntl, "ioctl", found.ioctl)
    return found


def test_the_wanted_ones_are_added_up(kernel: Kernel) -> None:
    assert drivers.Statistics(_pause).read("eth1") == {"pauses_in": 11 + 13, "pauses_out": 12 + 15}


def test_more_queues_are_other_names(kernel: Kernel) -> None:
    statistics = drivers.Statistics(_pause)
    assert statistics.read("eth1") is not None
    kernel.names.insert(0, "rx0_packets")
    kernel.values.insert(0, 7)
    assert statistics.read("eth1") is None
    assert statistics.read("eth1") == {"pauses_in": 24, "pauses_out": 27}


def test_more_than_there_is_room_for_is_not_asked(kernel: Kernel) -> None:
    kernel.names *= 3000
    assert drivers.Statistics(_pause).read("eth1") is None
    assert kernel.asked == 0


@pytest.mark.parametrize("netdev", ["eth9", "é", ""])
def test_who_does_not_tell_is_unknown(kernel: Kernel, netdev: str) -> None:
    assert drivers.Statistics(_pause).read(netdev) is None


def test_no_statistics_and_no_library() -> None:
    assert not drivers.Statistics(_pause).read("lo")
    assert drivers.library("libno-such-library.so.9") is None
