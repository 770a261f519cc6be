# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether /etc/nccl.conf gets NCCL_IB_GID_INDEX on this node, and whether a number that the inventory gives is right here.

The tables are observed, and the index is the one part of the file that rests on an observation: NCCL before 2.21 cannot find
it, so somebody has to look. A rail whose address is not there yet (a first apply) has no GID yet; what the file holds stays then.
"""

import ipaddress
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...host.host import Host
from ...observe.devices import CLASS_INFINIBAND
from ...observe.gids import observe_gids
from ...observe.nccl_libraries import Places, loadable_nccl, places_of
from ...observe.nics import observe_addresses
from ...rules.nccl_gids import FINDS_IT_TEXT, GID_INDEX, GidPort, finds_it, holds, judge_index, right_indexes, selected
from ...spec.match import match_rails
from ...spec.model import Spec
from ...types import Identity, Problem

HCA = "NCCL_IB_HCA"
AUTO, GIVEN, OFF = "auto", "given", "off"  # catalogue.fabrics.derived says what they mean
LEAVE_IT = "nccl_overrides: {%s: null} leaves it to the jobs" % GID_INDEX


class Wish(NamedTuple):
    """``policy`` off: nothing is looked at."""

    policy: str
    number: Optional[str]  # given: the index
    nccl: Optional[str]  # the release that the inventory asks for
    ports: Tuple[GidPort, ...]
    netdevs: Tuple[Optional[str], ...]  # beside ports: the rail's interface
    waits: bool  # addresses are set by the plan itself: one that is missing is to come
    identity: Identity
    places: Places  # where jobs find an NCCL beside the loader's own
    absent: Tuple[str, ...] = ()  # rails without a device at the moment


class Look(NamedTuple):
    """``tables`` and ``pending`` beside the ports; ``old``: (version, where) of every NCCL that cannot find the index."""

    tables: Tuple[Optional[List[Dict[str, Any]]], ...]
    pending: Tuple[bool, ...]
    old: Tuple[Tuple[str, str], ...]


class Decision(NamedTuple):
    """``number`` to write beside what the inventory says (None: none); ``keep``: what our file holds, whatever it is."""

    number: Optional[str] = None
    keep: bool = False
    problems: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()


def wish(spec: Spec, identity: Identity) -> Wish:
    derived = spec["nccl_derived"]
    policy = derived["gid"]
    if policy == OFF or (policy == AUTO and derived["nccl"] is not None and finds_it(derived["nccl"])):
        return Wish(OFF, None, None, (), (), False, identity, places_of(spec))
    targets = [target for target in match_rails(spec, identity)[0] if target.hca is not None]
    addresses = {(target.hca.name, target.port or 1): target.rail.address for target in targets if target.hca is not None}
    netdevs = {(target.hca.name, target.port or 1): target.netdev for target in targets if target.hca is not None}
    ports = selected(hca_value(spec), identity, addresses)
    if spec.rails and HCA not in spec["nccl_overrides"]:
        ports = tuple(port for port in ports if (port.hca, port.port) in addresses)
    return Wish(policy, derived["variables"].get(GID_INDEX) if policy == GIVEN else None, derived["nccl"], ports,
                tuple(netdevs.get((port.hca, port.port)) for port in ports), bool(spec["network_manage_addresses"]), identity,
                places_of(spec), tuple(rail.name for rail in spec.rails if rail.name not in [target.rail.name for target in targets]))


def hca_value(spec: Spec) -> str:
    """NCCL_IB_HCA as far as the inventory alone decides it; '': every device."""
    overrides = spec["nccl_overrides"]
    if HCA in overrides:
        return str(overrides[HCA] or "")
    shapes = spec["nccl_derived"]["hcas"]
    return "=" + ",".join(shapes[0][1]) if len(shapes) == 1 else ""


def look(host: Host, wanted: Wish) -> Look:
    if wanted.policy == OFF or not wanted.ports:
        return Look((), (), ())
    old = _old_releases(host, wanted) if wanted.policy == AUTO else ()
    if wanted.policy == AUTO and not old:
        return Look((), (), ())
    tables = tuple(observe_gids(host, "%s/%s/ports/%d" % (CLASS_INFINIBAND, port.hca, port.port)) for port in wanted.ports)
    held = observe_addresses(host) if wanted.waits else {}
    pending = tuple(wanted.waits and not holds(gids, port.address) and _to_come(port, netdev, held)
                    for port, netdev, gids in zip(wanted.ports, wanted.netdevs, tables))
    return Look(tables, pending, old)


def _to_come(port: GidPort, netdev: Optional[str], held: Dict[str, List[str]]) -> bool:
    """The plan itself sets the address that is not on the interface yet; its GID comes with it."""
    if port.address is None or netdev is None:
        return False
    wanted = ipaddress.ip_interface(port.address).ip
    return wanted not in [ipaddress.ip_interface(item).ip for item in held.get(netdev) or []]


def _old_releases(host: Host, wanted: Wish) -> Tuple[Tuple[str, str], ...]:
    """What the inventory installs decides; where it installs none, what is there."""
    if wanted.nccl is not None:
        return () if finds_it(wanted.nccl) else ((wanted.nccl, "nccl_version"),)
    found = loadable_nccl(host, wanted.identity, wanted.places)
    return tuple((row.version, row.path) for row in found if row.version is not None and not finds_it(row.version))


def decide(wanted: Wish, seen: Look) -> Decision:
    if wanted.policy == GIVEN:
        return _check_given(wanted, seen)
    return _choose(wanted, seen) if seen.tables else Decision()


def _check_given(wanted: Wish, seen: Look) -> Decision:
    number = int(wanted.number or "0", 0)
    problems, notes = [], ["%s=%d is not checked on %s: it has no RDMA device at the moment" % (GID_INDEX, number, name)
                           for name in wanted.absent]
    for port, gids, pending in zip(wanted.ports, seen.tables, seen.pending):
        status, text = judge_index(number, gids, port)
        if status == "unknown" or pending:
            notes.append("%s=%d is not checked on %s yet: %s" % (GID_INDEX, number, port.label, _to_come_text(port, pending) or text))
        elif status == "fail":
            problems.append(text)
    return Decision(None, False, tuple(problems), tuple(notes))


def _choose(wanted: Wish, seen: Look) -> Decision:
    who = "NCCL %s (%s)" % seen.old[0]
    unknown = [_to_come_text(port, pending) or "the GID table of %s cannot be read" % port.label
               for port, gids, pending in zip(wanted.ports, seen.tables, seen.pending)
               if gids is None or pending]
    if unknown:
        text = "%s cannot find GIDs by itself, and %s stays as it is: %s" % (who, GID_INDEX, "; ".join(unknown))
        return Decision(None, True, (), (text,))
    each = [right_indexes(gids, port.address) for port, gids in zip(wanted.ports, seen.tables)]
    shared = set(each[0]).intersection(*each[1:])
    if shared:
        return Decision(str(min(shared)))
    rows = ", ".join("%s: %s" % (port.label, " or ".join(map(str, found)) or "none") for port, found in zip(wanted.ports, each))
    reason = "no RoCE v2 GID holds the address of every rail" if not all(each) else "takes one index for all HCAs, and theirs differ"
    text = ("%s finds no GID by itself and %s (RoCE v2 with the rail's address: %s); NCCL %s and later finds each one, by "
            "NCCL_IB_ADDR_RANGE too, which older ones do not read. Use one, or %s" % (who, reason, rows, FINDS_IT_TEXT, LEAVE_IT))
    return Decision(None, False, (text,))


def _to_come_text(port: GidPort, pending: bool) -> str:
    return "the address of %s is not there yet" % port.label if pending else ""


def as_problems(decision: Decision) -> List[Problem]:
    return [Problem("nccl", GID_INDEX, text) for text in decision.problems]
