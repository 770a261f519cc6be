# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd-networkd: one .network file a rail, matched by MAC.

The first file in the order of names wins an interface, wherever it lies; a file of the
same name in /etc hides the others. Ours sort at ``10-railwright-``.
"""

import fnmatch
from typing import Dict, List, Optional, Tuple

from ....types import Op, run
from ...common.files import FileState, is_ours
from ..model import RULE_PRIORITY, DesiredInterface, Observed, Wanted, by_name, header
from ..routes import TOO_OLD, family_of, wanted_routes
from . import ini

NAME = "networkd"
UNIT = "systemd-networkd.service"
SOCKET = "systemd-networkd.socket"
WAIT_UNIT = "systemd-networkd-wait-online.service"
DIRECTORY = "/etc/systemd/network"
DIRECTORIES = (DIRECTORY, "/run/systemd/network", "/usr/local/lib/systemd/network", "/usr/lib/systemd/network", "/lib/systemd/network")
NETPLAN_MARK = "-netplan-"  # netplan writes /run/systemd/network/10-netplan-<id>.network


def path(rail: DesiredInterface) -> str:
    return "%s/10-railwright-%s.network" % (DIRECTORY, rail.rail)


def files(rails: Tuple[DesiredInterface, ...], observed: Observed) -> Dict[str, Wanted]:
    return {path(rail): Wanted(text(rail), 0o644) for rail in rails}


def text(rail: DesiredInterface) -> str:
    lines = ["[Match]"] + match_lines(rail)
    # A rail with its cable out must not hold up the boot, and keeps its address for the day it comes back.
    lines += ["", "[Link]", "MTUBytes=%d" % rail.mtu, "RequiredForOnline=no"]
    # Router advertisements on a fabric would bring a default route that competes with the management network's.
    lines += ["", "[Network]", "LinkLocalAddressing=ipv6", "IPv6AcceptRA=no", "ConfigureWithoutCarrier=yes"]
    if rail.address is not None and rail.metric is None:
        lines.append("Address=" + rail.address)
    lines += address_lines(rail)
    if rail.mode is not None:
        lines += ["", "[IPoIB]", "Mode=" + rail.mode]
    for route in wanted_routes(rail):
        if route[0] == "from":
            lines += ["", "[RoutingPolicyRule]", "From=" + route[1], "Table=%d" % rail.table, "Priority=%d" % RULE_PRIORITY]
        elif len(route) > 1:
            lines += ["", "[Route]", "Gateway=" + route[2], "Table=%d" % rail.table]
        else:  # IPv6 routes have no scope
            scope = ["Scope=link"] if family_of(route) == "-4" else []
            lines += ["", "[Route]", "Destination=" + route[0], *scope, "Table=%d" % rail.table]
    return header((rail,)) + "\n".join(lines) + "\n"


def address_lines(rail: DesiredInterface) -> List[str]:
    """An address with a metric has a section of its own."""
    if rail.address is None or rail.metric is None:
        return []
    return ["", "[Address]", "Address=" + rail.address, "RouteMetric=%d" % rail.metric]


def match_lines(rail: DesiredInterface) -> List[str]:
    if by_name(rail):
        return ["Name=" + rail.netdev]
    if rail.kind == "infiniband":
        # The first bytes of an IPoIB MAC change with every load of the driver, and older systemd reads six bytes only.
        return ["Path=pci-" + rail.pci, "Type=infiniband"] if rail.pci is not None else ["Name=" + rail.netdev]
    return ["MACAddress=" + rail.mac, "Type=ether"]  # VLANs and bonds above the rail share its MAC, but not its type


def tell(rails: Tuple[DesiredInterface, ...], observed: Observed) -> Tuple[Op, ...]:
    """Only links whose file changed are configured again; the management NIC is left alone."""
    if not observed.active(UNIT) or not observed.networkd_reloads:
        return ()  # not running yet: it reads the file when it starts; too old: the live values are set beside it
    return (run(("networkctl", "reload")), *settled(rails, observed))


def settled(rails: Tuple[DesiredInterface, ...], observed: Observed) -> Tuple[Op, ...]:
    """Wait until networkd is done: it takes addresses off and restores them after it has answered.

    Only for links with a carrier; without one the IPv6 link-local address never comes.
    """
    connected = [rail.netdev for rail in rails if observed.link(rail).carrier]
    if observed.networkd_wait is None or not observed.networkd_reloads or not connected:
        return ()
    argv = (observed.networkd_wait, *("--interface=" + name for name in connected), "--timeout=20")
    return (run(argv, (("true",),)),)


def conflicts(rail: DesiredInterface, observed: Observed) -> List[str]:
    return earlier(path(rail), rail, observed) + no_metric(rail, observed)


def no_metric(rail: DesiredInterface, observed: Observed) -> List[str]:
    return [TOO_OLD] if rail.metric is not None and rail.address is not None and not observed.networkd_metrics else []


def earlier(own: str, rail: DesiredInterface, observed: Observed) -> List[str]:
    """Foreign .network files that are read before our own for this interface. netplan's are its own backend's matter."""
    return [
        "%s configures %s and is read before %s; take the interface out of it, or name the file so that it sorts later" % (
            state.path, rail.netdev, own)
        for state in effective(observed)
        if not is_ours(state.text or "") and _basename(state.path) < _basename(own) and NETPLAN_MARK not in state.path
        and matches(state.text or "", rail.netdev, rail.mac, rail.kind)
    ]


def effective(observed: Observed) -> List[FileState]:
    """The .network files that count: of several with one name, the one of the first directory."""
    seen: Dict[str, FileState] = {}
    for directory in DIRECTORIES:
        for state in observed.under(directory):
            name = _basename(state.path)
            if name.endswith(".network") and name not in seen:
                seen[name] = state
    return [seen[name] for name in sorted(seen) if (seen[name].text or "").strip()]


def file_of(netdev: str, mac: str, kind: str, observed: Observed) -> Optional[str]:
    """The .network file that networkd would take for an interface, ours included."""
    return next((state.path for state in effective(observed) if matches(state.text or "", netdev, mac, kind)), None)


def matches(content: str, netdev: str, mac: str, kind: str) -> bool:
    """Whether a [Match] section may take the interface; keys that we cannot judge count as met.

    That errs towards a conflict that a person inspects. An empty section takes nothing in
    practice: systemd 243 and later warn, and the shipped examples never have one.
    """
    entries = [entry for entry in ini.parse(content) if entry.section == "Match"]
    if not any(entry.value for entry in entries):
        return False
    names = ini.list_values(entries, "Match", "Name")
    addresses = [item for key in ("MACAddress", "PermanentMACAddress") for item in ini.list_values(entries, "Match", key)]
    macs = [item.lower().replace("-", ":") for item in addresses]
    types = ini.list_values(entries, "Match", "Type")
    wanted_type = "infiniband" if kind == "infiniband" else "ether"
    if names and not _glob(names, netdev):
        return False
    if macs and mac not in macs:
        return False
    if types and kind != "virtual" and not _glob(types, wanted_type):
        return False
    # Shipped files for containers and virtual machines of this host match by kind or driver of a virtual device.
    virtual_only = any(entry.key in ("Kind", "Virtualization", "SSID", "WLANInterfaceType") for entry in entries)
    return not (virtual_only and not names and not macs)


def _glob(patterns: List[str], word: str) -> bool:
    """systemd's lists: globs, a leading ``!`` turns the whole list round."""
    inverted = patterns[0].startswith("!")
    plain = [patterns[0].lstrip("!")] + patterns[1:]
    return any(fnmatch.fnmatchcase(word, pattern) for pattern in plain) != inverted


def _basename(name: str) -> str:
    return name.rpartition("/")[2]
