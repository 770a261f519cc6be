# SPDX-License-Identifier: GPL-3.0-or-later
"""The metric of the route to a rail's own subnet in the main table.

A cloud's second network interface often lies in the subnet of the first, and the kernel gives both a route to it: whichever has
the lower metric carries what no rule of a rail's own table takes, the management traffic too. So the rail's is set above the
other's, as Alibaba's controller does for eRDMA (200); what leaves from the rail's address goes by the rail's own table and rule.

The kernel gives the route the address's metric (ip-address(8), Linux 4.18). NetworkManager adds its addresses without a
route (noprefixroute) and the route beside them: there it is the route that is changed.
"""

import ipaddress
import re
from typing import Any, List, NamedTuple, Sequence, Tuple

from ...formats.outside import rows as objects
from ...formats.outside import whole
from ...types import Change, run
from .model import Connected, LinkState, Observed, RailWish, rail_change

AREA = "network"
QUERY = ("ip", "-j", "-4", "route", "show", "table", "main")
NETWORKD_SINCE = 246  # systemd NEWS: RouteMetric= in [Address]
KERNEL_SINCE = (4, 18)  # IFA_RT_PRIORITY
WHY = "both interfaces have a route to this subnet, and traffic that is not the rail's must leave by the other one"
SOURCE = "inventory: erdma_route_metric (ERC: netdev.go)"
LOWER = ("%s has its route to %s with metric %d, which is not below erdma_route_metric: %d, so traffic of %s would leave by the rail; "
         "set erdma_route_metric above %d")
TOO_OLD = ("systemd-networkd before %d has no metric for an address's route; set erdma_route_metric: 0 (and keep the rail out of the "
           "subnet of other interfaces), or network_manage_addresses: false" % NETWORKD_SINCE)


class Kernel(NamedTuple):
    """Of a release like 5.10.134-17.3.al8."""

    major: int
    minor: int


def kernel_can(release: str) -> bool:
    """A release that nobody can read is taken for a new one: apply says so if it is not."""
    found = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", release)
    return found is None or Kernel(int(found.group(1)), int(found.group(2))) >= KERNEL_SINCE


def parse(rows: Any) -> Tuple[Connected, ...]:
    """``ip -j route``: the routes to what is on the link itself."""
    return tuple(
        Connected(str(row["dst"]), str(row["dev"]), whole(row.get("metric")) or 0)
        for row in objects(rows) if "dst" in row and "dev" in row and "gateway" not in row and row["dst"] != "default")


def subnet_of(rail: RailWish) -> str:
    return str(ipaddress.ip_interface(rail.address or "").network)


def own(rail: RailWish, observed: Observed) -> List[int]:
    """The metrics that the rail's subnet has by the rail's interface."""
    return sorted(route.metric for route in observed.connected if (route.subnet, route.netdev) == (subnet_of(rail), rail.netdev))


def changes(rail: RailWish, observed: Observed, disruption: str) -> List[Change]:
    """For an address that is there; one that is to come gets its metric with it."""
    link = observed.link(rail)
    if rail.metric is None or rail.address is None or rail.address not in link.addresses:
        return []
    if rail.address in link.loose:
        return _of_route(rail, own(rail, observed), disruption)
    return _of_address(rail, link, disruption)


def _change(rail: RailWish, before: Any, disruption: str, ops: Any) -> List[Change]:
    return [rail_change(AREA, "route metric", rail, before, rail.metric, disruption, WHY, SOURCE, tuple(ops))]


def _of_address(rail: RailWish, link: LinkState, disruption: str) -> List[Change]:
    before = dict(link.metrics).get(rail.address or "", "0")
    if before == str(rail.metric):
        return []
    words: Tuple[str, ...] = ("ip", "addr", "replace", rail.address or "", "broadcast", "+", "metric")
    device = ("dev", rail.netdev)
    return _change(rail, whole(before), disruption, [run((*words, str(rail.metric), *device), ((*words, before, *device),))])


def _of_route(rail: RailWish, before: Sequence[int], disruption: str) -> List[Change]:
    """The new one first, so that the subnet is never without a route."""
    if list(before) == [rail.metric]:
        return []
    address = str(ipaddress.ip_interface(rail.address or "").ip)
    route: Tuple[str, ...] = (subnet_of(rail), "dev", rail.netdev, "proto", "kernel", "scope", "link", "src", address, "metric")
    ops = []
    for metric in [rail.metric] if rail.metric not in before else []:
        ops.append(run(("ip", "-4", "route", "replace", *route, str(metric)), (("ip", "-4", "route", "del", *route, str(metric)),)))
    for metric in [other for other in before if other != rail.metric]:
        ops.append(run(("ip", "-4", "route", "del", *route, str(metric)), (("ip", "-4", "route", "replace", *route, str(metric)),)))
    return _change(rail, before[0] if len(before) == 1 else list(before) or None, disruption, ops)


def conflicts(rail: RailWish, rails: Sequence[RailWish], observed: Observed) -> List[str]:
    """An interface that is no rail and would lose its subnet to the rail."""
    if rail.metric is None or rail.address is None:
        return []
    names = [other.netdev for other in rails]
    return [LOWER % (route.netdev, route.subnet, route.metric, rail.metric, route.netdev, route.metric) for route in observed.connected
            if route.subnet == subnet_of(rail) and route.netdev not in names and route.metric >= rail.metric]
