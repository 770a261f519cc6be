# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts of a node: which one jobs run as, and what PAM's files say of logins.

Benchmarks, trainings and the ssh mesh run as the job user. A node builds programs that this user runs on every node, and the mesh logs this
user into all of them. With uid 0, root on one node would be root on all.
"""

from typing import Iterator, List, Optional

from ..errors import RailwrightError
from ..host.host import Account, Host, account

ROOT, ACCEPT = "root", "accept"
ALLOWED = "an account that exists on every node and is not root, or rdma_job_user_root: accept"
UNSET = ("rdma_job_user is not set, and Ansible logs in as root; benchmarks, trainings and the ssh mesh do not run as root; allowed: "
         + ALLOWED)
PAM = "/etc/pam.d"
MAX_INCLUDES = 8
# Slurm's modules that end a login of a user without a job on the node (slurm.schedmd.com/pam_slurm_adopt.html). Root is let in.
NEED_JOB = ("pam_slurm_adopt.so", "pam_slurm.so")
LISTS = ("pam_access.so", "pam_listfile.so")  # with "sufficient" before them: a site's list of users who need no job


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


def pam_lines(host: Host, service: str, depth: int = 0) -> Iterator[List[str]]:
    """Yield the words of each line of a service, with those of the files that it includes in their place."""
    for line in (host.read("%s/%s" % (PAM, service)) or "").split("\n"):
        words = line.partition("#")[0].split()
        if words[:1] != ["@include"] and words[1:2] not in (["include"], ["substack"]):
            yield words
        elif "/" not in words[-1] and depth < MAX_INCLUDES:
            yield from pam_lines(host, words[-1], depth + 1)


def modules_of(words: List[str]) -> List[str]:
    """Return the base names of the words of a line; the module is among them."""
    return [word.rpartition("/")[2] for word in words]


def logins_need_job(host: Host) -> bool:
    """Whether sshd refuses a user who has no job of Slurm's on this node."""
    for words in pam_lines(host, "sshd"):
        names = modules_of(words) if words and words[0].lstrip("-") == "account" else []
        if "sufficient" in names and not set(LISTS).isdisjoint(names):
            return False
        if not set(NEED_JOB).isdisjoint(names) and "optional" not in names:
            return "action_no_jobs=ignore" not in words
    return False
