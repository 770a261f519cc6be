# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the rdma_upgrade module: the lease of a node, taken and given back, and whether somebody is still at work on it.

A controller that was killed may have left an apply or a package manager at work: what it does is finished (``Host.shielded``), and a plan
made meanwhile would be out of date before it is read. So the node says who is busy, and the role asks again.
"""

import time
from typing import Any, Optional

from ..apply.journal import LOCK
from ..errors import RailwrightError
from ..host.host import Host
from ..observe.package_locks import lock_holder
from .upgrade_lease import Lease, as_dict, give_back, take

APT, DNF = "apt", "dnf"


def run_upgrade(module: Any) -> None:
    params = module.params
    if params["mode"] not in ("lease", "release") or params["now"] is None:
        module.fail_json(
            msg="rdma_upgrade got no clock: its action plugin did not run; call it as railwright.rdma.rdma_upgrade from a playbook")
    host = Host()
    try:
        if params["mode"] == "release":
            release(module, host)
        lease(module, host)
    except RailwrightError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg="%s: %s (root is needed: become: true)" % (error.filename, error.strerror))


def lease(module: Any, host: Host) -> None:
    params = module.params
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(params["now"]))
    wanted = Lease(params["run"], params["controller"], params["user"], since, params["step"])
    taken = take(host, wanted, force=params["take_over"], look=module.check_mode)
    busy = None if module.check_mode else at_work(host)
    result = {"lease": as_dict(taken.lease), "taken_over_from": as_dict(taken.before), "busy": busy}
    if busy is not None:
        result["msg"] = busy
    module.exit_json(changed=taken.changed, **result)


def release(module: Any, host: Host) -> None:
    params = module.params
    ours, other = give_back(host, params["run"], params["controller"], look=module.check_mode)
    module.exit_json(changed=ours, lease=as_dict(other))


def at_work(host: Host) -> Optional[str]:
    """Who changes the node at this moment, for people."""
    held = host.lock(LOCK)
    if held is None:
        return "another apply is at work on this node (lock %s is held)" % LOCK
    host.unlock(held)
    for manager in (APT, DNF):
        holder = lock_holder(host, manager)
        if holder is not None:
            return "%s is held by process %d (%s)" % (holder.path, holder.pid, holder.command)
    return None
