# SPDX-License-Identifier: GPL-3.0-or-later
"""lldpd on the rails, where the inventory asks for it: it hears into which switch port each is plugged, and says nothing itself.

Confined by a file of ours: the rails' interfaces and no other, to receive only. Source: lldpd(8), lldpcli(8).
"""

from typing import List, NamedTuple, Tuple

from ...host.host import Host
from ...spec.match import match_rails
from ...spec.model import Spec
from ...types import Change, Identity, Problem, run
from ..common.files import HEADER, FileState, observe_file, plan_file
from ..common.units import DaemonState, observe_daemon, plan_daemon

NAME = "lldp"
UNIT = "lldpd.service"
PACKAGE = "lldpd"
FILE = "/etc/lldpd.d/50-railwright.conf"
WHY = "a rail in another switch port than planned breaks no setting: only the switch can tell"
SOURCE = "lldpd(8); inventory: network_lldp"


class Desired(NamedTuple):
    enabled: bool
    interfaces: Tuple[str, ...]  # of the rails


class Observed(NamedTuple):
    file: FileState
    daemon: DaemonState


def desired(spec: Spec, identity: Identity) -> Desired:
    enabled = bool(spec["network_lldp"])
    names = [target.netdev for target in match_rails(spec, identity)[0] if target.netdev is not None] if enabled else []
    return Desired(enabled, tuple(dict.fromkeys(names)))


def observe(host: Host, desired: Desired) -> Observed:
    if not desired.enabled:
        return Observed(FileState(FILE, None, None), DaemonState(UNIT, False, False, None))
    return Observed(observe_file(host, FILE), observe_daemon(host, UNIT))


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if not desired.enabled or not desired.interfaces:
        return []
    # It reads its file at its start, and then a moment's deafness is all that a restart costs.
    again = (run(("systemctl", "restart", UNIT)),) if observed.daemon.active else ()
    return plan_file(NAME, observed.file, text_of(desired.interfaces), WHY, SOURCE, then=again) + plan_daemon(
        NAME, observed.daemon, WHY, SOURCE)


def text_of(interfaces: Tuple[str, ...]) -> str:
    names = ",".join(interfaces)
    return HEADER + "configure system interface pattern %s\nconfigure ports %s lldp status rx-only\n" % (names, names)


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    if desired.enabled and spec.fabric != "roce":
        return [Problem(NAME, "network_lldp", "LLDP is Ethernet's, and rdma_fabric is %s; allowed: false" % spec.fabric)]
    return []
