# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ports of HCAs have counted, read every second: few files, no process. Drivers' names become ours; unknown is never zero.

Sources of the names: those of ``traffic_counters.py``; erdma_stats.c; bnxt_re's hw_counters.c. A Soft-RoCE port counts no bytes: those
of its interface stand for them. InfiniBand has no pauses: there it counts the ticks in which it had data and no credits.
"""

import re
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..catalogue.counters import names_of, of_interface
from ..formats import sysfs_values
from ..host.drivers import Statistics
from ..host.host import Host
from ..spec.match import match_rails
from ..spec.model import Spec
from ..types import Identity, Platform
from .devices import CLASS_INFINIBAND, CLASS_NET, attribute
from .hca import Place, first_netdev, hardware_macs, observe_identities, places, port_netdev, port_numbers
from .nics import observe_nics
from .traffic_counters import SOFT_DRIVERS

SLOW_S = 0.2  # of all interfaces' statistics together: firmware that answers slower than this is not asked every second
WORDS = 4  # bytes that port_xmit_data and port_rcv_data count as one
_PAUSE = re.compile(r"([rt])x_(?:prio[0-7]|global)_pause")
# Our name -> what drivers call it: the first group of which the port has any counts, as a sum.
NAMES: Mapping[str, Sequence[Tuple[str, ...]]] = {
    "out_bytes": (("port_xmit_data",), ("hw_tx_bytes_cnt", "tx_bytes_cnt"), ("tx_bytes",)),
    "in_bytes": (("port_rcv_data",), ("hw_rx_bytes_cnt", "rx_bytes_cnt"), ("rx_bytes",)),
    "out_packets": (("port_xmit_packets",), ("hw_tx_packets_cnt", "tx_packets_cnt"), ("tx_pkts",), ("sent_pkts",)),
    "in_packets": (("port_rcv_packets",), ("hw_rx_packets_cnt", "rx_packets_cnt"), ("rx_pkts",), ("rcvd_pkts",)),
    "retransmissions": (("packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err"), ("completer_retry_err",)),
    "out_of_sequence": (("out_of_sequence",), ("out_of_seq_request",)),
    "cnp_out": (("np_cnp_sent",),), "cnp_in": (("rp_cnp_handled",),), "waits": (("port_xmit_wait",),),
}
SOFT = {"out_bytes": "tx_bytes", "in_bytes": "rx_bytes"}


class Port(NamedTuple):
    """``files``: of each of our counters, and of how many bytes one is."""

    path: str
    seen: Dict[str, Any]
    files: Dict[str, List[str]]
    pauses: Optional[str]  # the interface whose statistics tell


class Ports:
    """Those that are rails of the inventory, and those that have been active since this began."""

    def __init__(self, host: Host, spec: Optional[Spec]) -> None:
        self._host, self._spec = host, spec
        self._names: List[str] = []
        self._ports: List[Port] = []
        self._active: Dict[str, bool] = {}
        self._statistics: Optional[Statistics] = Statistics(_pause) if host.live else None

    def read(self) -> List[Dict[str, Any]]:
        names = self._host.listdir(CLASS_INFINIBAND)
        if names != self._names:  # a driver came or went
            rails = rails_by_port(self._host, self._spec) if self._spec is not None and self._spec.rails else {}
            macs = hardware_macs(self._host)
            self._names, self._ports = names, [
                self._port(place, number, macs, rails) for place in places(self._host) for number in port_numbers(self._host, place.path)]
        begin = time.monotonic()
        pauses = {port.path: self._statistics.read(port.pauses) for port in self._ports if self._statistics is not None and port.pauses}
        if time.monotonic() - begin > SLOW_S:
            self._statistics = None
        found = [self._read(port, pauses.get(port.path)) for port in self._ports]
        return [port for port in found if port is not None]

    def _port(self, place: Place, number: int, macs: Mapping[str, str], rails: Mapping[Tuple[str, int], str]) -> Port:
        path = "%s/ports/%d" % (place.path, number)
        netdev = port_netdev(self._host, place, number, first_netdev(self._host, path), macs)
        soft = place.driver in SOFT_DRIVERS
        files = {name: self._files(place, path, groups) for name, groups in NAMES.items()}
        for name, file in SOFT.items() if soft and netdev is not None else ():
            files[name] = ["%s/%s/statistics/%s" % (CLASS_NET, netdev, file)]
        seen = {"hca": place.name, "port": number, "netdev": netdev, "rail": rails.get((place.name, number))}
        ethernet = sysfs_values.token(attribute(self._host, path + "/link_layer")) == "Ethernet"
        return Port(path, seen, files, netdev if ethernet and not soft else None)

    def _files(self, place: Place, path: str, groups: Sequence[Tuple[str, ...]]) -> List[str]:
        directories = (path + "/counters", path + "/hw_counters", place.path + "/hw_counters")
        for group in groups:
            own = [names_of(name) for name in group]
            files = [["%s/%s" % (directory, name) for name in names for directory in directories] for names in own]
            found = [next(filter(self._host.exists, each), None) for each in files]
            if any(found):
                return [file for file in found if file is not None]
        return []

    def _read(self, port: Port, pauses: Optional[Mapping[str, int]]) -> Optional[Dict[str, Any]]:
        state = sysfs_values.enum_text(attribute(self._host, port.path + "/state"))
        if state == "ACTIVE":
            self._active[port.path] = True
        elif port.seen["rail"] is None and port.path not in self._active:
            return None
        counters = {name: self._sum(files) for name, files in port.files.items()}
        rate = sysfs_values.rate_gbps(attribute(self._host, port.path + "/rate"))
        counters.update((name, (pauses or {}).get(name)) for name in ("pauses_out", "pauses_in"))
        return dict(port.seen, state=state, rate=rate, **counters)

    def _sum(self, files: Sequence[str]) -> Optional[int]:
        values = [(sysfs_values.integer(attribute(self._host, file)), WORDS if file.endswith("_data") else 1) for file in files]
        known = [value * unit for value, unit in values if value is not None]
        return sum(known) if known and len(known) == len(files) else None


def _pause(name: str) -> Optional[str]:
    """``rx_prio3_pause`` -> pauses_in."""
    found = _PAUSE.fullmatch(of_interface(name))
    return None if found is None else "pauses_out" if found.group(1) == "t" else "pauses_in"


def rails_by_port(host: Host, spec: Spec) -> Dict[Tuple[str, int], str]:
    """How the inventory calls the ports of this node."""
    identity = Identity("", Platform("", "", "", (), "", "", ""), "", "", "", None, observe_nics(host), observe_identities(host), ())
    targets = match_rails(spec, identity)[0]
    return {(target.hca.name, target.port): target.rail.name for target in targets if target.hca is not None and target.port is not None}
