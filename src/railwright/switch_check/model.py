# SPDX-License-Identifier: GPL-3.0-or-later
"""A switch port as the lossless chain sees it, whatever the platform: what ``sonic.py`` makes of an export and ``judge.py`` takes. Pure.

None anywhere: the export does not say it, so nobody knows.
"""

from collections.abc import Mapping, Sized
from typing import NamedTuple, TypeVar

Named = TypeVar("Named", bound=Sized)


class Unusable(ValueError):
    """The file is no export that the reader knows; why, in a few words."""


PORTS = 2048
LIMIT = 32 << 20  # characters of an export: 512 ports with all their tables are 2 MB


def bounded(found: Named) -> Named:
    """The ports of an export, before anything is worked out of each. Raises Unusable."""
    if len(found) > PORTS:
        raise Unusable(f"has {len(found)} ports, and no switch has more than {PORTS}")
    return found


class Marking(NamedTuple):
    """Of a queue: whether ECN marks, and from how many bytes to how many, with which share of a hundred at the upper one."""

    ecn: bool
    low: int | None = None
    high: int | None = None
    percent: int | None = None


class Schedule(NamedTuple):
    strict: bool
    weight: int | None = None  # of the port's other queues together


class Port(NamedTuple):
    """Of one port. Numbers are 0 to 7: traffic classes, queues, priority groups, priorities."""

    name: str
    up: bool  # as it is configured
    mtu: int | None  # bytes of the largest IP packet
    trusts_dscp: bool | None
    classes: Mapping[int, int] | None  # DSCP -> traffic class
    queues: Mapping[int, int] | None  # traffic class -> queue
    groups: Mapping[int, int] | None  # traffic class -> priority group
    headroom: frozenset[int] | None  # priority groups that have room for what comes after a pause
    paused: frozenset[int] | None  # priorities with PFC
    pauses: Mapping[int, int] | None  # priority -> the queue that a received pause stops
    watched: frozenset[int] | None  # priorities that the watchdog frees
    marking: Mapping[int, Marking] | None  # by queue
    schedule: Mapping[int, Schedule] | None  # by queue
    speed: int | None = None  # Mb/s
    fec: str | None = None
    alias: str | None = None  # what it is called by LLDP, where that is another name
    autoneg: bool | None = None
    lanes: int | None = None
    lossy: frozenset[int] = frozenset()  # priorities whose buffer the export takes from a lossy pool


NO_FEC, FIRE_CODE, REED_SOLOMON = "none", "Fire code", "Reed-Solomon"
# Words of ethtool, SONiC, NVUE, EOS, Onyx and NX-OS (Interfaces Configuration Guide, Configuring FEC: cl74, cl91, rs-ieee, rs-cons16).
FEC = {REED_SOLOMON: ("rs", "rs-fec", "rs544", "rs528", "rs-fec-544", "rs-fec-528", "reed-solomon", "llrs", "cl91", "rs-ieee", "rs-cons16"),
       FIRE_CODE: ("fc", "fc-fec", "baser", "base-r", "fire-code", "cl74"), NO_FEC: ("none", "off", "no-fec", "disabled")}


def fec_name(text: object) -> str | None:
    """Return one name for a word of ethtool (RS, BaseR, Off) or of a platform; None for ``auto`` and for an unknown word."""
    word = str(text or "").lower()
    return next((name for name, words in FEC.items() if word in words), None)


def on_off(value: object) -> bool | None:
    """A word of an export; None for another."""
    return {"on": True, "enabled": True, "off": False, "disabled": False}.get(str(value))
