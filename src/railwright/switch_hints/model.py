# SPDX-License-Identifier: GPL-3.0-or-later
"""The model that every platform's text is written over: a profile as a switch sees it (Chain), and the platforms.

The chain says which DSCP reaches which class, which classes are lossless, which queue is strict. Only numbers of the catalogue
and of the templates get into a text, never a name out of an inventory.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile
from railwright.report.text import printable, ranges

MTU = 9216  # bytes; what switches carry above the hosts' 9000. EOS ends at 9214
# Half of the bandwidth for RoCE where the profile says nothing: NVIDIA's RoCE mode (Cumulus and Onyx: DWRR 50 %) and
# Cisco's RoCEv2 script (bandwidth remaining percent 50) have the same.
ROCE_SHARE = 50
CLASSES = range(1, 7)  # 0 is best effort everywhere; EOS and NX-OS keep 7 for control or strict traffic


class Chain(NamedTuple):
    """One profile: DSCP -> class -> PFC, ECN and scheduling."""

    name: str
    tc: int
    dscp: int
    ecn: int
    priority: int
    lossless: tuple[int, ...]
    cnp_dscp: int
    cnp_priority: int
    share: int  # percent of the bandwidth that RoCE is sure of
    own_share: bool  # the profile says it

    @classmethod
    def of(cls, profile: QosProfile) -> Self:
        """Raises ValueError for what would make a text that is wrong on some platform."""
        for what, value in (("priority", profile.priority), *(("lossless priority", item) for item in profile.lossless)):
            if value not in CLASSES:
                raise ValueError(f"{profile.name}: {what} {value} cannot be a lossless class of a switch; allowed: 1 to 6")
        if profile.priority not in profile.lossless:
            raise ValueError(f"{profile.name}: priority {profile.priority} is not among the lossless ones {list(profile.lossless)}")
        if profile.cnp_priority in (0, *profile.lossless):
            raise ValueError(f"{profile.name}: CNP priority {profile.cnp_priority} must be neither 0 nor lossless")
        share = min(max(profile.ets[profile.priority], 1), 99) if profile.ets else ROCE_SHARE
        return cls(printable(profile.name), profile.tc, profile.dscp, profile.ecn, profile.priority, tuple(sorted(profile.lossless)),
                   profile.cnp_dscp, profile.cnp_priority, share, bool(profile.ets))

    def crowd(self, default: Callable[[int], int]) -> list[int]:
        """The DSCPs that a platform's default map sends, with best effort (DSCP 0), into a lossless class or the strict one.

        All of a site's traffic would be paused with RoCE and fill its headroom, or go before it. Class 0 is free for it.
        """
        if default(0) not in (*self.lossless, self.cnp_priority):
            return []
        return [dscp for dscp in range(64) if default(dscp) == default(0) and dscp not in (self.dscp, self.cnp_dscp)]

    def sharing(self, default: Callable[[int], int]) -> list[int]:
        """The other DSCPs that stay in a lossless class by a platform's default map: a site's own business, and a trap."""
        moved = {self.dscp, self.cnp_dscp, *self.crowd(default)}
        return [dscp for dscp in range(64) if default(dscp) in self.lossless and dscp not in moved]

    def values(self, default: Callable[[int], int]) -> dict[str, Any]:
        """What a template sees, with the platform's default map of DSCPs to classes."""
        return self._asdict() | {
            "mtu": MTU,
            "default": default,
            "classes": (*self.lossless, self.cnp_priority),
            "lossy": ranges([priority for priority in range(8) if priority not in self.lossless]),
            "crowd": self.crowd(default),
            "others": ranges(self.sharing(default)),
        }


class Platform(NamedTuple):
    """A switch operating system: how it comments, and where its default map sends a DSCP."""

    comment: str
    default: Callable[[int], int]


def _by_octet(dscp: int) -> int:
    """NVIDIA's default on every Spectrum."""
    return dscp >> 3


# qos_config.j2 of sonic-buildimage, DSCP_TO_TC_MAP AZURE; every other DSCP goes to 1.
SONIC_MAP = {3: 3, 4: 4, 5: 2, 8: 0, 46: 5, 48: 6}
# EOS user manual, Quality of Service: the default DSCP -> traffic class map, by DSCP >> 3. The first two are swapped.
EOS_MAP = (1, 0, 2, 3, 4, 5, 6, 7)

PLATFORMS = {
    "sonic": Platform("#", lambda dscp: SONIC_MAP.get(dscp, 1)),
    "nvue": Platform("#", _by_octet),
    "onyx": Platform("##", _by_octet),
    "eos": Platform("!", lambda dscp: EOS_MAP[dscp >> 3]),
    "nxos": Platform("!", lambda _dscp: 0),  # without a policy on the port all traffic is qos-group 0
}
