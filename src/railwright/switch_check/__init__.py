# SPDX-License-Identifier: GPL-3.0-or-later
"""What a switch is configured to do, held against the inventory's QoS profile. Pure: files in, hops out; no switch is contacted.

A reader a platform (``sonic.py``) makes ports (``model.py``) of an export; ``judge.py`` follows the chain through each. A new platform is
one more reader with its ``ports`` and ``LINES``.
"""

from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile
from ansible_collections.railwright.rdma.plugins.module_utils.errors import UnreadableText
from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import read_json
from railwright.switch_check import eos, nvue, nxos, onyx, sonic
from railwright.switch_check.judge import Hop, Odd, first_break, judged, unlike
from railwright.switch_check.model import LIMIT, Port, Unusable
from railwright.switch_hints.model import Chain

__all__ = ["LIMIT", "READERS", "Checked", "Odd", "Port", "Unusable", "check", "odd_ports"]

READERS: dict[str, ModuleType] = {"sonic": sonic, "nvue": nvue, "onyx": onyx, "eos": eos, "nxos": nxos}


class Checked(NamedTuple):
    """One port. ``first``: the hop where the chain breaks, None for a whole chain."""

    port: str
    hops: list[Hop]
    first: Hop | None
    lines: dict[str, str]  # of each hop that does not pass: the switch's line that puts it right
    advice: dict[str, str]  # of a hop where the switch may be right: the inventory's lines
    side: Port  # as it is configured


def check(os: str, text: str, profile: QosProfile, mtu: int, names: Collection[str] = ()) -> list[Checked]:
    """These ports, or all that are up. Raises Unusable; ValueError for a profile that no switch can have."""
    reader, chain = READERS[os], Chain.of(profile)
    try:
        found: list[Port] = reader.ports(getattr(reader, "parse", read_json)(text, LIMIT))
    except UnreadableText as error:
        raise Unusable(f"is not {reader.KIND}: {error}") from error
    wanted = [(name, next((port for port in found if name in (port.name, port.alias)), None)) for name in names]
    strange = [name for name, port in wanted if port is None]
    if strange:
        raise Unusable(f"has no port {strange[0]}: is it another switch's?")
    chosen = [port for _name, port in wanted if port is not None] if names else [port for port in found if port.up]
    if not chosen:
        raise Unusable("has no port that is up")
    return [_checked(reader, port, judged(port, chain, mtu, reader.UNSET_FEC)) for port in chosen]


def odd_ports(found: Mapping[str, Collection[Checked]]) -> list[Odd]:
    """Of all switches, by their files."""
    return unlike({switch: {one.port: one.hops for one in rows} for switch, rows in found.items()})


def _checked(reader: Any, port: Port, hops: list[Hop]) -> Checked:
    lines = {hop.hop: _line(reader, port.name, hop) for hop in hops if hop.status in ("fail", "warn") and not hop.inventory}
    return Checked(port.name, hops, first_break(hops), lines, {hop.hop: hop.inventory for hop in hops if hop.inventory}, port)


def _line(reader: Any, port: str, hop: Hop) -> str:
    """What puts a hop right on this platform: a command, or the entry of a file."""
    key, _colon, value = hop.wanted.replace('"', "").partition(": ")  # of a map
    number, _space, state = hop.wanted.partition(" ")  # of PFC
    words = {"port": port, "wanted": hop.wanted, "key": key, "value": value, "number": number, "no": "no " if state == "off" else ""}
    return str(reader.LINES[hop.hop]).format(**words)
