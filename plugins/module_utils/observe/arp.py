# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has this address? The question as an Ethernet frame, and the answers read: ARP for IPv4, neighbour discovery for IPv6.

The question is the one of address detection (RFC 5227 section 1.1, RFC 4862 section 5.4.2): it comes from no address
(0.0.0.0, ::), so that nobody's neighbour table learns anything from it. Linux answers it also with ``arp_ignore`` 1 and 2
(2 asks for a sender of the same subnet, but lets one without an address pass: ``confirm_addr_indev`` in net/ipv4/devinet.c),
and leaves it alone where it is a proxy for others. Questions of others claim nothing and are not heard.

Pure. IPoIB has other hardware addresses and is not spoken here.
"""

import socket
import struct
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..host.host import Host
from ..host.threads import ask_at_once
from .devices import CLASS_NET, attribute, entries

ETHERTYPE = {4: 0x0806, 6: 0x86DD}  # ARP, IPv6
BROADCAST = b"\xff" * 6
ARP_HEADER = struct.pack(">HHBB", 1, 0x0800, 6, 4)  # Ethernet, IPv4, lengths of their addresses
ARP_REQUEST, ARP_REPLY = 1, 2
ICMPV6, SOLICITATION, ADVERTISEMENT = 58, 135, 136  # RFC 4443, RFC 4861
TARGET_LINK_ADDRESS = 2  # RFC 4861 section 4.6.1


class Heard(NamedTuple):
    """Somebody says that an address is his."""

    address: str
    mac: str


def version_of(address: str) -> int:
    return 6 if ":" in address else 4


def question(mac: str, address: str) -> bytes:
    """The frame that asks a whole network, from an interface with this MAC, who has the address."""
    own = bytes.fromhex(mac.replace(":", ""))
    if version_of(address) == 4:
        body = ARP_HEADER + struct.pack(">H", ARP_REQUEST) + own + bytes(4) + bytes(6) + packed(address)
        return BROADCAST + own + struct.pack(">H", ETHERTYPE[4]) + body
    target = packed(address)
    group = packed("ff02::1:ff00:0")[:13] + target[13:]
    message = struct.pack(">BBHI", SOLICITATION, 0, 0, 0) + target
    total = checksum(bytes(16) + group + struct.pack(">II", len(message), ICMPV6) + message)
    message = message[:2] + struct.pack(">H", total) + message[4:]
    header = struct.pack(">IHBB", 6 << 28, len(message), ICMPV6, 255) + bytes(16) + group
    return b"\x33\x33" + group[12:] + own + struct.pack(">H", ETHERTYPE[6]) + header + message


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def heard(frame: bytes) -> Optional[Heard]:
    """Which address the sender of a frame says is his; None for a question without a sender, and for everything else."""
    kind = frame[12:14]
    if kind == struct.pack(">H", ETHERTYPE[4]):
        return _heard_arp(frame[14:42])
    return _heard_advertisement(frame[6:12], frame[14:]) if kind == struct.pack(">H", ETHERTYPE[6]) else None


def _heard_arp(body: bytes) -> Optional[Heard]:
    """Requests too: any packet's sender claims the address that it names (RFC 5227 section 1.1)."""
    if len(body) < 28 or body[:6] != ARP_HEADER or struct.unpack(">H", body[6:8])[0] not in (ARP_REQUEST, ARP_REPLY):
        return None
    sender = body[14:18]
    return Heard(socket.inet_ntop(socket.AF_INET, sender), mac_text(body[8:14])) if any(sender) else None


def _heard_advertisement(source: bytes, packet: bytes) -> Optional[Heard]:
    """Hop limit 255 says that no router passed it on (RFC 4861 section 7.1.2)."""
    if len(packet) < 64 or packet[0] >> 4 != 6 or packet[6] != ICMPV6 or packet[7] != 255 or packet[40] != ADVERTISEMENT:
        return None
    option = packet[64:72]
    named = len(option) == 8 and option[0] == TARGET_LINK_ADDRESS and option[1] == 1
    return Heard(socket.inet_ntop(socket.AF_INET6, packet[48:64]), mac_text(option[2:] if named else source))


def mac_text(mac: bytes) -> str:
    return ":".join("%02x" % byte for byte in mac)


def holders(frames: List[bytes], address: str, own: List[str]) -> List[str]:
    """The MACs that claim an address in these frames, without the node's own, in the order in which they were heard."""
    claims = [heard(frame) for frame in frames]
    return list(dict.fromkeys(
        item.mac for item in claims if item is not None and packed(item.address) == packed(address) and item.mac not in own))


def packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if version_of(address) == 6 else socket.AF_INET, address)


# Ask the network behind an interface who has an address: bounded, and for all interfaces at once.

SECONDS = 0.9  # of all questions on an interface; who is there answers in milliseconds
REPEAT = 3  # RFC 5227 section 1.1: PROBE_NUM
LIMIT = 1024  # answers that are kept; more come only from somebody who floods the network
MACS = 4  # of one address

Answers = Dict[str, Tuple[str, ...]]  # address -> MACs that are none of this node's


def who_has(host: Host, wanted: Mapping[str, Sequence[str]]) -> Dict[str, Optional[Answers]]:
    """For each interface the answers to its addresses. None where nothing could be asked: no right to, IPoIB, interface down."""
    asked = [netdev for netdev in sorted(wanted) if wanted[netdev]]
    if not asked:
        return {}
    own = own_macs(host)
    return dict(zip(asked, ask_at_once(lambda netdev: _ask(host, netdev, wanted[netdev], own), asked, len(asked))))


def own_macs(host: Host) -> List[str]:
    """The kernel may answer for any interface on any other (``arp_ignore`` 0): our own answers are no stranger's."""
    found = [sysfs_values.mac_address(attribute(host, "%s/%s/address" % (CLASS_NET, name))) for name in entries(host, CLASS_NET)]
    return [mac for mac in found if mac is not None]


def _ask(host: Host, netdev: str, addresses: Sequence[str], own: List[str]) -> Optional[Answers]:
    mac = sysfs_values.mac_address(attribute(host, "%s/%s/address" % (CLASS_NET, netdev)))
    if mac is None or len(mac) != len("00:00:00:00:00:00"):
        return None
    versions = sorted({version_of(address) for address in addresses})
    found: Answers = {}
    for version in versions:
        mine = [address for address in addresses if version_of(address) == version]
        questions = [question(mac, address) for address in mine] * REPEAT
        try:
            frames = host.exchange(
                netdev, ETHERTYPE[version], questions, SECONDS / len(versions), LIMIT, lambda frame: heard(frame) is not None)
        except OSError:
            return None
        found.update((address, tuple(holders(frames, address, own)[:MACS])) for address in mine)
    return found
