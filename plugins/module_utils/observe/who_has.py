# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the network behind an interface who has an address: bounded, and for all interfaces at once."""

from concurrent.futures import ThreadPoolExecutor
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..host.host import Host
from . import sysfs_values
from .arp import ETHERTYPE, heard, holders, question, version_of
from .devices import CLASS_NET, attribute, entries

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
    with ThreadPoolExecutor(max_workers=len(asked)) as pool:
        return dict(zip(asked, pool.map(lambda netdev: _ask(host, netdev, wanted[netdev], own), asked)))


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
            frames = host.exchange(netdev, ETHERTYPE[version], questions, SECONDS / len(versions), LIMIT, _is_answer)
        except OSError:
            return None
        found.update((address, tuple(holders(frames, address, own)[:MACS])) for address in mine)
    return found


def _is_answer(frame: bytes) -> bool:
    return heard(frame) is not None
