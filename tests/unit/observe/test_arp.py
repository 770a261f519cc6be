# SPDX-License-Identifier: GPL-3.0-or-later
"""Frames that ask who has an address, and what is heard. Bytes by hand, from RFC 826, 5227, 4861 and 4862."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.arp import Heard, checksum, heard, holders, question, who_has
from rooted import RootedHost

OWN = "02:00:00:00:01:01"
OTHER = "02:00:00:00:02:02"
PROBE = bytes.fromhex("ffffffffffff 020000000101 0806 0001 0800 06 04 0001 020000000101 00000000 000000000000 0a0a000b")
REPLY = bytes.fromhex("020000000101 020000000202 0806 0001 0800 06 04 0002 020000000202 0a0a000b 020000000101 00000000")
# The answer to a question from ``::`` goes to all nodes; flags: override.
ADVERTISEMENT = bytes.fromhex(
    "333300000001 020000000202 86dd 60000000 0020 3a ff fd000000000000000000000000000002 ff020000000000000000000000000001"
    "88 00 0000 20000000 fd000000000000000000000000000002 0201 020000000202")


def test_an_arp_probe_comes_from_no_address_and_goes_to_everybody() -> None:
    assert question(OWN, "10.10.0.11") == PROBE


def test_a_solicitation_has_no_source_address_and_the_targets_group() -> None:
    frame = question(OWN, "fd00::12:3456")
    assert frame[:14].hex() == "3333ff123456" + "020000000101" + "86dd"
    version, length, following, hops = struct.unpack(">IHBB", frame[14:22])
    assert (version, length, following, hops) == (0x60000000, 24, 58, 255)
    assert frame[22:38] == bytes(16) and frame[38:54].hex() == "ff0200000000000000000001ff123456"
    assert frame[54:56].hex() == "8700" and frame[62:].hex() == "fd000000000000000000000000123456"
    pseudo = frame[22:54] + struct.pack(">II", 24, 58)
    assert checksum(pseudo + frame[54:]) == 0, "a message with its checksum in it sums up to nothing"


def test_the_checksum_is_the_one_of_rfc_1071() -> None:
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2  # its own example


def test_an_answer_names_address_and_mac() -> None:
    assert heard(REPLY) == Heard("10.10.0.11", OTHER)
    assert heard(ADVERTISEMENT) == Heard("fd00::2", OTHER)
    assert heard(ADVERTISEMENT[:78]) == Heard("fd00::2", OTHER), "without the option the frame's sender is who answers"


@pytest.mark.parametrize("frame", [
    b"", PROBE, REPLY[:41],
    REPLY[:14] + b"\x00\x20" + REPLY[16:],  # InfiniBand's hardware type
    REPLY[:21] + b"\x08" + REPLY[22:],  # a reply of RARP's kind
    REPLY[:12] + b"\x08\x00" + REPLY[14:],  # IPv4
    ADVERTISEMENT[:21] + b"\xfe" + ADVERTISEMENT[22:],  # a router passed it on
    ADVERTISEMENT[:54] + b"\x87" + ADVERTISEMENT[55:],  # a question
    ADVERTISEMENT[:70],
])  # fmt: skip
def test_nothing_else_claims_an_address(frame: bytes) -> None:
    assert heard(frame) is None


def test_holders_are_others_and_each_once() -> None:
    frames = [REPLY, REPLY, REPLY.replace(bytes.fromhex("020000000202"), bytes.fromhex("020000000101")), ADVERTISEMENT, PROBE]
    assert holders(frames, "10.10.0.11", [OWN]) == [OTHER]
    assert holders(frames, "10.10.0.12", [OWN]) == []
    assert holders(frames, "fd00:0::2", [OWN]) == [OTHER]
    assert holders(frames, "10.10.0.11", []) == [OTHER, OWN]


class Segment(RootedHost):
    """A network that gives each question the same answers; what was sent and for how long is kept."""

    def __init__(self, root: Path, answers: Sequence[bytes]) -> None:
        super().__init__(root)
        self.answers, self.sent = answers, list[tuple[str, int, float, int]]()

    def exchange(self, netdev: str, protocol: int, frames: Sequence[bytes], seconds: float, limit: int,
                 wanted: Callable[[bytes], bool]) -> list[bytes]:
        self.sent.append((netdev, protocol, seconds, len(frames)))
        return [frame for frame in self.answers if wanted(frame)][:limit]


def link(root: Path, name: str, mac: str) -> None:
    (root / "sys/class/net" / name).mkdir(parents=True)
    (root / "sys/class/net" / name / "address").write_text(mac + "\n")


def test_every_interface_is_asked_within_a_second(tmp_path: Path) -> None:
    link(tmp_path, "eth1", OWN)
    link(tmp_path, "ib0", ":".join(["80"] * 20))
    segment = Segment(tmp_path, [PROBE, REPLY, ADVERTISEMENT])
    asked = {"eth1": ["10.10.0.11", "10.10.0.99", "fd00::2"], "ib0": ["10.10.1.1"], "eth9": ["10.10.2.1"], "eth2": []}
    answers = {"10.10.0.11": (OTHER,), "10.10.0.99": (), "fd00::2": (OTHER,)}
    assert who_has(segment, asked) == {"eth1": answers, "ib0": None, "eth9": None}
    assert [(netdev, protocol, many) for netdev, protocol, _seconds, many in segment.sent] == [("eth1", 0x0806, 6), ("eth1", 0x86DD, 3)]
    assert sum(seconds for _netdev, _protocol, seconds, _many in segment.sent) < 1


def test_our_own_answer_on_another_interface_is_no_strangers(tmp_path: Path) -> None:
    link(tmp_path, "eth1", OWN)
    link(tmp_path, "eth2", OTHER)
    assert who_has(Segment(tmp_path, [REPLY]), {"eth1": ["10.10.0.11"]}) == {"eth1": {"10.10.0.11": ()}}


def test_a_captured_tree_asks_nobody(tmp_path: Path) -> None:
    link(tmp_path, "eth1", OWN)
    assert who_has(TreeHost(str(tmp_path)), {"eth1": ["10.10.0.11"]}) == {"eth1": None}
