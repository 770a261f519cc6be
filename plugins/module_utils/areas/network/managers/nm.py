# SPDX-License-Identifier: GPL-3.0-or-later
"""NetworkManager: one keyfile a rail, matched by the permanent MAC."""

import ipaddress
from typing import Dict, List, NamedTuple, Optional, Tuple

from ....formats.outside import whole
from ....types import Op, run
from ...common.files import is_ours
from ..model import RULE_PRIORITY, DesiredInterface, Observed, Wanted, by_name, header
from ..routes import ANYWHERE, family_of, wanted_routes
from . import ini

NAME = "networkmanager"
UNIT = "NetworkManager.service"
DIRECTORY = "/etc/NetworkManager/system-connections"
DIRECTORIES = (DIRECTORY, "/run/NetworkManager/system-connections", "/usr/lib/NetworkManager/system-connections")
IFCFG_DIRECTORY = "/etc/sysconfig/network-scripts"
PRIORITY = 100  # above a site's catch-all profile, which has 0 unless somebody chose otherwise
NETPLAN_PREFIX = "netplan-"  # netplan writes /run/NetworkManager/system-connections/netplan-<id>.nmconnection


class Profile(NamedTuple):
    """What of a connection profile decides whether it takes an interface. Nothing secret is kept."""

    path: str
    ours: bool
    uuid: Optional[str]
    interface: Optional[str]
    mac: Optional[str]
    type: str
    autoconnect: bool
    priority: int
    generated: bool  # made by NetworkManager itself, for an interface that has no other
    external: bool  # a mirror of what another manager set up; NetworkManager does not act on it


def path(rail: DesiredInterface) -> str:
    return "%s/railwright-%s.nmconnection" % (DIRECTORY, rail.rail)


def uuid_of(rail: DesiredInterface) -> str:
    """The same on every run, as the profile's uuid is its identity to NetworkManager."""
    import uuid  # asks the system for its own, which costs what an inspection without NetworkManager does not need

    return str(uuid.uuid5(uuid.NAMESPACE_URL, "railwright.rdma/network/" + rail.rail))


def files(rails: Tuple[DesiredInterface, ...], observed: Observed) -> Dict[str, Wanted]:
    return {path(rail): Wanted(text(rail), 0o600) for rail in rails}  # NetworkManager ignores profiles that others may read


def text(rail: DesiredInterface) -> str:
    kind = "infiniband" if rail.kind == "infiniband" else "ethernet"
    lines = ["[connection]", "id=railwright-" + rail.rail, "uuid=" + uuid_of(rail), "type=" + kind]
    lines += ["autoconnect=true", "autoconnect-priority=%d" % PRIORITY]
    if by_name(rail):
        lines.append("interface-name=" + rail.netdev)
    lines += ["", "[%s]" % kind] + ([] if by_name(rail) else ["mac-address=" + rail.mac.upper()]) + ["mtu=%d" % rail.mtu]
    if rail.mode is not None:
        lines.append("transport-mode=" + rail.mode)
    six = rail.address is not None and ":" in rail.address
    lines += ["", "[ipv4]"] + (_manual(rail) if rail.address is not None and not six else ["method=disabled"])
    lines += ["", "[ipv6]"] + (_manual(rail) if six else ["method=link-local"])
    return header((rail,)) + "\n".join(lines) + "\n"


def _manual(rail: DesiredInterface) -> List[str]:
    address = ipaddress.ip_interface(rail.address or "")
    lines = ["method=manual", "address1=%s" % address] + ([] if rail.metric is None else ["route-metric=%d" % rail.metric])
    routes = wanted_routes(rail)
    for number, route in enumerate(routes[:-1], 1):  # the last is the rule
        target = route[0] if len(route) == 1 else "%s,%s" % (ANYWHERE[family_of(route)], route[2])
        lines += ["route%d=%s" % (number, target), "route%d_options=table=%d" % (number, rail.table)]
    return lines + (["routing-rule1=" + rule(rail)] if routes else [])


def rule(rail: DesiredInterface) -> str:
    """The rule that sends the rail's address to its table, in NetworkManager's words."""
    return "priority %d from %s table %d" % (RULE_PRIORITY, ipaddress.ip_interface(rail.address or "").ip, rail.table)


def tell(rails: Tuple[DesiredInterface, ...], observed: Observed) -> Tuple[Op, ...]:
    """Read the profiles again, and activate ours where the cable is in (NetworkManager refuses without one)."""
    ops = [run(("nmcli", "connection", "reload"))]
    for rail in rails:
        ops += activate(uuid_of(rail), rail, observed)
    return tuple(ops)


def activate(identifier: str, rail: DesiredInterface, observed: Observed) -> List[Op]:
    """Bring a profile up on one interface; what was active there before comes back as the undo.

    A profile of ours that goes away with a roll back is taken down by NetworkManager itself.
    """
    link = observed.link(rail)
    if not link.carrier:
        return []
    previous = [profile for profile in profiles(observed) if profile.uuid == link.nm_uuid and not profile.generated and not profile.ours]
    undo = ("nmcli", "connection", "up", "uuid", previous[0].uuid or "", "ifname", rail.netdev) if previous else ("true",)
    return [run(("nmcli", "connection", "up", "uuid", identifier, "ifname", rail.netdev), (undo,))]


def conflicts(rail: DesiredInterface, observed: Observed) -> List[str]:
    """Profiles that NetworkManager may take for the interface instead of ours."""
    devtype = observed.link(rail).devtype
    if by_name(rail) and devtype is not None:
        return ["%s is a %s: NetworkManager keeps its MTU and address in the profile that makes it; set them there, with "
                "network_manage_addresses: false here" % (rail.netdev, devtype)]
    found: List[str] = []
    for profile in profiles(observed):
        if profile.ours or profile.generated or not profile.autoconnect or NETPLAN_PREFIX in profile.path:
            continue
        if not claims(profile, rail):
            continue
        named = profile.interface is not None or profile.mac is not None
        if named or profile.priority >= PRIORITY:
            found.append("%s connects %s by itself; remove it or set autoconnect=false in it" % (profile.path, rail.netdev))
    return found


def claims(profile: Profile, rail: DesiredInterface) -> bool:
    if profile.type not in ("infiniband" if rail.kind == "infiniband" else "ethernet", "802-3-ethernet"):
        return False
    if profile.interface is not None and profile.interface != rail.netdev:
        return False
    return profile.mac is None or profile.mac == rail.mac


def profiles(observed: Observed) -> List[Profile]:
    found = [_keyfile(state.path, state.text or "") for state in observed.under(*DIRECTORIES) if state.text]
    return found + [_ifcfg(state.path, state.text or "") for state in observed.under(IFCFG_DIRECTORY) if state.text]


def _keyfile(name: str, content: str) -> Profile:
    entries = ini.parse(content)
    kind = ini.value(entries, "connection", "type") or ""
    mac = ini.value(entries, kind, "mac-address") or ini.value(entries, "802-3-ethernet", "mac-address")
    priority = ini.value(entries, "connection", "autoconnect-priority") or "0"
    return Profile(
        name, is_ours(content), ini.value(entries, "connection", "uuid"), ini.value(entries, "connection", "interface-name"),
        mac.lower() if mac else None, kind, ini.value(entries, "connection", "autoconnect") not in ("false", "no", "0"),
        whole(priority) or 0,
        ini.value(entries, ".nmmeta", "nm-generated") == "true", ini.value(entries, ".nmmeta", "external") == "true",
    )


def _ifcfg(name: str, content: str) -> Profile:
    values = {entry.key: entry.value.strip("\"'") for entry in ini.parse(content)}
    kind = "infiniband" if values.get("TYPE", "").lower() == "infiniband" else "ethernet"
    mac = values.get("HWADDR")
    return Profile(name, False, values.get("UUID"), values.get("DEVICE"), mac.lower() if mac else None, kind,
                   values.get("ONBOOT", "yes").lower() not in ("no", "false", "0"), 0, False, False)
