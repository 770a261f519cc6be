# SPDX-License-Identifier: GPL-3.0-or-later
"""Soft-RoCE: one RDMA link ``rxeN`` on the interface of rail N, now and at every boot.

The kernel forgets rxe links at a reboot. One oneshot unit a rail makes its link again;
the script it runs is fixed, takes the rail as arguments, and finds the interface by its
MAC, so that a renamed device keeps its link. Nothing is wanted with another rdma_stack.
"""

from typing import Dict, List, NamedTuple, Tuple

from ...host.host import Host
from ...spec.match import RailTarget, match_rails
from ...spec.model import Spec
from ...types import Change, Identity, Nic, Op, run
from ..common.files import HEADER, FileState, observe_file, plan_file
from ..common.units import Unit, UnitState, observe_unit, plan_unit

NAME = "rxe"
SCRIPT = "/usr/local/libexec/railwright/rxe-link"
WHY = "soft_roce: the rail needs a software RDMA device"
SOURCE = "rdma-link(8); inventory: rdma_stack"

SCRIPT_TEXT = "#!/bin/sh\n" + HEADER + r"""# usage: rxe-link add LINK mac MAC | add LINK name NETDEV | delete LINK
# Makes the Soft-RoCE link LINK on the interface that is named or has the MAC.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
WAIT=60 # seconds for the driver of the interface; udev settles well within this

find_netdev() {
    for net in /sys/class/net/*; do
        if [ "$1" = name ]; then
            [ "${net##*/}" = "$2" ] || continue
        else
            [ "$(cat "$net/address" 2>/dev/null)" = "$2" ] || continue
            # VLANs and bonds have the MAC of the interface below them, which is the one that is meant.
            ls -d "$net"/lower_* >/dev/null 2>&1 && continue
        fi
        echo "${net##*/}"
        return 0
    done
    return 1
}

link=$2
if [ "$1" = delete ]; then
    [ ! -e "/sys/class/infiniband/$link" ] || exec rdma link delete "$link"
    exit 0
fi
modprobe rdma_rxe
waited=0
until netdev=$(find_netdev "$3" "$4"); do
    if [ "$waited" -ge "$WAIT" ]; then
        echo "no interface with $3 $4 after $WAIT s" >&2
        exit 1
    fi
    sleep 1
    waited=$((waited + 1))
done
for device in /sys/class/infiniband/*; do
    [ -r "$device/parent" ] || continue
    parent=$(cat "$device/parent")
    if [ "${device##*/}" = "$link" ] && [ "$parent" = "$netdev" ]; then
        exit 0
    fi
    if [ "${device##*/}" = "$link" ] || [ "$parent" = "$netdev" ]; then
        rdma link delete "${device##*/}"
    fi
done
# rxe takes the interface's MTU first and hears of changes only once it is registered. At boot the
# network manager may set the MTU just between the two, and active_mtu would stay too small for ever.
for attempt in 1 2 3 4 5; do
    mtu=$(cat "/sys/class/net/$netdev/mtu")
    rdma link add "$link" type rxe netdev "$netdev"
    [ "$(cat "/sys/class/net/$netdev/mtu")" != "$mtu" ] || exit 0
    echo "the MTU of $netdev changed while $link was made (attempt $attempt): making it again" >&2
    rdma link delete "$link"
done
exit 1
"""


class RxeLink(NamedTuple):
    name: str  # rxe0
    netdev: str
    mac: str
    label: str
    rail: str
    by_name: bool  # a bond shares its MAC with its members; its name comes from configuration


class Desired(NamedTuple):
    """``live`` is False in a container, where RDMA links belong to the machine below: only boot is set up."""

    links: Tuple[RxeLink, ...]
    live: bool


class Observed(NamedTuple):
    """``parents``: every rxe device of the node and the interface it is on."""

    parents: Dict[str, str]
    script: FileState
    units: Dict[str, UnitState]


def desired(spec: Spec, identity: Identity) -> Desired:
    if spec.rdma_stack != "soft_roce":
        return Desired((), True)
    targets, _problems = match_rails(spec, identity)
    return Desired(tuple(link_of(target, target.nic) for target in targets if target.nic is not None), identity.virtual != "container")


def link_of(target: RailTarget, nic: Nic) -> RxeLink:
    return RxeLink("rxe%d" % target.rail.index, nic.name, nic.mac, target.label, target.rail.name, nic.kind == "virtual")


def observe(host: Host, desired: Desired) -> Observed:
    found = {name: host.line("/sys/class/infiniband/%s/parent" % name) for name in host.listdir("/sys/class/infiniband")}
    parents = {name: parent for name, parent in found.items() if parent is not None}  # only rxe has one
    return Observed(parents, observe_file(host, SCRIPT), {link.name: observe_unit(host, unit_of(link)) for link in desired.links})


def plan(desired: Desired, observed: Observed) -> List[Change]:
    if not desired.links:
        return []
    changes = plan_file(NAME, observed.script, SCRIPT_TEXT, WHY + "; the unit of each rail runs this at boot", SOURCE, mode=0o755)
    there = dict(observed.parents)  # as the changes before leave it: two rails that change places stand in each other's way, once
    for link in desired.links:
        changes += plan_unit(NAME, unit_of(link), observed.units[link.name], WHY + "; the kernel forgets the link at a reboot", SOURCE)
        if desired.live:
            changes += link_changes(link, observed.parents, there)
    return changes


def unit_of(link: RxeLink) -> Unit:
    how = "name " + link.netdev if link.by_name else "mac " + link.mac
    content = HEADER + "\n".join((
        "[Unit]",
        "Description=Soft-RoCE link %s" % link.name,
        "After=systemd-modules-load.service network-pre.target",
        "Before=network-online.target",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        "ExecStart=%s add %s %s" % (SCRIPT, link.name, how),
        "ExecStop=%s delete %s" % (SCRIPT, link.name),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    )) + "\n"
    # Not ``running``: whether the link is there is inspected itself, and says more than a oneshot's state.
    return Unit("railwright-%s.service" % link.name, content, "multi-user.target", False)


def link_changes(link: RxeLink, parents: Dict[str, str], there: Dict[str, str]) -> List[Change]:
    """The link on its interface; an interface carries one rxe device, so one of another name has to go.

    ``parents``: the node as it was. ``there``: as the changes before this one leave it; brought up to date.
    """
    if there.get(link.name) == link.netdev:
        return []
    in_the_way = [name for name in sorted(there) if name == link.name or there[name] == link.netdev]
    ops: List[Op] = [run(("rdma", "link", "delete", name), (add(name, there.pop(name)),)) for name in in_the_way]
    there[link.name] = link.netdev
    # The script deletes what is there and is content with nothing, so that a failed add can be reverted too.
    ops.append(run(add(link.name, link.netdev), ((SCRIPT, "delete", link.name),)))
    found = [name for name in sorted(parents) if name == link.name or parents[name] == link.netdev]
    before = ", ".join("%s on %s" % (name, parents[name]) for name in found) or None
    disruption = "link" if found else "none"
    # The MTU of a link is that of its interface at the time when it is made.
    return [Change(NAME, "RDMA link %s on %s" % (link.name, link.label), before, "%s on %s" % (link.name, link.netdev), disruption,
                   WHY, SOURCE, tuple(ops), rail=link.rail, needs=("network: MTU of " + link.label,))]


def add(name: str, netdev: str) -> Tuple[str, ...]:
    return ("rdma", "link", "add", name, "type", "rxe", "netdev", netdev)
