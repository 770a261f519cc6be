# SPDX-License-Identifier: GPL-3.0-or-later
"""What must be on disk and enabled so that the rails come back after a reboot."""

import re
from typing import Dict, List, NamedTuple, Sequence, Set, Tuple

from ...types import AT_BOOT, FILE, Change, Nic, Op, Subject, heaviest, run, write_file
from ..common.files import HEADER, is_ours, plan_file, removed_file
from ..common.units import enabled_unit, running_unit, systemctl
from .evidence import UDEV_DIRECTORY
from .managers import ifupdown, netplan, networkd, nm
from .model import Observed, RailWish, Wanted, by_name

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
    rails: Tuple[RailWish, ...]
    why: str


def carrying(rail: RailWish, observed: Observed) -> str:
    """The disruption class of touching a rail as it is now.

    A rail that is down, or that has no address though it is meant to have one, carries
    nothing yet, so the first set-up of a bare node needs no consent.
    """
    link = observed.link(rail)
    if rail.management:
        return "management"
    return "link" if link.up and (link.addresses or rail.address is None) else "none"


def wanted_files(owned: Sequence[Owned], observed: Observed) -> Dict[str, Tuple[Wanted, Owned]]:
    found: Dict[str, Tuple[Wanted, Owned]] = {}
    for group in owned:
        for path, wanted in MODULES[group.backend].files(group.rails, observed).items():
            rails = tuple(rail for rail in group.rails if group.backend == netplan.NAME or MODULES[group.backend].path(rail) == path)
            found[path] = (wanted, Owned(group.backend, rails, group.why))
    return found


def file_changes(owned: Sequence[Owned], others: Sequence[Nic], observed: Observed) -> List[Change]:
    """Files of ours that should not be there any more, then those that should."""
    wanted = wanted_files(owned, observed)
    changes = stale_files(set(wanted), reached_over([rail for group in owned for rail in group.rails], others), observed)
    for path in sorted(wanted):
        content, group = wanted[path]
        then = MODULES[group.backend].tell(group.rails, observed)
        disruption = heaviest([carrying(rail, observed) for rail in group.rails]) if then else "none"
        changes += plan_file(AREA, observed.state(path), content.content, WHY_FILE % (group.backend, group.why), SOURCES[group.backend],
                             content.mode, then, disruption)
    return changes


def reached_over(rails: Sequence[RailWish], others: Sequence[Nic]) -> Set[str]:
    """Names and MACs of the interfaces that the controller comes in by, as our files name an interface."""
    names = [(rail.netdev, rail.mac) for rail in rails if rail.management] + [(nic.name, nic.mac) for nic in others if nic.management]
    return {word.lower() for pair in names for word in pair if word}


def words(text: str) -> Set[str]:
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
        touched = "management" if management.intersection(words(state.text or "")) else "link"
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
    rails = tuple(rail for group in owned for rail in group.rails if uses_networkd(group, observed))
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


def uses_networkd(group: Owned, observed: Observed) -> bool:
    if group.backend == netplan.NAME:
        return netplan.renderer(group.rails, observed) == "networkd"
    return group.backend == networkd.NAME


def udev_changes(rails: Sequence[RailWish], others: Sequence[Nic], observed: Observed) -> List[Change]:
    """For interfaces that somebody else configures: their MTU by a udev rule, whoever that is."""
    paths = {"%s/70-railwright-%s.rules" % (UDEV_DIRECTORY, rail.rail): rail for rail in rails}
    changes = stale_files(set(paths), reached_over(rails, others), observed)
    for path in sorted(paths):
        changes += plan_file(AREA, observed.state(path), udev_text(paths[path]),
                             "network_manage_addresses is off: the MTU is set when the device appears, whichever manager has it", "udev(7)")
    return changes


def udev_text(rail: RailWish) -> str:
    return HEADER + 'SUBSYSTEM=="net", ACTION=="add", %s, ATTR{mtu}="%d"\n' % (udev_match(rail), rail.mtu)


def udev_match(rail: RailWish) -> str:
    if by_name(rail):
        return 'KERNEL=="%s"' % rail.netdev
    if rail.kind == "infiniband":
        port = 'KERNELS=="%s"' % rail.pci if rail.pci is not None else 'KERNEL=="%s"' % rail.netdev
        return 'ATTR{type}=="32", ' + port
    # VLANs and bonds above the rail have its MAC too, but name their type in DEVTYPE.
    return 'ATTR{type}=="1", ENV{DEVTYPE}!="?*", ATTR{address}=="%s"' % rail.mac
