# SPDX-License-Identifier: GPL-3.0-or-later
"""What every platform's text is derived from (a Chain), and how text is put together (a Sheet).

The chain is the profile as a switch sees it: which DSCP reaches which class, which classes are lossless, which queue
is strict. Only numbers of the catalogue and of the platforms' files get into a text, never a name out of an inventory.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile
from railwright.report.text import printable

WIDTH = 110
MTU = 9216  # what switches carry above the hosts' 9000; EOS ends at 9214 [V domain.md D3]
# Half of the bandwidth for RoCE where the profile says nothing: NVIDIA's RoCE mode (Cumulus and Onyx: DWRR 50 %) and
# Cisco's RoCEv2 script (bandwidth remaining percent 50) have the same.
ROCE_SHARE = 50
CLASSES = range(1, 7)  # 0 is best effort everywhere; EOS and NX-OS keep 7 for control or strict traffic


@dataclass(frozen=True)
class Chain:
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
    def of(cls, profile: QosProfile) -> Chain:
        """Raises ValueError for what would make a text that is wrong on some platform."""
        for what, value in (("priority", profile.priority), *(("lossless priority", item) for item in profile.lossless)):
            if value not in CLASSES:
                raise ValueError(f"{profile.name}: {what} {value} cannot be a lossless class of a switch; allowed: 1 to 6")
        if profile.priority not in profile.lossless:
            raise ValueError(f"{profile.name}: priority {profile.priority} is not among the lossless ones {list(profile.lossless)}")
        if profile.cnp_priority in (0, *profile.lossless):
            raise ValueError(f"{profile.name}: CNP priority {profile.cnp_priority} must be neither 0 nor lossless")
        share = min(max(profile.ets[profile.priority], 1), 99) if profile.ets else ROCE_SHARE
        return cls(profile.name, profile.tc, profile.dscp, profile.ecn, profile.priority, tuple(sorted(profile.lossless)),
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


class Sheet:
    """Lines of commands and of comments in the platform's own syntax."""

    def __init__(self, comment: str) -> None:
        self.comment = comment
        self.lines: list[str] = []

    def put(self, *commands: str) -> None:
        # Nothing can begin a line of its own: whatever is put here becomes one line.
        self.lines += [printable(command) for command in commands]

    def say(self, text: str = "") -> None:
        """A comment, wrapped; what is indented stays so."""
        indent = " " * (len(text) - len(text.lstrip()))
        wrapped = textwrap.wrap(printable(text), WIDTH - len(self.comment), subsequent_indent=indent + ("  " if indent else ""),
                                break_long_words=False, break_on_hyphens=False) or [""]
        self.lines += [f"{self.comment} {line}".rstrip() for line in wrapped]

    def gap(self) -> None:
        self.lines.append("")

    def part(self, title: str) -> None:
        self.gap()
        self.say(f"--- {title}")

    def notes(self, title: str, *texts: str) -> None:
        """A list of remarks; empty ones are of other profiles."""
        self.gap()
        self.say(f"{title}:")
        for text in texts:
            if text:
                self.say(f"  * {text}")

    def head(self, platform: Platform, chain: Chain) -> None:
        self.say(f"QoS profile {chain.name} on {platform.title}: a draft to review. Nothing was sent to a switch.")
        self.say(
            f"{platform.port} stands for one port: the same goes for each port that carries a rail, on every hop (hosts, uplinks, spines), "
                 "in both directions. One hop that differs makes the whole path lossy.")
        self.say()
        self.say(
            f"What the hosts send: traffic class byte {chain.tc}, so DSCP {chain.tc} >> 2 = {chain.dscp} and ECN {chain.tc} & 3 = "
            f"{chain.ecn}.")
        self.say(f"  RoCE data  DSCP {chain.dscp} -> priority {chain.priority}: PFC on (lossless), ECN marks")
        self.say(f"  CNP        DSCP {chain.cnp_dscp} -> priority {chain.cnp_priority}: strict, never paused")
        self.say(f"  PFC        on {_numbers(chain.lossless)}, off on all others")
        if chain.ecn == 0:
            # SONiC's "Enable ECN on lossless queues": what is not ECN-capable is dropped above the threshold.
            self.say(
                f"Traffic class {chain.tc} has no ECN bit of its own. Only a NIC with ECN enabled for priority {chain.priority} sets it; "
                     "without it the switch drops above the ECN threshold where it should mark. Settle the hosts first.")
        self.say("ECN thresholds are starting values: they depend on port speed, cable length, ASIC and load. If PFC frames grow and ECN "
                 "marks do not, ECN begins too late.")


@dataclass(frozen=True)
class Platform:
    """A switch operating system: how it is called, how it comments, and who writes its part."""

    os: str
    title: str
    comment: str
    port: str  # the example port
    sources: tuple[str, ...]
    write: Callable[[Sheet, Chain], None]


def _numbers(values: tuple[int, ...]) -> str:
    return ("priority " if len(values) == 1 else "priorities ") + comma(values)


def comma(values: tuple[int, ...] | list[int]) -> str:
    return ",".join(str(value) for value in values)


def shared(chain: Chain, default: Callable[[int], int]) -> str:
    """The trap of a lossless class that is more than RoCE's; empty where it is not."""
    others = chain.sharing(default)
    return f"By default DSCP {ranges(others)} go to a lossless class too: what else is marked so is paused with RoCE." if others else ""


def ranges(values: list[int]) -> str:
    """``0-2,4-7``."""
    groups: list[list[int]] = []
    for value in sorted(values):
        if groups and value == groups[-1][-1] + 1:
            groups[-1].append(value)
        else:
            groups.append([value])
    return ",".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)
