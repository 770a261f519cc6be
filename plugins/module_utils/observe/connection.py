# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's own address in the controller's ssh connection: the interface that holds it must not be cut.

sshd tells it in SSH_CONNECTION. sudo drops that variable from its command's environment, but the
shell that sshd started still has it, and root may look: the parents are asked one by one.
"""

import re
from typing import Iterator, Optional

from ..host.host import Host

_LIMIT = 256 * 1024
_MAX_PARENTS = 16  # sshd, its child, a shell, sudo, a shell, Python: six in practice
_VARIABLE = re.compile(r"(?:\A|\x00)SSH_CONNECTION=[^\s\x00]+ [0-9]+ ([^\s\x00]+) [0-9]+(?:\x00|\Z)")
_PARENT = re.compile(r".*\) \S ([0-9]+) ", re.DOTALL)  # a process name may hold brackets and blanks: count from the last one


def ancestors_connection_address(host: Host) -> Optional[str]:
    """None where no ancestor was started by sshd (or the node is a captured tree)."""
    for process in ancestors(host):
        found = _VARIABLE.search(host.read("/proc/%s/environ" % process, _LIMIT) or "")
        if found is not None:
            return found.group(1)
    return None


def ancestors(host: Host) -> Iterator[str]:
    """This process and its parents, as names below /proc."""
    process = "self"
    for _step in range(_MAX_PARENTS):
        yield process
        parent = _PARENT.match(host.read("/proc/%s/stat" % process, 4096) or "")
        if parent is None or parent.group(1) in ("0", "1"):
            return
        process = parent.group(1)
