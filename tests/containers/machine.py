# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a boot of a container one of its own: runs on the node, ``python3 -``.

A container sees the boot_id of the machine below, which a reboot of the container does not change. A unit lays a fresh one over it, writes
down every boot in /var/lib/stand-in/boots (time, boot_id), and stops there while /var/lib/stand-in/hangs exists: a node that does not
come back. What the harness does once when a node is made (/proc/sys becomes writable, for the rails' own keys) it does at every boot.
"""

import subprocess
from pathlib import Path

SCRIPT = """#!/bin/sh -e
while [ -e /var/lib/stand-in/hangs ]; do sleep 1; done
cat /proc/sys/kernel/random/uuid >/run/boot_id
echo "$(date +%s) $(cat /run/boot_id)" >>/var/lib/stand-in/boots
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
mount -o remount,rw,bind /proc/sys
"""
# Before anything answers from outside, and after systemd-sysctl, which must not reach the machine below.
UNIT = """[Unit]
Description=A boot of its own
DefaultDependencies=no
After=systemd-sysctl.service systemd-remount-fs.service
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=infinity
ExecStart=/usr/local/sbin/stand-in-boot
[Install]
WantedBy=sysinit.target
"""


def main():
    for path, text, mode in (("/usr/local/sbin/stand-in-boot", SCRIPT, 0o755), ("/etc/systemd/system/stand-in-boot.service", UNIT, 0o644)):
        Path(path).write_text(text, encoding="ascii")
        Path(path).chmod(mode)
    Path("/var/lib/stand-in").mkdir()
    subprocess.run(("systemctl", "enable", "--quiet", "--now", "stand-in-boot.service"), check=True)


main()
