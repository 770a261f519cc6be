# SPDX-License-Identifier: GPL-3.0-or-later
"""The user that benchmarks, trainings and the ssh mesh run as: not root, unless the inventory accepts root by name.

A node builds programs that this user runs on every node, and the mesh logs this user into all of them. With uid 0, root on one node
would be root on all.
"""

from typing import Optional

from ..errors import RailwrightError
from .host import Account, Host, account

ROOT, ACCEPT = "root", "accept"
ALLOWED = "an account that exists on every node and is not root, or rdma_job_user_root: accept"
UNSET = ("rdma_job_user is not set, and Ansible logs in as root; benchmarks, trainings and the ssh mesh do not run as root; allowed: "
         + ALLOWED)


def job_account(host: Host, name: Optional[str], key: str, root: bool) -> Account:
    """Return the account ``name``, or that of Ansible's login. ``root``: uid 0 is accepted. Raises RailwrightError."""
    who = account(name or host.login(), key)
    problem = root_problem(who, name, key, root)
    if problem is not None:
        raise RailwrightError(problem)
    return who


def root_problem(who: Account, name: Optional[str], key: str, root: bool) -> Optional[str]:
    """Return why this account is refused; the number decides, whatever the name is."""
    if who.uid != 0 or root:
        return None
    return UNSET if name is None else "%s (default: rdma_job_user): %s has uid 0 on this node; allowed: %s" % (key, who.name, ALLOWED)
