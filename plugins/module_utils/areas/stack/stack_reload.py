# SPDX-License-Identifier: GPL-3.0-or-later
"""The change that puts a vendor's modules into use: who would notice, what has to let go first, and how.

The heaviest class that applies is the change's own: management over storage over reload. Its reason names the mount or interface.
"""

from typing import Any, List, Optional, Tuple

from ...catalogue.stacks import NVIDIA_DRIVERS, VendorStack
from ...formats import sysfs_values
from ...host.host import Host
from ...types import Change, Identity, Op, run

UNIT_DIRECTORIES = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/generator.late")
PEERMEM = ("nvidia_peermem", "nv_peer_mem")
RESTART_SECONDS = 600.0  # sixteen functions, each loads its firmware pages
SHOWN = 3  # mounts or interfaces named in a reason
# The packages stay whatever becomes of the rest of the transaction, so there is no way back to the modules before.
NOTHING_TO_UNDO = (("true",),)


def plan_reload(
    area: str, identity: Identity, stack: VendorStack, by_reboot: bool, observed: Any, before: str, source: str
) -> List[Change]:
    what = "kernel modules of %s in use" % stack.name
    after = "%s %s" % (stack.name, stack.release)
    if by_reboot or (not observed.unit and observed.installed):
        why = "rdma_stack_activation: the new modules come into use by a reboot" if by_reboot else \
            "%s is not on this node, so only a reboot brings them in" % stack.unit
        return [Change(area, what, before, after, "reboot", why, source, ())]
    disruption, why = risk(identity, observed.storage)
    ops: List[Op] = []
    if observed.peermem is not None:
        ops.append(run(("modprobe", "-r", observed.peermem[0]), (("modprobe", observed.peermem[0]),)))
    ops.append(run(("systemctl", "restart", stack.unit), NOTHING_TO_UNDO, RESTART_SECONDS))
    return [Change(area, what, before, after, disruption, why, source, tuple(ops))]


def risk(identity: Identity, storage: Any) -> Tuple[str, str]:
    """(class of disruption, the reason with names)."""
    management = [nic.name for nic in identity.nics if nic.management and nic.driver in NVIDIA_DRIVERS]
    why = "the loaded modules are not the stack's on disk; a restart cuts every RDMA user"
    if storage:
        why += "; in use over RDMA: " + _some(["%s %s" % (item.kind, item.where) for item in storage])
    if management:
        return "management", "%s; the node is reached over %s, which goes down meanwhile" % (why, _some(management))
    return ("storage" if storage else "reload"), why


def _some(names: List[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" and %d more" % (len(names) - SHOWN) if len(names) > SHOWN else "")


def loaded_peermem(host: Host) -> Optional[Tuple[str, int]]:
    """The peer memory module that is loaded, with its reference count: memory that is registered right now."""
    for name in PEERMEM:
        if host.exists("/sys/module/" + name):
            return name, sysfs_values.integer(host.line("/sys/module/%s/refcnt" % name)) or 0
    return None


def has_unit(host: Host, unit: str) -> bool:
    """From a package, or made by systemd of the old init script."""
    return any(host.exists("%s/%s" % (directory, unit)) for directory in UNIT_DIRECTORIES)


def is_enabled(host: Host, unit: str) -> bool:
    """By its link below any target: vendors have changed which one. systemctl is asked where there is none (init scripts)."""
    base = UNIT_DIRECTORIES[0]
    targets = [name for name in host.listdir(base) if name.endswith((".wants", ".requires"))]
    if any(host.readlink("%s/%s/%s" % (base, name, unit)) is not None for name in targets):
        return True
    return has_unit(host, unit) and host.run(("systemctl", "is-enabled", unit), 10.0).out.strip() == "enabled"
