# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's side of lossless RoCE: every NIC of every rail as the inventory's QoS profile says.

What is read is ``observe/qos.py``'s, what fits is ``parts.py``'s: plan, facts and verdict are one. What sets a NIC from scratch is
``settings.py``'s. A part that nothing on the node can set, or read back, is left out with a note. A software device rides an
interface: where that has DCB it is set, and RDMA-CM's default is the kernel's own for any device.
"""

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...catalogue.qos import QosProfile, site_profile
from ...host.host import Host
from ...observe.qos import CONFIGFS, SOFTWARE, observe_lldpad, observe_nic
from ...observe.qos_dcb import MLNX_TOOL, dcbx_flags
from ...observe.qos_dcb import TOOL as DCB_TOOL
from ...spec.match import RailTarget, match_rails
from ...spec.model import Spec
from ...types import INTERFACE, Change, Hca, Identity, Problem, Subject
from ..common.units import systemctl
from ..network import evidence, network, rxe
from ..network.model import DesiredInterface
from ..network.persistent import carrying
from .boot import BootNic, BootState, boot_changes, observe_boot
from .parts import WORDS, QosObservation, after, before, ops_of, part_fits, unset_parts
from .settings import PARTS, NicWish, cm_device, forced_path, settings, settings_of, tools_of

# lldpad, the daemon that speaks DCBX for the host: it writes what the switch says over what was set, so it stops, now and at boot.
LLDPAD_UNITS = ("lldpad.socket", "lldpad.service")  # the socket first: it would start the service again
LLDPAD_ENABLED = ("enabled", "enabled-runtime")
WHY_LLDPAD = "it takes what the switch says by LLDP and writes it over trust, PFC and ETS of every interface"


class Lldpad(NamedTuple):
    """``listens``: its socket is there, whoever started it."""

    listens: bool
    active: Tuple[str, ...] = ()
    enabled: Tuple[str, ...] = ()


def observe_units_of_lldpad(host: Host) -> Lldpad:
    units = evidence.observe_units(host, LLDPAD_UNITS)
    return Lldpad(bool(observe_lldpad(host)), tuple(name for name, unit in units.items() if unit.active in ("active", "activating")),
                  tuple(name for name, unit in units.items() if unit.enabled in LLDPAD_ENABLED))


def plan_lldpad(area: str, state: Lldpad) -> List[Change]:
    if not state.active and not state.enabled:
        return []
    ops = [systemctl("stop", name) for name in state.active] + [systemctl("disable", name) for name in state.enabled]
    before = ", ".join(["%s active" % name for name in state.active] + ["%s enabled" % name for name in state.enabled])
    return [Change(area, "lldpad stopped", before, "stopped and disabled", "restart", WHY_LLDPAD, "inventory: roce_qos_dcbx; lldpad(8)",
                   tuple(ops))]


def lldpad_conflicts(area: str, state: Lldpad, taken: bool) -> List[Problem]:
    """``taken``: the inventory gives DCBX to the host, so that lldpad goes."""
    if state.listens and not taken:
        return [Problem(area, "lldpad", "runs, and %s. Set roce_qos_dcbx: host, or roce_qos_manage: false if the switch is to decide"
                        % WHY_LLDPAD)]
    if state.listens and not state.active:
        return [Problem(area, "lldpad", "runs, and neither %s did start it; stop whatever starts it" % " nor ".join(LLDPAD_UNITS))]
    return []


NAME = "roce_qos"


class Place(NamedTuple):
    """A NIC, the device that the reader is asked about, and the rail whose traffic it carries."""

    nic: NicWish
    hca: Hca
    rail: DesiredInterface


class Desired(NamedTuple):
    places: Tuple[Place, ...]
    identity: Optional[Identity]
    backend: str
    dcbx_host: bool
    left_out: Tuple[str, ...]
    boot: bool  # what boot sets is ours to write, and to take away where nothing is wanted


class Observed(NamedTuple):
    """``nics``: by interface, then HCA. ``present``: which tools the node has."""

    nics: Mapping[Tuple[str, str], QosObservation]
    present: Tuple[str, ...]
    lldpad: Lldpad
    boot: Optional[BootState]


NONE = Desired((), None, "auto", False, (), True)


def desired(spec: Spec, identity: Identity) -> Desired:
    profile = site_profile(spec["qos_profile"], spec["qos_custom"])
    if spec.fabric != "roce" or profile is None or not spec["roce_qos_manage"]:
        return NONE
    targets = match_rails(spec, identity)[0]
    places = [place for target in targets for place in places_of(target, spec, identity, profile)]
    if identity.has("container"):
        left_out = ("PFC, trust and RDMA-CM's defaults are left alone: in a container they belong to the machine below",) if places else ()
        return NONE._replace(left_out=left_out, boot=False)
    return Desired(tuple(places), identity, spec["roce_qos_backend"], spec["roce_qos_dcbx"] == "host", (), True)


def places_of(target: RailTarget, spec: Spec, identity: Identity, profile: QosProfile) -> List[Place]:
    """The NICs of a rail: its interface, or all members of its bond."""
    nic = target.nic
    found = device_of(target, spec, identity)
    if nic is None or found is None:
        return []
    hca, port = found
    members = [other for other in identity.nics if other.bond == nic.name] or [nic]
    rail = network.wish(target, nic, spec, identity)
    buffers = spec["roce_qos_buffers"]
    sizes = (tuple(buffers["bytes"]), tuple(buffers["priorities"])) if buffers else ((), ())
    return [
        Place(NicWish(
            member.name, member.mac, hca.name, port, target.label if member is nic else "%s, member %s" % (target.label, member.name),
            member.driver, member.pci or hca.pci, member is members[0], profile, spec["roce_qos_dcbx"] == "host", sizes,
            bool(spec["roce_qos_force_tc"])), hca, rail)
        for member in members]


def device_of(target: RailTarget, spec: Spec, identity: Identity) -> Optional[Tuple[Hca, int]]:
    """The rail's device and port. Soft-RoCE's is known before the rxe area makes it."""
    if spec.rdma_stack == "soft_roce" and target.nic is not None:
        name = rxe.link_of(target, target.nic).name
        ports = (target.nic.name,)
        known = next((hca for hca in identity.hcas if hca.name == name), None)
        return known or Hca(name, None, None, SOFTWARE[0], ports, (1,), (), "Ethernet", ports), 1
    if target.hca is None or target.port is None:
        return None
    return target.hca, target.port


def observe(host: Host, desired: Desired) -> Observed:
    present = tuple(tool for tool in (DCB_TOOL, MLNX_TOOL) if host.which(tool) is not None)
    if desired.identity is None or not desired.places:
        return Observed({}, present, Lldpad(False), observe_boot(host, ()) if desired.boot else None)
    links = evidence.observe(host, [place.rail for place in desired.places])
    seen: Dict[Tuple[str, str], QosObservation] = {}
    for nic, hca, rail in desired.places:
        told = observe_nic(host, desired.identity, hca, nic.port, nic.netdev)
        moves = hca.driver in SOFTWARE and rail.netdev not in hca.netdevs  # the rxe area makes it anew here, without what it was told there
        told = dict(told, rdma_cm=None) if moves else told
        flags = dcbx_flags(host, nic.netdev) if told["dcbx"] not in (None, "host") else ()
        text = (host.read(forced_path(nic)) or "").strip() if told["forced_tc"] else ""
        seen[nic.netdev, nic.hca] = QosObservation(told, flags, host.exists(CONFIGFS), host.exists(cm_device(nic)) and not moves,
                                                   "_ip" not in text.partition("\n")[0], carrying(rail, links))
    boot = observe_boot(host, boot_nics(desired, seen, present))
    return Observed(seen, present, observe_units_of_lldpad(host), boot)


def boot_nics(desired: Desired, seen: Mapping[Tuple[str, str], QosObservation], present: Sequence[str]) -> List[BootNic]:
    """Each NIC with everything that makes it right from scratch, by the tools that do it now."""
    return [
        BootNic(nic.netdev, nic.mac, nic.label, nic.hca, nic.port,
                settings(nic, tools_of(nic, seen[nic.netdev, nic.hca].told, desired.backend, present)), nic.profile.name)
        for nic, _hca, _rail in desired.places]


def plan(desired: Desired, observed: Observed) -> List[Change]:
    changes: List[Change] = []
    if desired.dcbx_host and has_dcb(observed):
        changes += plan_lldpad(NAME, observed.lldpad)
    for place in desired.places:
        nic = place.nic
        seen = observed.nics[nic.netdev, nic.hca]
        tools = tools_of(nic, seen.told, desired.backend, observed.present)
        changes += [part_change(part, place, tools[part], seen)
                    for part in PARTS if part in tools and differs(part, nic, tools[part], seen)]
    if observed.boot is not None:
        changes += boot_changes(NAME, boot_nics(desired, observed.nics, observed.present), observed.boot)
    return changes


def has_dcb(observed: Observed) -> bool:
    return any(seen.told.get(part) is not None for seen in observed.nics.values() for part in PARTS[:6])


def differs(part: str, nic: NicWish, tool: str, seen: QosObservation) -> bool:
    if part in ("rdma_cm", "forced_tc"):  # these are the port's, whichever member of a bond carries the traffic
        return nic.first and not part_fits(part, nic, seen.told) and not (part == "forced_tc" and by_address(nic, seen))
    return bool(settings_of(part, nic, {part: tool})) and not part_fits(part, nic, seen.told)


def by_address(nic: NicWish, seen: QosObservation) -> bool:
    """Somebody's own rules for some addresses: they are not taken off, and a class for all queue pairs would hide them."""
    return bool(seen.told["forced_tc"]) and not seen.forced_global and not nic.force_tc


def part_change(part: str, place: Place, tool: str, seen: QosObservation) -> Change:
    words, nic = WORDS[part], place.nic
    disruption = seen.disruption if words.cuts else "none"
    return Change(NAME, "%s of %s" % (words.what, nic.label), before(part, nic, seen.told), after(part, nic, seen.told), disruption,
                  "%s (set by %s)" % (words.why, tool), words.source, ops_of(part, nic, tool, seen), Subject(INTERFACE, nic.netdev),
                  rail=place.rail.rail)


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    """Another owner of DCBX, where the inventory leaves it in place, or nothing of systemd's starts it."""
    found: List[Problem] = []
    if has_dcb(observed):
        found += lldpad_conflicts(NAME, observed.lldpad, desired.dcbx_host)
    for place in desired.places:
        nic = place.nic
        seen = observed.nics[nic.netdev, nic.hca]
        if seen.told["dcbx"] not in (None, "host") and not desired.dcbx_host:
            found.append(Problem(NAME, nic.label, "DCBX is the %s's, which writes what the switch sends over what is set here. Set "
                                 "roce_qos_dcbx: host, or roce_qos_manage: false if the switch is to decide" % seen.told["dcbx"]))
    return found


def notes(desired: Desired, observed: Observed) -> List[str]:
    """What is left out, each NIC's parts by their reason."""
    said = list(desired.left_out)
    for place in desired.places:
        nic = place.nic
        seen = observed.nics[nic.netdev, nic.hca]
        tools = tools_of(nic, seen.told, desired.backend, observed.present)
        reasons: Dict[str, List[str]] = {}
        for part in unset_parts(nic, tools):
            reason = (seen.told.get("missing") or {}).get(part) or "roce_qos_backend is %s, and that cannot set it here" % desired.backend
            reasons.setdefault(reason, []).append(WORDS[part].what)
        said += ["%s: %s left alone: %s" % (nic.label, ", ".join(names), reason) for reason, names in reasons.items()]
        if nic.first and by_address(nic, seen) and not part_fits("forced_tc", nic, seen.told):
            said.append("%s: rules by address in %s put another class on some queue pairs; they are not railwright's to take off" % (
                nic.label, forced_path(nic)))
    return said
