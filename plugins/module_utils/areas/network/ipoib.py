# SPDX-License-Identifier: GPL-3.0-or-later
"""IPoIB: transport mode and MTU of the InfiniBand rails that carry an address.

The mode comes before the MTU, as the kernel bounds one by the other and sets the MTU
back when the mode changes. Both are in the manager's file that the network area writes;
here they are set on the live interface.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from ...formats.sysfs_values import integer
from ...host.host import Host
from ...spec.match import RailTarget, match_rails
from ...spec.model import Spec
from ...types import Change, Identity, Problem, run, set_value
from ..common.modules import load_module
from . import network
from .model import DesiredInterface, rail_change

NAME = "ipoib"
MAX_MTU = {"datagram": 4092, "connected": 65520}  # kernel: IB MTU 4096 less the 4 byte header; IPOIB_CM_MTU less the header
WHY_MODE = "both ends of a fabric need the same IPoIB transport"
SOURCE = "kernel Documentation/infiniband/ipoib.rst; inventory: network_ipoib_mode, rdma_mtu"


class Desired(NamedTuple):
    rails: Tuple[DesiredInterface, ...]
    missing: Tuple[RailTarget, ...]  # without an IPoIB interface yet


class Link(NamedTuple):
    mode: Optional[str]
    mtu: Optional[int]
    up: bool


Observed = Dict[str, Link]  # by interface


def desired(spec: Spec, identity: Identity) -> Desired:
    if spec.fabric != "infiniband":
        return Desired((), ())
    rails = tuple(rail for rail in network.desired(spec, identity).rails if rail.kind == "infiniband")
    targets, _problems = match_rails(spec, identity)
    return Desired(rails, tuple(target for target in targets if target.nic is None and target.rail.address is not None))


def observe(host: Host, desired: Desired) -> Observed:
    found = {}
    for rail in desired.rails:
        base = "/sys/class/net/%s/" % rail.netdev
        up = bool((integer(host.line(base + "flags")) or 0) & 1)  # IFF_UP
        found[rail.netdev] = Link(host.line(base + "mode"), integer(host.line(base + "mtu")), up)
    return found


def plan(desired: Desired, observed: Observed) -> List[Change]:
    changes = [Change(
        NAME, "IPoIB interface of " + item.label, None, "present", "none",
        "the rail has an address, and only an IPoIB interface can carry it; the next plan then sets its mode, MTU and address", SOURCE,
        (load_module("ib_ipoib"),), rail=item.rail.name,
    ) for item in desired.missing]
    for rail in desired.rails:
        mode, mtu, up = observed[rail.netdev]
        if mtu is None:
            continue  # the interface went away since it was matched; the checks say so
        disruption = "management" if rail.management else "link" if up else "none"
        switch = mode is not None and mode != rail.mode
        if switch and rail.mode is not None:
            changes.append(rail_change(NAME, "mode", rail, mode, rail.mode, disruption, WHY_MODE, SOURCE,
                                       (set_value("/sys/class/net/%s/mode" % rail.netdev, rail.mode),)))
        if mtu != rail.mtu:
            changes.append(network.mtu_change(NAME, rail, mtu, disruption))
        elif switch:
            # The kernel sets the MTU back with the mode, so it is set again after it; no difference of its own to show.
            ops = changes[-1].ops + (run(("ip", "link", "set", "dev", rail.netdev, "mtu", str(mtu)), (("true",),)),)
            changes[-1] = changes[-1]._replace(ops=ops)
    return changes


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """A driver without connected mode has no ``mode`` file: it is in datagram mode, and stays there."""
    return [
        Problem(NAME, rail.label, "the driver of %s has no connected mode; set network_ipoib_mode: datagram and an rdma_mtu of at most "
                "%d" % (rail.netdev, MAX_MTU["datagram"]))
        for rail in desired.rails
        if rail.mode == "connected" and observed[rail.netdev].mode is None and observed[rail.netdev].mtu is not None
    ]


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    return [
        Problem(NAME, rail.label, "MTU %d is above %d, the largest in %s mode; lower rdma_mtu%s" % (
            rail.mtu, MAX_MTU[rail.mode], rail.mode, " or set network_ipoib_mode: connected" if rail.mode == "datagram" else ""))
        for rail in desired.rails if rail.mode in MAX_MTU and rail.mtu > MAX_MTU[rail.mode]
    ]
