# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether /etc/nccl.conf gets NCCL_IB_GID_INDEX on this node, and whether a number that the inventory gives is right here.

The tables are observed, and the index is the one part of the file that rests on an observation: NCCL before 2.21 cannot find
it, so somebody has to look. A rail whose address is not there yet (a first apply) has no GID yet; what the file holds stays then.

The verdict nccl.gid is over the settings that are on the node and every NCCL that a job can load: the file decides, not the inventory
(whether they agree is ``config.nccl``). A wrong GID is a job that hangs in its first connection, or RoCE v1 that no router carries,
without a word about it.
"""

import ipaddress
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...formats.masking import HIDDEN
from ...host.host import Host
from ...observe.devices import CLASS_INFINIBAND
from ...observe.hca import observe_gids
from ...observe.nccl_libraries import Places, loadable_nccl, places_of
from ...observe.nics import observe_addresses
from ...rules import nccl_gids
from ...rules.comparisons import Inspection, VerdictSubject, unreadable, verdict
from ...rules.nccl_gids import FINDS_IT_TEXT, GID_INDEX, GidPort, finds_it
from ...rules.path_mtu import as_int, port_facts
from ...spec.match import match_rails
from ...spec.model import Spec
from ...types import Identity, Verdict

HCA = "NCCL_IB_HCA"
CHECK = "nccl.gid"
CONF = "/etc/nccl.conf"  # what facts read
NOT_YET = "the address of %s is not there yet"
AUTO, GIVEN, OFF = "auto", "given", "off"  # catalogue.fabrics.derived says what they mean
LEAVE_IT = "nccl_overrides: {%s: null} leaves it to the jobs" % GID_INDEX


class Wish(NamedTuple):
    """``policy`` off: nothing is inspected."""

    policy: str
    number: Optional[str]  # given: the index
    nccl: Optional[str]  # the release that the inventory asks for
    ports: Tuple[GidPort, ...]
    netdevs: Tuple[Optional[str], ...]  # beside ports: the rail's interface
    waits: bool  # addresses are set by the plan itself: one that is missing is to come
    identity: Identity
    places: Places  # where jobs find an NCCL beside the loader's own
    absent: Tuple[str, ...] = ()  # rails without a device at the moment


class GidIndexInspection(NamedTuple):
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
    ports = nccl_gids.selected(hca_value(spec), identity, addresses)
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


def inspect_gid_index(host: Host, wanted: Wish) -> GidIndexInspection:
    if wanted.policy == OFF or not wanted.ports:
        return GidIndexInspection((), (), ())
    old: Tuple[Tuple[str, str], ...] = ()
    if wanted.policy == AUTO and wanted.nccl is not None:  # what the inventory installs decides; where it installs none, what is there
        old = () if finds_it(wanted.nccl) else ((wanted.nccl, "nccl_version"),)
    elif wanted.policy == AUTO:
        found = loadable_nccl(host, wanted.identity, wanted.places)
        old = tuple((row.version, row.path) for row in found if row.version is not None and not finds_it(row.version))
    if wanted.policy == AUTO and not old:
        return GidIndexInspection((), (), ())
    tables = tuple(observe_gids(host, "%s/%s/ports/%d" % (CLASS_INFINIBAND, port.hca, port.port)) for port in wanted.ports)
    held = observe_addresses(host) if wanted.waits else {}
    pending = tuple(wanted.waits and not nccl_gids.holds(gids, port.address) and _to_come(port, netdev, held)
                    for port, netdev, gids in zip(wanted.ports, wanted.netdevs, tables))
    return GidIndexInspection(tables, pending, old)


def _to_come(port: GidPort, netdev: Optional[str], held: Dict[str, List[str]]) -> bool:
    """The plan itself sets the address that is not on the interface yet; its GID comes with it."""
    if port.address is None or netdev is None:
        return False
    wanted = ipaddress.ip_interface(port.address).ip
    return wanted not in [ipaddress.ip_interface(item).ip for item in held.get(netdev) or []]


def decide(wanted: Wish, seen: GidIndexInspection) -> Decision:
    if wanted.policy == GIVEN:
        return _check_given(wanted, seen)
    return _choose(wanted, seen) if seen.tables else Decision()


def _check_given(wanted: Wish, seen: GidIndexInspection) -> Decision:
    number = int(wanted.number or "0", 0)
    problems, notes = [], ["%s=%d is not checked on %s: it has no RDMA device at the moment" % (GID_INDEX, number, name)
                           for name in wanted.absent]
    for port, gids, pending in zip(wanted.ports, seen.tables, seen.pending):
        status, text = nccl_gids.judge_index(number, gids, port)
        if status == "unknown" or pending:
            notes.append("%s=%d is not checked on %s yet: %s" % (GID_INDEX, number, port.label, NOT_YET % port.label if pending else text))
        elif status == "fail":
            problems.append(text)
    return Decision(None, False, tuple(problems), tuple(notes))


def _choose(wanted: Wish, seen: GidIndexInspection) -> Decision:
    who = "NCCL %s (%s)" % seen.old[0]
    unknown = [(NOT_YET if pending else "the GID table of %s cannot be read") % port.label
               for port, gids, pending in zip(wanted.ports, seen.tables, seen.pending) if gids is None or pending]
    if unknown:
        text = "%s cannot find GIDs by itself, and %s stays as it is: %s" % (who, GID_INDEX, "; ".join(unknown))
        return Decision(None, True, (), (text,))
    each = [nccl_gids.right_indexes(gids, port.address) for port, gids in zip(wanted.ports, seen.tables)]
    shared = set(each[0]).intersection(*each[1:])
    if shared:
        return Decision(str(min(shared)))
    rows = ", ".join("%s: %s" % (port.label, " or ".join(map(str, found)) or "none") for port, found in zip(wanted.ports, each))
    reason = "no RoCE v2 GID holds the address of every rail" if not all(each) else "takes one index for all HCAs, and theirs differ"
    text = ("%s finds no GID by itself and %s (RoCE v2 with the rail's address: %s); NCCL %s and later finds each one, by "
            "NCCL_IB_ADDR_RANGE too, which older ones do not read. Use one, or %s" % (who, reason, rows, FINDS_IT_TEXT, LEAVE_IT))
    return Decision(None, False, (text,))


def judge_nccl_gid(seen: Inspection) -> List[Verdict]:
    """One verdict for each HCA that NCCL is told to use, or one for the node where there is nothing to judge."""
    node, spec, facts = seen.node, seen.spec, seen.facts
    if spec.fabric == "infiniband":  # NCCL returns before it reads an index there
        return []
    found = [target for target in seen.targets if target.hca is not None]
    rails = {(target.hca.name, target.port or 1): target for target in found if target.hca is not None}
    variables = settings(spec, facts)
    overrides, transport = spec["nccl_overrides"], spec["nccl_derived"]["transport"]
    reason = "%s is the transport, and finds GIDs by itself" % transport if transport else ""
    if not transport and GID_INDEX in overrides and overrides[GID_INDEX] is None:
        reason = "nccl_overrides leaves %s to the jobs" % GID_INDEX
    if reason:
        return [verdict(CHECK, VerdictSubject(node, None, None, GID_INDEX), "skipped", None, variables.get(GID_INDEX), reason)]
    ports = nccl_gids.selected(variables.get(HCA, ""), seen.identity, {key: target.rail.address for key, target in rails.items()})
    labels = {key: target.label for key, target in rails.items()}
    judged = []
    for port in ports:
        key = (port.hca, port.port)
        if not spec.rails or key in rails:
            judged.append(_judge_port(VerdictSubject(node, *key, labels.get(key, port.label)), port, spec, variables, facts))
    return [item for item in judged if item is not None]


def settings(spec: Spec, facts: Mapping[str, Any]) -> Dict[str, str]:
    """What NCCL reads on the node; where its file is not the one that facts know, what the inventory wants in it."""
    if spec["nccl_conf_path"] != CONF:
        return dict(spec["nccl_derived"]["variables"])
    conf = (facts.get("nccl") or {}).get("conf") or {}
    return dict(conf.get("variables") or {})


def _judge_port(
    where: VerdictSubject, port: GidPort, spec: Spec, variables: Mapping[str, str], facts: Mapping[str, Any]
) -> Optional[Verdict]:
    """None where no GID is right, or none can be read: rail.gid says that, and once is enough."""
    expected = "RoCE v2 GID with %s" % (port.address.partition("/")[0] if port.address is not None else "an address")
    gids = (port_facts(facts, port.hca, port.port) or {}).get("gids")
    number = as_int(variables.get(GID_INDEX))
    hidden = sorted(name for name, value in variables.items() if name.startswith("NCCL_IB_") and HIDDEN in value)
    if hidden:
        return unreadable(CHECK, where, expected, "%s, which is hidden," % hidden[0])
    if number is not None and number >= 0:
        if gids is None:
            return unreadable(CHECK, where, expected, "the GID table")
        status, text = nccl_gids.judge_index(number, gids, port)
        # Without an inventory and without addresses a link-local GID may be meant: it works within one network.
        if status == "fail" and port.address is None and not nccl_gids.right_indexes(gids, None) and number in [
                entry.get("index") for entry in gids]:
            status = "warn"
        return verdict(CHECK, where, status, expected, "index %d" % number, "%s=%s: %s" % (GID_INDEX, variables[GID_INDEX], text))
    table = gids or []
    right = nccl_gids.right_indexes(table, port.address)
    if port.address is None or not right:
        return None
    chosen = nccl_gids.automatic(table, variables)
    found = None if chosen is None else "index %d" % chosen
    if chosen is None or chosen not in right:
        what = "none of " + port.label
        if chosen is not None:
            what = "index %d of %s, which %s" % (chosen, port.label, nccl_gids.described(table, chosen))
        return verdict(CHECK, where, "fail", expected, found, "NCCL takes %s; the right one is index %d: set NCCL_IB_ADDR_RANGE to the "
                       "rail's subnet, or nccl_gid_index" % (what, right[0]))
    older = _older(spec, table, port, number, facts)
    if older is not None:
        return verdict(CHECK, where, older[0], expected, found, older[1])
    return verdict(CHECK, where, "pass", expected, found, "NCCL %s and later take index %d by themselves: it %s" % (
        FINDS_IT_TEXT, chosen, nccl_gids.described(table, chosen)))


def _older(
    spec: Spec, gids: List[Dict[str, Any]], port: GidPort, number: Optional[int], facts: Mapping[str, Any]
) -> Optional[Tuple[str, str]]:
    """An NCCL on the node that cannot find the GID: what it takes instead. A leftover beside the inventory's own NCCL is only warned of."""
    rows = [row for row in facts.get("nccl_libraries") or [] if row.get("version") and not finds_it(row["version"])]
    if not rows or (number is None and nccl_gids.judge_index(0, gids, port)[0] == "pass"):
        return None
    wanted = spec["nccl_derived"]["nccl"]
    takes = "takes -1 for an index, which none is" if number is not None else "takes index 0, which %s" % nccl_gids.described(gids, 0)
    text = "NCCL %s (%s) finds no GID by itself: it %s on %s; NCCL %s and later does" % (
        rows[0]["version"], rows[0]["path"], takes, port.label, FINDS_IT_TEXT)
    return "warn" if wanted is not None and finds_it(wanted) else "fail", text
