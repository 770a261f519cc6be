# SPDX-License-Identifier: GPL-3.0-or-later
"""What an HCA port and its interfaces counted so far: read once before and once after traffic, the growth is judged.

Bounded on purpose: named counters only, one ``ethtool -S`` and at most one ``dcb -s`` an interface. A counter that the
driver does not have is not in the answer; one that it has and will not tell is None; what could not be asked at all is
under ``missing`` with the reason. None of them is zero.

Sources: drivers/net/ethernet/mellanox/mlx5/core/en_stats.c and the kernel's mlx5/counters.rst (pause counters of a
priority are there only while PFC is on for it); NVIDIA "Understanding mlx5 Linux counters" (hw_counters);
drivers/infiniband/sw/rxe/rxe_hw_counters.c; iproute2 dcb_pfc.c (requests are sent, indications received).
"""

import re
import time
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from ..catalogue.counters import names_of, of_interface
from ..formats import sysfs_values
from ..formats.outside import json_object, lines_in
from ..host.host import Host
from .devices import CLASS_INFINIBAND, attribute
from .qos_dcb import SECONDS, TOOL, eight, first_line

# Soft devices send over an interface like any program: it has no priorities of its own, and so no pauses.
SOFT_DRIVERS = ("rdma_rxe", "siw")
ETHTOOL = "ethtool"
OUTPUT_LIMIT = 1024 * 1024  # mlx5 has some 30 counters a ring; 64 rings are 100 kB
_WANTED = re.compile(
    r"[rt]x_(?:prio[0-7]|global)_pause(?:_duration|_transition)?"
    r"|rx_prio[0-7]_(?:discards|buf_discard|cong_discard)|[rt]x_discards_phy|rx_out_of_buffer"
    r"|tx_pause_storm_(?:warning|error)_events")
_LINE = re.compile(r"\s*([a-z0-9_]{1,40}): ([0-9]{1,20})\s*\Z")


class Watched(NamedTuple):
    """A port whose counters are read, and the interfaces below it: of a bond its members."""

    rail: str
    hca: str
    port: int
    driver: Optional[str]
    netdevs: Tuple[str, ...]

    @property
    def soft(self) -> bool:
        return self.driver in SOFT_DRIVERS


def snapshot(host: Host, port: Watched, names: Sequence[str]) -> Dict[str, Any]:
    """Every counter of ``names`` that the HCA port has, whatever its driver calls it, the interfaces' statistics, and when."""
    hca = hca_counters(host, port.hca, port.port, names)
    interfaces = {} if port.soft else {netdev: _interface(host, netdev) for netdev in port.netdevs}
    # CLOCK_MONOTONIC counts from the boot, the same for every process of the node.
    return {"at": time.monotonic(), "hca": hca, "interfaces": interfaces}


def hca_counters(host: Host, hca: str, port: int, names: Sequence[str]) -> Dict[str, Optional[int]]:
    base = "%s/%s/ports/%d" % (CLASS_INFINIBAND, hca, port)
    found: Dict[str, Optional[int]] = {}
    for name in names:
        paths = ["%s/%s/%s" % (base, directory, each) for each in names_of(name) for directory in ("counters", "hw_counters")]
        path = next((path for path in paths if host.exists(path)), None)
        if path is not None:
            found[name] = sysfs_values.integer(attribute(host, path))  # "N/A (no PMA)", or EINVAL on a virtual function: None
    return found


def _interface(host: Host, netdev: str) -> Dict[str, Any]:
    (counters, no_counters), (pauses, no_pauses) = _ethtool(host, netdev), _dcb(host, netdev)
    missing = {tool: why for tool, why in ((ETHTOOL, no_counters), (TOOL, no_pauses)) if why is not None}
    # mlx5 answers both from the same registers, dcb for all eight priorities
    return {"counters": dict(pauses, **counters), "missing": missing}


def _ethtool(host: Host, netdev: str) -> Tuple[Dict[str, int], Optional[str]]:
    if host.which(ETHTOOL) is None:
        return {}, "no ethtool on this node"
    result = host.run((ETHTOOL, "-S", netdev), SECONDS)
    if result.rc != 0:
        return {}, "ethtool -S: %s" % first_line(result.err)
    matches = [match for match in map(_LINE.match, lines_in(result.out[:OUTPUT_LIMIT])) if match is not None]
    named = {of_interface(match.group(1)): int(match.group(2)) for match in matches}
    found = {name: value for name, value in named.items() if _WANTED.fullmatch(name)}
    return found, None if found else "ethtool -S shows no counter of pauses or discards"


def _dcb(host: Host, netdev: str) -> Tuple[Dict[str, int], Optional[str]]:
    """Pause frames of every priority, as the kernel's IEEE 802.1Qaz object has them."""
    if host.which(TOOL) is None:
        return {}, "no dcb (iproute2 5.11 or later) on this node"
    result = host.run((TOOL, "-s", "-j", "pfc", "show", "dev", netdev), SECONDS)
    if result.rc != 0:
        return {}, "dcb pfc: %s" % first_line(result.err)
    document = json_object(result.out[:OUTPUT_LIMIT])
    found: Dict[str, int] = {}
    for key, form in (("requests", "tx_prio%d_pause"), ("indications", "rx_prio%d_pause")):
        values = eight(document.get(key), 1 << 64) if document is not None else None
        if values is None:
            return {}, "dcb pfc: not the form that dcb prints"
        found.update((form % priority, value) for priority, value in enumerate(values))
    return found, None
