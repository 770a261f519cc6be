# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the device filter of a cgroup (systemd's DeviceAllow=, a job's, a container's) keeps this process from a device file."""

import os

from .host import Host


def is_filtered(host: Host, path: str) -> bool:
    """Whether a device file may not be opened although its permissions allow it.

    Nothing is opened, so no driver is woken: the kernel asks the filter for access(2) too (devcgroup_inode_permission). In a captured tree
    a file without any permission stands for one that a filter refuses.
    """
    mode = host.mode(path)
    if mode is None:
        return False
    if not host.live:
        return mode == 0
    return (os.geteuid() == 0 or mode & 0o006 == 0o006) and not os.access(host.path(path), os.R_OK | os.W_OK)
