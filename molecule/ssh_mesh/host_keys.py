# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives a container host keys of its own: runs on the node, before its key is recorded for Ansible."""

import subprocess
from pathlib import Path

for path in Path("/etc/ssh").glob("ssh_host_*_key*"):
    path.unlink()
subprocess.run(("ssh-keygen", "-A"), check=True, stdout=subprocess.DEVNULL)
subprocess.run(("systemctl", "restart", "ssh"), check=True)
