# SPDX-License-Identifier: GPL-3.0-or-later
"""Several rails of a node on one wire: interfaces behind a small switch inside the container, made anew at every boot.

podman connects a container to a network once. So the wire is one interface, a bridge in the
container carries it on, and each rail is an end of a pair of interfaces with a MAC of its own.
"""

from collections.abc import Sequence

from harness import Container

WIRE = "wire0"
SCRIPT = "/usr/local/sbin/rails-on-a-wire"
UNIT = "rails-on-a-wire.service"
SCRIPT_TEXT = """\
#!/bin/sh
# rails-on-a-wire MTU MAC ...
set -eu
mtu=$1
shift
ip link add sw0 type bridge
ip link set wire0 mtu "$mtu" master sw0 up
number=0
for mac in "$@"; do
    number=$((number + 1))
    ip link add "eth$number" mtu "$mtu" address "$mac" type veth peer name "sw0p$number" mtu "$mtu"
    ip link set "sw0p$number" master sw0 up
    ip link set "eth$number" up
done
# A switch answers nobody: it would answer for the addresses of all rails.
ip link set sw0 arp off up
"""
UNIT_TEXT = """\
[Unit]
DefaultDependencies=no
Before=systemd-networkd.service network-pre.target
Wants=network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={command}

[Install]
WantedBy=multi-user.target
"""


def lay(container: Container, mtu: int, macs: Sequence[str]) -> None:
    """Make the rails now and at every boot."""
    container.write(SCRIPT, SCRIPT_TEXT, "0755")
    container.write(f"/etc/systemd/system/{UNIT}", UNIT_TEXT.format(command=" ".join([SCRIPT, str(mtu), *macs])))
    container.run("systemctl", "enable", "--now", UNIT)
