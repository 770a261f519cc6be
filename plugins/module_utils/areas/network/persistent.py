# SPDX-License-Identifier: GPL-3.0-or-later
"""Which manager owns a rail's interface, and what must be on disk and enabled so that the rails come back after a reboot. Pure.

First what names this very interface, then what the node runs. Two managers on one
interface are reported, never resolved: each would take the other's settings away.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Set, Tuple

from ...types import AT_BOOT, FILE, Change, Nic, Op, Subject, heaviest, run, write_file
from ..common.files import HEADER, is_ours, plan_file, removed_file
from ..common.units import enabled_unit, running_unit, systemctl
from .evidence import UDEV_DIRECTORY
from .managers import ifupdown, netplan, networkd, nm
from .model import DesiredInterface, LinkState, Observed, by_name


class Claim(NamedTuple):
    backend: str
    evidence: str


def owner(rail: DesiredInterface, preference: str, observed: Observed) -> Tuple[Optional[str], str]:
    """The backend for a rail and why; None when the node has nothing that could do it."""
    if preference != "auto":
        reason = unusable(preference, observed)
        return (None, reason) if reason else (preference, "network_backend says so")
    found = claims(rail, observed)
    if found:
        return found[0].backend, found[0].evidence
    return node_manager(observed.link(rail), observed)


def claims(rail: DesiredInterface, observed: Observed) -> List[Claim]:
    """What names this interface, the surest first."""
    link = observed.link(rail)
    found: List[Claim] = []
    if "ifquery" in observed.tools:
        found += [Claim(ifupdown.NAME, "%s has a stanza for it" % state.path)
                  for state in ifupdown.sources(observed) if rail.netdev in ifupdown.interfaces(state.text or "")]
    if observed.active(networkd.UNIT) and link.networkd_file:
        by_netplan = networkd.NETPLAN_MARK in link.networkd_file
        found.append(Claim(netplan.NAME if by_netplan else networkd.NAME, "networkd configures it by %s" % link.networkd_file))
    if observed.active(nm.UNIT) and link.nm_managed:
        found += _nm_claims(link, observed)
    return found


def _nm_claims(link: LinkState, observed: Observed) -> List[Claim]:
    """NetworkManager manages every interface that it was not told to leave; what it does with it decides."""
    active = [profile for profile in nm.profiles(observed) if profile.uuid is not None and profile.uuid == link.nm_uuid]
    if any(profile.external for profile in active):
        return []
    if active and nm.NETPLAN_PREFIX in active[0].path:
        return [Claim(netplan.NAME, "NetworkManager configures it by %s" % active[0].path)]
    if all(profile.generated for profile in active) and has_netplan(observed):
        return []  # no settings of its own: netplan is where this node's are
    return [Claim(nm.NAME, "NetworkManager manages it" + (" by %s" % active[0].path if active else ""))]


def has_netplan(observed: Observed) -> bool:
    return "netplan" in observed.tools and bool(netplan.yaml_files(observed))


def node_manager(link: LinkState, observed: Observed) -> Tuple[Optional[str], str]:
    """The manager for an interface that nobody has yet: the one that the node runs."""
    if has_netplan(observed):
        return netplan.NAME, "%s configures the node" % netplan.yaml_files(observed)[0]
    if observed.active(networkd.UNIT) or observed.unit(networkd.UNIT).enabled == "enabled":
        return networkd.NAME, "systemd-networkd is enabled or running"
    if "ifquery" in observed.tools and observed.unit(ifupdown.UNIT).enabled == "enabled":
        return ifupdown.NAME, "networking.service is enabled"
    if unusable(networkd.NAME, observed) is None and not link.nm_managed:
        return networkd.NAME, "systemd-networkd is installed"
    if unusable(nm.NAME, observed) is None:
        return nm.NAME, "NetworkManager is running"
    if unusable(ifupdown.NAME, observed) is None:
        return ifupdown.NAME, "ifupdown is installed"
    return None, "no manager was found: none of systemd-networkd, ifupdown, NetworkManager and netplan is installed (and not masked)"


def unusable(backend: str, observed: Observed) -> Optional[str]:
    """Why a backend cannot be used on this node; None when it can."""
    if backend == networkd.NAME:
        state = observed.unit(networkd.UNIT).load
        return None if state == "loaded" else "%s is %s" % (networkd.UNIT, state or "unknown to systemd")
    if backend == nm.NAME:
        if not observed.active(nm.UNIT):
            return "%s is not running" % nm.UNIT
        return None if "nmcli" in observed.tools else "nmcli is not installed"
    if backend == netplan.NAME:
        if "netplan" not in observed.tools:
            return "netplan is not installed"
        return None if observed.active(nm.UNIT) else unusable(networkd.NAME, observed)
    return None if "ifquery" in observed.tools else "ifupdown is not installed"


def fights(rail: DesiredInterface, backend: str, observed: Observed) -> List[str]:
    return ["%s is to be configured by %s, but %s; take it away from one of them (network_backend says which one to keep)" % (
        rail.netdev, backend, claim.evidence) for claim in claims(rail, observed) if claim.backend != backend]


AREA = "network"
MODULES = {networkd.NAME: networkd, ifupdown.NAME: ifupdown, nm.NAME: nm, netplan.NAME: netplan}
ENABLED = ("enabled", "enabled-runtime", "static", "alias", "indirect", "generated")
WHY_UNIT = "it configures the rails at boot"
WHY_FILE = "%s owns the interface: its file makes the settings hold after a reboot (%s)"
SOURCES = {
    networkd.NAME: "systemd.network(5)",
    ifupdown.NAME: "interfaces(5)",
    nm.NAME: "nm-settings-keyfile(5)",
    netplan.NAME: "netplan reference (ethernets: match, mtu, addresses)",
}


class Owned(NamedTuple):
    """The rails of one backend, and why it is theirs."""

    backend: str
    rails: Tuple[DesiredInterface, ...]
    why: str


def carrying(rail: DesiredInterface, observed: Observed) -> str:
    """The disruption class of touching a rail as it is now.

    A rail that is down, or that has no address though it is meant to have one, carries
    nothing yet, so the first set-up of a bare node needs no consent.
    """
    link = observed.link(rail)
    if rail.management:
        return "management"
    return "link" if link.up and (link.addresses or rail.address is None) else "none"


def file_changes(owned: Sequence[Owned], others: Sequence[Nic], observed: Observed) -> List[Change]:
    """Files of ours that should not be there any more, then those that should."""
    wanted = {path: (content, group) for group in owned for path, content in MODULES[group.backend].files(group.rails, observed).items()}
    changes = stale_files(set(wanted), reached_over([rail for group in owned for rail in group.rails], others), observed)
    for path in sorted(wanted):
        content, group = wanted[path]
        manager = MODULES[group.backend]
        rails = tuple(rail for rail in group.rails if group.backend == netplan.NAME or manager.path(rail) == path)
        then = manager.tell(rails, observed)
        disruption = heaviest([carrying(rail, observed) for rail in rails]) if then else "none"
        changes += plan_file(AREA, observed.state(path), content.content, WHY_FILE % (group.backend, group.why), SOURCES[group.backend],
                             content.mode, then, disruption)
    return changes


def reached_over(rails: Sequence[DesiredInterface], others: Sequence[Nic]) -> Set[str]:
    """Names and MACs of the interfaces that the controller comes in by, as our files name an interface."""
    names = [(rail.netdev, rail.mac) for rail in rails if rail.management] + [(nic.name, nic.mac) for nic in others if nic.management]
    return {word.lower() for pair in names for word in pair if word}


def file_words(text: str) -> Set[str]:
    """Of a file of any manager: ``Name=eth1``, ``mac-address=02:…``, ``macaddress: "02:…"``."""
    return {word.strip(":") for word in re.split(r"[\s=\"',;]+", text.lower())}


def stale_files(wanted: Set[str], management: Set[str], observed: Observed) -> List[Change]:
    """Files of an earlier apply: a rail that left the inventory, or a backend that changed. ``management``: see ``reached_over``."""
    changes: List[Change] = []
    for path, state in sorted(observed.files.items()):
        if path in wanted or not is_ours(state.text or "") or "railwright" not in path.rpartition("/")[2]:
            continue
        then: Tuple[Op, ...] = ()
        if path.startswith(networkd.DIRECTORY + "/"):
            then = networkd.tell((), observed)
        elif path.startswith(nm.DIRECTORY + "/") and observed.active(nm.UNIT):
            then = nm.tell((), observed)
        elif path == netplan.PATH:
            then = netplan.tell((), observed)
        touched = "management" if management.intersection(file_words(state.text or "")) else "link"
        changes.append(removed_file(AREA, path, state.text, "no rail of this host is configured by this file any more",
                                    "inventory: rdma_rails, network_backend", then, disruption=touched if then else "none"))
    return changes


def before_files(owned: Sequence[Owned], observed: Observed) -> List[Change]:
    """Managers that must be enabled, and ifupdown's line that makes it read our files."""
    changes: List[Change] = []
    backends = [group.backend for group in owned]
    if networkd.NAME in backends and observed.unit(networkd.UNIT).enabled not in ENABLED:
        ops = [systemctl("enable", networkd.UNIT)]
        if observed.unit(networkd.WAIT_UNIT).enabled == "disabled":
            # Enabling networkd enables this too. It waits two minutes at boot for a link that must be online, and rails need not be.
            ops.append(run(("systemctl", "disable", networkd.WAIT_UNIT), (("true",),)))
        changes.append(enabled_unit(AREA, networkd.UNIT, WHY_UNIT, SOURCES[networkd.NAME], tuple(ops)))
    if ifupdown.NAME in backends:
        if observed.unit(ifupdown.UNIT).enabled not in ENABLED:
            changes.append(enabled_unit(AREA, ifupdown.UNIT, WHY_UNIT, SOURCES[ifupdown.NAME]))
        if not ifupdown.sourced(observed):
            main = observed.state(ifupdown.MAIN)
            text = (main.text or "").rstrip("\n") + "\n" if main.text else ""
            mode = main.mode if main.mode is not None else 0o644
            changes.append(Change(AREA, "source line in " + ifupdown.MAIN, None, ifupdown.SOURCE_LINE, "none",
                                  "ifupdown reads the rails' files only when its main file names their directory", "interfaces(5)",
                                  (write_file(ifupdown.MAIN, text + ifupdown.SOURCE_LINE + "\n", mode),),
                                  Subject(FILE, ifupdown.MAIN), AT_BOOT))
    return changes


def after_files(owned: Sequence[Owned], others: Sequence[Nic], observed: Observed) -> List[Change]:
    """Start networkd once it has files to read.

    It leaves interfaces without a .network file alone. One that has a file so far unused
    would be taken over, so that is told apart: ``management`` when it is that NIC.
    """
    rails = tuple(rail for group in owned for rail in group.rails if group.backend == networkd.NAME or (
        group.backend == netplan.NAME and netplan.renderer(group.rails, observed) == "networkd"))
    if not rails or observed.active(networkd.UNIT):
        return []
    classes = [carrying(rail, observed) for rail in rails]
    classes += ["management" if nic.management else "link" for nic in others
                if networkd.file_of(nic.name, nic.mac, nic.kind, observed) is not None]
    # Its socket listens to the kernel: the next change of an interface would start it again, with the files that are still there.
    stop = ("systemctl", "stop", networkd.SOCKET, networkd.UNIT)
    ops = (run(("systemctl", "start", networkd.UNIT), (stop,)),) + networkd.settled(rails, observed)
    change = running_unit(AREA, networkd.UNIT, WHY_UNIT, SOURCES[networkd.NAME])
    return [change._replace(disruption=heaviest(classes), ops=ops)]


def udev_changes(rails: Sequence[DesiredInterface], others: Sequence[Nic], observed: Observed) -> List[Change]:
    """For interfaces that somebody else configures: their MTU by a udev rule, whoever that is."""
    paths = {"%s/70-railwright-%s.rules" % (UDEV_DIRECTORY, rail.rail): rail for rail in rails}
    changes = stale_files(set(paths), reached_over(rails, others), observed)
    for path in sorted(paths):
        text = HEADER + 'SUBSYSTEM=="net", ACTION=="add", %s, ATTR{mtu}="%d"\n' % (udev_match(paths[path]), paths[path].mtu)
        changes += plan_file(AREA, observed.state(path), text,
                             "network_manage_addresses is off: the MTU is set when the device appears, whichever manager has it", "udev(7)")
    return changes


def udev_match(rail: DesiredInterface) -> str:
    if by_name(rail):
        return 'KERNEL=="%s"' % rail.netdev
    if rail.kind == "infiniband":
        port = 'KERNELS=="%s"' % rail.pci if rail.pci is not None else 'KERNEL=="%s"' % rail.netdev
        return 'ATTR{type}=="32", ' + port
    # VLANs and bonds above the rail have its MAC too, but name their type in DEVTYPE.
    return 'ATTR{type}=="1", ENV{DEVTYPE}!="?*", ATTR{address}=="%s"' % rail.mac
