# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives a container an InfiniBand fabric of ibsim's. Runs on the node, before the role.

Real: opensm, its units of Debian's package, ibstat and the other programs. Simulated: every port and switch; libumad2sim, preloaded by a
drop-in, answers in the kernel's place, to the programs that have it alone. /sys/class/infiniband_mad is what the units' condition and
railwright ask for.
"""

import subprocess
from pathlib import Path

SWITCHES = {
    "spine1": {1: "leaf1:5", 2: "leaf2:5"}, "spine2": {1: "leaf1:6", 2: "leaf2:6"},
    "leaf1": {1: "node1:1", 2: "node2:1", 5: "spine1:1", 6: "spine2:1"},
    "leaf2": {1: "node3:1", 2: "node4:1", 5: "spine1:2", 6: "spine2:2"},
}
SCRIPT = """#!/bin/sh
set -e
[ ! -e /sys/class/infiniband_mad/abi_version ] || exit 0
mkdir -p /run/real-sys
mount --rbind /sys /run/real-sys
mount -t tmpfs -o mode=0755 tmpfs /sys/class
for directory in /run/real-sys/class/*/; do
    mkdir "/sys/class/$(basename "$directory")"
    mount --bind "$directory" "/sys/class/$(basename "$directory")"
done
mkdir /sys/class/infiniband_mad
echo 5 > /sys/class/infiniband_mad/abi_version
"""
BOTH = "[Unit]\nAfter=ibsim.service simulated-umad.service\nWants=ibsim.service simulated-umad.service\n"
SIMULATED = "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so SIM_HOST=node1\n"
UNITS = {
    "ibsim.service": "[Service]\nExecStart=/usr/bin/ibsim -s -n /etc/fabric.net\n",
    "simulated-umad.service": "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/local/sbin/simulated-umad\n",
    "opensm.service.d/simulated.conf": BOTH + SIMULATED,
    "opensm@.service.d/simulated.conf": SIMULATED,
}


def net_file():
    blocks = []
    for name, links in SWITCHES.items():
        ends = ((port, *peer.split(":")) for port, peer in links.items())
        blocks.append(f'Switch 8 "{name}"\n' + "".join(f'[{port}] "{peer}"[{other}]\n' for port, peer, other in ends))
    for leaf, links in SWITCHES.items():
        blocks += [f'Hca 1 "{peer[:-2]}"\n[1] "{leaf}"[{port}]\n' for port, peer in links.items() if peer.startswith("node")]
    return "\n".join(blocks)


Path("/etc/fabric.net").write_text(net_file(), encoding="ascii")
script = Path("/usr/local/sbin/simulated-umad")
script.write_text(SCRIPT, encoding="ascii")
script.chmod(0o755)
for name, text in UNITS.items():
    path = Path("/etc/systemd/system", name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="ascii")
subprocess.run(("systemctl", "daemon-reload"), check=True)
subprocess.run(("systemctl", "start", "ibsim.service", "simulated-umad.service"), check=True)
